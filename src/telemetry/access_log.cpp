#include "telemetry/access_log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <future>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_work.hpp"
#include "base/process.hpp"
#include "base/utf8.hpp"
#include "telemetry/byte_ring.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::telemetry {

namespace {

// Returns the descriptor that the process has had from its start, or -1 if `path` is a file. The
// descriptor may lead to a socket, or to a file of another user, which the log cannot open by this
// path.
int standard_descriptor(const std::string& path) {
    if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
    return path == "/dev/stderr" ? STDERR_FILENO : -1;
}

// Returns a descriptor or -errno. Does not wait for the reader of a pipe.
int open_file(const std::string& path) {
    FileWait wait(path);
    const int fd =
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
    if (fd < 0) return -errno;
    try {
        wait.begin_again();
    } catch (...) {  // the caller has given up
        ::close(fd);
        throw;
    }
    return fd;
}

// Returns a descriptor or -errno. Waits for `patience` until a program reads a pipe.
int open_to_append(const std::string& path, std::chrono::milliseconds patience) {
    // The log duplicates the descriptor: it may close the copy, and the copy leads to the same file
    // whatever becomes of the original.
    if (const int standard = standard_descriptor(path); standard >= 0) {
        const int fd = ::fcntl(standard, F_DUPFD_CLOEXEC, 0);
        return fd < 0 ? -errno : fd;
    }
    constexpr std::chrono::milliseconds kPoll{20};
    const auto until = std::chrono::steady_clock::now() + patience;
    int fd = open_file(path);
    while (fd == -ENXIO && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(kPoll);
        fd = open_file(path);
    }
    return fd;
}

std::string message_of(int error) {
    // open(2) fails so for a pipe without a reader, and for a socket.
    if (error == ENXIO) return "no program reads this pipe";
    return std::generic_category().message(error);
}

// Never waits for longer than kFilePatience and the patience with a reader.
int open_or_throw(const std::string& path, std::chrono::milliseconds patience) {
    const int fd = with_file_patience([=] { return open_to_append(path, patience); });
    if (fd < 0) throw std::runtime_error(message_of(-fd));
    return fd;
}

int open_first(const std::string& path) try {
    return open_or_throw(path, LogOutput::kReaderPatience);
} catch (const std::runtime_error& fault) {
    throw std::runtime_error("cannot open access log " + path + ": " + fault.what());
}

std::uint64_t lines_in(std::string_view data) {
    return static_cast<std::uint64_t>(std::count(data.begin(), data.end(), '\n'));
}

constexpr int kFlushPeriodMs = 50;

// Wakes the writer from any thread; a wake-up that comes before the wait is not lost.
class WakeUp {
  public:
    WakeUp() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    }
    ~WakeUp() { ::close(fd_); }
    WakeUp(const WakeUp&) = delete;
    WakeUp& operator=(const WakeUp&) = delete;

    void signal() {
        // Many threads that ask cause one system call; a full counter wakes the writer as well.
        if (signalled_.load(std::memory_order_relaxed) || signalled_.exchange(true)) return;
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t n = ::write(fd_, &one, sizeof one);
    }
    void wait(int timeout_ms) {
        pollfd wanted{fd_, POLLIN, 0};
        if (::poll(&wanted, 1, timeout_ms) <= 0) return;
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = ::read(fd_, &count, sizeof count);
        signalled_.store(false);
    }

  private:
    int fd_;
    std::atomic<bool> signalled_{false};
};

// The log keeps one of these for each thread that writes records.
struct alignas(64) LogProducer {
    LogProducer(std::size_t ring_bytes, std::uint64_t seed) : ring(ring_bytes), random(seed) {}

    // Marsaglia's xorshift64* is quick, and good enough to choose lines by.
    std::uint64_t next_random() {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        return random * 0x2545f4914f6cdd1dULL;
    }

    ByteRing ring;
    std::uint64_t random;  // never zero
    std::atomic<std::uint64_t> dropped{0};
    LogLineFormatter formatter;
};

// Turns the share into a bound: so many of the random 53-bit numbers lie below it.
std::uint64_t sample_bound(double share) {
    constexpr double kAll = 9007199254740992.0;  // 2^53
    if (!(share > 0.0)) return 0;
    return share >= 1.0 ? std::uint64_t{1} << 53 : static_cast<std::uint64_t>(share * kAll);
}

}  // namespace

LogOutput::LogOutput(std::string path, std::chrono::milliseconds patience)
    : path_(std::move(path)), patience_(patience), fd_(open_first(path_)) {}

