// Browsers: what a page of another origin sees of the answers, and what its preflights cost.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/http2_world.hpp"
#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::cors_test {

namespace {

const std::string kPage = "https://app.example.com";

std::string origin(const std::string& of = kPage) {
    return "Origin: " + of + "\r\n";
}

std::string preflight_request(const std::string& from = kPage, const std::string& path = "/items",
                              const std::string& more = "") {
    return "OPTIONS " + path + " HTTP/1.1\r\nHost: api.test\r\n" + origin(from) +
           "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a\r\n" + more +
           "\r\n";
}

Message preflight(const Tidegate& tidegate, const std::string& from = kPage,
                  const std::string& address = "127.0.0.1") {
    return tidegate.client(address).ask(preflight_request(from));
}

// An application that does its part of CORS: it lists the page's origin, and a field of its own.
std::string application(const Message& request) {
    const std::string allow = "Access-Control-Allow-Origin: " + kPage + "\r\nVary: Origin\r\n";
    if (request.method() == "OPTIONS") {
        return "HTTP/1.1 204 No Content\r\n" + allow +
               "Access-Control-Allow-Methods: PUT\r\nAccess-Control-Allow-Headers: x-a\r\n\r\n";
    }
    return ok("done", allow + "Access-Control-Expose-Headers: X-Total\r\nX-Total: 7\r\n");
}

// What a browser does with the answer to a script of `page` (Fetch, "CORS check" and "response
// tainting"): nothing if it may not read it, else the fields that it may see.
struct SeenByScript {
    SeenByScript(const Message& answer, const std::string& page, bool credentials = false) {
        const std::string allowed = answer.field("Access-Control-Allow-Origin");
        may_read = allowed == page || (allowed == "*" && !credentials);
        if (credentials && answer.field("Access-Control-Allow-Credentials") != "true") {
            may_read = false;
        }
        if (!may_read) return;
        std::string names = answer.field("Access-Control-Expose-Headers") + ",";
        for (auto comma = names.find(','); comma != std::string::npos; comma = names.find(',')) {
            std::string name = names.substr(0, comma);
            name.erase(0, name.find_first_not_of(' '));
            if (!name.empty() && answer.has(name)) fields.emplace_back(name, answer.field(name));
            names.erase(0, comma + 1);
        }
    }
    std::string field(const std::string& name) const {
        for (const auto& [seen, value] : fields) {
            if (same_name(seen, name)) return value;
        }
        return "";
    }

    bool may_read = false;
    FieldList fields;
};

std::string with_cors(const Upstream& upstream, const std::string& cors,
                      const std::string& policy = "{key: [ip, user], limits: [1/h]}") {
    return one_policy(upstream, policy) + "response: {cors: {" + cors + "}}\n";
}

const std::string kOrigins = "origins: [\"" + kPage + "\", \"https://*.example.org\"]";

// Whether `date` is that of this moment, within a few seconds.
bool is_now(const std::string& date) {
    std::tm parts{};
    const char* const end = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    if (end == nullptr || *end != '\0') return false;
    const std::time_t now = std::time(nullptr);
    const std::time_t told = ::timegm(&parts);
    return told >= now - 5 && told <= now + 1;
}

}  // namespace

TEST_CASE("cors: a page of another origin makes its request, and reads 200 and then 429") {
    const CountedIn counted = either_store();
    const Upstream upstream(Upstream::answering(application));
    const Tidegate tidegate(counted.yaml() + with_cors(upstream, kOrigins + ", max_age: 10min"));
    const Message asked = preflight(tidegate);
    CHECK(asked.status() == 204);
    CHECK(asked.field("Access-Control-Allow-Origin") == kPage);
    CHECK(asked.field("Access-Control-Allow-Methods") == "PUT");
    CHECK(asked.field("Access-Control-Max-Age") == "600");

    const Message first = tidegate.get("/items", origin());
    CHECK(first.status() == 200);
    const SeenByScript done(first, kPage);
    CHECK(done.may_read);
    CHECK(done.field("X-Total") == "7");
    CHECK(done.field("RateLimit").find("r=0") != std::string::npos);
    CHECK(first.count("Access-Control-Expose-Headers") == 1);

    const Message second = tidegate.get("/items", origin());
    CHECK(second.status() == 429);
    const SeenByScript refused(second, kPage);
    CHECK(refused.may_read);
    CHECK(std::stoi(refused.field("Retry-After")) > 3000);
    CHECK_FALSE(refused.field("RateLimit-Policy").empty());
    CHECK(refused.field("X-Request-Id") == second.field("X-Request-Id"));
    CHECK(second.field("Vary") == "Origin");
    CHECK_FALSE(SeenByScript(second, kPage, true).may_read);

    // A page that is not configured learns nothing, and counts all the same.
    const Message foreign = tidegate.get("/items", origin("https://evil.test"));
    CHECK(foreign.status() == 429);
    CHECK_FALSE(foreign.has("Access-Control-Allow-Origin"));
    CHECK(foreign.field("Vary") == "Origin");
}

