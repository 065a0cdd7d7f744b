// JSON (RFC 8259) that strangers wrote, read so that it means the same to every reader. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/result.hpp"

namespace tidegate::identity {

using JsonArray = boost::json::array;
using JsonObject = boost::json::object;
using JsonValue = boost::json::value;

// What may be nested in what, the object itself included; a deeper text is refused.
inline constexpr std::size_t kJsonDepthMax = 16;

// The object that `text` is. An error says what is wrong and on which line, and shows nothing of
// the text: it may hold secrets. Refused besides what is no JSON: another value than an object, a
// name twice in an object at any depth (however it is escaped), anything but white space after the
// end, a byte order mark, what is not UTF-8, half a surrogate pair.
Result<JsonObject, std::string> parse_json_object(std::string_view text);

// The string that the object has by that name; nothing if there is none or it is no string. Valid
// as long as the object.
std::optional<std::string_view> string_member(const JsonObject& object, std::string_view name);

// The text of a string. Requires that it is one.
std::string_view text_of(const JsonValue& string);

}  // namespace tidegate::identity
