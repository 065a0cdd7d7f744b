// The access log: one line a request in one of three forms, written by a thread of its own.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "base/shared_enums.hpp"
#include "telemetry/access_log_fields.hpp"

namespace tidegate::telemetry {

// Where the lines go: a file or a pipe that can be opened anew, or standard output. Belongs to the
// writer thread.
class LogOutput {
  public:
    // `-` and `/dev/stdout` are standard output, `/dev/stderr` is standard error. Throws
    // std::runtime_error naming the path, also of a named pipe that no program reads within
    // kReaderPatience, and of a path that does not answer within kFilePatience. A reader that takes
    // nothing for `patience` counts as an error.
    explicit LogOutput(std::string path,
                       std::chrono::milliseconds patience = std::chrono::seconds{1});
    ~LogOutput();
    LogOutput(const LogOutput&) = delete;
    LogOutput& operator=(const LogOutput&) = delete;

    // Writes whole lines, the two pieces one after the other. Returns how many lines were lost: all
    // that were not written before an error.
    std::uint64_t write(std::array<std::string_view, 2> lines);

    // Opens the path anew. If that fails, the former file stays. A named pipe must have its reader.
    void reopen();

    static constexpr std::chrono::seconds kReaderPatience{2};

  private:
    // Returns what of `data` could not be written; empty when all was.
    std::string_view write_all(std::string_view data);
    bool wait_until_writable() const;
    void report(bool broken, int error);

    std::string path_;
    std::chrono::milliseconds patience_;
    int fd_;
    bool torn_ = false;    // the last line ends in the middle
    bool broken_ = false;  // the last write failed, and the error log says so
};

// Lines go through a bounded ring a thread; when it is full, the log drops and counts them, and no
// request waits. The log also drops and counts what cannot be written (a full disk, a reader that
// has gone), and says so once in the error log.
class AccessLog {
  public:
    struct Options {
        std::string path = "-";  // "-": standard output; empty: nothing is written
        LogFormat format = LogFormat::json;
        // Share of requests written; those with an error, of a denial
        // in shadow, or not forwarded, always are.
        double sample = 1.0;
        std::size_t ring_bytes = 1 << 20;  // each thread's
        // How long the end of the log waits for the program that reads it.
        std::chrono::milliseconds stop_patience{2'000};
    };

    // Opens the file (append) and starts the writer. Throws std::runtime_error naming the path. May
    // wait: see LogOutput.
    AccessLog(const Options& options, std::size_t threads);
    // Writes what is left, within `stop_patience`.
    ~AccessLog();
    AccessLog(const AccessLog&) = delete;
    AccessLog& operator=(const AccessLog&) = delete;

    // Formats and hands over the line; at the latest 100 ms later it is being written. `thread` is
    // the caller's number, below `threads`, and no other caller's; no lock, no allocation.
    void write(std::size_t thread, const RequestRecord& record);

    // The form and share of lines from now on. Any thread.
    void change_lines(LogFormat format, double sample);
    // Opens the path anew (USR1); if that fails, the old file stays and the error log says so. Any
    // thread.
    void reopen();
    // Lines that were not written. Any thread.
    std::uint64_t dropped() const;