TEST_CASE("cors: preflights are counted by address alone, and no policy counts them") {
    const CountedIn counted = either_store();
    const Upstream upstream(Upstream::answering(application));
    const Tidegate tidegate(counted.yaml() + with_cors(upstream, kOrigins + ", preflight: 3/h"));
    CHECK(preflight(tidegate).status() == 204);
    CHECK(preflight(tidegate, "https://evil.test").status() == 204);
    CHECK(preflight(tidegate, "null").status() == 204);
    const Message refused = preflight(tidegate);
    CHECK(refused.status() == 429);
    CHECK(refused.field("Access-Control-Allow-Origin") == kPage);
    CHECK(std::stoi(refused.field("Retry-After")) > 1000);
    const Message foreign = preflight(tidegate, "https://evil.test");
    CHECK(foreign.status() == 429);
    CHECK_FALSE(foreign.has("Access-Control-Allow-Origin"));
    CHECK(upstream.requests() == 3);
    CHECK(logged(tidegate, "/items").at("identifiers") == nlohmann::json({"ip:127.0.0.1"}));
    CHECK_SOON(decisions(tidegate, "denied", "preflight") == 2);
    CHECK(decisions(tidegate, "admitted", "p") == 0);
    // Other addresses have their own count, and requests that are none have the policy's.
    CHECK(preflight(tidegate, kPage, "127.0.0.2").status() == 204);
    CHECK(tidegate.get("/", origin()).status() == 200);
    CHECK(tidegate.get("/", origin()).status() == 429);
    CHECK(preflight(tidegate, kPage, "127.0.0.3").status() == 204);
}

TEST_CASE("cors: preflights at the same time pass only up to the limit") {
    const CountedIn counted = either_store();
    const Upstream upstream(Upstream::answering(application));
    const Tidegate tidegate(counted.yaml() + with_cors(upstream, kOrigins + ", preflight: 5/h"));
    std::vector<RawClient> clients;
    for (int i = 0; i < 40; ++i) clients.push_back(tidegate.client());
    for (RawClient& client : clients) REQUIRE(client.send(preflight_request()));
    int passed = 0;
    for (RawClient& client : clients) passed += client.response().status() == 204 ? 1 : 0;
    CHECK(passed == 5);
    CHECK(upstream.requests() == 5);
}

TEST_CASE("cors: two proxies with one Redis count preflights together") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(Upstream::answering(application));
    const std::string yaml = counted.yaml() + with_cors(upstream, kOrigins + ", preflight: 3/h");
    const Tidegate one(yaml);
    const Tidegate two(yaml);
    CHECK(preflight(one).status() == 204);
    CHECK(preflight(two).status() == 204);
    CHECK(preflight(one).status() == 204);
    CHECK(preflight(two).status() == 429);
    CHECK(preflight(one).status() == 429);
}

TEST_CASE("cors: a preflight needs no user, and gives none to the upstream") {
    const Upstream upstream(Upstream::answering(application));
    const Tidegate tidegate(
        "identity: {client_ip: {trusted_proxies: [127.0.0.1]}, forward_as: {user: x-auth-user}, "
        "user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n" +
        with_cors(upstream, kOrigins, "{key: [user], on_missing: reject, limits: [1/h]}"));
    CHECK(preflight(tidegate).status() == 204);
    CHECK(preflight(tidegate).status() == 204);
    CHECK(tidegate.get("/items", origin()).status() / 100 == 4);
    CHECK(tidegate.get("/items", origin() + "X-User-Id: alice\r\n").status() == 200);
    CHECK(preflight(tidegate).status() == 204);
    CHECK_FALSE(upstream.last().has("x-auth-user"));
    CHECK_FALSE(upstream.last().has("Authorization"));
}

