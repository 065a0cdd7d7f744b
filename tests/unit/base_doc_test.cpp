#include <array>
#include <string>

#include <doctest/doctest.h>

#include "base/doc.hpp"

namespace tidegate::doc_test {

TEST_CASE("doc: facts that follow each other are aligned, and a long value moves no other") {
    Doc doc;
    doc.fact("client", "203.0.113.7", "the peer itself");
    doc.fact("user", "none");
    doc.fact("a", std::string(41, 'x'), "long");
    doc.line("between");
    doc.fact("b", "1", "one");
    CHECK(doc.text() ==
          "client  203.0.113.7  the peer itself\n"
          "user    none\n"
          "a       xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  long\n"
          "between\n"
          "b  1  one\n");
}

TEST_CASE("doc: a table is as wide as its cells, or as its columns say") {
    constexpr std::array<Doc::Column, 3> kColumns{{{"NAME"}, {"COUNT", 7, true}, {"WHAT"}}};
    Doc doc;
    doc.table(kColumns, {{"a longer name", "7", "x"}, {"b", "12345678", "longer"}}, "  ");
    CHECK(doc.text() ==
          "  NAME             COUNT  WHAT\n"
          "  a longer name        7  x\n"
          "  b              12345678  longer\n");
}

TEST_CASE("doc: columns count, not bytes") {
    Doc doc;
    doc.fact("a", "\u00e9", "one");
    doc.fact("b", "\u6f6e", "two");
    doc.fact("c", "123", "three");
    CHECK(doc.text() == "a  \u00e9    one\nb  \u6f6e   two\nc  123  three\n");
}

TEST_CASE("doc: lines and facts do not command a terminal") {
    Doc doc;
    doc.line("a\x1b[2J\nb");
    doc.fact("x", "y\u202ez");
    CHECK(doc.text() == "a\\x1b[2J\\x0ab\nx  y\\xe2\\x80\\xaez\n");
    CHECK(escaped_text("\"\x1b") == "\\\"\\u001b");
}

TEST_CASE("doc: the text of another stands below, aligned by itself") {
    Doc one;
    one.fact("a", "1");
    Doc all;
    all.fact("longer", "2");
    all.append_text(one);
    all.line("");
    CHECK(all.text() == "longer  2\na  1\n\n");
}

TEST_CASE("doc: JSON keeps the order in which it was made, in the style of the doc") {
    Doc doc;
    doc.json["z"] = 1;
    doc.json["a"] = optional_text("");
    doc.json["\u00e4"] = optional_text("t");
    CHECK(doc.json_text() == "{\"z\":1,\"a\":null,\"\\u00e4\":\"t\"}\n");
    Doc wide({.indent = 2});
    wide.json["z"] = "\u00e4";
    CHECK(wide.json_text() == "{\n  \"z\": \"\u00e4\"\n}\n");
    CHECK(counted(1, "limit") + ", " + counted(2, "limit") == "1 limit, 2 limits");
}

}  // namespace tidegate::doc_test
