// `tidegate simulate --record`: asks a running proxy for what decisions need, and writes it to a
// file that `tidegate simulate` reads.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <climits>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/admin_client.hpp"
#include "cli/commands.hpp"

namespace tidegate::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kOk = 200;
constexpr int kConflict = 409;
constexpr std::chrono::seconds kRecordPatience{5};
// How often the lines are fetched: they wait in bounded memory.
constexpr std::chrono::milliseconds kFetchEvery{200};

// SIGINT and SIGTERM end the recording in place of the process.
class RecordingSignals {
  public:
    RecordingSignals() {
        sigemptyset(&signals_);
        sigaddset(&signals_, SIGINT);
        sigaddset(&signals_, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    }
    ~RecordingSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    RecordingSignals(const RecordingSignals&) = delete;
    RecordingSignals& operator=(const RecordingSignals&) = delete;

    // True if one comes within that time, which is below a second, or has come.
    bool come_within(std::chrono::milliseconds time) const {
        const timespec wait{0, std::chrono::nanoseconds(time).count()};
        return sigtimedwait(&signals_, nullptr, &wait) > 0;
    }

  private:
    sigset_t signals_{};
    sigset_t before_{};
};

// Where the lines go: a file, a pipe, or the output. A pipe that nothing reads does not hold up a
// signal.
class RecordingFile {
  public:
    // Without waiting for a reader of a pipe.
    explicit RecordingFile(const std::string& path)
        : is_output_(path == "-"),
          fd_(is_output_ ? STDOUT_FILENO
                         : ::open(path.c_str(),
                                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666)),
          error_(errno) {}
    ~RecordingFile() {
        if (!is_output_ && fd_ >= 0) ::close(fd_);
    }
    RecordingFile(const RecordingFile&) = delete;
    RecordingFile& operator=(const RecordingFile&) = delete;

    bool is_open() const { return fd_ >= 0; }
    std::string why() const {
        if (error_ == ENXIO) return "nothing reads this pipe";
        return error_ == EINTR ? "ended before all was read"
                               : std::generic_category().message(error_);
    }
    // Whole lines that were written.
    std::uint64_t lines() const { return lines_; }

    // False: they cannot be written, or a signal came while a pipe was full.
    bool write(std::string_view lines, const RecordingSignals& stop) {
        while (!lines.empty()) {
            pollfd room{fd_, POLLOUT, 0};
            if (::poll(&room, 1, kPollMs) <= 0) {
                if (!stop.come_within(std::chrono::milliseconds(0))) continue;
                error_ = EINTR;
                return false;
            }
            // A pipe with room takes so much without waiting (pipe(7)).
            const ssize_t written =
                ::write(fd_, lines.data(), std::min<std::size_t>(lines.size(), PIPE_BUF));
            if (written < 0) {
                error_ = errno;
                if (error_ == EAGAIN) continue;
                return false;
            }
            const auto size = static_cast<std::size_t>(written);
            for (const char c : lines.substr(0, size)) lines_ += c == '\n' ? 1 : 0;
            lines.remove_prefix(size);
        }
        return true;
    }

  private:
    static constexpr int kPollMs = 200;

    bool is_output_;
    int fd_;
    int error_;
    std::uint64_t lines_ = 0;
};

// One recording of a proxy, from begin() to its end.
class RemoteRecording {
  public:
    explicit RemoteRecording(FoundAdmin place) : place_(std::move(place)) {}

    // Each returns an exit code, or nothing: it has worked. What is wrong is complained of.
    std::optional<int> begin(std::int64_t per_million) {
        const auto reply = ask(fmt::format("/api/record?per_million={}", per_million));
        if (!reply) return complain(exit_code::kNoAnswer, reply.error());
        // Another recording is under way.
        if (reply->status == kConflict && is_admin_problem(*reply)) {
            return complain(exit_code::kRefused, refusal_text(place_, *reply));
        }
        if (reply->status != kOk) return complain_of_refusal(place_, *reply);
        const auto json = parse_json_object(reply->body);
        const auto id = json ? string_member(*json, "id") : std::nullopt;
        if (!id) return complain(exit_code::kNoAnswer, stranger_text(place_, *reply));
        id_ = *id;
        return std::nullopt;
    }

    // Gets what has come.
    std::optional<int> fetch(bool stops, std::string& lines) {
        const auto reply = ask("/api/record?id=" + id_ + (stops ? "&stop=on" : ""));
        if (!reply) return complain(exit_code::kNoAnswer, reply.error());
        if (reply->status != kOk) return complain_of_refusal(place_, *reply);
        const std::string_view body = reply->body;
        const std::size_t end = body.size() < 2 ? body.npos : body.rfind('\n', body.size() - 2);
        lines = end == body.npos ? "" : body.substr(0, end + 1);
        const auto last = parse_json_object(body.substr(lines.size()));
        const JsonValue* const left_out = last ? find_member(*last, "left_out") : nullptr;
        if (left_out == nullptr || !left_out->is_number_unsigned()) {
            return complain(exit_code::kNoAnswer, stranger_text(place_, *reply));
        }
        left_out_ = left_out->get<std::uint64_t>();
        return std::nullopt;
    }
    // The proxy forgets it; another one can begin.
    void abandon() {
        std::string lines;
        (void)fetch(true, lines);
    }

    std::uint64_t left_out() const { return left_out_; }

  private:
    Result<AdminReply, std::string> ask(const std::string& target) const {
        return ask_admin(place_, true, target, kRecordPatience);
    }

    FoundAdmin place_;
    std::string id_;
    std::uint64_t left_out_ = 0;
};

}  // namespace

int record_requests(const RecordingOptions& options) {
    auto place = find_admin({options.config, options.admin, options.token_file});
    if (!place) return complain(exit_code::kWrongUse, place.error());
    const RecordingSignals stop;
    RemoteRecording recording(std::move(*place));
    if (const auto code = recording.begin(options.per_million)) return *code;
    // Only now: a file that is there stays if the proxy refuses.
    RecordingFile file(options.file);
    if (!file.is_open()) {
        const std::string why = file.why();
        recording.abandon();
        return complain(exit_code::kRefused, fmt::format("tidegate: simulate: cannot write {}: {}",
                                                         quote(options.file), why));
    }
    complain(exit_code::kDone,
             fmt::format("recording for {}; Ctrl-C ends it", format_duration(options.time)));
    const auto end = Clock::now() + options.time;
    std::string lines;
    for (bool is_last = false; !is_last;) {
        is_last = stop.come_within(kFetchEvery) || Clock::now() >= end;
        auto code = recording.fetch(is_last, lines);
        if (!code && !file.write(lines, stop)) {
            code = complain(exit_code::kRefused,
                            "tidegate: simulate: cannot write the recording: " + file.why());
            if (!is_last) recording.abandon();
        }
        if (code) {
            return complain(*code,
                            fmt::format("tidegate: simulate: the recording ended early; {} has {}",
                                        quote(options.file), counted(file.lines(), "request")));
        }
    }
    complain(exit_code::kDone, "recorded " + counted(file.lines(), "request"));
    if (recording.left_out() == 0) return exit_code::kDone;
    return complain(exit_code::kRefused,
                    fmt::format("tidegate: simulate: {} more requests came faster than they could "
                                "be written, so that counts would be too low: record a smaller "
                                "--share",
                                recording.left_out()));
}

}  // namespace tidegate::cli
