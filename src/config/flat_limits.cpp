// A list of numbers where a list of limits must be.
#include <optional>
#include <string>
#include <utility>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kNumbersMin = 2;  // seconds and quota
constexpr std::size_t kNumbersMax = 3;  // and a precision

// `7/min` for a quota of 7 every 60 seconds.
std::string rate_text(std::int64_t quota, std::int64_t seconds) {
    constexpr std::pair<std::int64_t, std::string_view> kUnits[] = {
        {1, "s"}, {60, "min"}, {3'600, "h"}, {86'400, "day"}};
    for (const auto& [unit_seconds, unit] : kUnits) {
        if (seconds == unit_seconds) return std::to_string(quota) + "/" + std::string(unit);
    }
    return std::to_string(quota) + "/" + std::to_string(seconds) + "s";
}

}  // namespace

bool report_flat_limits(const Value& value) {
    if (!value.is_sequence()) return false;
    const auto items = value.items({});
    if (items.size() < kNumbersMin || items.size() > kNumbersMax) return false;
    std::vector<std::int64_t> numbers;
    std::string written;
    for (const Value& item : items) {
        const std::optional<std::int64_t> number = item.whole_number();
        if (!number) return false;
        written += (written.empty() ? "" : ", ") + std::to_string(*number);
        numbers.push_back(*number);
    }
    const std::string as_rate =
        numbers.size() == kNumbersMin ? ", or " + quote(rate_text(numbers[1], numbers[0])) : "";
    value.fault("found a list of numbers; did you mean " + quote("[[" + written + "]]") + as_rate +
                "?");
    return true;
}

}  // namespace tidegate::config
