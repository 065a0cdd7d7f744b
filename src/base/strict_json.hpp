// The one reader of JSON (RFC 8259): a text that it takes means the same to every reader. Pure.
// base/json_tree.hpp reads the same, for calls that come often.
//
// Who uses a JsonValue beyond its name includes <nlohmann/json.hpp>.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.hpp"

namespace tidegate {

using JsonValue = nlohmann::json;

// How deep values may be nested, the object itself included.
inline constexpr std::size_t kJsonDepthMax = 16;

// The object that `text` is. An error says what is wrong, for a fault of grammar also on which
// line, and shows nothing of the text: it may hold secrets. Refused besides what is no JSON:
// another value than an object, a name twice in an object at any depth (however it is escaped),
// anything but white space after the end, a byte order mark, what is not UTF-8, half a surrogate
// pair, and a number that no double holds.
Result<JsonValue, std::string> parse_json_object(std::string_view text);

// The member of an object; null if there is none. Valid as long as the object.
const JsonValue* find_member(const JsonValue& object, std::string_view name);

// The string that the object has by that name; nothing if there is none or it is no string. Valid
// as long as the object.
std::optional<std::string_view> string_member(const JsonValue& object, std::string_view name);

// The text of a string. Requires that it is one.
std::string_view text_of(const JsonValue& string);

}  // namespace tidegate
