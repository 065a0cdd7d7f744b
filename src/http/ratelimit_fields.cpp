#include "http/ratelimit_fields.hpp"

#include "http/field.hpp"

namespace tidegate::http {
namespace {

using Kind = RateLimitItem::Kind;

void append_parameter(std::string_view name, std::int64_t value, std::string& out) {
    out += ';';
    out += name;
    out += '=';
    append_integer(value, out);
}

void append_line(std::string_view name, std::int64_t value, std::string& out) {
    out += name;
    out += ": ";
    append_integer(value, out);
    out += "\r\n";
}

bool stricter(const RateLimitItem& a, const RateLimitItem& b) {
    // a.remaining / a.quota < b.remaining / b.quota without dividing. Compared by parts, as three
    // left of ten a second bind sooner than two left of two an hour; and 128 bits cannot overflow.
    __extension__ using Wide = __int128;
    const Wide left = Wide{a.remaining} * b.quota;
    const Wide right = Wide{b.remaining} * a.quota;
    if (left != right) return left < right;
    if (a.remaining != b.remaining) return a.remaining < b.remaining;
    return waits_longer(a, b);
}

}  // namespace

RateLimitTexts ratelimit_texts(const RateLimitItem& item) {
    RateLimitTexts texts;
    append_quoted_string(item.name, texts.policy);
    texts.state = texts.policy + ";r=";
    append_parameter("q", item.quota, texts.policy);
    if (item.kind == Kind::in_flight) texts.policy += R"(;qu="concurrent-requests")";
    if (item.window_seconds > 0) append_parameter("w", item.window_seconds, texts.policy);
    return texts;
}

void append_ratelimit_policy(std::span<const RateLimitItem> items, std::string& out) {
    bool first = true;
    for (const RateLimitItem& item : items) {
        if (!first) out += ", ";
        first = false;
        // Two statements: a conditional expression would copy the text first.
        if (item.texts != nullptr) {
            out += item.texts->policy;
        } else {
            out += ratelimit_texts(item).policy;
        }
    }
}

void append_ratelimit(std::span<const RateLimitItem> items, std::string& out) {
    bool first = true;
    for (const RateLimitItem& item : items) {
        if (item.kind == Kind::schedule || !item.is_current) continue;
        if (!first) out += ", ";
        first = false;
        if (item.texts != nullptr) {
            out += item.texts->state;
        } else {
            out += ratelimit_texts(item).state;
        }
        append_integer(item.remaining, out);
        if (item.kind == Kind::window && item.reset_seconds) {
            append_parameter("t", *item.reset_seconds, out);
        }
    }
}

const RateLimitItem* most_restrictive(std::span<const RateLimitItem> items) {
    const RateLimitItem* found = nullptr;
    for (const RateLimitItem& item : items) {
        if (item.kind == Kind::schedule || !item.is_current) continue;
        if (found == nullptr || stricter(item, *found)) found = &item;
    }
    return found;
}

void append_x_ratelimit_fields(std::span<const RateLimitItem> items, std::string& out) {
    const RateLimitItem* const item = most_restrictive(items);
    if (item == nullptr) return;
    append_line("X-RateLimit-Limit", item->quota, out);
    append_line("X-RateLimit-Remaining", item->remaining, out);
    if (item->reset_seconds) append_line("X-RateLimit-Reset", *item->reset_seconds, out);
}

void append_ratelimit_fields(std::span<const RateLimitItem> items, std::string& out) {
    out += "RateLimit-Policy: ";
    append_ratelimit_policy(items, out);
    out += "\r\n";
    const std::size_t line = out.size();
    out += "RateLimit: ";
    const std::size_t value = out.size();
    append_ratelimit(items, out);
    if (out.size() == value) {
        out.resize(line);
    } else {
        out += "\r\n";
    }
}

}  // namespace tidegate::http
