// Header fields as views into the bytes they were read from, and the names we know.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tidegate::http {

// Fields that some part of Tidegate acts upon; all others are passed on as `other`.
enum class FieldName : std::uint8_t {
    other,
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
    x_ratelimit_remaining,
    x_ratelimit_reset,
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

// As equal_ignoring_case, and `_`, `.` and whatever else is no letter or digit equals `-`: servers
// that turn fields into variables (CGI, WSGI, PHP) cannot tell these apart.
bool equal_as_variable(std::string_view a, std::string_view b);

// Which of the names we know this is, ignoring case. Allocates nothing.
FieldName field_name(std::string_view name);

// Copies names and values into `text`, which the fields look at from now on: for fields that are
// needed longer than the bytes that they came in. `text` stays as it is and where it is meanwhile.
void keep_in(std::string& text, Fields& fields);

// The value of the only field of that name; empty if there is none or more than one.
std::string_view single_value(const Fields& fields, std::string_view name);
std::string_view single_value(const Fields& fields, FieldName name);

}  // namespace tidegate::http
