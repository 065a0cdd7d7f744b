// Structured fields: whatever the names and numbers, what is written is exactly the List that RFC
// 9651 section 4.1 would serialise, and says what went in. The reader here is its own.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
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
using Unit = RateLimitItem::Unit;

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

// A List of Strings with Integers, Decimals and Strings as parameters, in the one form a serialiser
// may give it. Any other byte ends the program. Numbers are read in thousandths: a Decimal has no
// more places.
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

    // The whole of the input as one number.
    std::int64_t only_number() {
        const std::int64_t read = number();
        FUZZ_CHECK(rest_.empty());
        return read;
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
            Value value = rest_.starts_with('"') ? Value(string()) : Value(number());
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

    // Section 4.1.4: one to fifteen digits, no zero in front. Section 4.1.5: then a point and one
    // to three digits, the last of them no zero; and no more than twelve before the point.
    std::int64_t number() {
        const std::string whole = digits();
        FUZZ_CHECK(!whole.empty() && whole.size() <= 15);
        FUZZ_CHECK(whole == "0" || whole.front() != '0');
        const std::int64_t thousandths = std::stoll(whole) * 1000;
        if (!rest_.starts_with('.')) return thousandths;
        expect(".");
        std::string places = digits();
        FUZZ_CHECK(whole.size() <= 12 && !places.empty() && places.size() <= 3);
        FUZZ_CHECK(places.back() != '0');
        places.resize(3, '0');
        return thousandths + std::stoll(places);
    }

    std::string digits() {
        std::string text;
        while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') text += next();
        return text;
    }

    std::string_view rest_;
};

std::string printable(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c < 0x20 || c > 0x7e) c = '?';
    return result;
}

// What is shown of so many requests or seconds, in thousandths.
std::int64_t shown(std::int64_t number) {
    return std::min<std::int64_t>(number, 999'999'999'999'999) * 1000;
}

// What is shown of a quota or a rest. Of money: dollars, with the places that fit.
std::int64_t shown(std::int64_t amount, Unit unit) {
    if (unit != Unit::microdollars) return shown(amount);
    return std::min<std::int64_t>(amount / 1000, 999'999'999'999'999);
}

void check_item(const Item& item, std::string_view name, const std::vector<Parameter>& expected) {
    FUZZ_CHECK(item.text == printable(name));
    FUZZ_CHECK(item.parameters == expected);
}

void check_policy(const Item& read, const RateLimitItem& item) {
    std::vector<Parameter> expected{{"q", shown(item.quota, item.unit)}};
    if (item.kind == Kind::in_flight) expected.push_back({"qu", "concurrent-requests"});
    if (item.window_seconds > 0) expected.push_back({"w", shown(item.window_seconds)});
    check_item(read, item.name, expected);
}

bool is_told(const RateLimitItem& item) {
    return item.kind != Kind::schedule && item.is_current;
}

void check_state(const Item& read, const RateLimitItem& item) {
    std::vector<Parameter> expected{{"r", shown(item.remaining, item.unit)}};
    if (item.kind == Kind::window && item.reset_seconds) {
        expected.push_back({"t", shown(*item.reset_seconds)});
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
    const auto quota = StrictReader(line_value(lines, "X-RateLimit-Limit: ")).only_number();
    const auto left = StrictReader(line_value(lines, "X-RateLimit-Remaining: ")).only_number();
    std::optional<std::int64_t> reset;
    if (!lines.empty()) {
        reset = StrictReader(line_value(lines, "X-RateLimit-Reset: ")).only_number();
    }
    FUZZ_CHECK(lines.empty());
    bool found = false;
    for (const RateLimitItem& item : items) {
        if (!is_told(item) || reset.has_value() != item.reset_seconds.has_value()) continue;
        found = found || (quota == shown(item.quota, item.unit) &&
                          left == shown(item.remaining, item.unit) &&
                          (!reset || *reset == shown(*item.reset_seconds)));
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
        const auto number = [&provider] {
            return provider.ConsumeIntegralInRange<std::int64_t>(
                0, std::numeric_limits<std::int64_t>::max());
        };
        items.push_back(
            {.name = name,
             .quota = number(),
             .window_seconds = number(),
             .remaining = number(),
             .reset_seconds = number(),
             .kind = provider.PickValueInArray({Kind::window, Kind::in_flight, Kind::schedule}),
             .is_current = provider.ConsumeBool(),
             .unit =
                 provider.PickValueInArray({Unit::requests, Unit::tokens, Unit::microdollars})});
        if (provider.ConsumeBool()) items.back().reset_seconds.reset();
    }
    check_fields(items);
    check_old_fields(items);
    return 0;
}
