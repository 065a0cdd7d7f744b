#include <string>

#include <doctest/doctest.h>

#include "config/yaml_document.hpp"

namespace tidegate::config::yaml_advice_test {
namespace {

// `line:column: message` of the only fault.
std::string fault_of(const std::string& text) {
    std::vector<Fault> faults;
    parse_document(text, faults);
    if (faults.size() != 1) return std::to_string(faults.size()) + " faults";
    constexpr std::string_view kNotYaml = "this is not YAML: ";
    std::string message = faults[0].message;
    CHECK(message.starts_with(kNotYaml));
    message.erase(0, kNotYaml.size());
    return std::to_string(faults[0].place.line) + ":" + std::to_string(faults[0].place.column) +
           ": " + message;
}

TEST_CASE("yaml advice: a value that begins with a star is shown in quotes") {
    const std::string why = "YAML takes a value that begins with `*` for an alias: quote it, ";
    CHECK(fault_of("path: *\n") == "1:7: " + why + "`\"*\"`");
    CHECK(fault_of("{path: *}") == "1:8: " + why + "`\"*\"`");
    CHECK(fault_of("match: {path: **, host: a}") == "1:15: " + why + "`\"**\"`");
    CHECK(fault_of("a: b\nhosts: [*.example.com, c]") == "2:9: " + why + "`\"*.example.com\"`");
}

TEST_CASE("yaml advice: a brace inside a value of a flow map is shown in quotes") {
    const std::string why = "`{` begins a map inside `{...}` and `[...]`: quote the value, ";
    CHECK(fault_of("{path: /a/{b}}") == "1:8: " + why + "`\"/a/{b}\"`");
    CHECK(fault_of("routes:\n  - {match: {path: /v1/{id}}, policies: []}\n") ==
          "2:20: " + why + "`\"/v1/{id}\"`");
    CHECK(fault_of("{path: /a/{b}/c/{d}, host: x}") == "1:8: " + why + "`\"/a/{b}/c/{d}\"`");
    CHECK(fault_of("{threads: ${T:-auto}}") == "1:11: " + why + "`\"${T:-auto}\"`");
    CHECK(fault_of("[${T}]") == "1:2: " + why + "`\"${T}\"`");
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
        std::vector<Fault> faults;
        parse_document(text, faults);
        CHECK(faults.empty());
    }
    CHECK(fault_of("a: \"b\\\n  c\"\nd: \"e \\\"\n") ==
          "3:4: nothing closes this `\"`: write `\"` where it ends");
    CHECK(fault_of("a: 'it''\n") == "1:4: nothing closes this `'`: write `'` where it ends");
}

TEST_CASE("yaml advice: a colon without a space, or one too many, is named") {
    CHECK(fault_of("listen:8080\nupstream: x\n") ==
          "1:7: write a space behind the colon: `listen: 8080`");
    CHECK(fault_of("a: b: c\n") == "1:5: a value that holds `: ` must be in quotes");
    CHECK(fault_of("a: b\n  c: d\n") ==
          "2:4: this line is indented deeper than the keys before it, which have their values "
          "already: indent it as they are");
}

TEST_CASE("yaml advice: text behind a closing brace, reserved characters and stray brackets") {
    CHECK(fault_of("text: {retry_after} seconds\n") ==
          "1:21: text goes on behind a closing `}`: quote the whole value");
    CHECK(fault_of("a: @b\n") ==
          "1:4: no value begins with this character unless it is quoted: `\"@b\"`");
    CHECK(fault_of("a: 1]\nb: ]\n").starts_with("2:4: nothing that is open closes here"));
    CHECK(fault_of("a: - b\n").starts_with("1:4: an item of a list"));
    CHECK(fault_of("a:\n\t- b\n").ends_with("a tab indents this line; use spaces"));
}

TEST_CASE("yaml advice: UTF-16 is distinguished from other bytes that are no text") {
    std::vector<Fault> faults;
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
            std::vector<Fault> faults;
            parse_document(std::string_view(whole).substr(begin, end - begin), faults);
            for (const Fault& fault : faults) {
                CHECK(fault.place.line >= 1);
                CHECK(fault.place.column >= 1);
                CHECK(fault.place.line <= 7);
            }
        }
    }
}

}  // namespace
}  // namespace tidegate::config::yaml_advice_test
