#include "admin/answer_head.hpp"

#include <chrono>

#include <fmt/format.h>

#include "admin/page.hpp"
#include "base/timestamp.hpp"
#include "http/field_lines.hpp"
#include "http/problem.hpp"

namespace tidegate::admin {

namespace {

std::string date_of_now() {
    std::string date;
    append_http_date(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()),
                     date);
    return date;
}

}  // namespace

int status_of(http::HeadFault fault) {
    if (fault == http::HeadFault::too_large) return 431;
    if (fault == http::HeadFault::bad_version) return 505;
    return 400;
}

int status_of_body(http::FramingFault fault, const http::Framing& framing) {
    if (fault == http::FramingFault::none) return framing.body == http::BodyKind::none ? 0 : 413;
    return fault == http::FramingFault::bad_transfer_encoding ? 413 : 400;
}

std::string head_of(const AdminAnswer& answer, std::size_t body_bytes, const Asked& asked) {
    std::string head = fmt::format("HTTP/1.{} {} {}\r\n", asked.minor_version, answer.status,
                                   http::status_title(answer.status));
    http::append_field("Content-Type", answer.content_type, head);
    http::append_field("Cache-Control", "no-store", head);
    http::append_field("X-Content-Type-Options", "nosniff", head);
    if (answer.page) http::append_field("Content-Security-Policy", kPagePolicy, head);
    http::append_field("Date", date_of_now(), head);
    if (!answer.allow.empty()) http::append_field("Allow", answer.allow, head);
    if (!answer.authenticate.empty()) {
        http::append_field("WWW-Authenticate", answer.authenticate, head);
    }
    if (answer.retry_after_seconds) {
        http::append_field("Retry-After", std::to_string(*answer.retry_after_seconds), head);
    }
    // The default differs (RFC 9112 section 9.3).
    if (asked.keep_alive != (asked.minor_version == 1)) {
        http::append_field("Connection", asked.keep_alive ? "keep-alive" : "close", head);
    }
    http::append_field("Content-Length", body_bytes, head);
    return head + "\r\n";
}

}  // namespace tidegate::admin
