#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "routing/path_pattern.hpp"

namespace tidegate::routing::path_pattern_test {
namespace {

PathPattern pattern_of(std::string_view text) {
    auto pattern = PathPattern::parse(text);
    REQUIRE_MESSAGE(pattern.has_value(), text);
    return *std::move(pattern);
}

std::string fault_of(std::string_view text) {
    const auto pattern = PathPattern::parse(text);
    return pattern.has_value() ? "none" : pattern.error();
}

bool matches(std::string_view pattern, std::string_view path) {
    return pattern_of(pattern).matches(path);
}

TEST_CASE("path_pattern: an exact path matches also with one slash after it") {
    CHECK(matches("/v1/search", "/v1/search"));
    CHECK(matches("/v1/search", "/v1/search/"));
    for (const char* path : {"/v1/search//", "/v1/search/x", "/v1/searc", "/v1/searchx", "/v1",
                             "/V1/search", "/v1//search", "/", "*", "v1/search"})
        CHECK_MESSAGE(!matches("/v1/search", path), path);
}

TEST_CASE("path_pattern: a slash at the end that is written is required") {
    CHECK(matches("/a/", "/a/"));
    CHECK_FALSE(matches("/a/", "/a"));
    CHECK_FALSE(matches("/a/", "/a//"));
    CHECK(matches("/", "/"));
    CHECK_FALSE(matches("/", "//"));
    CHECK_FALSE(matches("/", "/a"));
}

TEST_CASE("path_pattern: a prefix takes itself and all below, by whole segments") {
    for (const char* path : {"/files", "/files/", "/files/a", "/files/a/b/", "/files//"})
        CHECK_MESSAGE(matches("/files/**", path), path);
    for (const char* path : {"/file", "/filesystem", "/", "/x/files", "*"})
        CHECK_MESSAGE(!matches("/files/**", path), path);
    for (const char* path : {"/", "/a", "//", "/a/b", "*"})
        CHECK_MESSAGE(matches("/**", path), path);
}

TEST_CASE("path_pattern: `*` and captures are one segment, not empty") {
    CHECK(matches("/users/*/posts", "/users/7/posts"));
    CHECK(matches("/users/*", "/users/7/"));
    CHECK_FALSE(matches("/users/*", "/users"));
    CHECK_FALSE(matches("/users/*", "/users/"));
    CHECK_FALSE(matches("/users/*", "/users//"));
    CHECK_FALSE(matches("/users/*", "/users/7/8"));
    CHECK_FALSE(matches("/users/*/posts", "/users//posts"));
    CHECK(matches("/*/**", "/a"));
    CHECK_FALSE(matches("/*/**", "/"));
    CHECK(matches("/{a}", "/x"));
}

TEST_CASE("path_pattern: captures hold their segments") {
    using Captured = std::vector<std::string>;
    CHECK(pattern_of("/{a}/x/{b_2}").captures("/1/x/2/") == Captured{"1", "2"});
    CHECK(pattern_of("/{a}/**").captures("/1/2/3") == Captured{"1"});
    CHECK(pattern_of("/{b}/x/{a}").capture_names() == Captured{"b", "a"});
    CHECK(pattern_of("regex:/(?P<b>x)(y)(?P<a>z)").capture_names() == Captured{"a", "b"});
    CHECK(pattern_of("regex:/(?P<b>x)(y)(?P<a>z)").captures("/xyz") == Captured{"z", "x"});
    CHECK(pattern_of("/*/**").capture_names().empty());
    CHECK(pattern_of("/{a}").captures("/1/2").empty());
    CHECK(pattern_of("/*").captures("/1").empty());
    CHECK(pattern_of("regex:/(?P<a>\\d+)/(x)").captures("/12/x") == Captured{"12"});
    CHECK(pattern_of("regex:/(?P<a>\\d+)").captures("/x").empty());
    CHECK_FALSE(pattern_of("regex:/(x)").has_captures());
}

TEST_CASE("path_pattern: a literal may be written encoded or not") {
    CHECK(matches("/caf%C3%A9", "/caf\xc3\xa9"));
    CHECK(matches("/caf\xc3\xa9", "/caf\xc3\xa9"));
    CHECK(matches("/a%20b", "/a b"));
    CHECK(matches("/a b", "/a b"));
    CHECK(matches("/se%61rch", "/search"));
    CHECK(matches("/100%25", "/100%"));
}

TEST_CASE("path_pattern: a regular expression takes the whole path, byte by byte") {
    CHECK(matches("regex:/v\\d+/.*", "/v12/x"));
    CHECK_FALSE(matches("regex:/v\\d+", "/v12/x"));
    CHECK_FALSE(matches("regex:v\\d+", "/v12"));
    CHECK(matches("regex:/admin/.*", "/admin/\xff\xfe"));
    CHECK(matches("regex:/admin/.*", "/admin/a\nb"));
    CHECK(matches("regex:/caf\xc3\xa9", "/caf\xc3\xa9"));
    CHECK(matches("regex:(?i)/A", "/a"));
}

TEST_CASE("path_pattern: the target of OPTIONS * is matched by itself and by everything") {
    CHECK(matches("*", "*"));
    CHECK_FALSE(matches("*", "/"));
    CHECK(matches("regex:.*", "*"));
    CHECK_FALSE(matches("/*", "*"));
}

TEST_CASE("path_pattern: faults are sentences") {
    CHECK(fault_of("") == "a path pattern begins with `/` or `regex:`, or is `*`");
    CHECK(fault_of("v1") == fault_of(""));
    CHECK(fault_of("**") == fault_of(""));
    CHECK(fault_of("/a/**/b") == "`**` is allowed only at the end of a path pattern");
    CHECK(fault_of("/a*") == "`*` and `{name}` must be a whole segment: `/a/*` or `/a/{id}`");
    CHECK(fault_of("/a/b**") == fault_of("/a*"));
    CHECK(fault_of("/{a}-{b}") != "none");
    CHECK(fault_of("/{}") != "none");
    CHECK(fault_of("/{1a}") != "none");
    CHECK(fault_of("/{a}/{a}") == "`{a}` is captured twice");
    CHECK(fault_of("/a?b=1") == "a path pattern has no query or fragment: remove `?` and `#`");
    CHECK(fault_of("/a#b") == fault_of("/a?b=1"));
    CHECK(fault_of("/a%2") != "none");
    CHECK(fault_of("/a%00") != "none");
    CHECK(fault_of("//a") == "`//` never matches: write the path with single slashes");
    CHECK(fault_of("/a//**") == fault_of("//a"));
    for (const char* path : {"/a/./b", "/..", "/%2e%2e/a"})
        CHECK(fault_of(path) == "`.` and `..` are removed before matching and must not be written");
    for (const char* path : {"/a;b", "/a\\b", "/a%2Fb", "/a%5Cb", "/a%3bb"})
        CHECK_MESSAGE(fault_of(path).find("match that segment with `*`") != std::string::npos,
                      path);
    CHECK(fault_of("/a\x01") == "a path pattern has no control characters");
    CHECK(fault_of("regex:(").starts_with("RE2 does not accept this regular expression: "));
    CHECK(fault_of("/" + std::string(5'000, 'a')) == "a path pattern has at most 4096 bytes");
}

TEST_CASE("path_pattern: which pattern covers another") {
    const auto covers = [](std::string_view a, std::string_view b) {
        return pattern_of(a).covers(pattern_of(b));
    };
    for (const char* path : {"/**", "/", "/a", "/a/*", "/a/**", "regex:/x", "*"})
        CHECK_MESSAGE(covers("/**", path), path);
    CHECK(covers("/a/**", "/a"));
    CHECK(covers("/a/**", "/a/"));
    CHECK(covers("/a/**", "/a/b/**"));
    CHECK(covers("/a", "/a/"));
    CHECK(covers("/*", "/{x}"));
    CHECK(covers("/{x}", "/a"));
    CHECK(covers("/*/**", "/a/**"));
    CHECK(covers("regex:/a", "regex:/a"));
    CHECK_FALSE(covers("/a/**", "/**"));
    CHECK_FALSE(covers("/a/**", "/ab"));
    CHECK_FALSE(covers("/a/", "/a"));
    CHECK_FALSE(covers("/a", "/a/b"));
    CHECK_FALSE(covers("/a", "/a/*"));
    CHECK_FALSE(covers("/a", "/*"));
    CHECK_FALSE(covers("/a/*", "/a/"));
    CHECK_FALSE(covers("/a/*", "/a/**"));
    CHECK_FALSE(covers("/*", "/"));
    CHECK_FALSE(covers("regex:/a", "/a"));
    CHECK_FALSE(covers("/a", "regex:/a"));
    CHECK_FALSE(covers("*", "/"));
}

TEST_CASE("path_pattern: a prefix covers a regular expression that begins with it") {
    const auto covers = [](std::string_view a, std::string_view b) {
        return pattern_of(a).covers(pattern_of(b));
    };
    for (const char* regex :
         {"regex:/v1/(chat/completions|completions)", "regex:/v1/.*", "regex:^/v1/x$",
          "regex:(?:/v1/)(a|b).*", "regex:/v1/a|/v1/b", "regex:/v1/", "regex:(/v1/x)+"})
        CHECK_MESSAGE(covers("/v1/**", regex), regex);
    for (const char* regex : {"regex:/v1(/.*)?", "regex:/v1/?", "regex:/v1/a|/v2/b",
                              "regex:/v1/.*|/v10", "regex:.*/v1/", "regex:/v[12]/.*",
                              "regex:/v11/.*", "regex:(?i)/v1/.*", "regex:v1/.*", "regex:"})
        CHECK_MESSAGE(!covers("/v1/**", regex), regex);
    CHECK(covers("/a.b/c/**", R"(regex:/a\.b/c/\d+)"));
    CHECK_FALSE(covers("/v1/c/**", "regex:/v1/.*"));
    CHECK_FALSE(covers("/v1/*/**", "regex:/v1/a/.*"));
    CHECK_FALSE(covers("/v1/", "regex:/v1/"));
    CHECK_FALSE(covers("/v1/**", "*"));
}

TEST_CASE("path_pattern: a prefix covers a regular expression without regard to case") {
    const auto covers = [](std::string_view a, std::string_view b) {
        return pattern_of(a).ignoring_case()->covers(*pattern_of(b).ignoring_case());
    };
    CHECK(covers("/V1/**", "regex:/v1/(a|b)"));
    CHECK(covers("/v1/**", "regex:/V1/.*"));
    CHECK_FALSE(covers("/v1/**", "regex:/v2/.*"));
}

TEST_CASE("path_pattern: what all paths of a regular expression begin with") {
    CHECK(pattern_of("regex:/v1/(a|b)").beginning() == "/v1/");
    CHECK(pattern_of("regex:v1/.*").beginning() == "v1/");
    CHECK(pattern_of("regex: /v1/a").beginning() == " /v1/a");
    CHECK(pattern_of("regex:v?/.*").beginning().empty());
    CHECK(pattern_of("regex:v1|/v1").beginning().empty());
    CHECK(pattern_of("regex:/a\xc3\xa9").beginning() == "/a");
    CHECK(pattern_of("/v1/**").beginning().empty());
}

}  // namespace
}  // namespace tidegate::routing::path_pattern_test
