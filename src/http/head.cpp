#include "http/head.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/ip.hpp"
#include "base/text.hpp"

namespace tidegate::http {

namespace {

constexpr EnumTexts<HeadFault> kHeadFaults(
    {{HeadFault::none, ""},
     {HeadFault::bad_request_line, "The request line is malformed."},
     {HeadFault::bad_target, "The request target is malformed."},
     {HeadFault::bad_scheme,
      "The `:scheme` is not that of the listener, which is `https` where TLS is spoken and `http` "
      "elsewhere."},
     {HeadFault::bad_version, "The listener does not take this version of HTTP."},
     {HeadFault::bad_status_line, "The status line is malformed."},
     {HeadFault::bad_line_end, "A line does not end in CR LF."},
     {HeadFault::bad_field, "A header field is malformed."},
     {HeadFault::uri_too_long, "The request target is longer than allowed."},
     {HeadFault::too_large, "The header section is larger than allowed."},
     {HeadFault::too_many_fields, "There are more header fields than allowed."}});

constexpr std::size_t kBesideTargetMax = 64;  // the longest method and version

enum CharClass : std::uint8_t {
    kToken = 1,     // RFC 9110 section 5.6.2
    kValue = 2,     // field-vchar, SP and HTAB
    kTarget = 4,    // what a request target may hold: visible ASCII, no fragment
    kHostName = 8,  // none of the marks that RFC 3986 allows beside these
    kLowerToken = 16,
};

constexpr std::array<std::uint8_t, 256> make_classes() {
    std::array<std::uint8_t, 256> classes{};
    constexpr std::string_view token_marks = "!#$%&'*+-.^_`|~";
    constexpr std::string_view host_marks = "-._";
    for (unsigned c = 0; c < 256; ++c) {
        const char ch = static_cast<char>(c);
        const bool alnum =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        std::uint8_t bits = 0;
        if (alnum || token_marks.find(ch) != std::string_view::npos) bits |= kToken;
        if ((bits & kToken) != 0 && !is_upper(ch)) bits |= kLowerToken;
        if (alnum || host_marks.find(ch) != std::string_view::npos) bits |= kHostName;
        if ((c >= 0x20 && c != 0x7f) || c == '\t') bits |= kValue;
        if (c > 0x20 && c < 0x7f && c != '#') bits |= kTarget;
        classes[c] = bits;
    }
    return classes;
}

constexpr std::array<std::uint8_t, 256> kClasses = make_classes();

bool has_class(char c, CharClass wanted) {
    return (kClasses[static_cast<unsigned char>(c)] & wanted) != 0;
}

bool all_of_class(std::string_view text, CharClass wanted) {
    std::uint8_t common = wanted;
    for (const char c : text) common &= kClasses[static_cast<unsigned char>(c)];
    return common != 0;
}

// How many bytes at its beginning a field's value may have. Nearly all are printable ASCII.
std::size_t field_value_size(std::string_view text) {
    std::size_t size = printable_size(text);
    while (size < text.size() && has_class(text[size], kValue)) ++size;
    return size;
}

// Takes one line off `bytes`, without its CRLF. The scanner has seen to it that there is one.
std::string_view take_line(std::string_view& bytes) {
    const std::size_t end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end - 1);
    bytes.remove_prefix(end + 1);
    return line;
}

// HTTP-version = "HTTP/" DIGIT "." DIGIT, whichever it is.
bool is_version(std::string_view text) {
    return text.size() == 8 && text.starts_with("HTTP/") && is_digit(text[5]) && text[6] == '.' &&
           is_digit(text[7]);
}

bool parse_version(std::string_view text, int& minor_version) {
    if (text == "HTTP/1.1") {
        minor_version = 1;
    } else if (text == "HTTP/1.0") {
        minor_version = 0;
    } else {
        return false;
    }
    return true;
}

bool begins_with_ignoring_case(std::string_view text, std::string_view prefix) {
    return text.size() >= prefix.size() &&
           equal_ignoring_case(text.substr(0, prefix.size()), prefix);
}

// RFC 9112 section 3.2: origin, absolute or asterisk form. The authority form is CONNECT's alone
// and left in `target`, for the step that refuses CONNECT.
bool split_target(RequestHead& head) {
    head.authority = {};
    head.query = {};
    if (head.method == "CONNECT") {
        head.path = {};
        return is_valid_host(head.target);
    }
    if (head.target == "*") {
        head.path = head.target;
        return head.method == "OPTIONS";
    }
    std::string_view rest = head.target;
    if (rest.front() != '/') {
        const std::size_t scheme = begins_with_ignoring_case(rest, "http://")    ? 7
                                   : begins_with_ignoring_case(rest, "https://") ? 8
                                                                                 : 0;
        if (scheme == 0) return false;
        rest.remove_prefix(scheme);
        head.authority = rest.substr(0, rest.find_first_of("/?"));
        rest.remove_prefix(head.authority.size());
        if (!is_valid_host(head.authority)) return false;
        if (rest.empty() || rest.front() != '/') {
            // No path: RFC 9110 section 4.2.3 reads it as "/", which has no bytes here to view;
            // OPTIONS then means the server itself (RFC 9112 section 3.2.4).
            head.path = head.method == "OPTIONS" && rest.empty() ? "*" : "/";
            head.query = rest;
            return true;
        }
    }
    const std::size_t query = std::min(rest.find('?'), rest.size());
    head.path = rest.substr(0, query);
    head.query = rest.substr(query);
    return true;
}

HeadFault parse_request_line(std::string_view line, const HeadBounds& bounds, RequestHead& head) {
    const std::size_t method_end = line.find(' ');
    if (method_end == std::string_view::npos) return HeadFault::bad_request_line;
    const std::size_t target_end = line.find(' ', method_end + 1);
    if (target_end == std::string_view::npos) return HeadFault::bad_request_line;
    head.method = line.substr(0, method_end);
    head.target = line.substr(method_end + 1, target_end - method_end - 1);
    if (!is_token(head.method)) return HeadFault::bad_request_line;
    if (head.target.size() > bounds.uri_bytes) return HeadFault::uri_too_long;
    if (head.target.empty() || !all_of_class(head.target, kTarget)) return HeadFault::bad_target;
    const std::string_view version = line.substr(target_end + 1);
    if (!parse_version(version, head.minor_version)) {
        return is_version(version) ? HeadFault::bad_version : HeadFault::bad_request_line;
    }
    return split_target(head) ? HeadFault::none : HeadFault::bad_target;
}

bool begins_with_line_end(std::string_view bytes) {
    return bytes.size() >= 2 && bytes[0] == '\r' && bytes[1] == '\n';
}

// Takes one field line off `bytes`, without looking for its end first: a message has many.
HeadFault take_field(std::string_view& bytes, Field& field) {
    const std::size_t colon = bytes.find(':');
    if (colon == std::string_view::npos) return HeadFault::bad_field;
    field.name = {bytes.data(), colon};
    field.id = field_name(field.name);
    // A space before the colon or at the start of the line (obs-fold) is no token character. A name
    // that is known is a token.
    if (field.id == FieldName::other && !is_token(field.name)) return HeadFault::bad_field;
    bytes.remove_prefix(colon + 1);
    const std::size_t size = field_value_size(bytes);
    field.value = trimmed({bytes.data(), size});
    bytes.remove_prefix(size);
    if (!begins_with_line_end(bytes)) return HeadFault::bad_field;
    bytes.remove_prefix(2);
    return HeadFault::none;
}

// Takes field lines off `bytes`, and the empty line behind them, if all are well.
HeadFault take_fields(std::string_view& bytes, std::size_t fields_max, Fields& fields) {
    fields.clear();
    std::string_view rest = bytes;  // of its own, so that it stays in registers
    for (std::size_t count = 0; !begins_with_line_end(rest); ++count) {
        if (count == fields_max) return HeadFault::too_many_fields;
        const HeadFault fault = take_field(rest, fields.emplace_back());
        if (fault != HeadFault::none) return fault;
    }
    bytes = rest.substr(2);
    return HeadFault::none;
}

// Empty, or a number up to 65535.
bool is_port(std::string_view text) {
    if (text.size() > 5) return false;
    unsigned number = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return false;
        number = number * 10 + static_cast<unsigned>(c - '0');
    }
    return number <= 65'535;
}

