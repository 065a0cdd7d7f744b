#include "config/header_field.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace tidegate::config {

namespace {

bool is_token_character(char c) {
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    return is_alphanumeric(c) || kMarks.find(c) != std::string_view::npos;
}

}  // namespace

bool is_token(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

bool is_field_value(std::string_view text) {
    constexpr std::string_view kSpace = " \t";
    if (text.empty()) return true;
    if (kSpace.find(text.front()) != std::string_view::npos) return false;
    if (kSpace.find(text.back()) != std::string_view::npos) return false;
    return std::none_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte == 0x7F || (byte < 0x20 && c != '\t');
    });
}

std::optional<std::string> read_field_name(const Value& value) {
    std::optional<std::string> name = value.text("the name of a header field");
    if (!name) return std::nullopt;
    if (!is_token(*name) || name->size() > kFieldNameBytesMax) {
        value.fault(quote(*name) + " is not the name of a header field such as `x-user-id`");
        return std::nullopt;
    }
    return to_lower(std::move(*name));
}

}  // namespace tidegate::config
