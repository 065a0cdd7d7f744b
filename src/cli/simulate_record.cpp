// `tidegate simulate --record`: asks a running proxy for what decisions need, and writes it to a
// file that `tidegate simulate` reads.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

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

    // Appends what has come to the file, if there is one.
    std::optional<int> fetch(bool stops, std::FILE* to) {
        const auto reply = ask("/api/record?id=" + id_ + (stops ? "&stop=on" : ""));
        if (!reply) return complain(exit_code::kNoAnswer, reply.error());
        if (reply->status != kOk) return complain_of_refusal(place_, *reply);
        const std::string_view body = reply->body;
        const std::size_t end = body.size() < 2 ? body.npos : body.rfind('\n', body.size() - 2);
        const std::string_view lines = end == body.npos ? "" : body.substr(0, end + 1);
        const auto last = parse_json_object(body.substr(lines.size()));
        const JsonValue* const left_out = last ? find_member(*last, "left_out") : nullptr;
        if (left_out == nullptr || !left_out->is_number_unsigned()) {
            return complain(exit_code::kNoAnswer, stranger_text(place_, *reply));
        }
        left_out_ = left_out->get<std::uint64_t>();
        for (const char c : lines) requests_ += c == '\n' ? 1 : 0;
        if (to == nullptr) return std::nullopt;
        const bool is_written = std::fwrite(lines.data(), 1, lines.size(), to) == lines.size();
        if (is_written && std::fflush(to) == 0) return std::nullopt;
        return complain(exit_code::kRefused, "tidegate: simulate: cannot write the recording: " +
                                                 std::generic_category().message(errno));
    }

    std::uint64_t requests() const { return requests_; }
    std::uint64_t left_out() const { return left_out_; }

  private:
    Result<AdminReply, std::string> ask(const std::string& target) const {
        return ask_admin(place_, true, target, kRecordPatience);
    }

    FoundAdmin place_;
    std::string id_;
    std::uint64_t requests_ = 0;
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
    const auto close = [](std::FILE* file) { return file == stdout ? 0 : std::fclose(file); };
    const std::unique_ptr<std::FILE, decltype(close)> file(
        options.file == "-" ? stdout : std::fopen(options.file.c_str(), "we"), close);
    if (file == nullptr) {
        const std::string why = std::generic_category().message(errno);
        (void)recording.fetch(true, nullptr);
        return complain(exit_code::kRefused, fmt::format("tidegate: simulate: cannot write {}: {}",
                                                         quote(options.file), why));
    }
    complain(exit_code::kDone,
             fmt::format("recording for {}; Ctrl-C ends it", format_duration(options.time)));
    const auto end = Clock::now() + options.time;
    for (bool is_last = false; !is_last;) {
        is_last = stop.come_within(kFetchEvery) || Clock::now() >= end;
        if (const auto code = recording.fetch(is_last, file.get())) {
            return complain(
                *code, fmt::format("tidegate: simulate: the recording ended early; {} "
                                   "has {}",
                                   quote(options.file), counted(recording.requests(), "request")));
        }
    }
    complain(exit_code::kDone, "recorded " + counted(recording.requests(), "request"));
    if (recording.left_out() == 0) return exit_code::kDone;
    return complain(exit_code::kRefused,
                    fmt::format("tidegate: simulate: {} more requests came faster than they could "
                                "be written, so that counts would be too low: record a smaller "
                                "--share",
                                recording.left_out()));
}

}  // namespace tidegate::cli
