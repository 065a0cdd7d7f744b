#include "simulate/replay.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.hpp"

namespace tidegate::simulate {

namespace {

constexpr std::size_t kBuffer = 1U << 20;
static_assert(kBuffer > 2 * kLineBytesMax);

}  // namespace

// A file, its lines, and the request of the last one.
class Replay::File {
  public:
    File(std::string path, int fd)
        : name(path == "-" ? "standard input" : std::move(path)), fd_(fd), buffer_(kBuffer) {}
    ~File() {
        if (fd_ > 0) ::close(fd_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    // The next line that is not blank, without its end; it stays until the next call. Of one that
    // is too long, somewhat more than may be read. False: there is none.
    bool next(std::string_view& line) {
        while (take(line)) {
            // The mark that some editors and tools put before text in UTF-8.
            constexpr std::string_view kMark = "\xef\xbb\xbf";
            if (number == 0 && line.starts_with(kMark)) line.remove_prefix(kMark.size());
            if (line.ends_with('\r')) line.remove_suffix(1);
            ++number;
            if (line.find_first_not_of(" \t") != line.npos) return true;
        }
        return false;
    }

    // Keeps the first lines, which next() hands out again.
    std::vector<std::string> peek() {
        std::string_view line;
        while (kept_.size() < kTellingLines && next(line)) kept_.emplace_back(line);
        number = 0;
        return kept_;
    }

    // From now on next() begins with the lines that peek() has kept.
    void replay() { is_replaying_ = true; }

    // What reads the file, if its first bytes say that it is compressed; else nothing.
    std::string_view decompressor() {
        if (begin_ == end_) fill();
        const std::string_view bytes(buffer_.data() + begin_, end_ - begin_);
        if (bytes.starts_with("\x1f\x8b")) return "zcat";
        if (bytes.starts_with("\x28\xb5\x2f\xfd")) return "zstdcat";
        if (bytes.starts_with("\xfd"
                              "7zXZ"))
            return "xzcat";
        return bytes.starts_with("BZh") ? "bzcat" : "";
    }
    // Whether both are the same file on a disk.
    bool is_same_file(const File& other) const {
        struct stat mine {};
        struct stat theirs {};
        return ::fstat(fd_, &mine) == 0 && ::fstat(other.fd_, &theirs) == 0 &&
               S_ISREG(mine.st_mode) && mine.st_dev == theirs.st_dev &&
               mine.st_ino == theirs.st_ino;
    }
    // Takes the second moment of a time that the clocks show twice, where the line would else have
    // been written long before those above it. Where the log does not say how long requests took,
    // the line may be of a long one: the moment that is nearer to the lines above counts.
    void settle_time() {
        constexpr std::chrono::seconds kApart{kOrderSeconds};
        const std::int64_t took = request.is_end ? 0 : request.number(LogNumber::duration_us);
        const Micros known{std::max<std::int64_t>(0, took)};
        if (request.again.count() > 0 && request.time + known + kApart < written_) {
            const bool is_nearer = request.again - written_ <= written_ - request.time;
            if (took != LoggedRequest::kUnknown || is_nearer) request.time = request.again;
        }
        written_ = std::max(written_, request.time + known);
    }
    // The reason why reading ended early; empty: it did not.
    const std::string& fault() const { return fault_; }

    std::string name;
    std::optional<LogReader> reader;
    LoggedRequest request;
    bool has_request = false;
    std::uint64_t number = 0;  // of the last line
    std::uint64_t lines = 0;

  private:
    bool take(std::string_view& line) {
        if (is_replaying_ && handed_ < kept_.size()) {
            line = kept_[handed_++];
            return true;
        }
        return read_line(line);
    }

    bool read_line(std::string_view& line) {
        std::size_t searched = 0;
        for (;;) {
            const char* const from = buffer_.data() + begin_;
            const std::size_t size = end_ - begin_;
            const void* const found = std::memchr(from + searched, '\n', size - searched);
            if (found != nullptr) {
                const auto length =
                    static_cast<std::size_t>(static_cast<const char*>(found) - from);
                begin_ += length + 1;
                if (std::exchange(skips_, false)) {
                    searched = 0;
                    continue;
                }
                line = {from, length};
                return true;
            }
            searched = size;
            if (size > kLineBytesMax) {
                // Too long: its beginning is a line, and the rest is skipped.
                const bool was_skipping = std::exchange(skips_, true);
                begin_ = end_;
                searched = 0;
                if (was_skipping) continue;
                line = {from, kLineBytesMax + 1};
                return true;
            }
            if (!fill()) {
                begin_ = end_;
                if (size == 0 || std::exchange(skips_, false)) return false;
                line = {buffer_.data() + end_ - size, size};
                return true;
            }
        }
    }

    // Reads on, behind what is left. False: there is no more.
    bool fill() {
        if (at_end_) return false;
        if (begin_ > 0) {
            std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
            end_ -= begin_;
            begin_ = 0;
        }
        for (;;) {
            const ssize_t count = ::read(fd_, buffer_.data() + end_, buffer_.size() - end_);
            if (count > 0) {
                end_ += static_cast<std::size_t>(count);
                return true;
            }
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) fault_ = std::generic_category().message(errno);
            at_end_ = true;
            return false;
        }
    }

    int fd_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    bool at_end_ = false;
    bool skips_ = false;  // the rest of a line that is too long
    bool is_replaying_ = false;
    std::vector<std::string> kept_;
    std::size_t handed_ = 0;
    Micros written_{0};  // when the newest of the lines was written
    std::string fault_;
};

Replay::Replay() = default;
Replay::~Replay() = default;

Result<std::unique_ptr<Replay>, std::string> Replay::open(const std::vector<std::string>& paths,
                                                          const LogLayout& layout,
                                                          std::optional<LogFormat> format) {
    std::unique_ptr<Replay> replay(new Replay);
    replay->order_seconds_ = layout.order_seconds;
    LogFacts& facts = replay->facts_;
    facts.texts.fill(true);
    facts.numbers.fill(true);
    facts.values.assign(layout.wanted.size(), true);
    facts.query = true;
    for (const std::string& path : paths) {
        const int fd = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return ErrorMessage{quote(path) + ": " + std::generic_category().message(errno)};
        }
        File& file = *replay->files_.emplace_back(std::make_unique<File>(path, fd));
        if (const auto reader = file.decompressor(); !reader.empty()) {
            return ErrorMessage{
                fmt::format("{} is compressed: write `{} FILE | tidegate simulate "
                            "... -`",
                            quote(file.name), reader)};
        }
        const auto is_same = [&](const auto& other) { return other->is_same_file(file); };
        if (std::any_of(replay->files_.begin(), replay->files_.end() - 1, is_same)) {
            return ErrorMessage{quote(file.name) +
                                " is given twice: each request would count twice"};
        }
        const std::vector<std::string> first = file.peek();
        if (!file.fault().empty()) return ErrorMessage{quote(file.name) + ": " + file.fault()};
        if (first.empty()) {
            // A log that was rotated just now is empty.
            if (path == paths.back() && replay->files_.size() == 1) {
                return ErrorMessage{quote(file.name) + " has no lines"};
            }
            replay->files_.pop_back();
            continue;
        }
        auto told = format ? Result<LogFormat, std::string>(*format) : tell_format(first, layout);
        if (!told) return ErrorMessage{quote(file.name) + ": " + told.error()};
        file.reader.emplace(*told, layout);
        for (const std::string& line : first) {
            if (!file.reader->read(line, file.request).empty()) continue;
            const LoggedRequest& one = file.request;
            const bool knows_duration =
                one.number(LogNumber::duration_us) != LoggedRequest::kUnknown;
            replay->spreads_ends_ |= one.is_end && one.is_whole_second && knows_duration;
        }
        for (const LogText text : kEnumerators<LogText>) {
            facts.texts[static_cast<std::size_t>(text)] &= file.reader->gives(text);
        }
        for (const LogNumber number : kEnumerators<LogNumber>) {
            bool gives = file.reader->gives(number);
            if (number == LogNumber::duration_us) gives = gives || replay->spreads_ends_;
            facts.numbers[static_cast<std::size_t>(number)] &= gives;
        }
        for (std::size_t i = 0; i < facts.values.size(); ++i) {
            facts.values[i] = facts.values[i] && file.reader->gives_value(i);
        }
        facts.query = facts.query && file.reader->gives_query();
        file.reader->begin_again();
        file.replay();
    }
    if (replay->mixes_recordings()) {
        return ErrorMessage{
            "a recording and a log of another format name clients in different ways: simulate one "
            "of them at a time"};
    }
    return replay;
}

bool Replay::mixes_recordings() const {
    const auto recordings = std::count_if(files_.begin(), files_.end(), [](const auto& one) {
        return one->reader->format() == LogFormat::recording;
    });
    return recordings > 0 && static_cast<std::size_t>(recordings) < files_.size();
}

void Replay::note_unread(const File& file, std::string_view line, std::string_view why) {
    ++unread_;
    if (unread_lines_.size() == kUnreadShown) return;
    unread_lines_.push_back(
        {file.name, file.number, std::string(why), std::string(line.substr(0, kUnreadBytes))});
}

void Replay::note_late(const LoggedRequest& request, const LogOrder& order) {
    if (late_++ == 0) first_late_ = {request.time, order.newest()};
}

// Reads on to the next request. False: there is none.
bool Replay::advance(File& file) {
    std::string_view line;
    while (file.next(line)) {
        ++lines_;
        ++file.lines;
        const std::string_view why = file.reader->read(line, file.request);
        if (why.empty()) {
            file.settle_time();
            return true;
        }
        note_unread(file, line, why);
    }
    if (!file.fault().empty()) note_unread(file, {}, file.fault());
    return false;
}

void Replay::run(const UseRequests& use) {
    LogOrder order(use, order_seconds_);
    const auto add = [&](const LoggedRequest& request) {
        if (!order.add(request)) note_late(request, order);
    };
    LoggedRequest begun;
    const auto add_begun = [&](const LoggedRequest& ended) {
        const std::int64_t took = ended.number(LogNumber::duration_us);
        if (!ended.is_end || took == LoggedRequest::kUnknown) return add(ended);
        begun = ended;
        begun.time = std::max(Micros{1}, ended.time - Micros{took});
        begun.is_end = false;
        add(begun);
    };
    LogOrder ends(
        [&](std::span<const LoggedRequest> ended) {
            for (const LoggedRequest& one : ended) add_begun(one);
        },
        order_seconds_);
    const auto take = [&](const LoggedRequest& request) {
        if (!spreads_ends_) return add_begun(request);
        if (!ends.add(request)) note_late(request, ends);
    };
    for (const auto& file : files_) file->has_request = advance(*file);
    for (;;) {
        File* next = nullptr;
        for (const auto& file : files_) {
            const bool is_next =
                file->has_request && (next == nullptr || file->request.time < next->request.time);
            if (is_next) next = file.get();
        }
        if (next == nullptr) break;
        take(next->request);
        next->has_request = advance(*next);
    }
    ends.finish();
    order.finish();
}

std::vector<LogFileInfo> Replay::files() const {
    std::vector<LogFileInfo> files;
    for (const auto& file : files_) {
        files.push_back({file->name, file->reader->format(), file->lines});
    }
    return files;
}

}  // namespace tidegate::simulate
