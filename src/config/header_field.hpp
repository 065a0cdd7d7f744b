// Header fields and methods in a configuration.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "config/section.hpp"

namespace tidegate::config {

// The longest name of a field that the configuration takes.
inline constexpr std::size_t kFieldNameBytesMax = 128;

// A token of RFC 9110 section 5.6.2.
bool is_token(std::string_view text);

// What may stand in a field value (RFC 9110 section 5.5): no controls, no white space around it.
bool is_field_value(std::string_view text);

// A field name, in lower case.
std::optional<std::string> read_field_name(const Value& value);

}  // namespace tidegate::config
