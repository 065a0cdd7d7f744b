#include "http/problem.hpp"

#include <array>
#include <charconv>
#include <cstddef>

namespace tidegate::http {
namespace {

constexpr std::string_view kQuotaExceededUri =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
// The title registered with that type.
constexpr std::string_view kQuotaExceededTitle =
    "Request cannot be satisfied as assigned quota has been exceeded";

void append_number(std::int64_t number, std::string& out) {
    std::array<char, 24> digits;
    const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    out.append(digits.data(), result.ptr);
}

std::uint8_t byte_at(std::string_view text, std::size_t i) {
    return static_cast<std::uint8_t>(text[i]);
}

// The length of the well-formed UTF-8 sequence at `at` (RFC 3629 section 4: no overlong forms, no
// surrogates, nothing above U+10FFFF), or 0.
std::size_t utf8_length(std::string_view text, std::size_t at) {
    const std::uint8_t lead = byte_at(text, at);
    std::size_t length = 0;
    std::uint8_t low = 0x80;
    std::uint8_t high = 0xbf;
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
    } else {
        return 0;
    }
    if (text.size() - at < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        const std::uint8_t byte = byte_at(text, at + i);
        if (byte < low || byte > high) return 0;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

// A character that JSON does not take as it is (RFC 8259 section 7); also DEL, which it does take
// but terminals do not.
void append_escaped(char c, std::string& out) {
    constexpr std::string_view kHex = "0123456789abcdef";
    switch (c) {
        case '"':
            out += "\\\"";
            return;
        case '\\':
            out += "\\\\";
            return;
        case '\n':
            out += "\\n";
            return;
        case '\r':
            out += "\\r";
            return;
        case '\t':
            out += "\\t";
            return;
        default:
            break;
    }
    const auto byte = static_cast<std::uint8_t>(c);
    out += "\\u00";
    out += kHex[byte >> 4];
    out += kHex[byte & 0xf];
}

void append_member(std::string_view name, std::string& out) {
    out += ",\"";
    out += name;
    out += "\":";
}

}  // namespace

std::string_view status_title(int status) {
    switch (status) {
        case 100:
            return "Continue";
        case 101:
            return "Switching Protocols";
        case 102:
            return "Processing";
        case 103:
            return "Early Hints";
        case 200:
            return "OK";
        case 201:
            return "Created";
        case 202:
            return "Accepted";
        case 203:
            return "Non-Authoritative Information";
        case 204:
            return "No Content";
        case 205:
            return "Reset Content";
        case 206:
            return "Partial Content";
        case 300:
            return "Multiple Choices";
        case 301:
            return "Moved Permanently";
        case 302:
            return "Found";
        case 303:
            return "See Other";
        case 304:
            return "Not Modified";
        case 307:
            return "Temporary Redirect";
        case 308:
            return "Permanent Redirect";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 402:
            return "Payment Required";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 406:
            return "Not Acceptable";
        case 407:
            return "Proxy Authentication Required";
        case 408:
            return "Request Timeout";
        case 409:
            return "Conflict";
        case 410:
            return "Gone";
        case 411:
            return "Length Required";
        case 412:
            return "Precondition Failed";
        case 413:
            return "Content Too Large";
        case 414:
            return "URI Too Long";
        case 415:
            return "Unsupported Media Type";
        case 416:
            return "Range Not Satisfiable";
        case 417:
            return "Expectation Failed";
        case 421:
            return "Misdirected Request";
        case 422:
            return "Unprocessable Content";
        case 425:
            return "Too Early";
        case 426:
            return "Upgrade Required";
        case 428:
            return "Precondition Required";
        case 429:
            return "Too Many Requests";
        case 431:
            return "Request Header Fields Too Large";
        case 451:
            return "Unavailable For Legal Reasons";
        case 500:
            return "Internal Server Error";
        case 501:
            return "Not Implemented";
        case 502:
            return "Bad Gateway";
        case 503:
            return "Service Unavailable";
        case 504:
            return "Gateway Timeout";
        case 505:
            return "HTTP Version Not Supported";
        case 511:
            return "Network Authentication Required";
        default:
            return "Unknown";
    }
}

void append_problem(const Problem& problem, std::string& out) {
    const bool quota = problem.type == ProblemType::quota_exceeded;
    out += R"({"type":)";
    append_json_string(quota ? kQuotaExceededUri : "about:blank", out);
    append_member("title", out);
    // RFC 9457 section 4.2.1: the title of about:blank is the phrase of the status.
    append_json_string(quota ? kQuotaExceededTitle : status_title(problem.status), out);
    append_member("status", out);
    append_number(problem.status, out);
    if (!problem.detail.empty()) {
        append_member("detail", out);
        append_json_string(problem.detail, out);
    }
    if (!problem.request_id.empty()) {
        append_member("request_id", out);
        append_json_string(problem.request_id, out);
    }
    if (!problem.violated_policies.empty()) {
        append_member("violated-policies", out);
        char before = '[';
        for (const std::string_view name : problem.violated_policies) {
            out += before;
            before = ',';
            append_json_string(name, out);
        }
        out += ']';
    }
    if (problem.retry_after_seconds) {
        append_member("retry_after", out);
        append_number(*problem.retry_after_seconds, out);
    }
    out += '}';
}

void append_json_string(std::string_view text, std::string& out) {
    constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
    out += '"';
    for (std::size_t i = 0; i < text.size();) {
        const char c = text[i];
        const std::size_t length = utf8_length(text, i);
        if (length == 0) {
            out += kReplacement;
            ++i;
        } else if (length > 1) {
            out += text.substr(i, length);
            i += length;
        } else {
            if (byte_at(text, i) < 0x20 || c == '"' || c == '\\' || c == 0x7f)
                append_escaped(c, out);
            else
                out += c;
            ++i;
        }
    }
    out += '"';
}

}  // namespace tidegate::http