LogOutput::~LogOutput() {
    ::close(fd_);
}

std::uint64_t LogOutput::write(std::array<std::string_view, 2> lines) {
    std::uint64_t lost = 0;
    for (const std::string_view piece : lines) {
        if (piece.empty()) continue;
        if (lost != 0 || (torn_ && !write_all("\n").empty())) {
            lost += lines_in(piece);
            continue;
        }
        torn_ = false;
        const std::string_view left = write_all(piece);
        lost += lines_in(left);
        const std::size_t written = piece.size() - left.size();
        if (!left.empty()) torn_ = written != 0 && piece[written - 1] != '\n';
    }
    return lost;
}

void LogOutput::reopen() {
    if (standard_descriptor(path_) >= 0) return;
    try {
        const int fd = open_or_throw(path_, std::chrono::milliseconds{0});
        ::close(std::exchange(fd_, fd));
        torn_ = false;
    } catch (const std::runtime_error& fault) {
        log(Level::error, "access log {}: cannot reopen the file, writing on to the old one: {}",
            path_, fault.what());
    }
}

std::string_view LogOutput::write_all(std::string_view data) {
    while (!data.empty()) {
        const ssize_t n = ::write(fd_, data.data(), data.size());
        if (n > 0) {
            data.remove_prefix(static_cast<std::size_t>(n));
            continue;
        }
        const int error = n == 0 ? ENOSPC : errno;
        if (error == EINTR) continue;
        // Standard output may be another program's pipe or socket that is not blocking.
        if ((error == EAGAIN || error == EWOULDBLOCK) && wait_until_writable()) continue;
        report(true, error);
        return data;
    }
    report(false, 0);
    return data;
}

bool LogOutput::wait_until_writable() const {
    pollfd wanted{fd_, POLLOUT, 0};
    return ::poll(&wanted, 1, static_cast<int>(patience_.count())) > 0;
}

void LogOutput::report(bool broken, int error) {
    if (std::exchange(broken_, broken) == broken) return;
    if (broken) {
        log(Level::error, "access log {}: cannot write, dropping lines: {}", path_,
            message_of(error));
    } else {
        log(Level::warn, "access log {}: writing again", path_);
    }
}

struct AccessLog::Impl {
    Impl(const Options& options, std::size_t threads)
        : output(options.path),
          format(options.format),
          stop_patience(options.stop_patience),
          sample_below(sample_bound(options.sample)) {
        for (std::size_t i = 0; i < threads; ++i) {
            producers.push_back(
                std::make_unique<LogProducer>(options.ring_bytes, 0x9e3779b97f4a7c15ULL * (i + 1)));
        }
    }

    bool is_chosen(LogProducer& producer, const RequestRecord& record) const {
        if (!record.is_ordinary()) return true;
        return producer.next_random() >> 11 < sample_below.load(std::memory_order_relaxed);
    }

    // The writer thread runs this.
    void run() {
        for (;;) {
            wake_up.wait(kFlushPeriodMs);
            const bool last_round = stop.load(std::memory_order_acquire);
            if (reopen_asked.exchange(false)) output.reopen();
            for (const auto& producer : producers) {
                const auto lines = producer->ring.peek();
                lost.fetch_add(output.write(lines), std::memory_order_relaxed);
                producer->ring.pop(lines[0].size() + lines[1].size());
            }
            if (last_round) return;
        }
    }

    LogOutput output;
    std::atomic<LogFormat> format;
    const std::chrono::milliseconds stop_patience;
    std::atomic<std::uint64_t> sample_below;
    std::vector<std::unique_ptr<LogProducer>> producers;
    WakeUp wake_up;
    std::atomic<bool> stop{false};
    std::atomic<bool> reopen_asked{false};
    std::atomic<std::uint64_t> lost{0};  // lines that the writer could not write
    std::promise<void> done;
    std::thread writer;
};

AccessLog::AccessLog(const Options& options, std::size_t threads) {
    if (options.path.empty()) return;
    impl_ = std::make_shared<Impl>(options, threads);
    // The writer shares the state, as the destructor may leave the writer behind.
    impl_->writer = std::thread([impl = impl_] {
        block_all_signals();
        impl->run();
        impl->done.set_value();
    });
}

AccessLog::~AccessLog() {
    if (!impl_) return;
    impl_->stop.store(true, std::memory_order_release);
    impl_->wake_up.signal();
    // The reader of standard output may have stopped reading: then the writer waits in a system
    // call, and the program must end all the same.
    if (impl_->done.get_future().wait_for(impl_->stop_patience) == std::future_status::ready) {
        impl_->writer.join();
    } else {
        impl_->writer.detach();
    }
}

