#include "base/json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace tidegate {

namespace {

// Makes a value of the parser's events, and stops at texts that other readers take in another way.
class Builder final : public nlohmann::json_sax<JsonValue> {
  public:
    JsonValue root;
    std::size_t stopped_at = 0;   // of a fault of grammar: how many bytes were read
    std::string_view other = {};  // another fault

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(number_integer_t number) override { return add(number); }
    bool number_unsigned(number_unsigned_t number) override { return add(number); }
    bool number_float(number_float_t number, const string_t&) override { return add(number); }
    bool string(string_t& text) override { return add(std::move(text)); }
    bool binary(binary_t&) override { return false; }  // none in JSON
    bool start_object(std::size_t) override { return open(JsonValue::object()); }
    bool key(string_t& name) override {
        auto& members = open_.back()->get_ref<JsonValue::object_t&>();
        const auto [member, is_new] = members.try_emplace(std::move(name));
        member_ = &member->second;
        if (!is_new) other = "an object has a name twice";
        return is_new;
    }
    bool end_object() override { return close(); }
    bool start_array(std::size_t) override { return open(JsonValue::array()); }
    bool end_array() override { return close(); }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception&) override {
        stopped_at = position;
        return false;
    }

  private:
    // Puts the value where the parser is: into the open array or member, or at the root.
    JsonValue& put(JsonValue&& value) {
        if (open_.empty()) return root = std::move(value);
        if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
        return *member_ = std::move(value);
    }
    bool add(JsonValue&& value) {
        put(std::move(value));
        return true;
    }
    bool open(JsonValue&& empty) {
        if (open_.size() == kJsonDepthMax) {
            other = "nested too deeply";
            return false;
        }
        open_.push_back(&put(std::move(empty)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    // The values around the place of the parser. None of them moves while it is open: an array
    // grows only when the value that it got last is complete.
    std::vector<JsonValue*> open_;
    JsonValue* member_ = nullptr;
};

using Reading = Result<JsonValue, std::string>;

Reading refused(std::string why) {
    return {boost::system::in_place_error, std::move(why)};
}

Reading not_json(std::string_view text, std::size_t read) {
    const std::string_view before = text.substr(0, read - std::min<std::size_t>(read, 1));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    return refused("line " + std::to_string(line) + ": not JSON");
}

constexpr std::array<bool, 256> make_plain_in_json() {
    std::array<bool, 256> plain{};
    for (std::size_t c = ' '; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
    return plain;
}
constexpr std::array<bool, 256> kPlainInJson = make_plain_in_json();

// Numbers with more digits may not fit into 64 bits.
constexpr std::ptrdiff_t kPlainDigitsMax = 18;

// Characters that go as they are: printable ASCII from kLowest on but `"`, `\` and kSeparator.
template <char kLowest, char kSeparator>
constexpr std::array<bool, 256> make_plain() {
    std::array<bool, 256> plain{};
    for (auto c = static_cast<unsigned char>(kLowest); c < 0x7f; ++c) {
        plain[c] = c != '"' && c != '\\';
    }
    plain[static_cast<unsigned char>(kSeparator)] = false;
    return plain;
}

// kSeparator is `"` where there is none.
template <char kLowest, char kSeparator = '"'>
struct PlainText {
    static constexpr std::array<bool, 256> kTable = make_plain<kLowest, kSeparator>();

    // Returns a number other than 0 if any character of `text` is not plain. The high bit of each
    // byte says so: up to the first such character nothing is borrowed or carried from byte to
    // byte, and behind it no matter.
    template <class Word>
    static Word find_special(Word text) {
        constexpr auto kOnes = static_cast<Word>(0x0101010101010101);
        const Word control = text - kOnes * kLowest;  // 0xff, too
        const Word quote = (text ^ (kOnes * '"')) - kOnes;
        const Word backslash = (text ^ (kOnes * '\\')) - kOnes;
        const Word separator = (text ^ (kOnes * kSeparator)) - kOnes;
        const Word del_and_above = text + kOnes;
        return (control | quote | backslash | separator | del_and_above) & (kOnes * 0x80);
    }
};
using InString = PlainText<' '>;
using InWord = PlainText<'!'>;
using InList = PlainText<'!', ','>;
using InLogfmt = PlainText<'!', '='>;

// Copies `text` a word at a time; the last one may overlap the one before. Returns whether all is
// plain. Requires at least a word.
template <class Word, class Plain>
bool copy_plain_words(std::string_view text, char* out) {
    Word special = 0;
    const auto copy_word = [&](std::size_t at) {
        Word word;
        std::memcpy(&word, text.data() + at, sizeof word);
        std::memcpy(out + at, &word, sizeof word);
        special |= Plain::find_special(word);
    };
    const std::size_t last = text.size() - sizeof(Word);
    for (std::size_t at = 0; at < last; at += sizeof(Word)) copy_word(at);
    copy_word(last);
    return special == 0;
}

// The common case. If false, the bytes that were written mean nothing.
template <class Plain>
bool copy_plain(std::string_view text, char* out) {
    if (text.size() >= 8) return copy_plain_words<std::uint64_t, Plain>(text, out);
    if (text.size() >= 4) return copy_plain_words<std::uint32_t, Plain>(text, out);
    for (const char c : text) {
        if (!Plain::kTable[static_cast<unsigned char>(c)]) return false;
        *out++ = c;
    }
    return true;
}

char* copy(std::string_view text, char* out) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
}

// Writes one `\u` escape, or two (a surrogate pair) above U+FFFF.
char* write_code_point(char32_t point, char* out) {
    if (point > 0xffff) {
        out = write_code_point(0xd800 + ((point - 0x10000) >> 10), out);
        return write_code_point(0xdc00 + (point & 0x3ff), out);
    }
    out = copy("\\u", out);
    for (int shift = 12; shift >= 0; shift -= 4) *out++ = kHexDigits[(point >> shift) & 15];
    return out;
}

// Writes one character that is not plain, and removes it from the front of `text`.
char* write_special(std::string_view& text, char* out) {
    const auto c = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    const std::string_view sequence = text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
    if (length == 0) return copy("\\ufffd", out);
    if (length == 1) {
        switch (c) {
            case '"':
                return copy("\\\"", out);
            case '\\':
                return copy("\\\\", out);
            case '\n':
                return copy("\\n", out);
            case '\r':
                return copy("\\r", out);
            case '\t':
                return copy("\\t", out);
            default:
                return write_code_point(c, out);
        }
    }
    if (misleading_bytes(sequence) != 0) return write_code_point(code_point(sequence), out);
    return copy(sequence, out);
}

template <class Plain>
char* write_escaped(std::string_view text, char* out) {
    if (copy_plain<Plain>(text, out)) return out + text.size();
    while (!text.empty()) {
        std::size_t plain = 0;
        while (plain < text.size() && Plain::kTable[static_cast<unsigned char>(text[plain])]) {
            ++plain;
        }
        out = copy(text.substr(0, plain), out);
        text.remove_prefix(plain);
        if (!text.empty()) out = write_special(text, out);
    }
    return out;
}

}  // namespace

Reading parse_json_object(std::string_view text) {
    // The library passes over a byte order mark, and takes a zero byte for the end.
    if (text.starts_with("\xef\xbb\xbf")) return not_json(text, 0);
    if (const auto zero = text.find('\0'); zero != text.npos) return not_json(text, zero + 1);
    Builder builder;
    if (!JsonValue::sax_parse(text, &builder)) {
        return builder.other.empty() ? not_json(text, builder.stopped_at)
                                     : refused(std::string(builder.other));
    }
    if (!builder.root.is_object()) return refused("not an object: `{...}`");
    return {boost::system::in_place_value, std::move(builder.root)};
}

const JsonValue* find_member(const JsonValue& object, std::string_view name) {
    const auto member = object.find(name);
    return member == object.end() ? nullptr : &*member;
}

std::optional<std::string_view> string_member(const JsonValue& object, std::string_view name) {
    const JsonValue* const member = find_member(object, name);
    if (member == nullptr || !member->is_string()) return std::nullopt;
    return text_of(*member);
}

std::string_view text_of(const JsonValue& string) {
    return string.get_ref<const std::string&>();
}

// Reads plain text into a tree. It stops at whatever is not plain, right or wrong, and leaves that
// to parse_json_object(): what this takes is a part of what that takes.
class JsonTree::PlainReader {
  public:
    PlainReader(std::string_view text, JsonTree& tree)
        : at_(text.data()), end_(text.data() + text.size()), tree_(tree) {
        // The usual size of a value with its name.
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
    } else if (json.is_number()) {
        node.kind = JsonNode::Kind::decimal;
        node.decimal = json.get<double>();
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
    if (!parsed) return {boost::system::in_place_error, parsed.error()};
    tree.nodes_.clear();
    tree.slow_ = std::make_shared<const nlohmann::json>(std::move(*parsed));
    tree.root_ = tree.node_of(*tree.slow_);
    return tree;
}

char* write_json_escaped(std::string_view text, char* out) {
    return write_escaped<InString>(text, out);
}

char* write_json_escaped_word(std::string_view text, char* out) {
    return write_escaped<InWord>(text, out);
}

char* write_if_plain_item(std::string_view text, char* out) {
    return !text.empty() && copy_plain<InList>(text, out) ? out + text.size() : nullptr;
}

char* write_if_plain_value(std::string_view text, char* out) {
    return !text.empty() && copy_plain<InLogfmt>(text, out) ? out + text.size() : nullptr;
}

void append_json_escaped(std::string_view text, std::string& out) {
    // Escapes piece by piece, so that a long text does not need six times its size at once.
    static constexpr std::size_t kPiece = 256;
    std::array<char, kPiece * kEscapedBytesMax> buffer;
    while (!text.empty()) {
        const std::string_view piece = utf8_prefix(text, kPiece);
        const char* const end = write_json_escaped(piece, buffer.data());
        out.append(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
        text.remove_prefix(piece.size());
    }
}

void append_json_string(std::string_view text, std::string& out) {
    out += '"';
    append_json_escaped(text, out);
    out += '"';
}

std::string json_text(const nlohmann::ordered_json& value, JsonStyle style) {
    using Handler = nlohmann::ordered_json::error_handler_t;
    return value.dump(style.indent, ' ', style.ascii,
                      style.strict ? Handler::strict : Handler::replace);
}

}  // namespace tidegate
