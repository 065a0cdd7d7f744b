// A request record as a line of the access log. Pure, and without allocation: each thread has a
// formatter with a buffer that fits the longest line there can be.
//
// JSON, one object a line, always these fields in this order:
//   time        RFC 3339, UTC, milliseconds; when the request began
//   id          X-Request-Id
//   client      the client's address
//   method, host, path
//   user_agent  the field User-Agent; empty if there are several
//   route
//   identifiers who was counted, an array
//   verdict     admitted | limited | unlimited | local | allowed | unavailable
//   limited_by  the limit that refused
//   shadow_limited_by  the limit of a policy in shadow that would have
//   store       memory | redis | local
//   status      0: no answer was sent
//   outcome     as tidegate_requests_total has it
//   upstream    the server as it is configured
//   upstream_server  its address, the last one chosen
//   error       whose fault and what
//   bytes_in, bytes_out                    of the bodies
//   duration_us, decision_us, upstream_us  of the request; waiting for the store; for the upstream
//   queue_us    waiting for one of max_connections
//   tries       connections that the request used, or that could not be made for it
//   face        proxy | forward_auth | check: how Tidegate was asked
//   protocol    HTTP/1.0 | HTTP/1.1 | HTTP/2
// and behind `status`, of an answer to gRPC only, grpc_status.
// What is not known is an empty string. What a client chose is cut at a bound, and then ends in
// `...`.
//
// Text is the common log format, followed by the same facts as name="value". What stands between
// quotes is escaped as in JSON; in the request line spaces are, too, and a lone `-`, which stands
// for what is not known. The value of `identifiers` is a list: an identifier that holds a comma, a
// space, a quote, a backslash or anything but printable ASCII is a JSON string in it, whose quotes
// and backslashes the value escapes once more. docs/operating.md has the grammar.
//
// logfmt has the fields of JSON, as name=value. A value stands in quotes, escaped as in JSON, if it
// is empty, `null`, or holds anything but printable ASCII, or a space, `=`, quote or backslash;
// `identifiers` always do, as a list as in text.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "telemetry/access_log.hpp"

namespace tidegate::telemetry {

class LogLineFormatter {
  public:
    // The line, newline included, without any other control; valid until the next call.
    std::string_view line(LogFormat format, const RequestRecord& record);
    std::string_view json(const RequestRecord& record);
    std::string_view text(const RequestRecord& record);
    std::string_view logfmt(const RequestRecord& record);

  private:
    // `2024-07-22T10:00:00` and `22/Jul/2024:10:00:00`, made anew only when the second changes.
    void update_time(std::chrono::system_clock::time_point time);

    void begin(std::chrono::system_clock::time_point time);
    std::string_view end();
    void put(std::string_view text);
    void put(std::uint64_t number);
    void put(std::chrono::nanoseconds time);
    // `text` escaped, and cut if it has more than `bytes_max` bytes.
    void put_escaped(std::string_view text, std::size_t bytes_max);
    // Without spaces; `-` for what is empty, as the common log format has it.
    void put_word(std::string_view text, std::size_t bytes_max);
    // As elements of a JSON array, but for the first and last quote.
    void put_elements(const RequestRecord& record);
    // As a list within a string.
    void put_list(const RequestRecord& record);
    void put_quoted_item(std::string_view identifier);
    // RFC 3339.
    void put_time();
    // ` name=value`, cut if it has more than `bytes_max` bytes.
    void put_logfmt(std::string_view name, std::string_view value, std::size_t bytes_max);
    void put_logfmt(std::string_view name, std::uint64_t value);
    void put_logfmt(std::string_view name, std::chrono::nanoseconds value);

    static constexpr std::size_t kBufferBytes = 40'960;

    std::array<char, kBufferBytes> buffer_;
    char* out_ = buffer_.data();
    std::chrono::sys_seconds second_{std::chrono::seconds::min()};
    unsigned millisecond_ = 0;
    std::array<char, 19> rfc3339_{};
    std::array<char, 20> common_{};
};

}  // namespace tidegate::telemetry
