#include "base/json_tree.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/strict_json.hpp"

namespace tidegate {

namespace {

constexpr std::array<bool, 256> make_plain_in_json() {
    std::array<bool, 256> plain{};
    for (std::size_t c = ' '; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
    return plain;
}
constexpr std::array<bool, 256> kPlainInJson = make_plain_in_json();

// More digits may be more than 64 bits hold.
constexpr std::ptrdiff_t kPlainDigitsMax = 18;

}  // namespace

// Reads plain text into a tree. It stops at whatever is not plain, right or wrong, and leaves that
// to parse_json_object(): what this takes is a part of what that takes.
class JsonTree::PlainReader {
  public:
    PlainReader(std::string_view text, JsonTree& tree)
        : at_(text.data()), end_(text.data() + text.size()), tree_(tree) {
        // Of a value with its name, about.
        constexpr std::size_t kBytesOfNode = 12;
        tree_.nodes_.reserve(text.size() / kBytesOfNode + 1);
    }

    bool read() {
        skip_space();
        if (at_ == end_ || *at_ != '{' || !read_value(tree_.root_, 1)) return false;
        skip_space();
        return at_ == end_;
    }

  private:
    void skip_space() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    }

    bool take(char wanted) {
        skip_space();
        if (at_ == end_ || *at_ != wanted) return false;
        ++at_;
        return true;
    }

    bool read_value(JsonNode& node, std::size_t depth) {
        skip_space();
        if (at_ == end_) return false;
        switch (*at_) {
            case '"':
                node.kind = JsonNode::Kind::string;
                return read_string(node.text);
            case '{':
                node.kind = JsonNode::Kind::object;
                return depth <= kJsonDepthMax && read_children(node, '}', depth);
            case '[':
                node.kind = JsonNode::Kind::array;
                return depth <= kJsonDepthMax && read_children(node, ']', depth);
            default:
                node.kind = JsonNode::Kind::whole;
                return read_whole(node.number);
        }
    }

    bool read_string(std::string_view& text) {
        const char* const begin = ++at_;
        while (at_ != end_ && kPlainInJson[static_cast<unsigned char>(*at_)]) ++at_;
        if (at_ == end_ || *at_ != '"') return false;
        text = {begin, static_cast<std::size_t>(at_ - begin)};
        ++at_;
        return true;
    }

    bool read_whole(std::uint64_t& number) {
        const auto [stopped, ec] = std::from_chars(at_, end_, number);
        if (ec != std::errc{} || stopped - at_ > kPlainDigitsMax) return false;
        if (*at_ == '0' && stopped - at_ > 1) return false;
        at_ = stopped;  // a fraction or an exponent is not what follows a value
        return true;
    }

    bool read_children(JsonNode& node, char last, std::size_t depth) {
        const std::size_t first = open_.size();
        ++at_;
        if (!take(last)) {
            do {
                JsonNode child;
                if (last == '}' && !read_name(child.name)) return false;
                if (!read_value(child, depth + 1)) return false;
                open_.push_back(child);
            } while (take(','));
            if (!take(last)) return false;
        }
        return close(node, first);
    }

    bool read_name(std::string_view& name) {
        skip_space();
        return at_ != end_ && *at_ == '"' && read_string(name) && take(':');
    }

    // Moves the values that were read since `first` into the tree.
    bool close(JsonNode& node, std::size_t first) {
        const auto begin = open_.begin() + static_cast<std::ptrdiff_t>(first);
        if (node.kind == JsonNode::Kind::object) {
            const auto by_name = [](const JsonNode& a, const JsonNode& b) {
                return a.name < b.name;
            };
            if (!std::is_sorted(begin, open_.end(), by_name)) {
                std::sort(begin, open_.end(), by_name);
            }
            const auto same = std::adjacent_find(
                begin, open_.end(),
                [](const JsonNode& a, const JsonNode& b) { return a.name == b.name; });
            if (same != open_.end()) return false;
        }
        node.number = tree_.nodes_.size();
        node.size = open_.size() - first;
        tree_.nodes_.insert(tree_.nodes_.end(), begin, open_.end());
        open_.erase(begin, open_.end());
        return true;
    }

    const char* at_;
    const char* end_;
    JsonTree& tree_;
    std::vector<JsonNode> open_;  // the children so far of the values around the place
};

const JsonNode* JsonTree::member(const JsonNode& object, std::string_view name) const {
    for (const JsonNode& one : children(object)) {
        if (one.name == name) return &one;
    }
    return nullptr;
}

JsonNode JsonTree::node_of(const nlohmann::json& json) {
    JsonNode node;
    if (json.is_string()) {
        node.kind = JsonNode::Kind::string;
        node.text = text_of(json);
    } else if (json.is_number_unsigned()) {
        node.kind = JsonNode::Kind::whole;
        node.number = json.get<std::uint64_t>();
    } else if (json.is_structured()) {
        node.kind = json.is_object() ? JsonNode::Kind::object : JsonNode::Kind::array;
        std::vector<JsonNode> values;
        values.reserve(json.size());
        for (auto one = json.begin(); one != json.end(); ++one) {
            values.push_back(node_of(*one));
            if (json.is_object()) values.back().name = one.key();
        }
        node.number = nodes_.size();
        node.size = values.size();
        nodes_.insert(nodes_.end(), values.begin(), values.end());
    }
    return node;
}

Result<JsonTree, std::string> read_json_tree(std::string_view text) {
    JsonTree tree;
    if (JsonTree::PlainReader(text, tree).read()) return tree;
    auto parsed = parse_json_object(text);
    if (!parsed) return {boost::system::in_place_error, std::move(parsed.error())};
    tree.nodes_.clear();
    tree.slow_ = std::make_shared<const nlohmann::json>(std::move(*parsed));
    tree.root_ = tree.node_of(*tree.slow_);
    return tree;
}

}  // namespace tidegate
