// A quick reader of JSON beside the strict one: both must accept the same texts and find the same
// values.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/json_tree.hpp"
#include "base/strict_json.hpp"

namespace tidegate::base_json_tree_test {
namespace {

using Kind = JsonNode::Kind;

// What the tree has, made into what the strict reader returns. A number that is not whole is null
// in both.
nlohmann::json json_of(const JsonTree& tree, const JsonNode& node) {
    if (node.kind == Kind::string) return node.text;
    if (node.kind == Kind::whole) return node.number;
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

}  // namespace

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
    for (std::size_t i = 0; i < 4; ++i) CHECK(list[i].kind == Kind::other);
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

}  // namespace tidegate::base_json_tree_test
