// Requests that only their case keeps from a strict route, as Express and Flask serve them there.
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"

namespace tidegate::test::route_case_test {

namespace {

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

// Every way to write the letters of `text`, but for `text` itself.
std::vector<std::string> other_spellings(const std::string& text) {
    std::vector<std::string> all{""};
    for (const char c : text) {
        const char other =
            static_cast<char>(std::isalpha(static_cast<unsigned char>(c)) ? c ^ 0x20 : c);
        std::vector<std::string> longer;
        for (const std::string& begun : all) {
            longer.push_back(begun + c);
            if (other != c) longer.push_back(begun + other);
        }
        all = std::move(longer);
    }
    all.erase(std::find(all.begin(), all.end(), text));
    return all;
}

std::vector<std::string> other_paths() {
    std::vector<std::string> paths = other_spellings("/login");  // 31
    for (std::size_t i = 31; i > 0; --i) paths.push_back(paths[i - 1] + "/");
    for (const char* path :
         {"/%4Cogin", "/%4cOGIN", "/LOG%49N", "/log%C4%B1n", "/log%C4%B0n", "/log\xC4\xB0n",
          "//LOGIN", "/x/../LOGIN", "/LOGIN;x", "http://a/LOGIN"})
        paths.push_back(path);
    return paths;
}

std::string post(const std::string& path, const std::string& method = "POST",
                 const std::string& host = "a") {
    return method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\n\r\n";
}

std::string two_routes(const Upstream& upstream, const std::string& route_case) {
    return api(upstream,
               "routes_ignore_case: " + route_case +
                   "\n"
                   "policies: {strict: {key: [ip], limits: [3/h]}, loose: {key: [ip], limits: "
                   "[10000/h]}}\n"
                   "routes:\n"
                   "  - {name: login, match: {path: /login, methods: [POST], host: a}, "
                   "policies: [strict]}\n"
                   "  - {name: rest, policies: [loose]}\n");
}

// As an upstream that ignores case counts them.
long logins(const Upstream& upstream) {
    const auto seen = upstream.seen();
    return std::count_if(seen.begin(), seen.end(), [](const Message& request) {
        return lower(request.target()).find("x") != 1;
    });
}

}  // namespace

TEST_CASE("case: no spelling of a path, a method or a host takes a strict route's way past it") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted.yaml() + two_routes(upstream, "auto"));
    const auto paths = other_paths();
    CHECK(paths.size() == 72);
    for (const std::string& path : paths)
        CHECK_MESSAGE(tidegate.client().ask(post(path)).status() == 400, path);
    for (const char* method : {"post", "Post", "pOST", "PoSt", "POSt", "poST", "pOsT", "posT"})
        CHECK_MESSAGE(tidegate.client().ask(post("/login", method)).status() == 400, method);
    for (const char* host : {"a..", "a%2e", "a,b", "a b", "%61", ".a", "a:99999", "a..:80"})
        CHECK_MESSAGE(tidegate.client().ask(post("/login", "POST", host)).status() == 400, host);
    CHECK(logins(upstream) == 0);

    int admitted = 0;
    for (const char* host : {"a", "A", "a.", "A.:80", "a:8080", "a"})
        if (tidegate.client().ask(post("/login", "POST", host)).status() == 200) ++admitted;
    CHECK(admitted == 3);
    CHECK(logins(upstream) == 3);
    // Other methods and other paths are not on that route.
    CHECK(tidegate.get("/x/LOGIN").status() == 200);
    CHECK(tidegate.client().ask(post("/X/login")).status() == 200);

    const auto refused = tidegate.client().ask(post("/LOGIN"));
    CHECK(refused.body.find("if the case of its letters is ignored") != std::string::npos);
}

TEST_CASE("case: routes that ignore case count every spelling of a path together") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted.yaml() + two_routes(upstream, "on"));
    int admitted = 0;
    for (const char* path : {"/login", "/LOGIN", "/Login/", "/lOgIn", "/LOGIN/"})
        if (tidegate.client().ask(post(path)).status() == 200) ++admitted;
    CHECK(admitted == 3);
    CHECK(logins(upstream) == 3);
}

}  // namespace tidegate::test::route_case_test
