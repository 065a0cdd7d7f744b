#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"

namespace tidegate::base_json_test {

namespace {

using Kind = JsonNode::Kind;

std::string fault(std::string_view text) {
    const auto object = parse_json_object(text);
    return object ? "" : object.error();
}

std::string nested(int depth, std::string_view open, std::string_view close) {
    std::string text = "{\"a\":";
    for (int i = 1; i < depth; ++i) text += open;
    text += "1";
    for (int i = 1; i < depth; ++i) text += close;
    return text + "}";
}

TEST_CASE("strict JSON: an object and its strings") {
    const auto object = parse_json_object(R"( {"a": "b\u00e9", "c": 1, "https://x/y": ""} )");
    REQUIRE(object);
    CHECK(string_member(*object, "a") == "b\xc3\xa9");
    CHECK(string_member(*object, "https://x/y") == "");
    CHECK(!string_member(*object, "c"));
    CHECK(!string_member(*object, "d"));
}

TEST_CASE("strict JSON: anything but an object is refused") {
    for (const std::string_view text : {"",
                                        " ",
                                        "[]",
                                        "1",
                                        "\"a\"",
                                        "null",
                                        "true",
                                        "{",
                                        "}",
                                        "{]",
                                        "{'a':1}",
                                        "{a:1}",
                                        "{\"a\":1,}",
                                        "{\"a\"}",
                                        "{,}",
                                        "{\"a\":01}",
                                        "{\"a\":+1}",
                                        "{\"a\":.5}",
                                        "{\"a\":NaN}",
                                        "{\"a\":Infinity}",
                                        "{\"a\":0x10}",
                                        "{/**/}",
                                        "{\"a\":tru}",
                                        "{\"a\":\"\n\"}",
                                        "{\"a\":\"\\x41\"}",
                                        "\v{}"}) {
        CAPTURE(text);
        CHECK(!fault(text).empty());
    }
    CHECK(fault("[]") == "not an object: `{...}`");
}

TEST_CASE("strict JSON: a name twice is refused at any depth, in any spelling") {
    CHECK(fault(R"({"a":1,"a":1})") == "an object has a name twice");
    CHECK(!fault(R"({"alg":1,"\u0061lg":2})").empty());
    CHECK(!fault(R"({"b":[{"c":{"a":1,"a":2}}]})").empty());
    CHECK(fault(R"({"a":{"a":[{"a":1},{"a":1}]}})").empty());
    CHECK(fault(R"({"a":1,"A":2})").empty());
}

TEST_CASE("strict JSON: nothing comes before it or follows it but white space") {
    CHECK(fault("\xef\xbb\xbf{}") != "");
    CHECK(fault("{}\r\n\t ") == "");
    CHECK(fault("{}{}") == "line 1: not JSON");
    CHECK(fault("{},") != "");
    CHECK(fault("\xef\xbb\xbf{}") == "line 1: not JSON");
    CHECK(!fault(std::string_view("{}\0", 3)).empty());
    CHECK(!fault(std::string_view("\0{}", 3)).empty());
    CHECK(fault(std::string_view("{\n\"a\":1}\n\0{}", 13)) == "line 3: not JSON");
    CHECK(!fault(std::string_view("{\"a\0\":1}", 9)).empty());
}

TEST_CASE("strict JSON: strings are UTF-8 and hold whole characters") {
    for (const std::string_view text :
         {"{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}",
          "{\"a\":\"\xf4\x90\x80\x80\"}", "{\"\xc3\":1}", "{\"a\":\"\\ud800\"}",
          "{\"a\":\"\\udc00x\"}", "{\"a\":\"\\u12\"}"}) {
        CAPTURE(text);
        CHECK(!fault(text).empty());
    }
    CHECK(fault("{\"a\":\"\\ud83d\\ude00\"}").empty());
}

TEST_CASE("strict JSON: depth has a bound, far beyond it too") {
    CHECK(fault(nested(kJsonDepthMax, "[", "]")).empty());
    CHECK(fault(nested(kJsonDepthMax + 1, "[", "]")) == "nested too deeply");
    CHECK(fault(nested(kJsonDepthMax, "{\"a\":", "}")).empty());
    CHECK(fault(nested(kJsonDepthMax + 1, "{\"a\":", "}")) == "nested too deeply");
    CHECK(!fault(nested(100'000, "[", "]")).empty());
    CHECK(!fault(std::string(100'000, '[')).empty());
}

TEST_CASE("strict JSON: an error shows the line and nothing of the text") {
    const std::string sentence = fault("{\n\"k\": \"a-secret-value\",\n\"d\" \"other\"}");
    CHECK(sentence.starts_with("line 3: "));
    CHECK(sentence.find("secret") == sentence.npos);
    CHECK(sentence.find("other") == sentence.npos);
}

// What the tree has, made into what the strict reader returns. A number that is not whole is a
// double in both.
nlohmann::json json_of(const JsonTree& tree, const JsonNode& node) {
    if (node.kind == Kind::string) return node.text;
    if (node.kind == Kind::whole) return node.number;
    if (node.kind == Kind::decimal) return node.decimal;
    if (node.kind == Kind::other) return nullptr;
    nlohmann::json json =
        node.kind == Kind::object ? nlohmann::json::object() : nlohmann::json::array();
    for (const JsonNode& child : tree.children(node)) {
        if (node.kind == Kind::object) {
            json[std::string(child.name)] = json_of(tree, child);
        } else {
            json.push_back(json_of(tree, child));
        }
    }
    return json;
}

nlohmann::json without_others(const nlohmann::json& json) {
    if (json.is_string() || json.is_number_unsigned()) return json;
    if (json.is_number()) return json.get<double>();
    if (!json.is_structured()) return nullptr;
    nlohmann::json kept = json;
    for (auto& child : kept) child = without_others(child);
    return kept;
}

std::string nested(std::size_t depth) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += R"({"a":)";
    return text + "1" + std::string(depth, '}');
}

TEST_CASE("JSON tree: values and their names") {
    const auto tree = read_json_tree(R"( {"b": ["x", 2], "a" : {"c":0},"d":"" } )");
    REQUIRE(tree.has_value());
    const auto members = tree->children(tree->root());
    REQUIRE(members.size() == 3);
    CHECK(members[0].name == "a");
    CHECK(members[1].name == "b");
    CHECK(members[2].name == "d");
    CHECK(tree->member(members[0], "c")->number == 0);
    CHECK(tree->member(members[0], "x") == nullptr);
    const auto list = tree->children(members[1]);
    REQUIRE(list.size() == 2);
    CHECK(list[0].text == "x");
    CHECK(list[1].kind == Kind::whole);
    CHECK(list[1].number == 2);
    CHECK(members[2].kind == Kind::string);
    CHECK(tree->children(members[2]).empty());
}

TEST_CASE("JSON tree: text that is not plain is read, too") {
    const auto tree = read_json_tree(R"({"\u0062":"\u00e9\n","a":[-1,1.5,true,null,7]})");
    REQUIRE(tree.has_value());
    CHECK(tree->member(tree->root(), "b")->text == "\xc3\xa9\n");
    const auto list = tree->children(*tree->member(tree->root(), "a"));
    REQUIRE(list.size() == 5);
    for (std::size_t i = 0; i < 2; ++i) CHECK(list[i].kind == Kind::decimal);
    CHECK(list[0].decimal == -1);
    CHECK(list[1].decimal == 1.5);
    for (std::size_t i = 2; i < 4; ++i) CHECK(list[i].kind == Kind::other);
    CHECK(list[4].number == 7);
}

TEST_CASE("JSON tree: takes, means and refuses what the strict reader does") {
    std::vector<std::string> texts{
        "",
        " ",
        "{}",
        "\t\r\n{ } ",
        "{}x",
        "{} {}",
        "[]",
        "1",
        "{",
        "}",
        "{]",
        "{,}",
        R"({"a":1,})",
        R"({"a":1 "b":2})",
        R"({"a" 1})",
        R"({"a"})",
        R"({"a":})",
        R"({a:1})",
        R"({"a":[1,2,]})",
        R"({"a":[,]})",
        R"({"a":[1 2]})",
        R"({"a":[]})",
        R"({"a":[{}]})",
        R"({"a":0})",
        R"({"a":00})",
        R"({"a":01})",
        R"({"a":-0})",
        R"({"a":+1})",
        R"({"a":1.0})",
        R"({"a":1e2})",
        R"({"a":1.})",
        R"({"a":1x})",
        R"({"a":999999999999999999})",
        R"({"a":1000000000000000000})",
        R"({"a":18446744073709551615})",
        R"({"a":18446744073709551616})",
        R"({"a":1e999})",
        R"({"a":1,"a":1})",
        R"({"b":1,"a":1,"b":1})",
        R"({"a":1,"\u0061":1})",
        R"({"a":{"c":1,"c":2}})",
        R"([{"a":1,"a":1}])",
        R"({"":""})",
        R"({"a":"\x41"})",
        R"({"a":"\ud800"})",
        R"({"a":"\/"})",
        "{\"a\":\"\x1f\"}",
        "{\"a\":\"\x7f\"}",
        "{\"a\":\"\xc3\xa9\"}",
        "{\"a\":\"\xff\"}",
        "\xef\xbb\xbf{}",
        std::string("{}\0", 3),
        "{\n\"a\":\n1,}",
        nested(kJsonDepthMax),
        nested(kJsonDepthMax + 1),
    };
    // Whatever a text is cut off at.
    const std::string whole = R"({"each":[{"policy":"a b","cost":10,"x":{"y":[]}}]})";
    for (std::size_t size = 0; size <= whole.size(); ++size) texts.push_back(whole.substr(0, size));
    for (const std::string& text : texts) {
        CAPTURE(text);
        const auto strict = parse_json_object(text);
        const auto tree = read_json_tree(text);
        REQUIRE(tree.has_value() == strict.has_value());
        if (strict) {
            CHECK(json_of(*tree, tree->root()) == without_others(*strict));
        } else {
            CHECK(tree.error() == strict.error());
        }
    }
}

std::string escaped(std::string_view text) {
    std::string out = "<";
    append_json_escaped(text, out);
    return out.substr(1);
}

std::string json(std::string_view text) {
    std::string out;
    append_json_string(text, out);
    return out;
}

TEST_CASE("json_escape: plain text and well-formed UTF-8 go as they are") {
    CHECK(escaped("") == "");
    CHECK(escaped(std::string_view()) == "");
    CHECK(escaped("a b~!/'") == "a b~!/'");
    CHECK(escaped("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a \xf4\x8f\xbf\xbf") ==
          "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a \xf4\x8f\xbf\xbf");
}

TEST_CASE("json_escape: bytes with a meaning in JSON or to a terminal are escaped") {
    CHECK(escaped("\"\\\n\r\t") == R"(\"\\\n\r\t)");
    CHECK(escaped(std::string_view("\0\x1f\x7f", 3)) == R"(\u0000\u001f\u007f)");
    CHECK(escaped("\xc2\x9b") == R"(\u009b)");  // C1: begins a terminal's control sequence
    CHECK(escaped("\u200b\u2028\u2029\u202e\u2066\ufeff") ==
          R"(\u200b\u2028\u2029\u202e\u2066\ufeff)");
    CHECK(escaped("\u00ad\U000e0041") == R"(\u00ad\udb40\udc41)");
    CHECK(escaped("\u2027\u202f") == "\u2027\u202f");
    CHECK(escaped("\xc2\xa0") == "\xc2\xa0");
}

TEST_CASE("json_escape: each byte that is no UTF-8 becomes a replacement character") {
    CHECK(escaped("\xff") == R"(\ufffd)");
    CHECK(escaped("a\x80z") == R"(a\ufffdz)");
    CHECK(escaped("\xc3") == R"(\ufffd)");            // ends too early
    CHECK(escaped("\xe2\x82") == R"(\ufffd\ufffd)");  // ends too early
    CHECK(escaped("\xc3(") == R"(\ufffd()");          // not continued
    CHECK(escaped("\xc0\xaf") == R"(\ufffd\ufffd)");  // overlong
    CHECK(escaped("\xe0\x80\xaf") == R"(\ufffd\ufffd\ufffd)");
    CHECK(escaped("\xf0\x80\x80\xaf") == R"(\ufffd\ufffd\ufffd\ufffd)");
    CHECK(escaped("\xed\xa0\x80") == R"(\ufffd\ufffd\ufffd)");            // a surrogate
    CHECK(escaped("\xf4\x90\x80\x80") == R"(\ufffd\ufffd\ufffd\ufffd)");  // beyond U+10FFFF
    CHECK(escaped("\xc3\"") == R"(\ufffd\")");  // a quote is not swallowed
}

TEST_CASE("json_escape: a long text is escaped as its parts are") {
    std::string text;
    std::string expected;
    for (int i = 0; i < 1'000; ++i) {
        text += "x\xe2\x82\xac\n";
        expected += "x\xe2\x82\xac\\n";
    }
    CHECK(escaped(text) == expected);
    CHECK(escaped(std::string(1'000, '\x80')).size() == 6'000);
}

// What becomes of each byte alone.
std::string escaped_one(unsigned char byte) {
    if (byte == '"') return R"(\")";
    if (byte == '\\') return R"(\\)";
    if (byte == '\n') return R"(\n)";
    if (byte == '\r') return R"(\r)";
    if (byte == '\t') return R"(\t)";
    if (byte >= 0x80) return R"(\ufffd)";
    if (byte >= 0x20 && byte != 0x7f) return std::string(1, static_cast<char>(byte));
    static constexpr char kHex[] = "0123456789abcdef";
    return std::string(R"(\u00)") + kHex[byte >> 4] + kHex[byte & 15];
}

TEST_CASE("json_escape: each byte is seen wherever it stands in a text of any length") {
    // Neighbours of special bytes, as whole words are compared at once.
    for (const char neighbour : {' ', '!', '#', '[', ']', '~', 'a'}) {
        for (std::size_t size = 1; size <= 20; ++size) {
            for (std::size_t at = 0; at < size; ++at) {
                for (int byte = 0; byte < 256; ++byte) {
                    std::string text(size, neighbour);
                    text[at] = static_cast<char>(byte);
                    const std::string expected = std::string(at, neighbour) +
                                                 escaped_one(static_cast<unsigned char>(byte)) +
                                                 std::string(size - at - 1, neighbour);
                    if (escaped(text) != expected) FAIL_CHECK(text);
                }
            }
        }
    }
}

TEST_CASE("json_escape: a word has no space, and an item no comma either, wherever it stands") {
    for (std::size_t size = 1; size <= 20; ++size) {
        for (std::size_t at = 0; at < size; ++at) {
            for (int byte = 0; byte < 128; ++byte) {
                const auto c = static_cast<char>(byte);
                std::string text(size, 'a');
                text[at] = c;
                char room[20 * kEscapedBytesMax];
                const std::string word(room, write_json_escaped_word(text, room));
                const std::string expected =
                    std::string(at, 'a') +
                    (c == ' ' ? R"(\u0020)" : escaped_one(static_cast<unsigned char>(byte))) +
                    std::string(size - at - 1, 'a');
                if (word != expected) FAIL_CHECK(text);
                const bool plain = c > ' ' && c <= '~' && c != '"' && c != '\\' && c != ',';
                char* const end = write_if_plain_item(text, room);
                if ((end != nullptr) != plain) FAIL_CHECK(text);
                if (plain && std::string(room, end) != text) FAIL_CHECK(text);
                const bool bare = c > ' ' && c <= '~' && c != '"' && c != '\\' && c != '=';
                char* const value_end = write_if_plain_value(text, room);
                if ((value_end != nullptr) != bare) FAIL_CHECK(text);
                if (bare && std::string(room, value_end) != text) FAIL_CHECK(text);
            }
        }
    }
    char room[1];
    CHECK(write_if_plain_item("", room) == nullptr);
    CHECK(write_if_plain_value("", room) == nullptr);
}

TEST_CASE("json_escape: memory around a text is neither read nor written") {
    for (std::size_t size = 0; size <= 20; ++size) {
        const std::vector<char> text(size, 'x');  // the sanitizer knows where it ends
        std::vector<char> room(size + 1, '.');
        const char* const end = write_json_escaped({text.data(), size}, room.data());
        CHECK(static_cast<std::size_t>(end - room.data()) == size);
        CHECK(std::string_view(room.data(), size) == std::string(size, 'x'));
        CHECK(room[size] == '.');
    }
}

TEST_CASE("json_string: quotes go around the escaped text") {
    CHECK(json("") == R"("")");
    CHECK(json("a/b") == R"("a/b")");
    CHECK(json("\"\\") == R"("\"\\")");
    CHECK(json("\n\r\t\b\x01\x1f\x7f") == R"("\n\r\t\u0008\u0001\u001f\u007f")");
    CHECK(json(std::string_view("a\0b", 3)) == R"("a\u0000b")");
    CHECK(json("</script>") == R"("</script>")");
}

TEST_CASE("json_string: UTF-8 passes, what only looks like it does not") {
    const std::string_view good[] = {"é",           "€", "𐍈", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf",
                                     "\xee\x80\x80"};
    for (const auto text : good) CHECK(json(text) == "\"" + std::string(text) + "\"");

    const std::string r = R"(\ufffd)";
    CHECK(json("\x80") == "\"" + r + "\"");
    CHECK(json("\xff\xfe") == "\"" + r + r + "\"");
    CHECK(json("\xc3") == "\"" + r + "\"");                          // cut off
    CHECK(json("\xe2\x82") == "\"" + r + r + "\"");                  // cut off
    CHECK(json("\xc3\"") == "\"" + r + "\\\"\"");                    // must not eat the quote
    CHECK(json("\xc0\xaf") == "\"" + r + r + "\"");                  // overlong
    CHECK(json("\xe0\x80\xaf") == "\"" + r + r + r + "\"");          // overlong
    CHECK(json("\xf0\x80\x80\xaf") == "\"" + r + r + r + r + "\"");  // overlong
    CHECK(json("\xed\xa0\x80") == "\"" + r + r + r + "\"");          // a surrogate
    CHECK(json("\xf4\x90\x80\x80") == "\"" + r + r + r + r + "\"");  // above U+10FFFF
    CHECK(json("\xf5\x80\x80\x80") == "\"" + r + r + r + r + "\"");
}

}  // namespace

}  // namespace tidegate::base_json_test
