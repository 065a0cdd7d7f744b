#include <string>

#include <doctest/doctest.h>

#include "base/utf8.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config::yaml_test {

using tidegate::utf8_length;

namespace {

struct Parsed {
    std::vector<ConfigFault> faults;
    TreeNode root;

    explicit Parsed(std::string_view text, const DocumentSettings& settings = {})
        : root(parse_document(text, faults, settings)) {}

    std::string first_fault() const {
        if (faults.empty()) return {};
        return std::to_string(faults[0].place.line) + ":" + std::to_string(faults[0].place.column) +
               ": " + faults[0].message;
    }
};

// Of a document whose anchors are read.
struct Anchored : Parsed {
    explicit Anchored(std::string_view text) : Parsed(text, {.anchors = Anchors::read}) {}
};

std::string nested(std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("document: a tree keeps order, text and places") {
    const Parsed parsed("b: 017\na:\n  - on\n  - \"x\"\n");
    REQUIRE(parsed.faults.empty());
    REQUIRE(parsed.root.entries.size() == 2);
    CHECK(parsed.root.entries[0].key == "b");
    CHECK(parsed.root.entries[0].value.text == "017");
    CHECK(parsed.root.entries[0].value.place.column == 4);
    const TreeNode& list = parsed.root.entries[1].value;
    REQUIRE(list.items.size() == 2);
    CHECK(list.items[1].place.line == 4);
}

TEST_CASE("document: nothing at all is a null node") {
    for (const char* text : {"", "\n", "# only a comment\n", "---\n", "~"}) {
        CAPTURE(text);
        const Parsed parsed(text);
        CHECK(parsed.faults.empty());
        CHECK(parsed.root.kind == TreeNode::Kind::null);
    }
}

TEST_CASE("document: the tricks of YAML are refused where they stand") {
    struct {
        const char* text;
        const char* fault;
    } const cases[] = {
        {"a: 1\nb: 2\na: 3\n", "3:1: duplicate key `a`: it is already on line 1"},
        {"a: {x: 1, x: 2}\n", "1:11: duplicate key `x`"},
        {"a: 1\n\"a\": 2\n", "2:1: duplicate key `a`"},
        {"a: &x 1\n", "1:4: anchors (`&name`)"},
        {"a: *x\n", "1:4: this is not YAML"},
        {"<<: {a: 1}\n", "1:1: merge keys"},
        {"? [a]\n: 1\n", "1:3: a key must be plain text"},
        {"~: 1\n", "1:1: a key is missing"},
        {"a: !!int 1\n", "1:4: tags"},
        {"a: !x {b: 1}\n", "1:4: tags"},
        {"a: 1\n---\nb: 2\n", "2:1: found a second document"},
        {"a: 1\n---\n", "2:1: found a second document"},
        {"a: [1, 2\n", "1:4: this is not YAML"},
        {"a:\n\tb: 1\n", "2:3: this is not YAML: a tab indents this line"},
        {"a: b: c\n", "1:5: this is not YAML"},
    };
    for (const auto& expected : cases) {
        CAPTURE(expected.text);
        const std::string fault = Parsed(expected.text).first_fault();
        CHECK_MESSAGE(fault.starts_with(expected.fault), fault);
    }
}

TEST_CASE("document: a refused key takes its value with it and the rest is still read") {
    const Parsed parsed("a: 1\na: {b: [1, 2]}\n? {x: y}\n: [z]\nc: 3\n");
    CHECK(parsed.faults.size() == 2);
    REQUIRE(parsed.root.entries.size() == 2);
    CHECK(parsed.root.entries[0].value.text == "1");
    CHECK(parsed.root.entries[1].key == "c");
}

TEST_CASE("document: an alias breaks only its own value") {
    const Parsed parsed("a: &x 1\nb: *x\nc: 3\n");
    CHECK(parsed.faults.size() == 2);
    REQUIRE(parsed.root.entries.size() == 3);
    CHECK(parsed.root.entries[1].value.kind == TreeNode::Kind::broken);
    CHECK(parsed.root.entries[2].value.text == "3");
}

TEST_CASE("document: where anchors are read, aliases repeat values and merge keys add entries") {
    const Anchored parsed(
        "a: &x {k: 1, l: [2]}\n"
        "b: *x\n"
        "c: {<<: *x, k: 3}\n"
        "&name d: 4\n"
        "e: {<<: [{k: 5}, *x], *name : 6}\n"
        "f: &x 7\n"
        "g: *x\n"
        "h: &none\n"
        "i: *none\n");
    REQUIRE_MESSAGE(parsed.faults.empty(), parsed.first_fault());
    const auto& entries = parsed.root.entries;
    REQUIRE(entries.size() == 9);
    CHECK(entries[1].value.entries[1].value.items[0].text == "2");
    CHECK(entries[1].value.place.line == 1);
    REQUIRE(entries[2].value.entries.size() == 2);
    CHECK(entries[2].value.entries[0].value.text == "3");
    CHECK(entries[2].value.entries[1].key == "l");
    REQUIRE(entries[4].value.entries.size() == 3);
    CHECK(entries[4].value.entries[0].key == "d");
    CHECK(entries[4].value.entries[0].value.text == "6");
    CHECK(entries[4].value.entries[1].value.text == "5");
    CHECK(entries[6].value.text == "7");
    CHECK(entries[8].value.kind == TreeNode::Kind::null);
}

TEST_CASE("document: what anchors cannot mean is a fault at its place") {
    struct {
        const char* text;
        const char* fault;
    } const cases[] = {
        {"a: &x [*x]\n", "1:8: an alias cannot stand inside the value that it repeats"},
        {"a: *x\n", "1:4: this is not YAML"},
        {"a: {<<: 1}\n", "1:9: a merge key (`<<`) takes a map or a list of maps"},
        {"a: {<<: [{b: 1}, 2]}\n", "1:9: a merge key (`<<`)"},
        {"a: {<<: {b: 1}, <<: {c: 2}}\n", "1:17: duplicate key `<<`"},
        {"a: &x [1]\nb: {*x : 2}\n", "2:5: a key must be plain text"},
        {"a: &x {b: 1, b: 2}\nc: *x\n", "1:14: duplicate key `b`"},
    };
    for (const auto& expected : cases) {
        CAPTURE(expected.text);
        const std::string fault = Anchored(expected.text).first_fault();
        CHECK_MESSAGE(fault.starts_with(expected.fault), fault);
    }
}

TEST_CASE("document: what aliases repeat is bounded, in number and in depth") {
    // Each list has ten times the one before.
    std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 20; ++i) {
        const std::string before = "*a" + std::to_string(i - 1);
        bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
        for (int k = 1; k < 10; ++k) bomb += ", " + before;
        bomb += "]\n";
    }
    const Anchored exploding(bomb);
    REQUIRE(exploding.faults.size() == 1);
    CHECK(exploding.faults[0].message == "anchors and aliases repeat more than 200000 values");
    CHECK(exploding.root.kind == TreeNode::Kind::broken);
    std::string merging = "a0: &a0 {k0: x}\n";
    std::string deep = "a0: &a0 [x]\n";
    for (int i = 1; i < 60; ++i) {
        const std::string name = std::to_string(i);
        const std::string before = "*a" + std::to_string(i - 1);
        deep += "a" + name + ": &a" + name + " [" + before + "]\n";
        merging += "a" + name + ": &a" + name + " {<<: " + before + ", k" + name + ": x}\n";
    }
    CHECK(Anchored(deep).first_fault().ends_with("nested more than 32 levels deep"));
    CHECK(Anchored(merging).faults.empty());
}

TEST_CASE("document: nesting is bounded") {
    CHECK(Parsed(nested(kDepthMax)).faults.empty());
    CHECK(Parsed(nested(kDepthMax + 1)).first_fault() == "1:33: nested more than 32 levels deep");
    CHECK(Parsed(nested(5'000)).faults.size() == 1);
    CHECK_FALSE(Parsed(std::string(5'000, '[')).faults.empty());
    std::string maps;
    for (int i = 0; i < 5'000; ++i) maps += "{a: ";
    CHECK_FALSE(Parsed(maps).faults.empty());
}

TEST_CASE("document: size is bounded") {
    const std::string largest = "#" + std::string(kFileBytesMax - 1, ' ');
    CHECK(Parsed(largest).faults.empty());
    CHECK(Parsed(largest + " ").first_fault() == "0:0: the file is larger than 1 MiB");
}

TEST_CASE("document: control characters and broken UTF-8 are refused, not dropped") {
    // 0x04 would end yaml-cpp's stream: all limits after it would be lost silently.
    CHECK(Parsed(std::string("a: 1\n\x04\nb: 2\n")).first_fault() ==
          "2:1: remove the control character `\\x04`");
    CHECK(Parsed(std::string_view("a: \0", 4))
              .first_fault()
              .starts_with("1:4: remove the control character"));
    CHECK(Parsed("a: \xff\n").first_fault() == "1:4: this is not UTF-8 text");
    CHECK(Parsed("\xc3\xa9: x\xe9\n").first_fault() == "1:5: this is not UTF-8 text");
    CHECK(Parsed("a: \xc3\xa9\r\nb:\t2\r\n").faults.empty());
    CHECK(Parsed("\xef\xbb\xbf"
                 "a: 1\n")
              .root.entries.size() == 1);
}

TEST_CASE("utf8: a character has the length RFC 3629 gives it") {
    CHECK(utf8_length("a") == 1);
    CHECK(utf8_length("\xc3\xa9") == 2);
    CHECK(utf8_length("\xe2\x82\xac") == 3);
    CHECK(utf8_length("\xf0\x9f\x98\x80") == 4);
    for (const char* text : {"\x80", "\xc0\xaf", "\xc3", "\xc3(", "\xe0\x80\xaf", "\xed\xa0\x80",
                             "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
        CAPTURE(text);
        CHECK(utf8_length(text) == 0);
    }
}

namespace {

// `line:column: message` of the only fault.
std::string fault_of(const std::string& text) {
    std::vector<ConfigFault> faults;
    parse_document(text, faults);
    if (faults.size() != 1) return std::to_string(faults.size()) + " faults";
    constexpr std::string_view kNotYaml = "this is not YAML: ";
    std::string message = faults[0].message;
    CHECK(message.starts_with(kNotYaml));
    message.erase(0, kNotYaml.size());
    return std::to_string(faults[0].place.line) + ":" + std::to_string(faults[0].place.column) +
           ": " + message;
}

TEST_CASE("yaml advice: a value that begins with a star has to be quoted") {
    const std::string why =
        "YAML takes a value that begins with `*` for an alias: quote it, `\"*...\"`";
    CHECK(fault_of("path: *\n") == "1:7: " + why);
    CHECK(fault_of("{path: *}") == "1:8: " + why);
    CHECK(fault_of("match: {path: **, host: a}") == "1:15: " + why);
    CHECK(fault_of("a: b\nhosts: [*.example.com, c]") == "2:9: " + why);
}

TEST_CASE("yaml advice: a brace inside a value of a flow map has to be quoted") {
    const std::string why = "`{` begins a map inside `{...}` and `[...]`: quote the whole value";
    CHECK(fault_of("{path: /a/{b}}") == "1:8: " + why);
    CHECK(fault_of("routes:\n  - {match: {path: /v1/{id}}, policies: []}\n") == "2:20: " + why);
    CHECK(fault_of("{path: /a/{b}/c/{d}, host: x}") == "1:8: " + why);
    CHECK(fault_of("{threads: ${T:-auto}}") == "1:11: " + why);
    CHECK(fault_of("[${T}]") == "1:2: " + why);
}

TEST_CASE("yaml advice: no message repeats a value that begins with a reserved sign") {
    for (const char* const text :
         {"token: @hunter2\n", "token: %hunter2\n", "token: *hunter2\n", "token: `hunter2\n",
          "token: &hunter2 x\n", "{token: hunter{2}}\n", "token:hunter2\na: b\n"}) {
        CAPTURE(text);
        std::vector<ConfigFault> faults;
        parse_document(text, faults);
        REQUIRE(faults.size() == 1);
        CHECK(faults[0].message.find("hunter") == std::string::npos);
    }
}

TEST_CASE("yaml advice: what is never closed is pointed at") {
    CHECK(fault_of("a: b\nlimits: [10/s, 5/min\n") ==
          "2:9: nothing closes this `[`: write `]` where it ends");
    CHECK(fault_of("a: {b: [c, d]\n") == "1:4: nothing closes this `{`: write `}` where it ends");
    CHECK(fault_of("a: 'it''s'\nb: \"c # d\ne: f\n") ==
          "2:4: nothing closes this `\"`: write `\"` where it ends");
    CHECK(fault_of("a: \"]\\\"\" # [\nb: it's [\nc: [d") ==
          "3:4: nothing closes this `[`: write `]` where it ends");
}

TEST_CASE("yaml advice: escapes in quotes close nothing, and a value may have several lines") {
    for (const char* text :
         {"a: \"b \\\" c\"\nd: e\n", "a: 'it''s'\n", "a: \"b\\\n  c\"\nd: 'e\n  f'\n",
          "a: \"\"\nb: ''\n", "\xef\xbb\xbf\"a\": \"b\"\n"}) {
        CAPTURE(text);
        std::vector<ConfigFault> faults;
        parse_document(text, faults);
        CHECK(faults.empty());
    }
    CHECK(fault_of("a: \"b\\\n  c\"\nd: \"e \\\"\n") ==
          "3:4: nothing closes this `\"`: write `\"` where it ends");
    CHECK(fault_of("a: 'it''\n") == "1:4: nothing closes this `'`: write `'` where it ends");
}

TEST_CASE("yaml advice: a colon without a space, or one too many, is named") {
    CHECK(fault_of("listen:8080\nupstream: x\n") ==
          "1:7: write a space behind the colon: `listen: ...`");
    CHECK(fault_of("a: b: c\n") == "1:5: a value that holds `: ` must be in quotes");
    CHECK(fault_of("a: b\n  c: d\n") ==
          "2:4: this line is indented deeper than the keys before it, which have their values "
          "already: indent it as they are");
}

TEST_CASE("yaml advice: text behind a closing brace, reserved characters and stray brackets") {
    CHECK(fault_of("text: {retry_after} seconds\n") ==
          "1:21: text goes on behind a closing `}`: quote the whole value");
    CHECK(fault_of("a: @b\n") ==
          "1:4: no value begins with this character unless it is quoted: `\"@...\"`");
    CHECK(fault_of("a: 1]\nb: ]\n").starts_with("2:4: nothing that is open closes here"));
    CHECK(fault_of("a: - b\n").starts_with("1:4: an item of a list"));
    CHECK(fault_of("a:\n\t- b\n").ends_with("a tab indents this line; use spaces"));
}

TEST_CASE("yaml advice: UTF-16 is distinguished from other bytes that are no text") {
    std::vector<ConfigFault> faults;
    parse_document(std::string("\xff\xfe"
                               "a\0",
                               4),
                   faults);
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].message == "this is UTF-16 text: save the file as UTF-8");
}

TEST_CASE("yaml advice: every cut of a text has one fault at most, within the text") {
    const std::string whole =
        "a: {b: [c, 'd'], e: \"f\"}\nroutes:\n  - {path: \"/x/{y}\", z: *}\n  - g: [${T}]\nh:i\n";
    for (std::size_t begin = 0; begin < whole.size(); ++begin) {
        for (std::size_t end = begin; end <= whole.size(); ++end) {
            std::vector<ConfigFault> faults;
            parse_document(std::string_view(whole).substr(begin, end - begin), faults);
            for (const ConfigFault& fault : faults) {
                CHECK(fault.place.line >= 1);
                CHECK(fault.place.column >= 1);
                CHECK(fault.place.line <= 7);
            }
        }
    }
}

}  // namespace
}  // namespace tidegate::config::yaml_test
