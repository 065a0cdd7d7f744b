// Numbers in text, without a locale. Pure.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace tidegate {

// The number that all of `text` writes in decimal; nothing when it is anything else or does not
// fit. Only a signed number may have a `-`. Leading zeros are fine: parse_decimal()
// (base/units.hpp) is stricter.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [stopped, ec] = std::from_chars(text.data(), end, number);
    if (ec != std::errc{} || stopped != end) return std::nullopt;
    return number;
}

template <class Number>
void append_number(Number number, std::string& out) {
    char digits[24];
    const char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    out.append(digits, static_cast<std::size_t>(end - digits));
}

}  // namespace tidegate
