// The head of an HTTP/1 message: found in the bytes, held to the grammar, parsed into views.
//
// There is one strict reader instead of a lenient one with a checker after it: request smuggling
// depends on two readers that see different things. Nothing here repairs or skips; a head is
// exactly right (RFC 9112, and RFC 9110 section 5) or refused. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/described_enum.hpp"
#include "http/field.hpp"

namespace tidegate::http {

struct HeadBounds {
    std::size_t bytes = 32'768;  // the whole head
    std::size_t fields = 100;
    std::size_t uri_bytes = 8'192;
};

BOOST_DEFINE_FIXED_ENUM_CLASS(HeadFault, std::uint8_t, none, bad_request_line,
                              bad_target,   // not one of the forms of RFC 9112 section 3.2
                              bad_scheme,   // in HTTP/2, another than the listener's
                              bad_version,  // not HTTP/1.0 or HTTP/1.1
                              bad_status_line,
                              bad_line_end,  // LF without CR, or CR without LF
                              bad_field,     // name, colon or value break the grammar; obs-fold
                              uri_too_long,
                              too_large,  // more bytes than allowed
                              too_many_fields)

// Describes the fault for the client and the log, without repeating what was sent.
std::string_view describe(HeadFault fault);

// Finds the end of a head in bytes that arrive in any portions.
class HeadScanner {
  public:
    // Looks at `bytes`, the message so far, from where it stopped the last time. Returns the
    // length of the head with its empty line, or 0: it goes on, or `fault()` says why not.
    std::size_t scan(std::string_view bytes, const HeadBounds& bounds);

    HeadFault fault() const { return fault_; }
    // Whether it has looked at bytes.
    bool has_begun() const { return next_ > 0; }
    void reset() { *this = {}; }

  private:
    // The bound that would be crossed first if the bytes came one by one: `bytes` in all, of which
    // the line that goes on reaches to `line_end`. So the verdict does not depend on the portions.
    HeadFault crossed(std::size_t line_end, std::size_t bytes, const HeadBounds& bounds) const;

    std::size_t next_ = 0;  // first byte not looked at
    std::size_t line_start_ = 0;
    bool in_first_line_ = true;
    HeadFault fault_ = HeadFault::none;
};

struct RequestHead {
    std::string_view method;
    std::string_view target;     // as sent
    std::string_view path;       // without the query; `*` for the asterisk form
    std::string_view query;      // with its `?`, or empty
    std::string_view authority;  // of the absolute form, or empty: it outranks Host
    int minor_version = 1;
    Fields fields;

    // Drops all views. The vector keeps its room.
    void clear() {
        fields.clear();
        method = target = path = query = authority = {};
        minor_version = 1;
    }
};

struct ResponseHead {
    int status = 0;  // 100..599
    std::string_view reason;
    int minor_version = 1;
    Fields fields;
};

// `bytes` is a whole head as HeadScanner delimits it. Views go into it. `head` is reused: its
// vector keeps its room.
HeadFault parse_request_head(std::string_view bytes, const HeadBounds& bounds, RequestHead& head);
HeadFault parse_response_head(std::string_view bytes, const HeadBounds& bounds, ResponseHead& head);

// The same without a scanner before it, for nearly all heads arrive in one piece: `bytes` is the
// message so far. Returns the length of the head, or 0: it goes on or is refused, as HeadScanner
// and parse_request_head() will find out, and `head` is clear.
std::size_t parse_request_head_in(std::string_view bytes, const HeadBounds& bounds,
                                  RequestHead& head);

// `bytes` are field lines and an empty line: the trailer section of a chunked body.
HeadFault parse_fields(std::string_view bytes, std::size_t fields_max, Fields& fields);

// Sets target, path and query of `head` to those of `target`, an origin form (RFC 9112 section
// 3.2.1) that another server has read. False: it is none, and `head` is as it was.
bool set_origin_form(std::string_view target, RequestHead& head);

bool is_token(std::string_view text);
// The same without upper case, as HTTP/2 has its names.
bool is_lower_token(std::string_view text);
// Whether it has no other bytes than the value of a field may; white space around it is fine.
bool is_field_value(std::string_view text);
// RFC 9110 section 7.2: uri-host [ ":" port ], of which the name is one that servers read alike:
// letters, digits, `-`, `_` and single dots. Percent-encoding and marks are refused.
bool is_valid_host(std::string_view text);

}  // namespace tidegate::http