// How many bytes at the beginning are a host's name; 0: none. Labels with single dots between them,
// and maybe one at the end: servers differ in what they make of more.
std::size_t host_name_size(std::string_view text) {
    constexpr std::size_t kNameBytesMax = 255;  // RFC 1035 section 2.3.4
    std::size_t size = 0;
    char before = '.';
    for (; size < text.size() && has_class(text[size], kHostName); ++size) {
        if (text[size] == '.' && before == '.') return 0;
        before = text[size];
    }
    return size <= kNameBytesMax ? size : 0;
}

// The same of an address in brackets. Of RFC 3986's two kinds the one for versions to come has
// never been used.
std::size_t ip_literal_size(std::string_view text) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return 0;
    const std::string_view inside = text.substr(1, close - 1);
    const bool is_ipv6 = inside.find(':') != std::string_view::npos && parse_ip(inside);
    return is_ipv6 ? close + 1 : 0;
}

}  // namespace

std::string_view describe(HeadFault fault) {
    return kHeadFaults[fault];
}

std::size_t HeadScanner::scan(std::string_view bytes, const HeadBounds& bounds) {
    while (fault_ == HeadFault::none) {
        const void* found = next_ < bytes.size()
                                ? std::memchr(bytes.data() + next_, '\n', bytes.size() - next_)
                                : nullptr;
        if (found == nullptr) {
            next_ = bytes.size();
            fault_ = crossed(bytes.size(), bytes.size(), bounds);
            return 0;
        }
        const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
        next_ = end + 1;
        fault_ = crossed(end, next_, bounds);
        if (fault_ != HeadFault::none) return 0;
        if (end == line_start_ || bytes[end - 1] != '\r') {
            fault_ = HeadFault::bad_line_end;
        } else if (end - 1 == line_start_) {
            return next_;
        }
        line_start_ = next_;
        in_first_line_ = false;
    }
    return 0;
}

