// Letters and digits of ASCII, whatever the locale. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tidegate {

constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

constexpr bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

constexpr bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

constexpr bool is_alphanumeric(char c) {
    return is_digit(c) || is_upper(c) || is_lower(c);
}

constexpr char to_lower(char c) {
    return is_upper(c) ? static_cast<char>(c | 0x20) : c;
}

constexpr char to_upper(char c) {
    return is_lower(c) ? static_cast<char>(c & ~0x20) : c;
}

inline std::string to_lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](char c) { return to_lower(c); });
    return text;
}

inline std::string to_upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](char c) { return to_upper(c); });
    return text;
}

// Without the spaces and tabs at both ends (the OWS of RFC 9110 section 5.6.3).
constexpr std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == text.npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace tidegate
