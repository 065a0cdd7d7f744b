#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "http/cors_origin.hpp"

namespace tidegate::http::cors_origin_test {

namespace {

OriginList list_of(const std::vector<std::string>& patterns) {
    OriginList list;
    for (const std::string& text : patterns) {
        auto pattern = parse_origin_pattern(text);
        CAPTURE(text);
        REQUIRE(pattern.has_value());
        list.patterns.push_back(*pattern);
    }
    return list;
}

bool matches(const std::string& pattern, const std::string& origin) {
    return list_of({pattern}).include(origin);
}

std::string error_of(const std::string& pattern) {
    const auto parsed = parse_origin_pattern(pattern);
    return parsed ? "" : parsed.error();
}

TEST_CASE("origin: an origin matches in any case of scheme and host, with its own port only") {
    struct Row {
        std::string pattern;
        std::string origin;
        bool matches;
    };
    const std::vector<Row> rows{
        {"https://app.example.com", "https://app.example.com", true},
        {"https://app.example.com", "HTTPS://App.Example.COM", true},
        {"HTTPS://APP.example.com", "https://app.example.com", true},
        {"https://app.example.com", "https://app.example.com:443", true},
        {"https://app.example.com:443", "https://app.example.com", true},
        {"http://app.example.com:80", "http://app.example.com", true},
        {"https://app.example.com:80", "https://app.example.com", false},
        {"https://app.example.com:8443", "https://app.example.com:8443", true},
        {"https://app.example.com:8443", "https://app.example.com", false},
        {"https://app.example.com", "https://app.example.com:8443", false},
        {"https://app.example.com", "http://app.example.com", false},
        {"https://app.example.com", "https://app.example.com.evil.test", false},
        {"https://app.example.com", "https://evil.test/https://app.example.com", false},
        {"https://app.example.com", "https://xapp.example.com", false},
        {"https://app.example.com", "https://app.example.com.", false},
        {"https://app.example.com", "https://appxexample.com", false},
        {"https://example.com", "https://app.example.com", false},
        {"http://127.0.0.1:3000", "http://127.0.0.1:3000", true},
        {"http://[::1]:3000", "http://[::1]:3000", true},
        {"http://[0:0::1]:3000", "http://[::1]:3000", true},
        {"http://[::1]:3000", "http://[::2]:3000", false},
        {"http://[2001:DB8::A]", "http://[2001:db8::a]", true},
        {"capacitor://localhost", "capacitor://localhost", true},
        {"capacitor://localhost", "capacitor://localhost:1", false},
        {"chrome-extension://abcdefghijklmnop", "chrome-extension://abcdefghijklmnop", true},
    };
    for (const Row& row : rows) {
        CAPTURE(row.pattern);
        CAPTURE(row.origin);
        CHECK(matches(row.pattern, row.origin) == row.matches);
    }
}

TEST_CASE("origin: `*.` stands for one or more labels, with the same scheme and port") {
    const std::string pattern = "https://*.example.org";
    CHECK(matches(pattern, "https://a.example.org"));
    CHECK(matches(pattern, "https://a.b.example.org"));
    CHECK(matches(pattern, "https://A.Example.ORG:443"));
    CHECK_FALSE(matches(pattern, "https://example.org"));
    CHECK_FALSE(matches(pattern, "https://.example.org"));
    CHECK_FALSE(matches(pattern, "https://a..example.org"));
    CHECK_FALSE(matches(pattern, "https://aexample.org"));
    CHECK_FALSE(matches(pattern, "https://a.example.org.evil.test"));
    CHECK_FALSE(matches(pattern, "https://evil.test#.example.org"));
    CHECK_FALSE(matches(pattern, "https://evil.test/.example.org"));
    CHECK_FALSE(matches(pattern, "https://evil.test\\.example.org"));
    CHECK_FALSE(matches(pattern, "https://user@a.example.org"));
    CHECK_FALSE(matches(pattern, "http://a.example.org"));
    CHECK_FALSE(matches(pattern, "https://a.example.org:8443"));
    CHECK(matches("https://*.example.org:8443", "https://a.example.org:8443"));
    CHECK_FALSE(matches("https://*.example.org:8443", "https://a.example.org"));
    CHECK_FALSE(matches(pattern, "https://*.example.org"));
}

TEST_CASE("origin: what is no single origin matches nothing") {
    const OriginList list = list_of({"https://a.test", "https://*.a.test"});
    for (const std::string origin : {"",
                                     "null",
                                     "*",
                                     "a.test",
                                     "https:",
                                     "https://",
                                     "https:///",
                                     "https://a.test/",
                                     "https://a.test/x",
                                     "https://a.test?",
                                     "https://a.test#",
                                     "https://a.test:",
                                     "https://a.test:0443",
                                     "https://a.test:0",
                                     "https://a.test:65979",
                                     "https://a.test:+443",
                                     "https://a.test:443:443",
                                     "https://a.test https://a.test",
                                     "https://a.test,https://a.test",
                                     " https://a.test",
                                     "https://a.test ",
                                     "https://a.test\t",
                                     "://a.test",
                                     "1https://a.test",
                                     "https//a.test",
                                     "https:/a.test",
                                     "https://b@a.test",
                                     "https://%61.test",
                                     "https://[::1",
                                     "https://[a.test]",
                                     "https://a.test]",
                                     "https://\xc3\xa4.a.test"}) {
        CAPTURE(origin);
        CHECK_FALSE(list.include(origin));
    }
    CHECK_FALSE(list.include(std::string("https://a.test\0", 15)));
    CHECK_FALSE(list.include("https://" + std::string(kOriginBytesMax, 'a') + ".a.test"));
}

TEST_CASE("origin: `null` matches only where it is listed, and `*` matches every text but none") {
    OriginList list = list_of({"https://a.test"});
    list.opaque = true;
    CHECK(list.include("null"));
    CHECK_FALSE(list.include("NULL"));
    OriginList any;
    any.any = true;
    CHECK(any.include("https://b.test"));
    CHECK(any.include("null"));
    CHECK_FALSE(any.include(""));
}

TEST_CASE("origin: the parts of an origin are views into it") {
    const std::string text = "https://[2001:db8::1]:8443";
    const auto origin = parse_origin(text);
    REQUIRE(origin);
    CHECK(origin->scheme == "https");
    CHECK(origin->host == "[2001:db8::1]");
    CHECK(origin->port == 8'443);
    CHECK(parse_origin("https://a")->port == 443);
    CHECK(parse_origin("HTTP://a")->port == 80);
    CHECK(parse_origin("app://a")->port == 0);
}

TEST_CASE("origin: a malformed pattern gets advice on what to write") {
    CHECK(error_of("app.example.com") == "has no scheme: write `https://app.example.com`");
    CHECK(error_of("https://app.example.com/") ==
          "has a path: an origin ends with its host or port: write `https://app.example.com`");
    CHECK(error_of("https://a.test:8443/x?y") ==
          "has a path: an origin ends with its host or port: write `https://a.test:8443`");
    CHECK(error_of("https://*") ==
          "allows every host: write `*` alone, or `https://*.example.org`");
    CHECK(error_of("https://app.*.com").starts_with("has `*` in another place"));
    CHECK(error_of("https://*app.com").starts_with("has `*` in another place"));
    CHECK(error_of("https://*.*.com").starts_with("has `*` in another place"));
    CHECK(error_of("*://a.test").starts_with("is not an origin such as"));
    CHECK(error_of("https://a:b@a.test") == "has a user: an origin has none");
    CHECK(error_of("https://a.test:0").starts_with("is not an origin such as"));
    CHECK(error_of("https://*.10.0.0.1") == "is an address, which has no subdomains: remove `*.`");
    CHECK(error_of("https://*.[::1]") == "is an address, which has no subdomains: remove `*.`");
}

}  // namespace

}  // namespace tidegate::http::cors_origin_test
