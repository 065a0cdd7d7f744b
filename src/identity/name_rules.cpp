#include "identity/name_rules.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace tidegate::identity {
namespace {

bool is_tier_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

bool is_visible_ascii(char c) {
    return c > ' ' && c <= '~';
}

}  // namespace

bool is_plain_name(std::string_view text) {
    // Nearly all names are, and need no decoding.
    if (std::all_of(text.begin(), text.end(), is_visible_ascii)) return !text.empty();
    bool may_be_blank = false;  // neither the first nor the last
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        const char32_t character = code_point(text.substr(0, length));
        text.remove_prefix(length);
        if (is_hidden(character)) return false;
        if (is_blank(character) && (!may_be_blank || text.empty())) return false;
        may_be_blank = true;
    }
    return may_be_blank;
}

bool is_safe_user(std::string_view text) {
    return text.size() <= kUserBytesMax && is_plain_name(text);
}

bool is_tier_name(std::string_view text) {
    return !text.empty() && text.size() <= kTierBytesMax &&
           std::all_of(text.begin(), text.end(), is_tier_character);
}

}  // namespace tidegate::identity