TEST_CASE("cors: OPTIONS with a body, or without cors, is a request like any other") {
    const Upstream upstream(Upstream::answering(application));
    const std::string with_body = preflight_request(kPage, "/", "Content-Length: 2\r\n") + "ok";
    {
        const Tidegate tidegate(with_cors(upstream, kOrigins));
        CHECK(tidegate.client().ask(with_body).status() == 204);
        CHECK(tidegate.client().ask(with_body).status() == 429);
        CHECK(preflight(tidegate).status() == 204);
    }
    const Tidegate tidegate(one_policy(upstream, "{key: [ip], limits: [1/h]}"));
    CHECK(preflight(tidegate).status() == 204);
    const Message refused = preflight(tidegate);
    CHECK(refused.status() == 429);
    CHECK_FALSE(refused.has("Access-Control-Allow-Origin"));
    CHECK_FALSE(refused.has("Vary"));
}

TEST_CASE("cors: OPTIONS with credentials is a request like any other") {
    const Upstream upstream(Upstream::answering(application));
    const TemporaryFolder folder;
    const std::string keys = folder.write("keys.yaml", api_key_file({{"key-of-bob", "bob"}}));
    for (const std::string field :
         {"Authorization: Basic YTpi", "Cookie: a=b", "X-Api-Key: k", "X-User-Id: mallory"}) {
        CAPTURE(field);
        const Tidegate tidegate(
            "identity: {client_ip: {trusted_proxies: [127.0.0.1]}, on_invalid_credentials: "
            "anonymous, user: [{api_key: {keys: \"" +
            keys + "\"}}, {header: {name: x-user-id, from: trusted_proxies}}]}\n" +
            with_cors(upstream, kOrigins));
        const std::string asked = preflight_request(kPage, "/items", field + "\r\n");
        CHECK(tidegate.client().ask(asked).status() == 204);
        CHECK(tidegate.client().ask(asked).status() == 429);
        CHECK(preflight(tidegate).status() == 204);
    }
}

TEST_CASE("cors: over HTTP/2, OPTIONS whose stream goes on is a request like any other") {
    const Upstream upstream(Upstream::answering(application));
    const Http2Proxy proxy(with_cors(upstream, kOrigins));
    const auto ask = [&](const std::string& body, FieldList more = {}) {
        FieldList fields{{"origin", kPage}, {"access-control-request-method", "PUT"}};
        fields.insert(fields.end(), more.begin(), more.end());
        return H2Client(proxy.port())
            .ask({.method = "OPTIONS", .path = "/items", .fields = fields, .body = body})
            .status();
    };
    CHECK(ask("ok") == 204);
    CHECK(ask("ok") == 429);
    CHECK(ask("ok", {{"content-length", "2"}}) == 429);
    CHECK(ask("") == 204);
    CHECK(ask("", {{"content-length", "0"}}) == 204);
}

TEST_CASE("cors: a gateway that passes on a body asks about no preflight") {
    const std::uint16_t port = free_port();
    const Tidegate tidegate("listen: [{address: '127.0.0.1:" + std::to_string(port) +
                            "', face: forward_auth, dialect: envoy}]\nlimits: [1/h]\n"
                            "response: {cors: {" +
                            kOrigins + "}}\n");
    const auto ask = [&](const std::string& more) {
        return RawClient(port)
            .ask(preflight_request(kPage, "/items", "X-Forwarded-For: 192.0.2.1\r\n" + more))
            .status();
    };
    const auto ask_with_body = [&] {
        return RawClient(port)
            .ask(preflight_request(kPage, "/items",
                                   "X-Forwarded-For: 192.0.2.1\r\nContent-Length: 2\r\n") +
                 "ok")
            .status();
    };
    CHECK(ask_with_body() == 200);
    CHECK(ask_with_body() == 429);
    CHECK(ask("Content-Length: 0\r\n") == 200);
    CHECK(ask("Authorization: Bearer x\r\n") == 429);
    CHECK(ask("") == 200);
}

