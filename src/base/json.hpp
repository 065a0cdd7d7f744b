// JSON (RFC 8259), read and written. A text that its readers take means the same to every reader.
// Pure.
//
// A file that uses a JsonValue beyond its name includes <nlohmann/json.hpp>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// A value, with its name if it is a member of an object.
struct JsonNode {
    enum class Kind : std::uint8_t {
        string,
        whole,    // a number without sign, fraction and exponent
        decimal,  // any other number
        object,
        array,
        other,  // null, true, false
    };
    Kind kind = Kind::other;
    std::string_view name{};
    std::string_view text{};   // of a string
    std::uint64_t number = 0;  // of a whole number; of an object or array, where its children begin
    double decimal = 0;        // of a decimal: the number of this type that is nearest
    std::size_t size = 0;      // of an object or array: how many children
};

// Holds the values of a JSON text, for calls that are read often: one array of values instead of a
// map for each object. Valid as long as the text and the tree.
class JsonTree {
  public:
    const JsonNode& root() const { return root_; }
    // The members of an object in the order of their names' bytes, the values of an array in their
    // order; none of another value.
    std::span<const JsonNode> children(const JsonNode& node) const {
        if (node.size == 0) return {};
        return {nodes_.data() + node.number, node.size};
    }
    // The member of an object; null if there is none.
    const JsonNode* member(const JsonNode& object, std::string_view name) const;

  private:
    friend Result<JsonTree, std::string> read_json_tree(std::string_view text);
    class PlainReader;

    // Takes over the values of `json`, which `slow_` holds.
    JsonNode node_of(const nlohmann::json& json);

    JsonNode root_;
    std::vector<JsonNode> nodes_;  // children of one value are next to each other
    // The values of a text that is not plain: what nodes_ has views of.
    std::shared_ptr<const nlohmann::json> slow_;
};

// The object that `text` is. It takes and refuses what parse_json_object() does, with the same
// words. Quick for plain text, which nearly all programs write here: ASCII without escapes, numbers
// that are whole.
Result<JsonTree, std::string> read_json_tree(std::string_view text);

// Text from anywhere as a JSON string, or the inside of one. Small JSON that is written for
// each request (access log, problem details, answers of the check API) is written by hand with
// this, for speed; all other JSON is nlohmann's.

inline constexpr std::size_t kEscapedBytesMax = 6;  // of one byte: `\u0000`

// Writes `text` to `out` and returns where it ended; `out` has room for kEscapedBytesMax times its
// size. Quotes, backslashes and what misleads a display (base/utf8.hpp) are escaped; a byte that
// is no UTF-8 becomes U+FFFD.
char* write_json_escaped(std::string_view text, char* out);

// Likewise, and spaces are escaped, too: for words of a line.
char* write_json_escaped_word(std::string_view text, char* out);

// Writes `text` if it can stand between commas in a JSON string as it is: printable ASCII, but no
// space, comma, quote or backslash. Else returns null, and what it wrote means nothing.
char* write_if_plain_item(std::string_view text, char* out);

// Likewise, if it can stand without quotes as a value of logfmt: printable ASCII, but no space,
// `=`, quote or backslash.
char* write_if_plain_value(std::string_view text, char* out);

// Appends what write_json_escaped() writes.
void append_json_escaped(std::string_view text, std::string& out);

// Likewise, between quotes. Allocates nothing when `out` has room.
void append_json_string(std::string_view text, std::string& out);

struct JsonStyle {
    int indent = -1;     // spaces; negative: all on one line
    bool ascii = false;  // anything else is escaped
    // Throws nlohmann's type_error for what is no UTF-8, which otherwise becomes U+FFFD.
    bool strict = false;
};

// `value` as text. The library's writer is a template that takes the compiler long; this unit alone
// instantiates it.
std::string json_text(const nlohmann::ordered_json& value, JsonStyle style = {});

}  // namespace tidegate