void AccessLog::write(std::size_t thread, const RequestRecord& record) {
    if (!impl_) return;
    assert(thread < impl_->producers.size());
    LogProducer& producer = *impl_->producers[thread];
    if (!impl_->is_chosen(producer, record)) return;
    const std::string_view line =
        producer.formatter.line(impl_->format.load(std::memory_order_relaxed), record);
    ByteRing& ring = producer.ring;
    if (!ring.push(line)) {
        producer.dropped.store(producer.dropped.load(std::memory_order_relaxed) + 1,
                               std::memory_order_relaxed);
        impl_->wake_up.signal();
        return;
    }
    // The writer wakes by itself; a thread wakes it only when that would be too late.
    const std::size_t worth_a_call = ring.capacity() / 4;
    if (ring.used_at_most() > worth_a_call && ring.used() > worth_a_call) impl_->wake_up.signal();
}

void AccessLog::change_lines(LogFormat format, double sample) {
    if (!impl_) return;
    impl_->format.store(format, std::memory_order_relaxed);
    impl_->sample_below.store(sample_bound(sample), std::memory_order_relaxed);
}

void AccessLog::reopen() {
    if (!impl_) return;
    impl_->reopen_asked.store(true);
    impl_->wake_up.signal();
}

std::uint64_t AccessLog::dropped() const {
    if (!impl_) return 0;
    std::uint64_t total = impl_->lost.load(std::memory_order_relaxed);
    for (const auto& producer : impl_->producers) {
        total += producer->dropped.load(std::memory_order_relaxed);
    }
    return total;
}

namespace {

char* put_decimal(char* out, unsigned value, int digits) {
    for (int i = digits - 1; i >= 0; --i, value /= 10) {
        out[i] = static_cast<char>('0' + value % 10);
    }
    return out + digits;
}

// Holds the name of a field and the marks around it. The compiler puts them together, so that a
// writer copies them at once.
struct FixedText {
    constexpr FixedText(std::string_view before, std::string_view name, std::string_view after) {
        for (const std::string_view part : {before, name, after}) {
            for (const char c : part) bytes[size++] = c;
        }
    }

    std::array<char, 64> bytes{};
    std::size_t size = 0;
};

// Makes a row of the table a type, so that the compiler chooses what a form does with the field.
template <std::size_t kRow>
struct FieldAt {
    static constexpr const RequestField& kField = kRequestFields[kRow];
    static constexpr auto kMember = std::get<kField.member.index()>(kField.member);
    static constexpr bool kIsFirst = kRow == 0;
    static constexpr bool kIsText = kField.is<std::string_view>();
    static constexpr bool kIsList = kField.is<std::span<const std::string_view>>();
    static constexpr bool kIsNumber = kField.is<int>() || kField.is<std::int64_t>() ||
                                      kField.is<Amount>() || kField.is<std::uint64_t>() ||
                                      kField.is<std::chrono::nanoseconds>();

    static const auto& value(const RequestRecord& record) { return record.*kMember; }
    static bool is_left_out(const RequestRecord& record) {
        if constexpr (!kField.is_optional) {
            return false;
        } else if constexpr (kIsText) {
            return value(record).empty();
        } else if constexpr (kField.is<Amount>()) {
            return value(record).units < 0;
        } else {
            return value(record) < 0;
        }
    }
};

// Holds the marks that a form puts around a field.
struct FieldMarks {
    std::string_view before;  // stands before the name
    std::string_view behind;  // stands between the name and the value
    char end = 0;             // stands behind the value; 0: nothing does
};

// logfmt puts a text in quotes only if it needs them, so they are not among its marks.
template <class Field>
constexpr FieldMarks marks_of(LogFormat form) {
    const std::string_view json_before = Field::kIsFirst ? "{\"" : ",\"";
    switch (form) {
        case LogFormat::json:
            if (Field::kIsNumber) return {json_before, "\":"};
            if (Field::kIsList) return {json_before, "\":[", ']'};
            return {json_before, "\":\"", '"'};
        case LogFormat::text:
            return {" ", "=\"", '"'};
        case LogFormat::logfmt:
            break;
    }
    const std::string_view logfmt_before = Field::kIsFirst ? "" : " ";
    return Field::kIsList ? FieldMarks{logfmt_before, "=\"", '"'} : FieldMarks{logfmt_before, "="};
}

// Calls `visit` with each row, as a value of its type.
template <class Visit>
void for_each_field(Visit visit) {
    [&]<std::size_t... kRows>(std::index_sequence<kRows...>) {
        (visit(FieldAt<kRows>{}), ...);
    }
    (std::make_index_sequence<kRequestFields.size()>{});
}

}  // namespace

