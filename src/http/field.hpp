// Header fields: views into the bytes they were read from, the names we know, and how their lines
// and values are written. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"

namespace tidegate::http {

// Fields that some part of Tidegate acts upon; all others are passed on as `other`.
enum class FieldName : std::uint8_t {
    other,
    anthropic_requests_limit,
    anthropic_requests_remaining,
    anthropic_requests_reset,
    anthropic_tokens_limit,
    anthropic_tokens_remaining,
    anthropic_tokens_reset,
    connection,
    content_length,
    content_type,
    date,
    expect,
    forwarded,
    host,
    keep_alive,
    proxy_authenticate,
    proxy_authorization,
    proxy_connection,
    ratelimit,
    ratelimit_limit,
    ratelimit_policy,
    ratelimit_remaining,
    ratelimit_reset,
    retry_after,
    server,
    te,
    trailer,
    transfer_encoding,
    upgrade,
    via,
    x_forwarded_client_cert,
    x_forwarded_for,
    x_forwarded_host,
    x_forwarded_method,
    x_forwarded_port,
    x_forwarded_proto,
    x_forwarded_uri,
    x_original_method,
    x_original_uri,
    x_ratelimit_limit,
    x_ratelimit_limit_requests,
    x_ratelimit_limit_tokens,
    x_ratelimit_remaining,
    x_ratelimit_remaining_requests,
    x_ratelimit_remaining_tokens,
    x_ratelimit_reset,
    x_ratelimit_reset_requests,
    x_ratelimit_reset_tokens,
    x_real_ip,
    x_request_id,
    named_by_connection,  // whatever its name: Connection says that it is for this hop alone
};

struct Field {
    FieldName id = FieldName::other;
    std::string_view name;   // as it was written
    std::string_view value;  // without white space around it
};

using Fields = std::vector<Field>;

// ASCII only, as field names are compared (RFC 9110 section 5.1).
bool equal_ignoring_case(std::string_view a, std::string_view b);

// The same, and `_`, `.` and every other byte that is no letter or digit equals `-`: servers that
// turn fields into variables (CGI, WSGI, PHP) cannot tell these apart.
bool equal_as_variable(std::string_view a, std::string_view b);

// Which of the names we know this is, ignoring case. Allocates nothing.
FieldName field_name(std::string_view name);

// Copies names and values into `text`, which the fields look at from now on: for fields that are
// needed longer than the bytes that they came in. `text` stays as it is and where it is meanwhile.
void keep_in(std::string& text, Fields& fields);

// The value of the only field of that name; empty if there is none or more than one.
std::string_view single_value(const Fields& fields, std::string_view name);
std::string_view single_value(const Fields& fields, FieldName name);

// The same of the field that `is_wanted` takes.
template <class IsWanted>
std::string_view single_value_where(const Fields& fields, IsWanted is_wanted) {
    const Field* found = nullptr;
    for (const Field& field : fields) {
        if (!is_wanted(field)) continue;
        if (found != nullptr) return {};
        found = &field;
    }
    return found != nullptr ? found->value : std::string_view{};
}

// Whether the field goes to the other end, and is of that name, which FieldName does not know: a
// field that Connection names has another id. Calls nothing for a name of another length.
inline bool is_named(const Field& field, std::string_view name) {
    return field.id == FieldName::other && field.name.size() == name.size() &&
           equal_ignoring_case(field.name, name);
}

// Appends `name: value` and the end of the line, as clients and upstreams get it.
inline void append_field(std::string_view name, std::string_view value, std::string& out) {
    // One growth for the four pieces: a message has some ten of these lines.
    const std::size_t begin = out.size();
    out.resize(begin + name.size() + value.size() + 4);
    char* to = std::copy(name.begin(), name.end(), out.data() + begin);
    *to++ = ':';
    *to++ = ' ';
    to = std::copy(value.begin(), value.end(), to);
    *to++ = '\r';
    *to = '\n';
}

inline void append_field(std::string_view name, std::uint64_t value, std::string& out) {
    out.append(name).append(": ");
    append_number(value, out);
    out.append("\r\n");
}

// The largest magnitude of an Integer (RFC 9651 section 3.3.1: fifteen digits).
inline constexpr std::int64_t kStructuredIntegerMax = 999'999'999'999'999;

// Appends a String of a structured field (RFC 9651): `text` between quotes, `"` and `\` escaped.
// Bytes that a String cannot hold (anything but printable ASCII) become `?`, so that no name can
// break out of its field. A quoted-string of RFC 9110 section 5.6.4 has the same form.
void append_quoted_string(std::string_view text, std::string& out);

// Appends an Integer of a structured field. What does not fit in fifteen digits becomes the nearest
// that does.
void append_integer(std::int64_t number, std::string& out);

// The line `Date: ...` of answers, formatted once a second and copied into each answer. Each worker
// has one; one thread uses it.
class DateField {
  public:
    // Formats the line anew if `now` lies in another second than the last time. Requires a moment
    // from the epoch to the end of the year 9999.
    void set(std::chrono::system_clock::time_point now);

    // The whole line, `Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n` (RFC 9110 section 6.6.1). Good
    // until the next set(). Empty before the first.
    std::string_view line() const { return line_; }

  private:
    std::chrono::sys_seconds second_{std::chrono::seconds{-1}};
    std::string line_;
};

// Whether the value of an Authorization field is this bearer token (RFC 6750 section 2.1); schemes
// are compared without case (RFC 9110 section 11.1). The time it takes does not tell how much of
// the token is right.
bool bears_token(std::string_view authorization, std::string_view token);
// Whether the only Authorization field is.
bool bears_token(const Fields& fields, std::string_view token);

}  // namespace tidegate::http
