// JSON for calls that are read often: one array of values instead of a map for each object. It
// takes and refuses what parse_json_object() does, with the same words, and means the same. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.hpp"

namespace tidegate {

// A value, with its name if it is a member of an object.
struct JsonNode {
    enum class Kind : std::uint8_t {
        string,
        whole,  // a number without sign, fraction and exponent
        object,
        array,
        other,  // null, true, false, any other number
    };
    Kind kind = Kind::other;
    std::string_view name{};
    std::string_view text{};   // of a string
    std::uint64_t number = 0;  // of a whole number; of an object or array, where its children begin
    std::size_t size = 0;      // of an object or array: how many children
};

// What a text says. Valid as long as the text and the tree.
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

// The object that `text` is; see parse_json_object() for what is refused. Quick for plain text,
// which nearly all programs write here: ASCII without escapes, numbers that are whole.
Result<JsonTree, std::string> read_json_tree(std::string_view text);

}  // namespace tidegate
