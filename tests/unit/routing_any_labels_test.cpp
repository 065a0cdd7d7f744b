// Hosts of routes such as `*.example.com`.
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "routing/router.hpp"

namespace tidegate::routing::any_labels_test {
namespace {

Match of_host(std::string host, std::string path = "/**") {
    Match match;
    match.host = std::move(host);
    match.path = std::move(path);
    return match;
}

Router router_of(const std::vector<Match>& matches, RouteCase route_case = RouteCase::refuse) {
    Router router(route_case);
    for (const Match& match : matches) REQUIRE(router.add(match).has_value());
    return router;
}

std::string route(const Router& router, std::string_view host, std::string_view path = "/x") {
    const Matched matched = router.match({"GET", path, host, nullptr});
    return matched.outcome == MatchOutcome::matched ? std::to_string(matched.route) : "none";
}

TEST_CASE("router: `*.example.com` takes one or more labels, not the name itself") {
    const Router router = router_of({of_host("*.example.com")});
    for (const char* host : {"a.example.com", "a.b.example.com", "A.EXAMPLE.com:8080",
                             "a.example.com.", "a.b.c.d.e.example.com"}) {
        CHECK_MESSAGE(route(router, host) == "0", host);
    }
    for (const char* host : {"example.com", "aexample.com", "a.example.org", "com", "", "a",
                             "example.com.a", ".example.com", "[2001:db8::1]", "192.0.2.1"}) {
        CHECK_MESSAGE(route(router, host) == "none", host);
    }
}

TEST_CASE("router: hosts with and without `*` keep the order in which they are written") {
    const Router router = router_of(
        {of_host("*.example.com", "/first"), of_host("api.example.com"), of_host("*.example.com"),
         of_host("*.api.example.com", "/first"), of_host("*.com"), of_host("")});
    CHECK(route(router, "api.example.com", "/first") == "0");
    CHECK(route(router, "api.example.com") == "1");
    CHECK(route(router, "www.example.com") == "2");
    CHECK(route(router, "v1.api.example.com", "/first") == "0");
    CHECK(route(router, "example.com") == "4");
    CHECK(route(router, "com") == "5");
    const Router later = router_of({of_host(""), of_host("*.example.com")});
    CHECK(route(later, "a.example.com") == "0");
    Match regex = of_host("*.example.com", "regex:/r[0-9]+");
    const Router mixed = router_of({of_host("*.example.com", "/r1"), regex});
    CHECK(route(mixed, "a.example.com", "/r1") == "0");
    CHECK(route(mixed, "a.example.com", "/r2") == "1");
    CHECK(route(mixed, "example.com", "/r2") == "none");
}

TEST_CASE("router: routes by host are found as if each were compared with the request") {
    std::mt19937 random{7};
    const std::vector<std::string> names = {"a", "b", "a.b", "b.a", "a.b.a", "b.b.a", "a.a.b"};
    for (int round = 0; round < 300; ++round) {
        std::vector<Match> matches;
        for (int i = 0; i < 4; ++i) {
            const std::string& name = names[random() % names.size()];
            matches.push_back(of_host(random() % 2 == 0 ? "*." + name : name));
        }
        const Router router = router_of(matches);
        for (const std::string& host : names) {
            std::string expected = "none";
            for (std::size_t i = matches.size(); i-- > 0;) {
                const std::string& wanted = matches[i].host;
                const bool fits =
                    wanted.starts_with("*.") ? host.ends_with(wanted.substr(1)) : wanted == host;
                if (fits) expected = std::to_string(i);
            }
            CHECK(route(router, host) == expected);
        }
    }
}

TEST_CASE("router: check sees which hosts cover each other") {
    const Router router =
        router_of({of_host("*.example.com"), of_host("a.example.com"), of_host("*.b.example.com"),
                   of_host("example.com"), of_host("")});
    CHECK(router.shadowed_by(1) == 0);
    CHECK(router.shadowed_by(2) == 0);
    CHECK_FALSE(router.shadowed_by(3));
    CHECK_FALSE(router.shadowed_by(4));
    CHECK(router.names_host(1));
    CHECK_FALSE(router.names_host(0));
    CHECK_FALSE(router.names_host(4));
    CHECK(router.mismatch(0, {"GET", "/", "example.com", nullptr}) == Mismatch::host);
    CHECK(router.mismatch(0, {"GET", "/", "x.example.com", nullptr}) == Mismatch::none);

    const Router overlap = router_of({of_host("*.example.com", "/Login"),
                                      of_host("a.example.com", "/login"), of_host("", "/LOGIN")});
    CHECK(overlap.differs_by_case(1) == 0);
    CHECK(overlap.differs_by_case(2) == 0);
    const Router escape =
        router_of({of_host("*.example.com", "/login"), of_host("")}, RouteCase::as_sent);
    CHECK(escape.escape_by_case(0) == 1);
}

TEST_CASE("router: knows which methods its routes name") {
    Match purge;
    purge.methods = {"PURGE"};
    const Router router = router_of({purge});
    CHECK(router.names_method("PURGE"));
    CHECK_FALSE(router.names_method("PURGES"));
    CHECK_FALSE(router.names_method("GET"));
}

}  // namespace
}  // namespace tidegate::routing::any_labels_test
