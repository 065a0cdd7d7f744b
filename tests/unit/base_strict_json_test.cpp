#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/strict_json.hpp"

namespace tidegate::base_strict_json_test {
namespace {

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

}  // namespace
}  // namespace tidegate::base_strict_json_test
