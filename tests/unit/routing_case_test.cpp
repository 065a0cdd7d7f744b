// Paths and methods whose letters are in another case than a route has them.
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "routing/path_pattern.hpp"
#include "routing/router.hpp"

namespace tidegate::routing::case_test {
namespace {

Match path(std::string text) {
    Match match;
    match.path = std::move(text);
    return match;
}

Router router_of(const std::vector<Match>& matches, RouteCase route_case = RouteCase::refuse) {
    Router router(route_case);
    for (const Match& match : matches) REQUIRE_MESSAGE(router.add(match).has_value(), match.path);
    return router;
}

Router paths(const std::vector<std::string>& texts, RouteCase route_case = RouteCase::refuse) {
    std::vector<Match> matches;
    for (const std::string& text : texts) matches.push_back(path(text));
    return router_of(matches, route_case);
}

// "3" for the fourth route, else the fault.
std::string route(const Router& router, std::string_view target, std::string_view method = "GET",
                  std::string_view host = "a", const http::Fields& fields = {}) {
    const Matched matched = router.match({method, target, host, &fields});
    switch (matched.outcome) {
        case MatchOutcome::matched:
            return std::to_string(matched.route);
        case MatchOutcome::no_route:
            return "none";
        case MatchOutcome::bad_path:
            return "bad";
        case MatchOutcome::ambiguous_path:
            return "ambiguous";
        case MatchOutcome::ambiguous_headers:
            return "ambiguous headers";
        case MatchOutcome::other_case:
            return "case";
        case MatchOutcome::other_method:
            return "method";
    }
    return "?";
}

TEST_CASE("case: a path that matches another route without case is refused, matched or passed") {
    const std::vector<std::string> routes{"/login", "/users/{id}/Orders", "/static/**", "/**"};
    const Router refuse = paths(routes);
    const Router ignore = paths(routes, RouteCase::ignore);
    const Router as_sent = paths(routes, RouteCase::as_sent);
    const struct {
        const char* path;
        const char* refuse;
        const char* ignore;
        const char* as_sent;
    } cases[] = {
        {"/login", "0", "0", "0"},
        {"/login/", "0", "0", "0"},
        {"/LOGIN", "case", "0", "3"},
        {"/Login/", "case", "0", "3"},
        {"/login/X", "3", "3", "3"},
        {"/LOGIN/X", "3", "3", "3"},
        {"/loginX", "3", "3", "3"},
        {"/users/Alice/Orders", "1", "1", "1"},
        {"/users/ALICE/Orders", "1", "1", "1"},
        {"/users/alice/orders", "case", "1", "3"},
        {"/Users/alice/Orders", "case", "1", "3"},
        {"/users/alice/Orders/7", "3", "3", "3"},
        {"/static", "2", "2", "2"},
        {"/static/Logo.PNG", "2", "2", "2"},
        {"/Static/logo.png", "case", "2", "3"},
        {"/Users/42", "3", "3", "3"},
        {"/", "3", "3", "3"},
        // Encoded, alone and with what servers read differently.
        {"/%4cogin", "ambiguous", "ambiguous", "3"},
        {"/%4CogiN/", "ambiguous", "ambiguous", "3"},
        {"/Login;x", "ambiguous", "ambiguous", "3"},
        {"/x/../LOGIN", "ambiguous", "ambiguous", "3"},
        {"//LOGIN", "ambiguous", "ambiguous", "3"},
        {"/%4CGIN", "3", "3", "3"},
        // Letters that some servers take for others.
        {"/log\u0130n", "case", "0", "3"},
        {"/log%C4%B1n", "case", "0", "3"},
        {"/u%C5%BFers/7/Orders", "case", "1", "3"},
        {"/static/%E2%84%AA", "2", "2", "2"},
    };
    for (const auto& each : cases) {
        CAPTURE(each.path);
        // An encoded letter may be refused for either reason.
        const std::string refused = route(refuse, each.path);
        if (std::string(each.refuse) == "ambiguous")
            CHECK((refused == "ambiguous" || refused == "case"));
        else
            CHECK(refused == each.refuse);
        CHECK(route(ignore, each.path) == each.ignore);
        CHECK(route(as_sent, each.path) == each.as_sent);
    }
}

TEST_CASE("case: without a route in the path's own case, it is refused as well") {
    CHECK(route(paths({"/login"}), "/Login") == "case");
    CHECK(route(paths({"/login"}, RouteCase::ignore), "/Login") == "0");
    CHECK(route(paths({"/login"}, RouteCase::as_sent), "/Login") == "none");
    CHECK(route(paths({"/login"}), "/other") == "none");
}

TEST_CASE("case: where two routes differ only by case, the first in order has its spelling") {
    for (const auto& routes : {std::vector<std::string>{"/Login", "/login", "/**"},
                               std::vector<std::string>{"/Login/**", "/login/{x}", "/**"}}) {
        const std::string more = routes[0] == "/Login" ? "" : "/x";
        CHECK(route(paths(routes), "/Login" + more) == "0");
        CHECK(route(paths(routes), "/login" + more) == "case");
        CHECK(route(paths(routes), "/LOGIN" + more) == "case");
        CHECK(route(paths(routes, RouteCase::ignore), "/login" + more) == "0");
        CHECK(route(paths(routes, RouteCase::as_sent), "/login" + more) == "1");
    }
}

TEST_CASE("case: letters beyond ASCII, raw and encoded, in UTF-8 and in Latin-1") {
    const Router router = paths({"/caf\u00E9", "/stra\u00DFe", "/na%EFve", "/**"});
    CHECK(route(router, "/caf%C3%A9") == "0");
    CHECK(route(router, "/caf%c3%89") == "case");
    CHECK(route(router, "/CAF\u00C9") == "case");
    CHECK(route(router, "/cafe") == "3");
    CHECK(route(router, "/STRASSE") == "case");
    CHECK(route(router, "/na%EFve") == "2");
    CHECK(route(router, "/na%CFve") == "case");
    const Router blind = paths({"/caf\u00E9", "/**"}, RouteCase::ignore);
    CHECK(route(blind, "/CAF%C3%89") == "0");
}

TEST_CASE("case: regular expressions are matched without case, too") {
    const std::vector<std::string> routes{"regex:/v[0-9]+/(?P<Kind>users|groups)/.*",
                                          "regex:/[A-Z]+", "regex:/caf\u00E9.*", "/**"};
    const Router refuse = paths(routes);
    CHECK(route(refuse, "/v1/users/Bob") == "0");
    CHECK(route(refuse, "/v1/Users/Bob") == "case");
    CHECK(route(refuse, "/V1/users/bob") == "case");
    CHECK(route(refuse, "/ABC") == "1");
    CHECK(route(refuse, "/abc") == "case");
    CHECK(route(refuse, "/caf%C3%89") == "case");
    CHECK(route(refuse, "/x/Y") == "3");
    const Router ignore = paths(routes, RouteCase::ignore);
    CHECK(route(ignore, "/V1/USERS/Bob") == "0");
    CHECK(route(ignore, "/CAF\u00C9s") == "2");
    CHECK(ignore.captures(0, "/V1/Users/Bob") == std::vector<std::string>{"Users"});
    // The expression divides the path in another way if case is ignored.
    const Router split = paths({"regex:/(?P<a>[a-z]*)(?P<b>.*)"});
    CHECK(route(split, "/abc") == "0");
    CHECK(route(split, "/Abc") == "case");
}

TEST_CASE("case: a class that holds capitals in disguise is not overlooked") {
    for (const char* expression :
         {"regex:/[0-z]+", "regex:/[@-_]+", "regex:/[\\x41-\\x5A]+", "regex:/[[:upper:]]+",
          "regex:/\\p{Lu}+", "regex:/\\101+", "regex:/[^a-z]+", "regex:/(?P<x>A+)"}) {
        CAPTURE(expression);
        const Router router = paths({expression, "/**"});
        for (const char* target : {"/a", "/k", "/aaa"}) {
            const bool as_sent = PathPattern::parse(expression)->matches(target);
            const bool blind = PathPattern::parse(expression)->ignoring_case()->matches(target);
            const std::string got = route(router, target);
            CHECK(got == (as_sent != blind ? "case" : as_sent ? "0" : "1"));
        }
    }
}

TEST_CASE("case: a route that the request does not meet otherwise is no other route") {
    Match post = path("/login");
    post.methods = {"POST"};
    Match host = path("/admin/**");
    host.host = "api.example";
    Match beta = path("/search");
    beta.headers = {{"x-beta", "1"}};
    const Router router = router_of({post, host, beta, path("/**")});
    CHECK(route(router, "/LOGIN", "POST") == "case");
    CHECK(route(router, "/LOGIN", "GET") == "3");
    CHECK(route(router, "/Admin/x", "GET", "API.example:80") == "case");
    CHECK(route(router, "/Admin/x", "GET", "other.example") == "3");
    CHECK(route(router, "/Search", "GET", "a", {{http::FieldName::other, "X-Beta", "1"}}) ==
          "case");
    CHECK(route(router, "/Search") == "3");
}

TEST_CASE("case: a method in another case than a known one is refused, whatever its route") {
    Match purge = path("/cache/**");
    purge.methods = {"PURGE"};
    for (const RouteCase route_case : {RouteCase::refuse, RouteCase::ignore, RouteCase::as_sent}) {
        const Router router = router_of({purge, path("/**")}, route_case);
        for (const char* method :
             {"Post", "post", "gET", "Head", "patch", "Options", "connect", "trace", "propfind",
              "Mkcol", "purge", "Purge", "version-control"})
            CHECK_MESSAGE(route(router, "/x", method) == "method", method);
        for (const char* method :
             {"POST", "PURGE", "HEAD", "PROPFIND", "Brew", "X-Y", "GETS", "ge"})
            CHECK_MESSAGE(route(router, "/x", method) == "1", method);
        CHECK(route(router, "*", "options") == "method");
        CHECK(route(router, "/%", "get") == "method");
    }
    CHECK(route(paths({"/**"}), "/x", "get") == "method");
    Match lower = path("/");
    lower.methods = {"purge"};
    Router router;
    CHECK(router.add(lower).error() == "a method has no lower-case letters: `purge`");
}

TEST_CASE("case: a capture keeps the case it was sent in") {
    const Router router = paths({"/users/{id}"}, RouteCase::ignore);
    CHECK(router.captures(0, "/USERS/Alice") == std::vector<std::string>{"Alice"});
    CHECK(router.captures(0, "/Users/%C3%89") == std::vector<std::string>{"\u00C9"});
    CHECK(router.captures(0, "/users/ALICE/") == std::vector<std::string>{"ALICE"});
}

TEST_CASE("case: long paths fold as short ones do") {
    const std::string longest(3'000, 'x');
    const Router router = paths({"/" + std::string(1'000, 'x') + "/a", "/p/**", "/**"});
    CHECK(route(router, "/" + std::string(1'000, 'X') + "/A") == "case");
    CHECK(route(router, "/P/" + longest) == "case");
    CHECK(route(router, "/q/" + longest + "X") == "2");
}

TEST_CASE("case: explanations agree with the match") {
    const Router refuse = paths({"/login", "/**"});
    const auto readings = refuse.readings({"GET", "/LOGIN", "h", nullptr});
    REQUIRE(readings.size() == 2);
    CHECK(readings[0].route == 1);
    CHECK_FALSE(readings[0].ignoring_case);
    CHECK(readings[1].route == 0);
    CHECK(readings[1].ignoring_case);
    CHECK(refuse.readings({"GET", "/Other", "h", nullptr}).size() == 1);
    CHECK(refuse.mismatch(0, {"GET", "/LOGIN", "h", nullptr}) == Mismatch::path);
    const Router ignore = paths({"/login", "/**"}, RouteCase::ignore);
    CHECK(ignore.mismatch(0, {"GET", "/LOGIN", "h", nullptr}) == Mismatch::none);
    CHECK(ignore.readings({"GET", "/LOGIN", "h", nullptr}).front().route == 0);
}

TEST_CASE("case: routes that are shadowed, overlap or are escaped without case are found") {
    using Position = std::optional<std::size_t>;
    const std::vector<std::string> routes{"/Login",       "/login/", "/x/{a}/Y", "/X/b/**",
                                          "regex:/LOG.*", "/other",  "/**"};
    const Router ignore = paths(routes, RouteCase::ignore);
    CHECK(ignore.shadowed_by(1) == Position(0));
    CHECK(ignore.shadowed_by(3) == Position());
    const Router refuse = paths(routes);
    CHECK(refuse.shadowed_by(1) == Position());
    CHECK(refuse.differs_by_case(0) == Position());
    CHECK(refuse.differs_by_case(1) == Position(0));
    CHECK(refuse.differs_by_case(3) == Position(2));
    CHECK(refuse.differs_by_case(4) == Position(0));
    CHECK(refuse.differs_by_case(5) == Position());
    CHECK(refuse.differs_by_case(6) == Position());
    CHECK(refuse.escape_by_case(0) == Position());  // no path escapes
    const Router as_sent = paths({"/login", "/a b/{x}", "/1/2", "/**"}, RouteCase::as_sent);
    CHECK(as_sent.escape_by_case(0) == Position(3));
    CHECK(as_sent.escape_by_case(1) == Position(3));
    CHECK(as_sent.escape_by_case(2) == Position());  // has no letters
    CHECK(as_sent.escape_by_case(3) == Position());
    Match get = path("/a");
    get.methods = {"GET"};
    Match post = path("/A");
    post.methods = {"POST"};
    CHECK(router_of({get, post}).differs_by_case(1) == Position());
}

// Any server's reading of a path's case: each letter as it likes.
std::string in_some_case(std::string text, std::mt19937& random) {
    for (char& c : text)
        if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && random() % 2 == 0)
            c = static_cast<char>(c ^ 0x20);
    return text;
}

TEST_CASE("case: no spelling of an admitted path names a route before the one it takes") {
    std::mt19937 random(20'261);
    static const char* const kSegments[] = {"a", "A", "bc", "Bc", "*", "{x}", "d1", "7"};
    for (int round = 0; round < 300; ++round) {
        std::vector<std::string> texts;
        for (auto count = random() % 8 + 1; count > 0; --count) {
            std::string text;
            for (auto depth = random() % 4; depth > 0; --depth) {
                const std::string segment = kSegments[random() % std::size(kSegments)];
                text += "/" + (segment == "{x}" ? "{x" + std::to_string(depth) + "}" : segment);
            }
            const auto ending = random() % 4;
            if (ending == 0) text += "/**";
            if (ending == 1 || text.empty()) text += "/";
            if (ending == 2 && random() % 4 == 0) text = "regex:/[aB]c?(/.*)?";
            texts.push_back(text);
        }
        const Router refuse = paths(texts);
        const Router ignore = paths(texts, RouteCase::ignore);
        const Router as_sent = paths(texts, RouteCase::as_sent);
        for (int i = 0; i < 60; ++i) {
            std::string target;
            for (auto depth = random() % 4; depth > 0; --depth)
                target += "/" + in_some_case(kSegments[random() % 4], random);
            if (random() % 3 == 0 || target.empty()) target += "/";
            CAPTURE(target);
            const std::string got = route(refuse, target);
            const std::string first = route(ignore, target);
            const std::string exact = route(as_sent, target);
            REQUIRE(got == (first == exact ? exact : "case"));
            if (got == "case") continue;
            for (int spelling = 0; spelling < 8; ++spelling) {
                const std::string other = route(as_sent, in_some_case(target, random));
                if (got == "none") REQUIRE(other == "none");
                if (got != "none" && other != "none") REQUIRE(std::stoul(other) >= std::stoul(got));
            }
        }
    }
}

}  // namespace
}  // namespace tidegate::routing::case_test