  private:
    struct Impl;
    std::shared_ptr<Impl> impl_;  // the writer's too
};

// A request record as a line of the access log. Pure, and without allocation: each thread has a
// formatter with a buffer that fits the longest line there can be.
//
// telemetry/access_log_fields.hpp has the fields and their order. A text that is not known is
// empty. A text that is longer than its row allows is cut, and then ends in `...`.
//
// JSON is one object a line.
//
// Text is the common log format, followed by the same facts as name="value". Text between quotes is
// escaped as in JSON; in the request line spaces are, too, and a lone `-`, which means not known.
// The value of `identifiers` is a list: an identifier that holds a comma, a space, a quote, a
// backslash or anything but printable ASCII is a JSON string in it, whose quotes and backslashes
// the value escapes once more. docs/logging.md has the grammar.
//
// logfmt has the fields of JSON, as name=value. A value is in quotes, escaped as in JSON, if it
// is empty, `null`, or holds anything but printable ASCII, or a space, `=`, quote or backslash;
// `identifiers` always do, as a list as in text.

// How many bytes the longest value of a field takes in any form, with every byte escaped.
constexpr std::size_t value_bytes_max(const RequestField& field) {
    constexpr std::size_t kCutMarkBytes = 3;
    // A number, a time, or the word of an enum.
    constexpr std::size_t kWordBytesMax = 32;
    if (field.is<std::span<const std::string_view>>()) {
        // A list escapes an identifier twice, which makes one byte more of each escape. An
        // identifier has escaped quotes of its own, and a comma.
        constexpr std::size_t kItemMarksBytes = 5;
        constexpr std::size_t kItemBytesMax =
            kIdentifierBytesMax * (kEscapedBytesMax + 1) + kCutMarkBytes + kItemMarksBytes;
        return kIdentifiersMax * kItemBytesMax;
    }
    if (field.is<std::string_view>()) return field.bytes_max * kEscapedBytesMax + kCutMarkBytes;
    return kWordBytesMax;
}

// How many bytes the longest line takes in any form.
constexpr std::size_t line_bytes_max() {
    constexpr std::size_t kMarksBytes = 64;      // the common log format's, and the line's end
    constexpr std::size_t kPairMarksBytes = 12;  // `,"":["` and the like
    std::size_t bytes = kMarksBytes;
    for (const RequestField& field : kRequestFields) {
        bytes += kPairMarksBytes + field.name.size() + value_bytes_max(field);
    }
    return bytes;
}

class LogLineFormatter {
  public:
    // The line, newline included, without any other control; valid until the next call.
    std::string_view line(LogFormat format, const RequestRecord& record);
    std::string_view json(const RequestRecord& record);
    std::string_view text(const RequestRecord& record);
    std::string_view logfmt(const RequestRecord& record);

  private:
    using Time = std::chrono::system_clock::time_point;
    using Identifiers = std::span<const std::string_view>;

    // `2024-07-22T10:00:00` and `22/Jul/2024:10:00:00`, made anew only when the second changes.
    void update_time(Time time);

    void begin(Time time);
    std::string_view end();

    // A field with its name. `Field` is a row of the table (access_log.cpp).
    template <LogFormat kForm, class Field>
    void put_field(Field field, const RequestRecord& record);
    // The text before the pairs.
    void put_common_log(const RequestRecord& record);

    // A value, by its type.
    void put(std::string_view word);
    void put(std::uint64_t number);
    void put(int number);           // negative: 0
    void put(std::int64_t number);  // likewise
    void put(Amount amount);        // likewise
    void put(std::chrono::nanoseconds time);
    void put(Outcome outcome);
    void put(Face face);
    void put(HttpVersion version);
    // The time of the line, as RFC 3339 has it.
    void put(Time time);

    // A text that the program knows when it is compiled.
    template <class Text>
    void put_fixed(const Text& text);
    // `text` escaped, and cut if it has more than `bytes_max` bytes.
    void put_escaped(std::string_view text, std::size_t bytes_max);
    // Without spaces; `-` for what is empty, as the common log format has it.
    void put_word(std::string_view text, std::size_t bytes_max);
    // In quotes only if logfmt needs them.
    void put_logfmt(std::string_view text, std::size_t bytes_max);
    // As elements of a JSON array.
    void put_elements(Identifiers identifiers);
    // As a list within a string.
    void put_list(Identifiers identifiers);
    void put_quoted_item(std::string_view identifier);

    std::array<char, line_bytes_max()> buffer_;
    char* out_ = buffer_.data();
    std::chrono::sys_seconds second_{std::chrono::seconds::min()};
    unsigned millisecond_ = 0;
    std::array<char, 19> rfc3339_{};
    std::array<char, 20> common_{};
};

}  // namespace tidegate::telemetry
