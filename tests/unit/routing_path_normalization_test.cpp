#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "routing/path_normalization.hpp"

namespace tidegate::routing::path_normalization_test {
namespace {

std::uint8_t features(std::string_view path) {
    const PathShape shape = examine_path(path);
    REQUIRE_MESSAGE(!shape.bad, path);
    return shape.features;
}

std::set<std::string> texts(std::string_view path) {
    std::set<std::string> found;
    for (const PathReading& reading : path_readings(path, examine_path(path)))
        found.insert(reading.text);
    return found;
}

using Texts = std::set<std::string>;

TEST_CASE("path_readings: a plain path has one reading and costs no closer look") {
    for (const char* path : {"/", "/a", "/a/", "/a/b.c/..d/e../...", "/.well-known/x", "/a.",
                             "/~a_b-c", "/a!$&'()*+,=:@b", "/\xc3\xa9", "/a|b"})
        CHECK_MESSAGE(features(path) == 0, path);
}

TEST_CASE("path_readings: capitals and letters beyond ASCII are seen in the same pass") {
    for (const char* path : {"/", "/v1/search", "/a-z_0.9~@[`{", "/.well-known"})
        CHECK_FALSE_MESSAGE(examine_path(path).cased, path);
    for (const char* path : {"/A", "/v1/searcH", "/\xC3\xA9", "/a/Z/"})
        CHECK_MESSAGE(examine_path(path).cased, path);
}

TEST_CASE("path_readings: malformed paths are bad") {
    for (const char* path : {"",     "a",      "*",       "/%",   "/%4",   "/%zz",   "/%4g",
                             "/%00", "/a%00b", "/%u002f", "/a b", "/a\tb", "/a\x7f", "/a#b",
                             "/a?b", "/%%41",  "/a\r\nb", "/% 1", "/%+1",  "/%-1"})
        CHECK_MESSAGE(examine_path(path).bad, path);
    CHECK(examine_path(std::string_view("/a\0b", 4)).bad);
    CHECK_FALSE(examine_path("/%2500").bad);
    CHECK_FALSE(examine_path("/%0a").bad);
}

TEST_CASE("path_readings: features are found in every disguise") {
    CHECK(features("/a%20b") == kEncoded);
    CHECK(features("/a/./b") == kDotSegments);
    CHECK(features("/a/..") == kDotSegments);
    CHECK(features("/..") == kDotSegments);
    CHECK(features("/a/%2e%2E/b") == (kEncoded | kDotSegments));
    CHECK(features("/a/.%2e") == (kEncoded | kDotSegments));
    CHECK(features("/a%2fb") == (kEncoded | kEncodedSlash));
    CHECK(features("/a%2f..") == (kEncoded | kEncodedSlash | kDotSegments));
    CHECK(features("/a\\..\\b") == (kBackslash | kDotSegments));
    CHECK(features("/a%5cb") == (kEncoded | kBackslash));
    CHECK(features("/a;b") == kParameters);
    CHECK(features("/a%3Bb") == (kEncoded | kParameters));
    CHECK(features("/..;/a") == (kParameters | kDotSegments));
    CHECK(features("//a") == kEmptySegments);
    CHECK(features("/a//") == kEmptySegments);
    CHECK(features("/a/%2F") == (kEncoded | kEncodedSlash | kEmptySegments));
    CHECK(features("/a/;x/b") == (kParameters | kEmptySegments));
    CHECK(features("/.a/b.%2e") == kEncoded);
}

TEST_CASE("path_readings: an encoded byte that must be encoded has one reading") {
    CHECK(texts("/a%20b") == Texts{"/a b"});
    CHECK(texts("/caf%C3%a9") == Texts{"/caf\xc3\xa9"});
    CHECK(texts("/100%25") == Texts{"/100%"});
    // Only some servers decode an escape that is not needed.
    CHECK(texts("/se%61rch") == Texts{"/se%61rch", "/search"});
    CHECK(texts("/%7euser") == Texts{"/%7Euser", "/~user"});
}

TEST_CASE("path_readings: decoding happens once") {
    CHECK(texts("/%2561") == Texts{"/%61"});
    CHECK(texts("/%252e%252e/a") == Texts{"/%2e%2e/a"});
    CHECK(texts("/%252Fa").count("//a") == 0);
}

TEST_CASE("path_readings: a path is read without a newline at its end, too, but not without two") {
    CHECK(texts("/login%0a") == Texts{"/login\n", "/login"});
    CHECK(texts("/login%0A").contains("/login"));
    CHECK(texts("/login%0a%0a") == Texts{"/login\n\n", "/login\n"});
    CHECK_FALSE(texts("/login%0d").contains("/login"));
    CHECK_FALSE(texts("/login%250a").contains("/login"));
    CHECK(texts("/%0a").contains("/"));
}

TEST_CASE("path_readings: dot segments") {
    CHECK(texts("/a/b/../c") == Texts{"/a/b/../c", "/a/c"});
    CHECK(texts("/a/./b/.") == Texts{"/a/./b/.", "/a/b/"});
    CHECK(texts("/../../a") == Texts{"/../../a", "/a"});
    CHECK(texts("/a/..") == Texts{"/a/..", "/"});
    CHECK(texts("/..") == Texts{"/..", "/"});
    CHECK(texts("/.") == Texts{"/.", "/"});
    CHECK(texts("/a/%2e%2e/b") == Texts{"/a/%2E%2E/b", "/a/../b", "/b"});
    CHECK(texts("/a/.../b/..c") == Texts{"/a/.../b/..c"});
}

TEST_CASE("path_readings: separators that only some servers know") {
    CHECK(texts("/a%2Fb") == Texts{"/a%2Fb", "/a/b"});
    CHECK(texts("/a\\b") == Texts{"/a\\b", "/a/b"});
    CHECK(texts("/a%5Cb") == Texts{"/a\\b", "/a/b"});
    CHECK(texts("//a///b/") == Texts{"//a///b/", "/a/b/"});
    CHECK(texts("/public/..%2Fadmin").count("/admin") == 1);
    CHECK(texts("/public/..\\admin").count("/admin") == 1);
    CHECK(texts("/a//../b") == Texts{"/a//../b", "/a/b", "/b", "/a/../b"});
}

TEST_CASE("path_readings: parameters, cut before decoding and after it") {
    CHECK(texts("/a;v=1/b") == Texts{"/a;v=1/b", "/a/b"});
    CHECK(texts("/admin;x") == Texts{"/admin;x", "/admin"});
    CHECK(texts("/x/..;/admin").count("/admin") == 1);
    CHECK(texts("/a%3Bb") == Texts{"/a%3Bb", "/a;b", "/a"});
    // One server cuts at the next slash as sent and sees /admin, another decodes first.
    const Texts found = texts("/admin;x%2Fpublic");
    CHECK(found.count("/admin") == 1);
    CHECK(found.count("/admin/public") == 1);
    CHECK(found.count("/admin;x/public") == 1);
}

TEST_CASE("path_readings: servers that know one trick and not another are among the readings") {
    // Decodes slashes, keeps parameters: /admin/..;/.. is /admin/ to it.
    const auto shape = examine_path("/admin%2F..;%2Fx");
    CHECK_FALSE(has_too_many_readings({false, kEncoded | kEncodedSlash | kParameters}));
    CHECK(has_too_many_readings(shape));  // dot segments, slashes and parameters at once
    CHECK(texts("/admin%2Fx%2F..").count("/admin/") == 1);
    CHECK(texts("/admin%2Fx%2F..").count("/admin/x/..") == 1);
}

TEST_CASE("path_readings: the number of readings is bounded, and each is shorter than the path") {
    std::mt19937 random(99);
    static const char* const kParts[] = {"/",   "a",   ".",   "..", "%2F",  "%2e", "\\",
                                         "%5C", ";",   "%3B", "//", "%20",  "%61", "b",
                                         "/.",  "%25", "%2f", ";/", "/../", "\xff"};
    for (int i = 0; i < 50'000; ++i) {
        std::string path = "/";
        for (auto parts = random() % 12; parts > 0; --parts)
            path += kParts[random() % std::size(kParts)];
        const PathShape shape = examine_path(path);
        REQUIRE_FALSE(shape.bad);
        if (has_too_many_readings(shape)) continue;
        const auto readings = path_readings(path, shape);
        REQUIRE(readings.size() <= 8);
        if (shape.features == 0) REQUIRE(readings.size() == 1);
        for (const PathReading& reading : readings) {
            REQUIRE_MESSAGE(reading.text.starts_with('/'), path);
            REQUIRE_MESSAGE(reading.decoded.starts_with('/'), path);
            REQUIRE(reading.text.size() <= path.size());
            REQUIRE(reading.decoded.size() <= path.size());
        }
        // Segments are the same in both forms of the path as sent.
        REQUIRE_MESSAGE(std::count(readings[0].text.begin(), readings[0].text.end(), '/') ==
                            std::count(readings[0].decoded.begin(), readings[0].decoded.end(), '/'),
                        path);
    }
}

TEST_CASE("path_readings: a segment of a pattern is decoded once") {
    CHECK(decode_segment("a%20b") == "a b");
    CHECK(decode_segment("a%2fb") == "a%2Fb");
    CHECK(decode_segment("%2561") == "%61");
    CHECK_FALSE(decode_segment("%"));
    CHECK_FALSE(decode_segment("%0"));
    CHECK_FALSE(decode_segment("%00"));
}

}  // namespace
}  // namespace tidegate::routing::path_normalization_test
