#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "routing/path_pattern.hpp"
#include "routing/router.hpp"

namespace tidegate::routing::router_test {
namespace {

Router router_of(const std::vector<Match>& matches) {
    Router router;
    for (const Match& match : matches) REQUIRE_MESSAGE(router.add(match).has_value(), match.path);
    return router;
}

Match path(std::string text) {
    Match match;
    match.path = std::move(text);
    return match;
}

Router paths(const std::vector<std::string>& texts) {
    std::vector<Match> matches;
    for (const std::string& text : texts) matches.push_back(path(text));
    return router_of(matches);
}

// "3" for the fourth route, else the fault.
std::string outcome(const Matched& matched) {
    switch (matched.outcome) {
        case MatchOutcome::matched:
            return std::to_string(matched.route);
        case MatchOutcome::no_route:
            return "none";
        case MatchOutcome::bad_path:
            return "bad";
        case MatchOutcome::ambiguous_path:
            return "ambiguous";
        case MatchOutcome::other_case:
            return "case";
        case MatchOutcome::other_method:
            return "method";
        case MatchOutcome::ambiguous_headers:
            return "ambiguous headers";
    }
    return "?";
}

std::string route(const Router& router, std::string_view target, std::string_view method = "GET",
                  std::string_view host = "a", const http::Fields& fields = {}) {
    return outcome(router.match({method, target, host, &fields}));
}

TEST_CASE("router: the first match in the order written wins") {
    const Router router = paths(
        {"/v1/search", "/v1/*", "/v1/{a}/x", "regex:/v[0-9]/.*", "/v1/**", "/v1/late", "/**"});
    CHECK(route(router, "/v1/search") == "0");
    CHECK(route(router, "/v1/search/") == "0");
    CHECK(route(router, "/v1/late") == "1");
    CHECK(route(router, "/v1/a/x") == "2");
    CHECK(route(router, "/v1/a/y") == "3");
    CHECK(route(router, "/v1") == "4");
    CHECK(route(router, "/v2/a") == "3");
    CHECK(route(router, "/v22/a") == "6");
    CHECK(route(router, "/") == "6");
}

TEST_CASE("router: no route, and no routes at all") {
    CHECK(route(paths({"/a"}), "/b") == "none");
    CHECK(route(Router(), "/") == "none");
    CHECK(route(Router(), "*", "OPTIONS") == "none");
    CHECK(route(Router(), "/%") == "bad");
}

TEST_CASE("router: methods are compared as they are, and GET includes HEAD") {
    Match get = path("/a");
    get.methods = {"GET"};
    Match write = path("/a");
    write.methods = {"POST", "PUT"};
    Match head = path("/b");
    head.methods = {"HEAD"};
    const Router router = router_of({get, write, head});
    CHECK(route(router, "/a", "GET") == "0");
    CHECK(route(router, "/a", "HEAD") == "0");
    CHECK(route(router, "/a", "PUT") == "1");
    CHECK(route(router, "/a", "DELETE") == "none");
    CHECK(route(router, "/a", "get") == "method");
    CHECK(route(router, "/b", "GET") == "none");
    CHECK(route(router, "/b", "HEAD") == "2");
}

TEST_CASE("router: a host is compared without port, case and trailing dot") {
    Match api = path("/**");
    api.host = "api.example.com";
    Match v6 = path("/**");
    v6.host = "[2001:db8::1]";
    const Router router = router_of({api, v6, path("/only")});
    for (const char* host : {"api.example.com", "API.Example.COM", "api.example.com:8080",
                             "api.example.com.", "Api.Example.Com.:443"})
        CHECK_MESSAGE(route(router, "/x", "GET", host) == "0", host);
    for (const char* host :
         {"example.com", "xapi.example.com", "", ":80", "api.example.comx", "[2001:db8::2]", "["})
        CHECK_MESSAGE(route(router, "/x", "GET", host) == "none", host);
    CHECK(route(router, "/x", "GET", "[2001:DB8::1]:80") == "1");
    CHECK(route(router, "/x", "GET", "[2001:db8::1]") == "1");
    CHECK(route(router, "/x", "GET", "[2001:db8:0:0::1]") == "1");
    CHECK(route(router, "/only", "GET", "other") == "2");
    CHECK(route(router, "/only", "GET", "api.example.com") == "0");
    CHECK(route(router, "/x", "GET", std::string(100'000, 'a')) == "none");
}

TEST_CASE("router: routes with and without a host keep their order") {
    Match host = path("/**");
    host.host = "a";
    Match regex = path("regex:/r.*");
    regex.host = "a";
    const Router router = router_of({path("/first"), regex, host, path("/**")});
    CHECK(route(router, "/first", "GET", "a") == "0");
    CHECK(route(router, "/r", "GET", "a") == "1");
    CHECK(route(router, "/r", "GET", "b") == "3");
    CHECK(route(router, "/x", "GET", "a") == "2");
    CHECK(route(router, "/x", "GET", "b") == "3");
}

TEST_CASE("router: a condition on a field needs exactly its value") {
    Match beta = path("/**");
    beta.headers = {{"x-beta", "1"}, {"x-plan", "pro"}};
    const Router router = router_of({beta, path("/**")});
    using http::FieldName;
    const auto with = [&](const http::Fields& fields) {
        return route(router, "/", "GET", "a", fields);
    };
    CHECK(with({{FieldName::other, "X-Beta", "1"}, {FieldName::other, "x-plan", "pro"}}) == "0");
    CHECK(with({{FieldName::other, "X-Beta", "0"}, {FieldName::other, "x-plan", "pro"}}) == "1");
    CHECK(with({{FieldName::other, "X-Beta", "1"}}) == "1");
    CHECK(with({{FieldName::other, "X-Beta", "1"}, {FieldName::other, "x-plan", "Pro"}}) == "1");
    CHECK(with({}) == "1");
    CHECK(outcome(router.match({"GET", "/", "a", nullptr})) == "1");
}

TEST_CASE("router: OPTIONS * matches only routes for all paths, or `*`") {
    const Router router = paths({"/a", "/*", "/a/**", "*", "/**"});
    CHECK(route(router, "*", "OPTIONS") == "3");
    CHECK(route(paths({"/a", "/**"}), "*", "OPTIONS") == "1");
    CHECK(route(paths({"/a", "regex:.*"}), "*", "OPTIONS") == "1");
    CHECK(route(paths({"/a", "regex:/.*"}), "*", "OPTIONS") == "none");
    CHECK(route(paths({"*"}), "/") == "none");
    Match get = path("/**");
    get.methods = {"GET"};
    CHECK(route(router_of({get}), "*", "OPTIONS") == "none");
}

TEST_CASE("router: a path that can be read in two ways must not choose its limits") {
    const Router router = paths({"/admin/**", "/search", "/public/**", "/**"});
    for (const char* target : {"/public/../admin",
                               "/public/%2e%2e/admin",
                               "/public/..%2fadmin",
                               "/public/..\\admin",
                               "/public/..%5Cadmin",
                               "/public/..;/admin",
                               "//admin",
                               "/%61dmin",
                               "/admin;x=1",
                               "/./search",
                               "/search;jsessionid=1",
                               "/sear%63h",
                               "//search",
                               "/x/../search",
                               "/public/../../search",
                               "/admin%2Fx",
                               "\\admin",
                               "/\\admin",
                               "/%2Fadmin",
                               "/admin/..",
                               "/admin/../public/a",
                               "/public%2F..%2Fadmin",
                               "/x/..//admin",
                               "/;/admin",
                               "/admin%3Bx",
                               "/admin;x%2F..%2Fpublic",
                               "/admin%2F..;%2F..",
                               "/admin%2Fx%2F..%2F.."}) {
        const std::string got = route(router, target);
        CHECK_MESSAGE((got == "ambiguous" || got == "bad"), target << ": " << got);
    }
}

TEST_CASE("router: a path whose readings agree passes, however odd") {
    const Router router = paths({"/admin/**", "/search", "/public/**", "/**"});
    CHECK(route(router, "/public/a%20b") == "2");
    CHECK(route(router, "/public/a%2Fb") == "2");
    CHECK(route(router, "/public/a;v=1") == "2");
    CHECK(route(router, "/public//a") == "2");
    CHECK(route(router, "/public/x/../y") == "2");
    CHECK(route(router, "/public/%61") == "2");
    CHECK(route(router, "/public/a\\b") == "2");
    CHECK(route(router, "/x//y") == "3");
    CHECK(route(router, "/@scope%2fname") == "3");
    CHECK(route(router, "/admin/./x") == "0");
    CHECK(route(router, "/.well-known/x") == "3");
}

TEST_CASE("router: readings must capture the same") {
    const Router router = paths({"/users/{id}/**", "/files/{name}"});
    CHECK(route(router, "/users/j%20doe") == "0");
    CHECK(route(router, "/users/j%2Edoe") == "0");
    CHECK(route(router, "/users/bob%40example.com/x") == "0");
    CHECK(route(router, "/users/%2561/x") == "0");
    CHECK(route(router, "/users/a/x/../y") == "0");
    CHECK(route(router, "/users/a/../b") == "ambiguous");
    CHECK(route(router, "/users/a%2Fb") == "ambiguous");
    CHECK(route(router, "/users/a;b") == "ambiguous");
    CHECK(route(router, "/users//a") == "ambiguous");
    CHECK(route(router, "/files/a;b") == "ambiguous");
    const Router regex = paths({"regex:/users/(?P<id>[\\w.@]+)(/.*)?", "/**"});
    CHECK(route(regex, "/users/bob%40example.com") == "0");
    CHECK(route(regex, "/users/a/x/../y") == "0");
    CHECK(route(regex, "/users/a/../b/c") == "ambiguous");
}

Match passing(std::string text) {
    Match match = path(std::move(text));
    match.passes_encoded_slash = true;
    return match;
}

TEST_CASE("router: a route that passes an encoded slash takes it as a character of its segment") {
    const Router router = router_of({path("/api/a/b"), path("/api/admin/**"), passing("/api/{id}"),
                                     path("/strict/{id}"), path("/strict/*/b"), path("/**")});
    for (const std::string target :
         {"/api/group%2Fproject", "/api/group%2fproject", "/api/a%2Fb", "/api/admin%2Fx",
          "/api/%2F", "/api/https:%2F%2Fh", "/api/a%2Fb/", "/api/a%2F%41"}) {
        CAPTURE(target);
        CHECK(route(router, target) == "2");
    }
    CHECK(router.captures(2, "/api/group%2fproject") ==
          std::vector<std::string>{"group%2Fproject"});
    CHECK(router.captures(2, "/api/group%2Fproject") ==
          std::vector<std::string>{"group%2Fproject"});
    // Other tricks have as many readings as ever.
    for (const std::string target :
         {"/api/..%2Fadmin%2Fx", "/api/x%2F..%2Fy", "/api/%2E%2E%2Fx", "/api/.%2Fx",
          "/api/x%2Fy/../admin/z", "/api/x%2Fy/..;/admin/z", "/api/x%2Fy;z", "/api/a%2Fb%5Cc",
          "/api%2Fx", "/api/x%2Fy\\z"}) {
        CAPTURE(target);
        CHECK(route(router, target) == "ambiguous");
    }
    // Routes that do not say so are as strict as before, beside it too.
    CHECK(route(router, "/strict/a%2Fb") == "ambiguous");
    CHECK(route(router, "/api/admin/a%2Fb") == "1");  // whatever it means, it is below
    CHECK(route(router, "/other%2Fx") == "5");
    CHECK(router.readings({"GET", "/api/a%2Fb", "a", nullptr}).size() == 1);
}

TEST_CASE("router: an encoded slash that passes has no case, and is matched by expressions, too") {
    Router router(RouteCase::refuse);
    REQUIRE(router.add(passing("regex:/v[0-9]/(?P<id>[^/]+)")).has_value());
    REQUIRE(router.add(path("/v1/a/b")).has_value());
    REQUIRE(router.add(passing("/Users/{name}")).has_value());
    REQUIRE(router.add(path("/**")).has_value());
    CHECK(route(router, "/v1/a%2fb") == "0");
    CHECK(router.captures(0, "/v1/a%2fb") == std::vector<std::string>{"a%2Fb"});
    CHECK(route(router, "/Users/A%2Fb") == "2");
    CHECK(route(router, "/users/a%2Fb") == "case");
    // The route that a path takes as it was sent decides.
    const Router other = router_of({path("/a/*"), passing("/a/{id}"), path("/a/*/*")});
    CHECK(route(other, "/a/b%2Fc") == "ambiguous");
}

TEST_CASE("router: literals are met in any encoding that cannot be avoided") {
    const Router router = paths({"/caf\xc3\xa9", "/a b", "/100%25", "/**"});
    CHECK(route(router, "/caf%C3%A9") == "0");
    CHECK(route(router, "/caf%c3%a9") == "0");
    CHECK(route(router, "/caf\xc3\xa9") == "0");
    CHECK(route(router, "/a%20b") == "1");
    CHECK(route(router, "/100%25") == "2");
}

TEST_CASE("router: a malformed path is refused even where every path has the same route") {
    const Router router = paths({"/**"});
    for (const char* target : {"/%", "/%zz", "/%00", "/a b", "", "a", "/#", "/?"})
        CHECK_MESSAGE(route(router, target) == "bad", target);
    // Nothing else can go wrong there.
    for (const char* target : {"/a/../b", "//", "/a%2Fb", "/a;b\\c/..%2f//"})
        CHECK_MESSAGE(route(router, target) == "0", target);
}

TEST_CASE("router: a path that mixes many tricks is refused unread") {
    const Router router = paths({"/a", "/**"});
    CHECK(route(router, "/x%2F..;/y") == "ambiguous");
    CHECK(route(router, "/x//y\\z;w") == "ambiguous");
}

TEST_CASE("router: a fault in a pattern or a host is returned, and the route is not added") {
    Router router;
    CHECK_FALSE(router.add(path("/a**")).has_value());
    Match port = path("/");
    port.host = "example.com:8080";
    CHECK(router.add(port).error() == "a host is matched without its port: `example.com`");
    Match none = path("/");
    none.host = ".";
    CHECK_FALSE(router.add(none).has_value());
    REQUIRE(router.add(path("/**")).has_value());
    CHECK(route(router, "/x") == "0");
}

TEST_CASE("router: a field that some route asks for must be there once, as itself, and go on") {
    Match beta = path("/beta/**");
    beta.headers = {{"x-beta", "1"}};
    const Router router = router_of({beta, path("/**")});
    using http::FieldName;
    const auto with = [&](const http::Fields& fields, std::string_view target = "/beta/x") {
        return route(router, target, "GET", "a", fields);
    };
    const http::Fields once = {{FieldName::other, "x-BETA", "1"}};
    CHECK(with(once) == "0");
    for (const std::string_view other : {"X-Beta", "X_Beta", "X.Beta", "x_beta"}) {
        CAPTURE(other);
        for (const std::string_view value : {"1", "0", ""}) {
            CHECK(with({once[0], {FieldName::other, other, value}}) == "ambiguous headers");
        }
    }
    // White space around a value makes no other value.
    for (const std::string_view value : {"1\xc2\xa0",
                                         "\xe3\x80\x80"
                                         "1",
                                         "1\xa0"}) {
        CHECK(with({{FieldName::other, "X-Beta", value}}) == "0");
    }
    for (const std::string_view value : {"1 1", "11", "2\xc2\xa0", "\xc2\xa0"}) {
        CHECK(with({{FieldName::other, "X-Beta", value}}) == "1");
    }
    CHECK(with({{FieldName::other, "X_Beta", "1"}}) == "ambiguous headers");
    CHECK(with({{FieldName::named_by_connection, "X-Beta", "1"}}) == "ambiguous headers");
    // Whichever route it is: the upstream may choose by it, too.
    CHECK(with({{FieldName::other, "X_Beta", "1"}}, "/other") == "ambiguous headers");
    CHECK(with({{FieldName::other, "X-Betas", "1"}, {FieldName::other, "Beta", "1"}}) == "1");
    CHECK(router.header_names() == std::vector<std::string>{"x-beta"});
    CHECK(route(paths({"/**"}), "/", "GET", "a", {{FieldName::other, "X_Beta", "1"}}) == "0");
}

TEST_CASE("router: requests without the fields that a route asks for take the next that has none") {
    Match beta = path("/a/*");
    beta.headers = {{"x-beta", "1"}};
    Match gamma = path("/**");
    gamma.headers = {{"x-gamma", "1"}};
    Match get = path("/**");
    get.methods = {"GET"};
    const Router router = router_of({beta, gamma, get, path("/a/**"), path("/b")});
    using Position = std::optional<std::size_t>;
    CHECK(router.without_headers(0) == Position(3));
    CHECK(router.without_headers(1) == Position());
    CHECK(router.without_headers(2) == Position());
}

TEST_CASE("router: a route that an earlier one takes all of is shadowed") {
    Match get = path("/a/*");
    get.methods = {"GET"};
    Match head = path("/a/x");
    head.methods = {"HEAD"};
    Match host = path("/a/x");
    host.host = "h";
    Match beta = path("/a/x");
    beta.headers = {{"x-beta", "1"}};
    const Router router =
        router_of({get, head, path("/a/x"), host, beta, path("/**"), path("/z"), path("/y")});
    using Position = std::optional<std::size_t>;
    CHECK(router.shadowed_by(0) == Position());
    CHECK(router.shadowed_by(1) == Position(0));
    CHECK(router.shadowed_by(2) == Position());  // takes more than GET
    CHECK(router.shadowed_by(3) == Position(2));
    CHECK(router.shadowed_by(4) == Position(2));
    CHECK(router.shadowed_by(5) == Position());
    CHECK(router.shadowed_by(6) == Position(5));
}

TEST_CASE("router: a prefix shadows a regular expression below it, unless it takes less") {
    Match get = path("/v2/**");
    get.methods = {"GET"};
    Match post = path("regex:/v2/(a|b)");
    post.methods = {"POST"};
    const Router router = router_of({path("/v1/**"), get, path("regex:/v1/(a|b)"), post,
                                     path("regex:/v2/(a|b)"), path("regex:/v[1]/a")});
    using Position = std::optional<std::size_t>;
    CHECK(router.shadowed_by(2) == Position(0));
    CHECK(router.shadowed_by(3) == Position());
    CHECK(router.shadowed_by(4) == Position());
    CHECK(router.shadowed_by(5) == Position(0));
}

// The obvious router: every pattern in turn.
std::string route_plainly(const std::vector<PathPattern>& patterns, std::string_view target) {
    for (std::size_t i = 0; i < patterns.size(); ++i)
        if (patterns[i].matches(target)) return std::to_string(i);
    return "none";
}

TEST_CASE("router: the index agrees with comparing every pattern") {
    std::mt19937 random(31337);
    static const char* const kSegments[] = {"a", "b", "c", "*", "{x}", "a", "b"};
    for (int round = 0; round < 300; ++round) {
        std::vector<std::string> texts;
        std::vector<PathPattern> patterns;
        for (auto count = random() % 30 + 1; count > 0; --count) {
            std::string text;
            for (auto depth = random() % 4; depth > 0; --depth) {
                const std::string segment = kSegments[random() % std::size(kSegments)];
                text += "/" + (segment == "{x}" ? "{x" + std::to_string(depth) + "}" : segment);
            }
            const auto ending = random() % 4;
            if (ending == 0) text += "/**";
            if (ending == 1 || text.empty()) text += "/";
            if (ending == 2 && random() % 4 == 0) text = "regex:/[ab](/.*)?";
            auto pattern = PathPattern::parse(text);
            if (!pattern.has_value()) continue;
            texts.push_back(text);
            patterns.push_back(*std::move(pattern));
        }
        const Router router = paths(texts);
        for (int i = 0; i < 100; ++i) {
            std::string target;
            for (auto depth = random() % 5; depth > 0; --depth)
                target += std::string("/") + "abcd"[random() % 4];
            if (random() % 3 == 0 || target.empty()) target += "/";
            REQUIRE_MESSAGE(route(router, target) == route_plainly(patterns, target), target);
        }
    }
}

TEST_CASE("router: captures are those of all readings, decoded once") {
    const Router router =
        paths({"/users/{id}/{part}", "/free/**", "regex:/v(?P<version>[0-9]+)(?:/(?P<rest>.*))?"});
    using Captured = std::vector<std::string>;
    CHECK(router.captures(0, "/users/7/x") == Captured{"7", "x"});
    CHECK(router.captures(0, "/users/%37/x/") == Captured{"7", "x"});
    CHECK(router.captures(0, "/users/a%20b/%25") == Captured{"a b", "%"});
    CHECK(router.captures(1, "/free/a").empty());
    // By name; a group that took no part is empty.
    CHECK(router.captures(2, "/v12") == Captured{"", "12"});
    CHECK(router.captures(2, "/v12/a") == Captured{"a", "12"});
}

TEST_CASE("router: a route that does not match gives the first mismatch") {
    Match match = path("/v1/{id}");
    match.host = "a.example";
    match.methods = {"POST"};
    match.headers = {{"x-beta", "1"}};
    const Router router = router_of({match, path("regex:/v1/[a-z ]+"), path("*")});
    const http::Fields beta = {{http::FieldName::other, "X-Beta", "1"}};
    const auto lacks =
        [&](std::size_t index, std::string_view target, std::string_view method = "POST",
            std::string_view host = "A.example.:80", const http::Fields& fields = {}) {
            return router.mismatch(index, {method, target, host, &fields});
        };
    CHECK(lacks(0, "/v2/7") == Mismatch::path);
    CHECK(lacks(0, "/v1/7", "POST", "b.example") == Mismatch::host);
    CHECK(lacks(0, "/v1/7", "GET") == Mismatch::method);
    CHECK(lacks(0, "/v1/7") == Mismatch::headers);
    CHECK(lacks(0, "/v1/7", "POST", "a.example", beta) == Mismatch::none);
    CHECK(lacks(1, "/v1/a%20b") == Mismatch::none);
    CHECK(lacks(1, "/v1/7") == Mismatch::path);
    CHECK(lacks(2, "*") == Mismatch::none);
    CHECK(lacks(2, "/") == Mismatch::path);
    CHECK(lacks(0, "/v1/%zz") == Mismatch::headers);  // as it was sent, though it is refused
}

TEST_CASE("router: readings() lists every reading with its route and captures") {
    const Router router = paths({"/a/{id}", "/b"});
    const http::Fields none;
    const auto readings = router.readings({"GET", "/a/%2e%2e/b", "h", &none});
    REQUIRE(readings.size() >= 2);
    CHECK(readings.front().text == "/a/%2E%2E/b");  // one spelling of an escape
    CHECK_FALSE(readings.front().route);
    bool found = false;
    for (const ReadPath& reading : readings) found = found || (reading.text == "/b");
    CHECK(found);
    const auto plain = router.readings({"GET", "/a/7", "h", &none});
    REQUIRE(plain.size() == 1);
    CHECK(plain.front().route == 0);
    CHECK(plain.front().captures == std::vector<std::string>{"7"});
    CHECK(router.readings({"GET", "/%zz", "h", &none}).empty());
    CHECK(router.readings({"OPTIONS", "*", "h", &none}).empty());
    CHECK(router.readings({"GET", "/..;//%5c/", "h", &none}).empty());  // mixes too much
}

}  // namespace
}  // namespace tidegate::routing::router_test