HeadFault HeadScanner::crossed(std::size_t line_end, std::size_t bytes,
                               const HeadBounds& bounds) const {
    const std::size_t first_line_max = bounds.uri_bytes + kBesideTargetMax;
    if (in_first_line_ && line_end > first_line_max && first_line_max <= bounds.bytes) {
        return HeadFault::uri_too_long;
    }
    return bytes > bounds.bytes ? HeadFault::too_large : HeadFault::none;
}

HeadFault parse_request_head(std::string_view bytes, const HeadBounds& bounds, RequestHead& head) {
    const HeadFault fault = parse_request_line(take_line(bytes), bounds, head);
    if (fault != HeadFault::none) return fault;
    return parse_fields(bytes, bounds.fields, head.fields);
}

HeadFault parse_response_head(std::string_view bytes, const HeadBounds& bounds,
                              ResponseHead& head) {
    const std::string_view line = take_line(bytes);
    // status-line = HTTP-version SP status-code SP [ reason-phrase ]; servers that leave out the
    // second space with the phrase are many and harmless.
    if (line.size() < 12 || line[8] != ' ' || (line.size() > 12 && line[12] != ' ')) {
        return HeadFault::bad_status_line;
    }
    if (!parse_version(line.substr(0, 8), head.minor_version)) return HeadFault::bad_version;
    head.status = 0;
    for (const char c : line.substr(9, 3)) {
        if (c < '0' || c > '9') return HeadFault::bad_status_line;
        head.status = head.status * 10 + (c - '0');
    }
    if (head.status < 100 || head.status > 599) return HeadFault::bad_status_line;
    head.reason = line.size() > 13 ? line.substr(13) : std::string_view{};
    if (field_value_size(head.reason) != head.reason.size()) return HeadFault::bad_status_line;
    return parse_fields(bytes, bounds.fields, head.fields);
}

HeadFault parse_fields(std::string_view bytes, std::size_t fields_max, Fields& fields) {
    return take_fields(bytes, fields_max, fields);
}

std::size_t parse_request_head_in(std::string_view bytes, const HeadBounds& bounds,
                                  RequestHead& head) {
    const std::size_t line_end = bytes.find("\r\n");
    if (line_end < bounds.uri_bytes + kBesideTargetMax &&
        parse_request_line(bytes.substr(0, line_end), bounds, head) == HeadFault::none) {
        std::string_view rest = bytes.substr(line_end + 2);
        const HeadFault fault = take_fields(rest, bounds.fields, head.fields);
        const std::size_t length = bytes.size() - rest.size();
        if (fault == HeadFault::none && length <= bounds.bytes) return length;
    }
    head.clear();
    return 0;
}

bool set_origin_form(std::string_view target, RequestHead& head) {
    if (!target.starts_with('/') || !all_of_class(target, kTarget)) return false;
    const std::size_t query = std::min(target.find('?'), target.size());
    head.target = target;
    head.path = target.substr(0, query);
    head.query = target.substr(query);
    head.authority = {};
    return true;
}

bool is_field_value(std::string_view text) {
    return field_value_size(text) == text.size();
}

bool is_token(std::string_view text) {
    return !text.empty() && all_of_class(text, kToken);
}

bool is_lower_token(std::string_view text) {
    return !text.empty() && all_of_class(text, kLowerToken);
}

bool is_valid_host(std::string_view text) {
    const std::size_t end = text.starts_with('[') ? ip_literal_size(text) : host_name_size(text);
    if (end == 0 || end == text.size()) return end > 0;
    return text[end] == ':' && is_port(text.substr(end + 1));
}

}  // namespace tidegate::http
