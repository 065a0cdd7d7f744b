// Structured fields: whatever the names and numbers, what is written is exactly the List that RFC
// 9651 section 4.1 would serialise, and says what went in. The reader here is its own.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz_check.hpp"
#include "http/field.hpp"
#include "http/ratelimit_fields.hpp"

namespace {

using tidegate::http::RateLimitItem;
using Kind = RateLimitItem::Kind;

using Value = std::variant<std::int64_t, std::string>;

struct Parameter {
    std::string key;
    Value value;

    bool operator==(const Parameter&) const = default;
};

struct Item {
    std::string text;
    std::vector<Parameter> parameters;
};

// A List of Strings with Integers and Strings as parameters, in the one form a serialiser may give
// it. Any other byte ends the program.
class StrictReader {
  public:
    explicit StrictReader(std::string_view rest) : rest_(rest) {}

    std::vector<Item> list() {
        std::vector<Item> items;
        while (!rest_.empty()) {
            if (!items.empty()) expect(", ");
            items.push_back(item());
        }
        return items;
    }

    // The whole of the input as one Integer.
    std::int64_t only_integer() {
        const std::int64_t number = integer();
        FUZZ_CHECK(rest_.empty());
        return number;
    }

  private:
    char next() {
        FUZZ_CHECK(!rest_.empty());
        const char c = rest_.front();
        rest_.remove_prefix(1);
        return c;
    }

    void expect(std::string_view text) {
        FUZZ_CHECK(rest_.starts_with(text));
        rest_.remove_prefix(text.size());
    }

    Item item() {
        Item result{string(), {}};
        while (rest_.starts_with(';')) {
            expect(";");
            std::string name = key();
            expect("=");
            Value value = rest_.starts_with('"') ? Value(string()) : Value(integer());
            result.parameters.push_back({std::move(name), std::move(value)});
        }
        return result;
    }

    // Section 4.2.5: VCHAR and SP, of which only `"` and `\` may be, and must be, escaped.
    std::string string() {
        std::string text;
        expect("\"");
        for (char c = next(); c != '"'; c = next()) {
            if (c == '\\') {
                c = next();
                FUZZ_CHECK(c == '"' || c == '\\');
            }
            FUZZ_CHECK(c >= 0x20 && c <= 0x7e);
            text += c;
        }
        return text;
    }

    // Section 4.2.3.3: `lcalpha` or `*`, then also digits, `_`, `-` and `.`.
    std::string key() {
        constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyz*";
        constexpr std::string_view kOthers = "0123456789_-.";
        std::string text;
        while (!rest_.empty() && rest_.front() != '=') {
            const char c = next();
            const bool first = kFirst.find(c) != kFirst.npos;
            FUZZ_CHECK(first || (!text.empty() && kOthers.find(c) != kOthers.npos));
            text += c;
        }
        FUZZ_CHECK(!text.empty());
        return text;
    }

    // Section 4.1.4: a minus if need be, one to fifteen digits, no zero in front.
    std::int64_t integer() {
        const bool negative = rest_.starts_with('-');
        if (negative) expect("-");
        std::string digits;
        while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') digits += next();
        FUZZ_CHECK(!digits.empty() && digits.size() <= 15);
        FUZZ_CHECK(digits == "0" || digits.front() != '0');
        FUZZ_CHECK(!negative || digits != "0");
        const std::int64_t number = std::stoll(digits);
        return negative ? -number : number;
    }

    std::string_view rest_;
};

std::string printable(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c < 0x20 || c > 0x7e) c = '?';
    return result;
}

std::int64_t fitting(std::int64_t number) {
    constexpr std::int64_t kMax = 999'999'999'999'999;
    if (number > kMax) return kMax;
    return number < -kMax ? -kMax : number;
}

void check_item(const Item& item, std::string_view name, const std::vector<Parameter>& expected) {
    FUZZ_CHECK(item.text == printable(name));
    FUZZ_CHECK(item.parameters == expected);
}

