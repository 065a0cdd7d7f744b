#include "base/units.hpp"

#include <array>
#include <charconv>
#include <cstdint>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace tidegate {

namespace {

struct Unit {
    std::string_view name;
    std::int64_t factor;
};

// The first name of each length is the one format_duration() writes.
constexpr std::array<Unit, 8> kDurationUnits{{{"day", 86'400'000'000},
                                              {"h", 3'600'000'000},
                                              {"min", 60'000'000},
                                              {"s", 1'000'000},
                                              {"ms", 1'000},
                                              {"us", 1},
                                              {"m", 60'000'000},
                                              {"d", 86'400'000'000}}};
constexpr std::size_t kFormattedUnits = 6;

// What a rate reads beside the units of durations.
constexpr std::array<Unit, 5> kRateUnits{{{"sec", 1'000'000},
                                          {"second", 1'000'000},
                                          {"minute", 60'000'000},
                                          {"hour", 3'600'000'000},
                                          {"week", 604'800'000'000}}};

constexpr std::array<Unit, 10> kSizeUnits{{{"", 1},
                                           {"k", 1LL << 10},
                                           {"K", 1LL << 10},
                                           {"KiB", 1LL << 10},
                                           {"m", 1LL << 20},
                                           {"M", 1LL << 20},
                                           {"MiB", 1LL << 20},
                                           {"g", 1LL << 30},
                                           {"G", 1LL << 30},
                                           {"GiB", 1LL << 30}}};

// `KiB` for `KB` and other ways to write it; empty: `unit` is none of them.
std::string binary_unit(std::string_view unit) {
    for (const std::string letter : {"k", "m", "g"}) {
        const std::string lower = to_lower(std::string(unit));
        if (lower != letter + "b" && lower != letter + "ib" && lower != letter + "i") continue;
        return static_cast<char>(letter.front() & ~0x20) + std::string("iB");
    }
    return {};
}

// Digits of the fraction of a duration; a number with more is refused.
constexpr int kFractionDigits = 9;
constexpr std::int64_t kFractionScale = 1'000'000'000;

__extension__ using Int128 = __int128;

std::size_t number_length(std::string_view text) {
    std::size_t length = 0;
    while (length < text.size() && (is_digit(text[length]) || text[length] == '.')) ++length;
    return length;
}

template <std::size_t N>
const Unit* find_unit(const std::array<Unit, N>& units, std::string_view name) {
    for (const Unit& unit : units) {
        if (unit.name == name) return &unit;
    }
    return nullptr;
}

const Unit* find_rate_unit(std::string_view name) {
    const Unit* const unit = find_unit(kDurationUnits, name);
    return unit != nullptr ? unit : find_unit(kRateUnits, name);
}

// Why a number of units is no time.
enum class TimeFault : std::uint8_t { number, too_long, too_fine };

// The time of so many units, exact to the microsecond. Requires a unit of time.
Result<std::chrono::microseconds, TimeFault> time_of(std::string_view number, const Unit& unit) {
    const std::optional<std::int64_t> billionths = parse_fixed(number, kFractionDigits);
    if (!billionths) return TimeFault::number;
    std::int64_t whole_us = 0;
    const std::int64_t rest = *billionths % kFractionScale;
    if (__builtin_mul_overflow(*billionths / kFractionScale, unit.factor, &whole_us)) {
        return TimeFault::too_long;
    }
    // rest < 10^9 and a week has 6.05 * 10^11 us: their product needs 128 bits.
    const Int128 fraction = static_cast<Int128>(rest) * unit.factor;
    if (fraction % kFractionScale != 0) return TimeFault::too_fine;
    const auto fraction_us = static_cast<std::int64_t>(fraction / kFractionScale);
    if (__builtin_add_overflow(whole_us, fraction_us, &whole_us)) return TimeFault::too_long;
    return std::chrono::microseconds{whole_us};
}

// `1min` for `min` and `minute`; empty for other texts.
std::string duration_of_unit(std::string_view text) {
    const Unit* const unit = find_rate_unit(text);
    return unit != nullptr ? format_duration(std::chrono::microseconds{unit->factor})
                           : std::string();
}

// What to write for `40k/min` and `40,000/min`. Empty for other texts: a comma may be a decimal
// one, too.
std::string rate_of_thousands(std::string_view quota, std::string_view per) {
    std::string digits;
    for (std::size_t i = 0; i < quota.size(); ++i) {
        const std::size_t left = quota.size() - i;
        const bool separates = quota[i] == ',' && i != 0 && left % 4 == 0 && is_digit(quota.back());
        const bool multiplies = left == 1 && (quota[i] == 'k' || quota[i] == 'K');
        if (multiplies) digits += "000";
        if (!separates && !multiplies) digits += quota[i];
    }
    std::string meant = digits + '/' + std::string(per);
    return digits != quota && parse_rate(meant) ? meant : std::string();
}

// What to write for a rate as nginx writes it, `10r/s` or `10r/m`. Empty for other texts.
std::string rate_of_nginx(std::string_view quota, std::string_view per) {
    if (!quota.ends_with('r')) return {};
    quota.remove_suffix(1);
    const bool minutes = per == "m";
    if (!parse_decimal(quota) || find_rate_unit(per) == nullptr) return {};
    return std::string(quota) + '/' + std::string(minutes ? "min" : per);
}

std::string fault_of_rate(std::string_view text) {
    const std::string wrong = quote(text) + " is not a rate";
    const std::size_t slash = text.find('/');
    if (slash != std::string_view::npos) {
        const std::string_view quota = text.substr(0, slash);
        const std::string_view per = text.substr(slash + 1);
        if (const std::string meant = rate_of_nginx(quota, per); !meant.empty()) {
            return wrong + ": write " + quote(meant);
        }
        if (const std::string meant = rate_of_thousands(quota, per); !meant.empty()) {
            return wrong + ": write " + quote(meant);
        }
        if (is_month(per) && parse_decimal(quota)) {
            return wrong + ", as months differ in length: write " +
                   quote("{quota: " + std::string(quota) +
                         ", algorithm: fixed_window, anchor: utc_month}");
        }
    }
    return wrong + " such as `10/s`, `120/min`, `240/h`, `5000/day` or `5/15min`";
}

}  // namespace

bool is_month(std::string_view unit) {
    while (!unit.empty() && is_digit(unit.front())) unit.remove_prefix(1);
    return unit == "month" || unit == "months" || unit == "mo";
}

std::optional<std::int64_t> parse_decimal(std::string_view text) {
    if (text.empty() || !is_digit(text.front())) return std::nullopt;
    if (text.size() > 1 && text.front() == '0') return std::nullopt;
    return parse_number<std::int64_t>(text);
}

std::optional<std::int64_t> parse_fixed(std::string_view text, int scale_digits) {
    const std::size_t dot = text.find('.');
    const std::optional<std::int64_t> whole = parse_decimal(text.substr(0, dot));
    if (!whole) return std::nullopt;
    std::string_view fraction;
    if (dot != std::string_view::npos) {
        fraction = text.substr(dot + 1);
        if (fraction.empty()) return std::nullopt;
    }
    // Zeros at the end add no precision, so any number of them is allowed.
    while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
    if (fraction.size() > static_cast<std::size_t>(scale_digits)) return std::nullopt;

    std::int64_t scaled = *whole;
    for (int digit = 0; digit < scale_digits; ++digit) {
        const auto at = static_cast<std::size_t>(digit);
        const char next = at < fraction.size() ? fraction[at] : '0';
        if (!is_digit(next)) return std::nullopt;
        if (__builtin_mul_overflow(scaled, std::int64_t{10}, &scaled)) return std::nullopt;
        if (__builtin_add_overflow(scaled, std::int64_t{next - '0'}, &scaled)) return std::nullopt;
    }
    return scaled;
}

Result<std::chrono::microseconds, std::string> parse_duration(std::string_view text) {
    const std::size_t length = number_length(text);
    const std::string_view number = text.substr(0, length);
    const std::string_view name = text.substr(length);
    if (name.empty() && !number.empty()) {
        return quote(text) + " has no unit: write " + quote(std::string(number) + "s") + " or " +
               quote(std::string(number) + "ms");
    }
    const Unit* unit = find_unit(kDurationUnits, name);
    if (const std::string meant = duration_of_unit(text); !meant.empty()) {
        return quote(text) + " has no number: write " + quote(meant);
    }
    if (number.empty() || unit == nullptr) {
        return quote(text) + " is not a duration such as `100ms`, `1.5s`, `15min`, `1h` or `1day`";
    }
    const auto duration = time_of(number, *unit);
    if (duration) return *duration;
    switch (duration.error()) {
        case TimeFault::too_long:
            return quote(text) + " is too long a duration";
        case TimeFault::too_fine:
            return quote(text) + " is finer than a microsecond";
        case TimeFault::number:
            break;
    }
    return quote(text) +
           " is not a duration: its number is decimal, without leading zeros or "
           "exponent, and at most 9223372036";
}

Result<std::uint64_t, std::string> parse_size(std::string_view text) {
    if (text == "unlimited") return kUnlimitedBytes;
    const std::size_t length = number_length(text);
    const std::optional<std::int64_t> number = parse_decimal(text.substr(0, length));
    const Unit* unit = find_unit(kSizeUnits, text.substr(length));
    if (number && unit == nullptr && !binary_unit(text.substr(length)).empty()) {
        return quote(text) + " is not a size: write " +
               quote(std::string(text.substr(0, length)) + binary_unit(text.substr(length)));
    }
    if (!number || unit == nullptr) {
        return quote(text) + " is not a size such as `512`, `8k`, `8KiB`, `1MiB` or `unlimited`";
    }
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(*number, unit->factor, &bytes)) {
        return quote(text) + " is too large: write `unlimited` for no bound";
    }
    return static_cast<std::uint64_t>(bytes);
}

Result<Rate, std::string> parse_rate(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return fault_of_rate(text);
    const std::optional<std::int64_t> quota = parse_decimal(text.substr(0, slash));
    if (!quota) return fault_of_rate(text);

    const std::string_view per = text.substr(slash + 1);
    const std::size_t length = number_length(per);
    const Unit* const unit = find_rate_unit(per.substr(length));
    if (unit == nullptr) return fault_of_rate(text);
    if (length == 0) return Rate{*quota, std::chrono::microseconds{unit->factor}};
    const auto time = time_of(per.substr(0, length), *unit);
    if (time && time->count() == 0) {
        return quote(text) + " covers no time: write a duration above 0";
    }
    if (time) return Rate{*quota, *time};
    if (time.error() == TimeFault::too_long) return quote(text) + " covers too long a time";
    if (time.error() == TimeFault::too_fine) {
        return quote(text) + " covers a time that is finer than a microsecond";
    }
    return fault_of_rate(text);
}

std::string format_duration(std::chrono::microseconds duration) {
    const std::int64_t us = duration.count();
    if (us == 0) return "0s";
    for (std::size_t i = 0; i < kFormattedUnits; ++i) {
        const Unit& unit = kDurationUnits[i];
        if (us % unit.factor == 0) {
            return std::to_string(us / unit.factor) + std::string(unit.name);
        }
    }
    return {};  // the last unit divides everything
}

char* write_amount(Amount amount, char* out) {
    constexpr std::int64_t kDollar = 1'000'000;
    char* const end = out + kAmountBytesMax;
    if (!amount.in_money) return std::to_chars(out, end, amount.units).ptr;
    out = std::to_chars(out, end, amount.units / kDollar).ptr;
    // The digit in front keeps the zeros behind the point.
    const std::int64_t decimals = kDollar + amount.units % kDollar;
    char* const behind = std::to_chars(out, end, decimals).ptr;
    *out = '.';
    return behind;
}

std::string shown_amount(Amount amount) {
    std::array<char, kAmountBytesMax> room;
    return {room.data(), write_amount(amount, room.data())};
}

std::string shortest_decimal(std::int64_t millionths) {
    std::string text = shown_amount({millionths, true});
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text;
}

}  // namespace tidegate