// Each caller knows the size when it is compiled, so the copy is a few stores.
template <class Text>
[[gnu::always_inline]] inline void LogLineFormatter::put_fixed(const Text& text) {
    std::memcpy(out_, text.bytes.data(), text.size);
    out_ += text.size;
}

std::string_view LogLineFormatter::line(LogFormat format, const RequestRecord& record) {
    switch (format) {
        case LogFormat::json:
            return json(record);
        case LogFormat::text:
            return text(record);
        case LogFormat::logfmt:
            break;
    }
    return logfmt(record);
}

std::string_view LogLineFormatter::json(const RequestRecord& record) {
    begin(record.time);
    for_each_field([&](auto field) { put_field<LogFormat::json>(field, record); });
    *out_++ = '}';
    return end();
}

std::string_view LogLineFormatter::text(const RequestRecord& record) {
    begin(record.time);
    put_common_log(record);
    for_each_field([&](auto field) {
        if constexpr (field.kField.in_text == InText::pair)
            put_field<LogFormat::text>(field, record);
    });
    for_each_field([&](auto field) {
        if constexpr (field.kField.in_text == InText::last)
            put_field<LogFormat::text>(field, record);
    });
    return end();
}

std::string_view LogLineFormatter::logfmt(const RequestRecord& record) {
    begin(record.time);
    for_each_field([&](auto field) { put_field<LogFormat::logfmt>(field, record); });
    return end();
}

template <LogFormat kForm, class Field>
void LogLineFormatter::put_field(Field field, const RequestRecord& record) {
    if (field.is_left_out(record)) return;
    static constexpr FieldMarks kMarks = marks_of<Field>(kForm);
    static constexpr FixedText kName(kMarks.before, Field::kField.name, kMarks.behind);
    put_fixed(kName);
    if constexpr (Field::kIsText && kForm == LogFormat::logfmt) {
        put_logfmt(field.value(record), Field::kField.bytes_max);
    } else if constexpr (Field::kIsText) {
        put_escaped(field.value(record), Field::kField.bytes_max);
    } else if constexpr (Field::kIsList && kForm == LogFormat::json) {
        put_elements(field.value(record));
    } else if constexpr (Field::kIsList) {
        put_list(field.value(record));
    } else {
        put(field.value(record));
    }
    if constexpr (kMarks.end != 0) *out_++ = kMarks.end;
}

void LogLineFormatter::put_common_log(const RequestRecord& record) {
    put_word(record.client, kNameBytesMax);
    put(" - - [");
    put(std::string_view(common_.data(), common_.size()));
    put(R"( +0000] ")");
    put_word(record.method, kMethodBytesMax);
    put(" ");
    put_word(record.path, kPathBytesMax);
    put(" HTTP/");
    put(number_of(record.version));
    put(R"(" )");
    put(record.status);
    put(" ");
    put(record.bytes_sent);
}

void LogLineFormatter::begin(Time time) {
    out_ = buffer_.data();
    update_time(time);
}

std::string_view LogLineFormatter::end() {
    *out_++ = '\n';
    return {buffer_.data(), static_cast<std::size_t>(out_ - buffer_.data())};
}

