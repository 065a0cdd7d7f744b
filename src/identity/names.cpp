#include "identity/names.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace tidegate::identity {
namespace {

// `character`: one of UTF-8.
bool is_control(std::string_view character) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
    if (character.size() == 1) return byte(0) < ' ' || byte(0) == 0x7f;
    return character.size() == 2 && byte(0) == 0xc2 && byte(1) < 0xa0;
}

bool is_tier_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

}  // namespace

bool is_safe_user(std::string_view text) {
    if (text.empty() || text.size() > kUserBytesMax) return false;
    if (text.front() == ' ' || text.back() == ' ') return false;
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0 || is_control(text.substr(0, length))) return false;
        text.remove_prefix(length);
    }
    return true;
}

bool is_tier_name(std::string_view text) {
    return !text.empty() && text.size() <= kTierBytesMax &&
           std::all_of(text.begin(), text.end(), is_tier_character);
}

}  // namespace tidegate::identity