TEST_CASE("cors: a page reads every answer made here, also without a route or an upstream") {
    const Tidegate tidegate(
        "upstreams: {api: {servers: [\"http://127.0.0.1:1\"]}}\n"
        "routes: [{match: {path: /down}, policies: []}]\n"
        "response: {cors: {" +
        kOrigins + "}, extra_headers: {Strict-Transport-Security: max-age=31536000}}\n");
    const std::string page = "https://a.b.example.org";
    for (const auto& [path, status] :
         std::vector<std::pair<std::string, int>>{{"/down", 502}, {"/none", 404}, {"/%zz", 400}}) {
        CAPTURE(path);
        const Message answer = tidegate.get(path, origin(page));
        CHECK(answer.status() == status);
        CHECK(SeenByScript(answer, page).may_read);
        CHECK(answer.field("Strict-Transport-Security") == "max-age=31536000");
        CHECK(is_now(answer.field("Date")));
    }
    if (over_http2()) return;
    // The head cannot be read, so nothing is known of its origin.
    const Message broken =
        tidegate.client().ask("GET / HTTP/1.1\r\nHost: a\r\nBroken\r\n" + origin(page) + "\r\n");
    CHECK(broken.status() == 400);
    CHECK(is_now(broken.field("Date")));
    CHECK(broken.field("Strict-Transport-Security") == "max-age=31536000");
}

TEST_CASE("cors: an answer over the maximum of connections has the configured fields" *
          only_over_http1("the proxy answers before the client says a word")) {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()) +
                            "connections: {per_ip: 1}\n"
                            "response: {cors: {origins: \"*\"}, extra_headers: {X-A: b}}\n");
    auto first = tidegate.client();
    CHECK(first.get().status() == 200);
    auto second = tidegate.client();
    second.send(get_request("/"));
    const Message refused = second.response();
    CHECK(refused.status() == 503);
    CHECK(is_now(refused.field("Date")));
    CHECK(refused.field("X-A") == "b");
    CHECK(SeenByScript(refused, kPage).may_read);
}

TEST_CASE("answers: every answer has a date and, if so configured, the id of its request") {
    const Upstream dated(
        ok("x", "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Request-Id: theirs\r\n"));
    const Upstream undated(ok());
    const auto yaml = [](const Upstream& upstream) {
        return simple(upstream.url()) + "response: {request_id: on}\n";
    };
    const Tidegate one(yaml(dated));
    const Message theirs = one.get();
    CHECK(theirs.field("Date") == "Thu, 01 Jan 1970 00:00:00 GMT");
    CHECK(theirs.count("X-Request-Id") == 1);
    CHECK(theirs.field("X-Request-Id") == dated.last().field("X-Request-Id"));
    const Tidegate other(yaml(undated));
    const Message ours = other.get();
    CHECK(is_now(ours.field("Date")));
    CHECK(ours.field("X-Request-Id") == undated.last().field("X-Request-Id"));
    const auto health = other.admin("/healthz");
    REQUIRE(health);
    CHECK(is_now(health->field("Date")));
    // The date goes on with the clock.
    std::this_thread::sleep_for(milliseconds{1'200});
    CHECK(is_now(other.get().field("Date")));
    CHECK(other.get().field("Date") != ours.field("Date"));
}

TEST_CASE("answers: a cap that protects the upstream answers with its own status and body") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() + api(upstream,
                             "policies:\n"
                             "  clients: {key: [ip], limits: [2/h]}\n"
                             "  cap: {key: [\"constant:all\"], limits: [3/h], status: 503,"
                             " body: {content_type: text/plain, text: \"busy, {retry_after}\"}}\n"
                             "routes: [{name: all, upstream: api, policies: [clients, cap]}]\n"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
    CHECK(tidegate.get("/", "", "127.0.0.2").status() == 200);
    for (int i = 0; i < 2; ++i) {
        const Message busy = tidegate.get("/busy", "", "127.0.0.3");
        CHECK(busy.status() == 503);
        CHECK(busy.field("Content-Type") == "text/plain");
        CHECK(busy.body == "busy, " + busy.field("Retry-After"));
    }
    // Both refuse: the policy that the route names first says how.
    CHECK(tidegate.get().status() == 429);
    CHECK(logged(tidegate, "/busy").at("limited_by") == "cap-1h");
    CHECK(upstream.requests() == 3);
}

}  // namespace tidegate::test::cors_test