void LogLineFormatter::update_time(Time time) {
    using namespace std::chrono;
    const sys_seconds second = floor<seconds>(time);
    millisecond_ = static_cast<unsigned>(floor<milliseconds>(time - second).count());
    if (second == second_) return;
    second_ = second;

    static constexpr std::array<std::string_view, 12> kMonths{
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const sys_days day = floor<days>(second);
    const year_month_day date{day};
    const hh_mm_ss clock{second - day};
    const auto year = static_cast<unsigned>(std::clamp(static_cast<int>(date.year()), 0, 9999));
    const auto month = static_cast<unsigned>(date.month());
    const auto day_of_month = static_cast<unsigned>(date.day());

    std::array<char, 8> hms;
    put_decimal(hms.data(), static_cast<unsigned>(clock.hours().count()), 2);
    hms[2] = hms[5] = ':';
    put_decimal(hms.data() + 3, static_cast<unsigned>(clock.minutes().count()), 2);
    put_decimal(hms.data() + 6, static_cast<unsigned>(clock.seconds().count()), 2);

    char* out = put_decimal(rfc3339_.data(), year, 4);
    *out++ = '-';
    out = put_decimal(out, month, 2);
    *out++ = '-';
    out = put_decimal(out, day_of_month, 2);
    *out++ = 'T';
    std::memcpy(out, hms.data(), hms.size());

    out = put_decimal(common_.data(), day_of_month, 2);
    *out++ = '/';
    out = std::copy_n(kMonths[month - 1].data(), 3, out);
    *out++ = '/';
    out = put_decimal(out, year, 4);
    *out++ = ':';
    std::memcpy(out, hms.data(), hms.size());
}

void LogLineFormatter::put(Time /*time*/) {
    put(std::string_view(rfc3339_.data(), rfc3339_.size()));
    *out_++ = '.';
    out_ = put_decimal(out_, millisecond_, 3);
    *out_++ = 'Z';
}

void LogLineFormatter::put(std::string_view word) {
    out_ = std::copy_n(word.data(), word.size(), out_);
}

void LogLineFormatter::put(std::uint64_t number) {
    out_ = std::to_chars(out_, out_ + 20, number).ptr;
}

void LogLineFormatter::put(int number) {
    put(static_cast<std::uint64_t>(std::max(number, 0)));
}

void LogLineFormatter::put(std::int64_t number) {
    put(static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0)));
}

void LogLineFormatter::put(Amount amount) {
    amount.units = std::max<std::int64_t>(amount.units, 0);
    out_ = write_amount(amount, out_);
}

void LogLineFormatter::put(std::chrono::nanoseconds time) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
    put(static_cast<std::uint64_t>(std::max<std::int64_t>(us, 0)));
}

void LogLineFormatter::put(Outcome outcome) {
    put(to_string(outcome));
}

void LogLineFormatter::put(Face face) {
    put(to_string(face));
}

void LogLineFormatter::put(HttpVersion version) {
    put(name_of(version));
}

void LogLineFormatter::put_escaped(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) {
        out_ = write_json_escaped(text, out_);
    } else {
        out_ = write_json_escaped(utf8_prefix(text, bytes_max), out_);
        put("...");
    }
}

void LogLineFormatter::put_word(std::string_view text, std::size_t bytes_max) {
    if (text.empty()) return put("-");
    if (text.size() == 1 && text.front() == '-') return put(R"(\u002d)");
    if (text.size() <= bytes_max) {
        out_ = write_json_escaped_word(text, out_);
    } else {
        out_ = write_json_escaped_word(utf8_prefix(text, bytes_max), out_);
        put("...");
    }
}

void LogLineFormatter::put_logfmt(std::string_view text, std::size_t bytes_max) {
    // Readers take a bare `null` for a value that is not there.
    if (text.size() <= bytes_max && text != "null") {
        if (char* const end = write_if_plain_value(text, out_)) {
            out_ = end;
            return;
        }
    }
    *out_++ = '"';
    put_escaped(text, bytes_max);
    *out_++ = '"';
}

void LogLineFormatter::put_elements(Identifiers identifiers) {
    const std::size_t count = std::min(identifiers.size(), kIdentifiersMax);
    for (std::size_t i = 0; i < count; ++i) {
        if (i != 0) *out_++ = ',';
        *out_++ = '"';
        put_escaped(identifiers[i], kIdentifierBytesMax);
        *out_++ = '"';
    }
}

void LogLineFormatter::put_list(Identifiers identifiers) {
    const std::size_t count = std::min(identifiers.size(), kIdentifiersMax);
    for (std::size_t i = 0; i < count; ++i) {
        if (i != 0) *out_++ = ',';
        const std::string_view identifier = identifiers[i];
        char* const end = identifier.size() <= kIdentifierBytesMax
                              ? write_if_plain_item(identifier, out_)
                              : nullptr;
        if (end != nullptr) {
            out_ = end;
        } else {
            put_quoted_item(identifier);
        }
    }
}

void LogLineFormatter::put_quoted_item(std::string_view identifier) {
    const std::string_view shown = utf8_prefix(identifier, kIdentifierBytesMax);
    std::array<char, kIdentifierBytesMax * kEscapedBytesMax> escaped;
    const char* const end = write_json_escaped(shown, escaped.data());
    put(R"(\")");
    out_ =
        write_json_escaped({escaped.data(), static_cast<std::size_t>(end - escaped.data())}, out_);
    if (shown.size() < identifier.size()) put("...");
    put(R"(\")");
}

}  // namespace tidegate::telemetry
