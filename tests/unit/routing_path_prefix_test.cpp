// `strip_prefix`: which prefixes a route may remove, and of which paths it removes them.
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "routing/path_pattern.hpp"

namespace tidegate::routing::path_prefix_test {
namespace {

// Empty: accepted.
std::string fault(std::string_view prefix, std::string_view pattern) {
    const auto parsed = PathPattern::parse(pattern);
    REQUIRE_MESSAGE(parsed.has_value(), pattern);
    const auto checked = check_path_prefix(prefix, *parsed);
    return checked ? std::string() : checked.error();
}

struct Case {
    const char* prefix;
    const char* pattern;
};

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != text.npos;
}

TEST_CASE("strip_prefix: whole literal segments at the beginning of every path are accepted") {
    for (const Case& one : std::vector<Case>{{"/api", "/api/**"},
                                             {"/api", "/api"},
                                             {"/api", "/api/"},
                                             {"/api", "/api/v1/{id}"},
                                             {"/api/v1", "/api/v1/*/edit"},
                                             {"/~a.b-c_d", "/~a.b-c_d/**"},
                                             {"/a@b:c", "/a@b:c/**"}})
        CHECK_MESSAGE(fault(one.prefix, one.pattern).empty(), one.prefix, " of ", one.pattern);
}

TEST_CASE("strip_prefix: what is not at the beginning of every path is refused") {
    for (const Case& one : std::vector<Case>{{"/api", "/**"},
                                             {"/api", "/{x}/**"},
                                             {"/api", "/*"},
                                             {"/api", "/apis/**"},
                                             {"/api", "/API/**"},
                                             {"/ap", "/api/**"},
                                             {"/api/v1", "/api/**"},
                                             {"/api/v1", "/api/{v}/x"}})
        CHECK_MESSAGE(has(fault(one.prefix, one.pattern), "is not the beginning of every path"),
                      one.prefix, " of ", one.pattern);
    CHECK(has(fault("/api", "regex:/api/.*"), "needs a `path` of segments"));
    CHECK(has(fault("/api", "*"), "needs a `path` of segments"));
}

TEST_CASE("strip_prefix: each wrong spelling is answered with what to write") {
    CHECK(has(fault("/", "/**"), "removes nothing"));
    CHECK(has(fault("//", "/**"), "removes nothing"));
    CHECK(has(fault("api", "/api/**"), "begins with `/`"));
    CHECK(has(fault("/api/", "/api/**"), "write `/api`"));
    CHECK(has(fault("/api//", "/api/**"), "write `/api`"));
    CHECK(has(fault("/a//b", "/a/b/**"), "two slashes"));
    CHECK(has(fault("/../a", "/a/**"), "`.` or `..`"));
    for (const char* prefix :
         {"/**", "/a*", "/{id}", "/%61pi", "/a;b", "/a b", "/a?b", "/\xc3\xbc"})
        CHECK_MESSAGE(has(fault(prefix, "/api/**"), "is made of segments"), prefix);
}

TEST_CASE("strip_prefix: the rest is the bytes behind the prefix, and `/` if there are none") {
    CHECK(without_prefix("/api/x", 4) == "/x");
    CHECK(without_prefix("/api/", 4) == "/");
    CHECK(without_prefix("/api", 4) == "/");
    CHECK(without_prefix("/api", 0) == "/api");
    CHECK(without_prefix("*", 0) == "*");
}

TEST_CASE("strip_prefix: a path whose rest reads as it did is stripped") {
    for (const char* path :
         {"/api", "/api/", "/api/x", "/api/x/", "/api/api", "/api/api/api", "/api/%C3%BC",
          "/api/a%2Fb", "/api/a;v=1/b", "/api/a/../b", "/api/./x", "/api/a//b", "/api/x%0A",
          "/api/a\\b", "/api/...", "/api/\xc3\xbc", "/api/%61", "/api/a/..", "/api/%2e/x"})
        CHECK_MESSAGE(can_strip(path, "/api", false), path);
}

TEST_CASE("strip_prefix: a path that spells the prefix in another way is not") {
    for (const char* path : {"/", "/apix", "/apix/y", "/ap", "/API/x", "/%61pi/x", "/api%2Fx",
                             "/api%2fx", "//api/x", "/./api/x", "/x/../api/y", "/api;v=1/x",
                             "/api\\x", "/api%5Cx", "/api.", "/api%0A", "/ap%69", "*"})
        CHECK_FALSE_MESSAGE(can_strip(path, "/api", false), path);
    CHECK(can_strip("/API/x", "/api", true));
    CHECK(can_strip("/API/a/../b", "/api", true));
    // Folding takes the Kelvin sign for `k`; the bytes are others.
    CHECK_FALSE(can_strip("/\xE2\x84\xAA/x", "/k", true));
}

TEST_CASE("strip_prefix: a path that leaves the prefix and comes back is not stripped") {
    for (const char* path :
         {"/api/..", "/api/../api/x", "/api/%2e%2e/api/x", "/api/..%2fapi/x", "/api/..;/api/x",
          "/api/..\\api\\x", "/api/x/../../api/y", "/api/../../api/x", "/api/.%2e/api"})
        CHECK_FALSE_MESSAGE(can_strip(path, "/api", false), path);
}

TEST_CASE("strip_prefix: a rest that a server could take for a host is not sent") {
    for (const char* path :
         {"/api//evil.example/x", "/api//", "/api/%2Fevil", "/api/\\evil", "/api/%5Cevil",
          "/api/.//evil", "/api/a/..//evil", "/api/;a/evil", "/api//%65vil"})
        CHECK_FALSE_MESSAGE(can_strip(path, "/api", false), path);
}

// What some server could make of a path: decodes once, reads `\` as `/`, merges slashes, removes
// dot segments. Written again here, apart from the code that it judges.
std::string lenient(std::string_view path) {
    std::string decoded;
    for (std::size_t i = 0; i < path.size(); ++i) {
        if (path.substr(i).starts_with("%2e")) {
            decoded += '.';
            i += 2;
        } else if (path.substr(i).starts_with("%2F")) {
            decoded += '/';
            i += 2;
        } else {
            decoded += path[i] == '\\' ? '/' : path[i];
        }
    }
    std::vector<std::string> segments;
    std::string segment;
    for (const char c : decoded + "/") {
        if (c != '/') {
            segment += c;
            continue;
        }
        if (segment == ".." && !segments.empty()) segments.pop_back();
        if (!segment.empty() && segment != "." && segment != "..") segments.push_back(segment);
        segment.clear();
    }
    std::string out;
    for (const std::string& each : segments) out += "/" + each;
    return out;
}

TEST_CASE("strip_prefix: a slash that passes encoded is no slash for what is left either") {
    CHECK(can_strip("/api/a%2Fb", "/api", false, true));
    CHECK(can_strip("/api/%2Fevil.example/", "/api", false, true));
    CHECK_FALSE(can_strip("/api/%2Fevil.example/", "/api", false, false));
    for (const char* path : {"/api%2Fx", "/api/..%2Fx", "/api/../api/a%2Fb", "/api//a%2Fb"}) {
        CAPTURE(path);
        CHECK_FALSE(can_strip(path, "/api", false, true));
    }
}

TEST_CASE("strip_prefix: whatever is stripped, a lenient server finds the rest of the same path") {
    constexpr const char* kParts[] = {"/", "a",  "p",   "api", "/api", "..",
                                      ".", "\\", "%2e", "%2F", "x",    "/x"};
    std::mt19937 random(7);
    int stripped = 0;
    for (int i = 0; i < 200'000; ++i) {
        std::string path = random() % 4 == 0 ? "/" : "/api";
        for (unsigned parts = random() % 8; parts != 0; --parts)
            path += kParts[random() % std::size(kParts)];
        if (!can_strip(path, "/api", false)) continue;
        ++stripped;
        CAPTURE(path);
        REQUIRE(lenient(path) == "/api" + lenient(without_prefix(path, 4)));
    }
    CHECK(stripped > 10'000);
}

}  // namespace
}  // namespace tidegate::routing::path_prefix_test
