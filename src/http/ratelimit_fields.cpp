#include "http/ratelimit_fields.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "http/field.hpp"

namespace tidegate::http {
namespace {

using Kind = RateLimitItem::Kind;
using Unit = RateLimitItem::Unit;

void append_parameter(std::string_view name, std::int64_t value, std::string& out) {
    out += ';';
    out += name;
    out += '=';
    append_integer(value, out);
}

// Dollars, rounded down to three places: a Decimal of a structured field has no more (RFC 9651
// section 3.3.2).
void put_dollars(std::int64_t microdollars, TextTail& out) {
    constexpr std::int64_t kPart = 1000;
    const std::int64_t thousandths =
        std::min(microdollars / kPart, kStructuredIntegerMax);  // twelve digits before the point
    out.put_number(thousandths / kPart);
    std::int64_t rest = thousandths % kPart;
    if (rest == 0) return;
    out.put('.');
    for (std::int64_t place = kPart / 10; rest > 0; place /= 10) {
        out.put(static_cast<char>('0' + rest / place));
        rest %= place;
    }
}

constexpr std::size_t kAmountMost = DecimalDigits::kMost;  // bytes, of either unit

void put_amount(std::int64_t amount, Unit unit, TextTail& out) {
    if (unit == Unit::microdollars) {
        put_dollars(amount, out);
    } else {
        out.put_number(std::min(amount, kStructuredIntegerMax));
    }
}

void append_amount(std::int64_t amount, Unit unit, std::string& out) {
    TextTail tail(out, kAmountMost);
    put_amount(amount, unit, tail);
}

void append_line(std::string_view name, std::int64_t amount, Unit unit, std::string& out) {
    out += name;
    out += ": ";
    append_amount(amount, unit, out);
    out += "\r\n";
}

constexpr std::string_view kBetweenItems = ", ";
constexpr std::string_view kReset = ";t=";

// The most bytes that append_ratelimit() appends of an item.
std::size_t room_of_state(const RateLimitItem& item) {
    constexpr std::size_t kQuotes = 2;
    constexpr std::size_t kRemaining = 3;  // `;r=`
    const std::size_t state = item.texts != nullptr ? item.texts->state.size()
                                                    : 2 * item.name.size() + kQuotes + kRemaining;
    return kBetweenItems.size() + state + kAmountMost + kReset.size() + DecimalDigits::kMost;
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

// The rate of that unit with the fewest units left, and of two such that whose next one comes
// later; null: there is none.
const RateLimitItem* least_left(std::span<const RateLimitItem> items, Unit unit) {
    const RateLimitItem* found = nullptr;
    for (const RateLimitItem& item : items) {
        if (item.kind != Kind::window || item.unit != unit || !item.is_current) continue;
        if (found == nullptr || item.remaining < found->remaining ||
            (item.remaining == found->remaining && waits_longer(item, *found))) {
            found = &item;
        }
    }
    return found;
}

// The names of one unit's fields.
struct ProviderFields {
    Unit unit;
    std::string_view limit;
    std::string_view remaining;
    std::string_view reset;
};

constexpr std::array<ProviderFields, 2> kOpenaiFields{{
    {Unit::requests, "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
     "x-ratelimit-reset-requests"},
    {Unit::tokens, "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
     "x-ratelimit-reset-tokens"},
}};
constexpr std::array<ProviderFields, 2> kAnthropicFields{{
    {Unit::requests, "anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining",
     "anthropic-ratelimit-requests-reset"},
    {Unit::tokens, "anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining",
     "anthropic-ratelimit-tokens-reset"},
}};

// `append_reset` appends what the reset is shown as.
template <class AppendReset>
void append_provider_fields(const std::array<ProviderFields, 2>& units,
                            std::span<const RateLimitItem> items, AppendReset append_reset,
                            std::string& out) {
    for (const ProviderFields& names : units) {
        const RateLimitItem* const item = least_left(items, names.unit);
        if (item == nullptr) continue;
        append_line(names.limit, item->quota, item->unit, out);
        append_line(names.remaining, item->remaining, item->unit, out);
        if (!item->reset_seconds) continue;
        out.append(names.reset).append(": ");
        append_reset(*item->reset_seconds);
        out += "\r\n";
    }
}

}  // namespace

RateLimitTexts ratelimit_texts(const RateLimitItem& item) {
    RateLimitTexts texts;
    append_quoted_string(item.name, texts.policy);
    texts.state = texts.policy + ";r=";
    texts.policy += ";q=";
    append_amount(item.quota, item.unit, texts.policy);
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
    std::size_t room = 0;
    for (const RateLimitItem& item : items) room += room_of_state(item);
    TextTail tail(out, room);
    bool first = true;
    for (const RateLimitItem& item : items) {
        if (item.kind == Kind::schedule || !item.is_current) continue;
        if (!first) tail.put(kBetweenItems);
        first = false;
        // Two statements: a conditional expression would copy the text first.
        if (item.texts != nullptr) {
            tail.put(item.texts->state);
        } else {
            tail.put(ratelimit_texts(item).state);
        }
        put_amount(item.remaining, item.unit, tail);
        if (item.kind == Kind::window && item.reset_seconds) {
            tail.put(kReset);
            tail.put_number(std::min(*item.reset_seconds, kStructuredIntegerMax));
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
    append_line("X-RateLimit-Limit", item->quota, item->unit, out);
    append_line("X-RateLimit-Remaining", item->remaining, item->unit, out);
    if (item->reset_seconds) {
        append_line("X-RateLimit-Reset", *item->reset_seconds, Unit::requests, out);
    }
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

void append_openai_fields(std::span<const RateLimitItem> items, std::string& out) {
    append_provider_fields(
        kOpenaiFields, items, [&](std::int64_t seconds) { append_duration(seconds, out); }, out);
}

void append_anthropic_fields(std::span<const RateLimitItem> items,
                             std::chrono::system_clock::time_point now, std::string& out) {
    using std::chrono::seconds;
    constexpr std::int64_t kLongest = std::int64_t{100} * 366 * 86'400;  // within four digits
    // A whole second, and never too early.
    const auto begin = std::chrono::ceil<seconds>(now).time_since_epoch();
    append_provider_fields(
        kAnthropicFields, items,
        [&](std::int64_t wait) {
            out += format_timestamp(begin + seconds(std::min(wait, kLongest)));
        },
        out);
}

void append_duration(std::int64_t seconds, std::string& out) {
    constexpr std::int64_t kMinute = 60;
    constexpr std::int64_t kHour = 3600;
    if (seconds >= kHour) {
        append_number(seconds / kHour, out);
        out += 'h';
    }
    if (seconds >= kMinute) {
        append_number(seconds % kHour / kMinute, out);
        out += 'm';
    }
    append_number(seconds % kMinute, out);
    out += 's';
}

}  // namespace tidegate::http