void check_policy(const Item& read, const RateLimitItem& item) {
    std::vector<Parameter> expected{{"q", fitting(item.quota)}};
    if (item.kind == Kind::in_flight) expected.push_back({"qu", "concurrent-requests"});
    if (item.window_seconds > 0) expected.push_back({"w", fitting(item.window_seconds)});
    check_item(read, item.name, expected);
}

bool is_told(const RateLimitItem& item) {
    return item.kind != Kind::schedule && item.is_current;
}

void check_state(const Item& read, const RateLimitItem& item) {
    std::vector<Parameter> expected{{"r", fitting(item.remaining)}};
    if (item.kind == Kind::window && item.reset_seconds) {
        expected.push_back({"t", fitting(*item.reset_seconds)});
    }
    check_item(read, item.name, expected);
}

void check_fields(const std::vector<RateLimitItem>& items) {
    std::string policy;
    append_ratelimit_policy(items, policy);
    std::string state;
    append_ratelimit(items, state);
    const auto policies = StrictReader(policy).list();
    const auto states = StrictReader(state).list();
    FUZZ_CHECK(policies.size() == items.size());
    std::size_t told = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
        check_policy(policies[i], items[i]);
        if (!is_told(items[i])) continue;
        FUZZ_CHECK(told < states.size());
        check_state(states[told++], items[i]);
    }
    FUZZ_CHECK(told == states.size());
}

std::string_view line_value(std::string_view& lines, std::string_view name) {
    FUZZ_CHECK(lines.starts_with(name));
    lines.remove_prefix(name.size());
    const std::size_t end = lines.find("\r\n");
    FUZZ_CHECK(end != lines.npos);
    const std::string_view value = lines.substr(0, end);
    lines.remove_prefix(end + 2);
    return value;
}

// Three whole lines, or two without a time, of one and the same of the items.
void check_old_fields(const std::vector<RateLimitItem>& items) {
    std::string out;
    append_x_ratelimit_fields(items, out);
    const bool told = std::any_of(items.begin(), items.end(), is_told);
    FUZZ_CHECK(out.empty() != told);
    if (!told) return;
    std::string_view lines = out;
    const auto quota = StrictReader(line_value(lines, "X-RateLimit-Limit: ")).only_integer();
    const auto left = StrictReader(line_value(lines, "X-RateLimit-Remaining: ")).only_integer();
    std::optional<std::int64_t> reset;
    if (!lines.empty()) {
        reset = StrictReader(line_value(lines, "X-RateLimit-Reset: ")).only_integer();
    }
    FUZZ_CHECK(lines.empty());
    bool found = false;
    for (const RateLimitItem& item : items) {
        if (!is_told(item) || reset.has_value() != item.reset_seconds.has_value()) continue;
        found = found || (quota == fitting(item.quota) && left == fitting(item.remaining) &&
                          (!reset || *reset == fitting(*item.reset_seconds)));
    }
    FUZZ_CHECK(found);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedDataProvider provider(data, size);
    std::vector<std::string> names;
    std::vector<RateLimitItem> items;
    names.resize(provider.ConsumeIntegralInRange<std::size_t>(0, 12));
    for (std::string& name : names) {
        name = provider.ConsumeRandomLengthString(200);
        items.push_back(
            {.name = name,
             .quota = provider.ConsumeIntegral<std::int64_t>(),
             .window_seconds = provider.ConsumeIntegral<std::int64_t>(),
             .remaining = provider.ConsumeIntegral<std::int64_t>(),
             .reset_seconds = provider.ConsumeIntegral<std::int64_t>(),
             .kind = provider.PickValueInArray({Kind::window, Kind::in_flight, Kind::schedule}),
             .is_current = provider.ConsumeBool()});
        if (provider.ConsumeBool()) items.back().reset_seconds.reset();
    }
    check_fields(items);
    check_old_fields(items);
    return 0;
}
