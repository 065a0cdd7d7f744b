// forward_auth: the answers that gateways get, and for which clients they may ask.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::forward_auth_test {

namespace {

// A Tidegate that speaks one dialect; `more` is the rest of its configuration.
class Asked {
  public:
    explicit Asked(const std::string& dialect, const std::string& more = "limits: [2/h]\n",
                   const std::string& listen_more = "")
        : port_(free_port()),
          tidegate_("listen: [{address: \"127.0.0.1:" + std::to_string(port_) +
                    "\", face: forward_auth, dialect: " + dialect + listen_more + "}]\n" + more) {}

    const Tidegate& tidegate() const { return tidegate_; }
    Message ask(const std::string& fields, const std::string& target = "/",
                const std::string& method = "GET", const std::string& host = "app.test") const {
        return RawClient(port_).ask(method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" +
                                    fields + "\r\n");
    }
    // A question as nginx sends it with the snippet of the documents.
    Message nginx(const std::string& uri, const std::string& client,
                  const std::string& more = "") const {
        return ask("X-Original-URI: " + uri +
                       "\r\nX-Original-Method: GET\r\nX-Forwarded-For: " + client + "\r\n" + more,
                   "/_tidegate");
    }
    // A question as Traefik and Caddy send it.
    Message forwarded(const std::string& uri, const std::string& client,
                      const std::string& more = "", const std::string& method = "GET") const {
        return ask("X-Forwarded-Uri: " + uri + "\r\nX-Forwarded-Method: " + method +
                   "\r\nX-Forwarded-Host: app.test\r\nX-Forwarded-Proto: https\r\n"
                   "X-Forwarded-For: " +
                   client + "\r\n" + more);
    }
    // A question as ingress-nginx sends it to its `auth-url`.
    Message ingress(const std::string& url, const std::string& client, const std::string& more = "",
                    const std::string& method = "GET", const std::string& asking = "GET") const {
        return ask(
            "X-Request-ID: 1\r\nX-Original-URL: " + url + "\r\nX-Original-Method: " + method +
                "\r\nX-Sent-From: nginx-ingress-controller\r\nX-Real-IP: " + client +
                "\r\nX-Forwarded-For: " + client + "\r\nX-Auth-Request-Redirect: /\r\n" + more,
            "/", asking, "tidegate.default.svc.cluster.local");
    }
    std::uint16_t port() const { return port_; }

  private:
    std::uint16_t port_;
    Tidegate tidegate_;
};

const std::string kUsers =
    "identity: {client_ip: {trusted_proxies: [127.0.0.1]}, user: [{header: {name: x-user-id, "
    "from: trusted_proxies}}], forward_as: {user: x-auth-user, tier: x-auth-tier}}\n";

}  // namespace

TEST_CASE("forward_auth: an admitted request gets 200 without a body, with what is left") {
    const Asked asked("forwarded");
    const Message answer = asked.forwarded("/a?b=c", "192.0.2.1");
    CHECK(answer.status() == 200);
    CHECK(answer.field("Content-Length") == "0");
    CHECK_FALSE(answer.has("Content-Type"));
    CHECK(answer.field("RateLimit").starts_with("\"default-1h\";r=1;t="));
    CHECK(answer.has("RateLimit-Policy"));
}

TEST_CASE("forward_auth: the dialects of Traefik, Caddy and Envoy are refused as the proxy would") {
    const auto refused = [](const Message& answer) {
        CHECK(answer.status() == 429);
        CHECK(answer.has("Retry-After"));
        CHECK(answer.field("Content-Type") == "application/problem+json");
        CHECK(answer.body.find("violated-policies") != std::string::npos);
    };
    SUBCASE("forwarded") {
        const Asked asked("forwarded");
        for (int i = 0; i < 2; ++i) CHECK(asked.forwarded("/", "192.0.2.1").status() == 200);
        refused(asked.forwarded("/", "192.0.2.1"));
        CHECK(asked.forwarded("/", "192.0.2.2").status() == 200);
    }
    SUBCASE("envoy") {
        const Asked asked("envoy", "limits: [2/h]\n", ", path_prefix: /check");
        const std::string from = "X-Forwarded-For: 192.0.2.1\r\n";
        for (int i = 0; i < 2; ++i) CHECK(asked.ask(from, "/check/v1").status() == 200);
        refused(asked.ask(from, "/check/v1", "POST"));
    }
}

TEST_CASE("forward_auth: nginx gets 403 with the status in a field, and 401 as it is") {
    const Asked asked("nginx", "limits: [1/h]\n" + kUsers);
    CHECK(asked.nginx("/", "192.0.2.1").status() == 200);
    const Message limited = asked.nginx("/", "192.0.2.1");
    CHECK(limited.status() == 403);
    CHECK(limited.field("X-Tidegate-Status") == "429");
    CHECK(limited.has("Retry-After"));
    CHECK(limited.has("RateLimit"));
    CHECK_FALSE(asked.nginx("/", "192.0.2.2").has("X-Tidegate-Status"));

    std::string required = kUsers;
    required.replace(required.find("{client_ip"), 1, "{require: on, ");
    const Asked strict("nginx", "limits: [9/h]\n" + required);
    const Message unknown = strict.nginx("/", "192.0.2.1");
    CHECK(unknown.status() == 401);
    CHECK_FALSE(unknown.has("X-Tidegate-Status"));
}

TEST_CASE("forward_auth: ingress-nginx is answered as nginx is, by the URL that it asks about") {
    const Asked asked(
        "ingress-nginx",
        kUsers +
            "policies: {p: {key: [ip], limits: [1/h]}}\nroutes: [{name: cart, match: "
            "{host: shop.example, path: /cart/**, methods: [POST]}, policies: [p]}]\n");
    const std::string cart = "https://shop.example/cart/5?a=b";
    const Message admitted = asked.ingress(cart, "192.0.2.1", "", "POST");
    CHECK(admitted.status() == 200);
    CHECK(admitted.has("X-Auth-User"));
    const Message limited = asked.ingress(cart, "192.0.2.1", "", "POST");
    CHECK(limited.status() == 403);
    CHECK(limited.field("X-Tidegate-Status") == "429");
    CHECK(limited.has("Retry-After"));
    // With `auth-method` the question has another method, a field more, and still no body.
    const Message posted =
        asked.ingress(cart, "192.0.2.2", "X-Original-URI: /cart/5?a=b\r\n", "POST", "POST");
    CHECK(posted.status() == 200);
    // A port is no part of the host that a route names.
    CHECK(asked.ingress("http://shop.example:8080/cart/5", "192.0.2.3", "", "POST").status() ==
          200);
    // Of the question itself nothing chooses the route.
    for (const std::string url : {"https://shop.example/", "https://else.example/cart/5"}) {
        CAPTURE(url);
        const Message lost = asked.ingress(url, "192.0.2.4", "", "POST");
        CHECK(lost.status() == 403);
        CHECK(lost.field("X-Tidegate-Status") == "404");
    }
    CHECK(asked.ingress(cart, "192.0.2.4").field("X-Tidegate-Status") == "404");
    asked.ingress("https://shop.example/cart/6", "192.0.2.5", "", "POST");
    const auto line = logged(asked.tidegate(), "/cart/6");
    CHECK(line.at("host") == "shop.example");
    CHECK(line.at("method") == "POST");
    CHECK(line.at("client") == "192.0.2.5");
}

TEST_CASE("forward_auth: routes see the method, path and host of the original request") {
    const Asked asked("forwarded",
                      "policies: {few: {key: [ip], limits: [1/h]}, many: {key: [ip], limits: "
                      "[9/h]}}\nroutes: [{name: writes, match: {path: /v1/**, methods: [POST], "
                      "host: app.test}, policies: [few]}, {name: rest, policies: [many]}]\n");
    const auto policy = [](const Message& answer) { return answer.field("RateLimit-Policy"); };
    CHECK(policy(asked.forwarded("/v1/x", "192.0.2.1", "", "POST")).find("few") !=
          std::string::npos);
    CHECK(policy(asked.forwarded("/v1/x", "192.0.2.1")).find("many") != std::string::npos);
    CHECK(policy(asked.forwarded("/v2", "192.0.2.1", "", "POST")).find("many") !=
          std::string::npos);
    CHECK(asked.forwarded("/v1/%2e%2e/x", "192.0.2.1", "", "POST").status() == 400);
    const auto line = logged(asked.tidegate(), "/v2");
    CHECK(line.at("method") == "POST");
    CHECK(line.at("host") == "app.test");
    CHECK(line.at("route") == "rest");
    CHECK(line.at("face") == "forward_auth");
    CHECK(line.at("outcome") == "answered");
    CHECK(line.at("client") == "192.0.2.1");
}

TEST_CASE("forward_auth: a question without exactly one original request is refused") {
    const std::string uri = "X-Forwarded-Uri: /a\r\n";
    const std::string method = "X-Forwarded-Method: GET\r\n";
    const std::string host = "X-Forwarded-Host: app.test\r\nX-Forwarded-For: 192.0.2.1\r\n";
    const Asked asked("forwarded", "limits: [99/h]\n");
    CHECK(asked.ask(uri + method + host).status() == 200);
    const std::vector<std::string> wrong{
        method + host,                                           // no target
        uri + host,                                              // no method
        uri + method,                                            // no host
        uri + uri + method + host,                               // twice
        uri + "X-Forwarded-URI: /b\r\n" + method + host,         // twice in another spelling
        uri + "X_Forwarded_Uri: /b\r\n" + method + host,         // the same to a CGI
        "X-Forwarded-Uri: http://else/a\r\n" + method + host,    // not an origin form
        "X-Forwarded-Uri: a\r\n" + method + host,                //
        "X-Forwarded-Uri: /a b\r\n" + method + host,             //
        "X-Forwarded-Uri: *\r\n" + method + host,                //
        uri + "X-Forwarded-Method: G ET\r\n" + host,             // no method
        uri + method + "X-Forwarded-Host: a@b\r\n",              // no host
        uri + method + host + "Connection: x-forwarded-uri\r\n"  // removed on the way
    };
    for (const std::string& fields : wrong) {
        CAPTURE(fields);
        CHECK(asked.ask(fields).status() == 400);
    }
    const Asked nginx("nginx", "limits: [99/h]\n");
    const Message answer = nginx.ask("X-Original-URI: /a\r\n");
    CHECK(answer.status() == 403);
    CHECK(answer.field("X-Tidegate-Status") == "400");
    // Fields of another dialect are the client's own.
    CHECK(nginx.nginx("/a", "192.0.2.1", uri + uri).status() == 200);
    const std::string problem = asked.ask(method + host).body;
    CHECK(problem.find("X-Forwarded-Uri is missing") != std::string::npos);
}

TEST_CASE("forward_auth: an unusable URL of ingress-nginx is refused, and the log says why") {
    const Asked asked("ingress-nginx", "limits: [99/h]\n");
    // A client of HTTP/1.0 may send no Host.
    for (const std::string url : {"http:///cart", "/cart", "http://user@shop.example/cart",
                                  "http://shop.example/cart#top", "ftp://shop.example/cart"}) {
        CAPTURE(url);
        const Message refused = asked.ingress(url, "192.0.2.1");
        CHECK(refused.status() == 403);
        CHECK(refused.field("X-Tidegate-Status") == "400");
    }
    const std::string said = "does not state one original request, and was refused: X-Original-URL";
    CHECK_SOON(asked.tidegate().errors().find(said) != std::string::npos);
    const std::string good = "https://shop.example/cart";
    for (const std::string& more :
         {"X-Original-URL: " + good + "\r\n", "X_Original_URL: " + good + "\r\n",
          std::string("Connection: x-original-url\r\n")}) {
        CAPTURE(more);
        CHECK(asked.ingress(good, "192.0.2.1", more).field("X-Tidegate-Status") == "400");
    }
    CHECK(asked.ingress(good, "192.0.2.1").status() == 200);
    CHECK(asked.ask("X-Original-Method: GET\r\nX-Original-URI: /cart\r\n")
              .field("X-Tidegate-Status") == "400");
    const std::string counted = "tidegate_questions_unusable_total{part=";
    CHECK_SOON(asked.tidegate().metric(counted + "\"target\"}") == 7);
    CHECK(asked.tidegate().metric(counted + "\"host\"}") == 2);
    CHECK(asked.tidegate().metric(counted + "\"method\"}") == 0);
}

TEST_CASE("forward_auth: a method that the proxy refuses is refused, in every dialect") {
    for (const std::string method : {"TRACE", "trace", "CONNECT"}) {
        CAPTURE(method);
        const Asked forwarded("forwarded");
        CHECK(forwarded.forwarded("/", "192.0.2.1", "", method).status() == 501);
        const Asked nginx("nginx");
        const Message refused =
            nginx.ask("X-Original-URI: /\r\nX-Original-Method: " + method + "\r\n");
        CHECK(refused.status() == 403);
        CHECK(refused.field("X-Tidegate-Status") == "501");
        const Asked ingress("ingress-nginx");
        CHECK(ingress.ingress("http://a/", "192.0.2.1", "", method).field("X-Tidegate-Status") ==
              "501");
    }
    const Asked envoy("envoy");
    CHECK(envoy.ask("", "/", "TRACE").status() == 501);
}

TEST_CASE("forward_auth: without a readable chain the client has no address, not the gateway's") {
    const Asked asked("forwarded",
                      "policies: {p: {key: [ip], limits: [9/h]}}\nroutes: [{policies: [p]}]\n" +
                          std::string("identity: {client_ip: {trusted_proxies: [10.0.0.0/8]}}\n"));
    const std::string original =
        "X-Forwarded-Uri: /a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Host: app.test\r\n";
    CHECK(asked.ask(original + "X-Forwarded-For: 192.0.2.1, 10.0.0.7\r\n").status() == 200);
    CHECK(logged(asked.tidegate(), "/a").at("identifiers")[0] == "ip:192.0.2.1");
    for (const std::string chain :
         {"", "X-Forwarded-For: unknown\r\n", "X-Forwarded-For: 192.0.2.1, x, 10.0.0.7\r\n",
          "X-Forwarded-For: 0.0.0.0\r\n"}) {
        CAPTURE(chain);
        CHECK(asked.ask(original + chain).status() == 400);
    }
}

TEST_CASE("forward_auth: only trusted gateways name users, and none leaves a field of ours out") {
    const std::string user = "X-User-Id: alice\r\nX-Auth-User: mallory\r\n";
    SUBCASE("trusted") {
        const Asked asked("forwarded", "limits: [9/h]\n" + kUsers);
        const Message answer = asked.forwarded("/", "192.0.2.1", user);
        CHECK(answer.status() == 200);
        CHECK(answer.field("X-Auth-User") == "alice");
        CHECK(answer.has("X-Auth-Tier"));
        CHECK(answer.field("X-Auth-Tier").empty());
    }
    SUBCASE("not trusted") {
        std::string identity = kUsers;
        identity.replace(identity.find("127.0.0.1"), 9, "10.0.0.1");
        const Asked asked("forwarded", "limits: [9/h]\n" + identity);
        const Message answer = asked.forwarded("/", "192.0.2.1", user);
        CHECK(answer.status() == 200);
        CHECK(answer.has("X-Auth-User"));
        CHECK(answer.field("X-Auth-User").empty());
    }
}

TEST_CASE("forward_auth: a peer outside `from` is refused and its connection closed") {
    const std::uint16_t port = free_port();
    const Tidegate tidegate("listen: [{address: \"127.0.0.1:" + std::to_string(port) +
                            "\", face: forward_auth, dialect: nginx, from: [127.0.0.2]}]\n"
                            "limits: [9/h]\n");
    const std::string question =
        "GET / HTTP/1.1\r\nHost: a\r\nX-Original-URI: /\r\nX-Original-Method: GET\r\n"
        "X-Forwarded-For: 192.0.2.1\r\n\r\n";
    RawClient stranger(port, "127.0.0.1");
    const Message refused = stranger.ask(question);
    CHECK(refused.status() == 403);
    CHECK(stranger.closed());
    CHECK(RawClient(port, "127.0.0.2").ask(question).status() == 200);
}

TEST_CASE("forward_auth: listeners of one Tidegate share its counts, in each dialect") {
    const std::uint16_t nginx = free_port();
    const std::uint16_t envoy = free_port();
    const Tidegate tidegate(
        "listen: [{address: \"127.0.0.1:" + std::to_string(nginx) +
        "\", face: forward_auth, dialect: nginx}, {address: \"127.0.0.1:" + std::to_string(envoy) +
        "\", face: forward_auth, dialect: envoy}]\nlimits: [2/h]\n");
    const std::string rest = "Host: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
    const std::string original = "X-Original-URI: /\r\nX-Original-Method: GET\r\n";
    const std::string for_nginx = "GET /_tidegate HTTP/1.1\r\n" + original + rest;
    const std::string for_envoy = "GET / HTTP/1.1\r\n" + rest;
    CHECK(RawClient(nginx).ask(for_nginx).status() == 200);
    CHECK(RawClient(envoy).ask(for_envoy).status() == 200);
    CHECK(RawClient(nginx).ask(for_nginx).field("X-Tidegate-Status") == "429");
    CHECK(RawClient(envoy).ask(for_envoy).status() == 429);
}

TEST_CASE("forward_auth: Envoy's prefix is in front of each path, or the question is refused") {
    const Asked asked("envoy", "limits: [9/h]\n", ", path_prefix: /check");
    const std::string from = "X-Forwarded-For: 192.0.2.1\r\n";
    CHECK(asked.ask(from, "/check/v1?a=b").status() == 200);
    CHECK(logged(asked.tidegate(), "/v1").at("status") == 200);
    for (const std::string target : {"/", "/v1", "/check", "/checked/v1", "/CHECK/v1"}) {
        CAPTURE(target);
        CHECK(asked.ask(from, target).status() == 400);
    }
}

TEST_CASE("forward_auth: questions with bodies and pipelined questions are answered in order") {
    const Asked asked("envoy", "limits: [3/h]\n");
    RawClient gateway(asked.port());
    const std::string fields = "Host: a\r\nX-Forwarded-For: 192.0.2.1\r\n";
    gateway.send("POST /a HTTP/1.1\r\n" + fields + "Content-Length: 5\r\n\r\nhello" +
                 "POST /b HTTP/1.1\r\n" + fields +
                 "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
                 "HEAD /c HTTP/1.1\r\n" + fields + "\r\nGET /d HTTP/1.1\r\n" + fields + "\r\n");
    CHECK(gateway.response().status() == 200);
    CHECK(gateway.response().status() == 200);
    CHECK(gateway.response_to_head().status() == 200);
    CHECK(gateway.response().status() == 429);
}

TEST_CASE("forward_auth: two gateways and two Tidegates admit exactly a limit, counted in Redis") {
    const CountedIn counted = counted_in_redis();
    const std::string rest = counted.yaml() + "limits: [50/h]\n";
    const Asked first("nginx", rest);
    const Asked second("forwarded", rest);
    std::atomic<int> admitted{0};
    std::vector<std::thread> gateways;
    for (int i = 0; i < 4; ++i) {
        gateways.emplace_back([&, i] {
            for (int k = 0; k < 40; ++k) {
                const Message answer =
                    i % 2 == 0 ? first.nginx("/", "192.0.2.1") : second.forwarded("/", "192.0.2.1");
                admitted += answer.status() == 200 ? 1 : 0;
            }
        });
    }
    for (std::thread& gateway : gateways) gateway.join();
    CHECK(admitted == 50);
}

TEST_CASE(
    "forward_auth: without Redis the failure policy decides, and the gateway gets an answer") {
    CountedIn counted = counted_in_redis();
    const auto routes = [&](const std::string& decides) {
        return counted.yaml() +
               "policies: {p: {key: [ip], limits: [9/h], on_store_failure: " + decides +
               "}}\nroutes: [{policies: [p]}]\n";
    };
    const Asked denies("nginx", routes("deny"));
    const Asked allows("forwarded", routes("allow"));
    CHECK(denies.nginx("/", "192.0.2.1").status() == 200);
    counted.redis.reset();
    const Message denied = denies.nginx("/", "192.0.2.1");
    CHECK(denied.status() == 403);
    CHECK(denied.field("X-Tidegate-Status") == "503");
    CHECK(allows.forwarded("/", "192.0.2.1").status() == 200);
}

TEST_CASE("forward_auth: a slash that passes encoded passes for gateways, too") {
    const std::string routes =
        "routes:\n  - {match: {path: \"/a/{id}\"}, encoded_slash: pass, policies: [{key: "
        "[\"path:id\"], limits: [1/h]}]}\n  - {match: {path: /a/b/c}, policies: []}\n";
    for (const std::string dialect : {"nginx", "forwarded"}) {
        const Asked asked(dialect, routes);
        const auto ask = [&](const std::string& path) {
            return dialect == "nginx" ? asked.nginx(path, "192.0.2.1")
                                      : asked.forwarded(path, "192.0.2.1");
        };
        CHECK(ask("/a/b%2Fc").status() == 200);
        CHECK(ask("/a/b%2fc").status() == (dialect == "nginx" ? 403 : 429));
    }
}

TEST_CASE("forward_auth: a question about a request with an override is refused, as it goes on") {
    const std::string routes =
        "routes:\n  - {match: {path: /a, methods: [DELETE]}, policies: []}\n  - {policies: []}\n";
    for (const std::string field : {"X-HTTP-Method-Override: DELETE", "x_http_method: DELETE",
                                    "X-Original-URL: /a", "X-Rewrite-URL: https://app.test/a"}) {
        CAPTURE(field);
        const Message refused = Asked("nginx", routes).nginx("/b", "192.0.2.1", field + "\r\n");
        CHECK(refused.status() == 403);
        CHECK(refused.field("X-Tidegate-Status") == "400");
        CHECK(Asked("forwarded", routes).forwarded("/b", "192.0.2.1", field + "\r\n").status() ==
              400);
        CHECK(Asked("envoy", routes).ask(field + "\r\n", "/b").status() == 400);
        CHECK(
            Asked("envoy", "method_override: pass\n" + routes).ask(field + "\r\n", "/b").status() ==
            200);
        CHECK(Asked("nginx").nginx("/b", "192.0.2.1", field + "\r\n").status() == 200);
    }
    // ingress-nginx writes the target like this for whom it asks.
    CHECK(Asked("nginx", routes)
              .nginx("/b?c", "192.0.2.1", "X-Original-URL: https://app.test/b?c\r\n")
              .status() == 200);
    const auto by_ingress = [&](const std::string& field) {
        return Asked("ingress-nginx", routes)
            .ingress("https://app.test/b?c", "192.0.2.1", field)
            .status();
    };
    CHECK(by_ingress("") == 200);
    CHECK(by_ingress("X-Rewrite-URL: https://app.test/b?c\r\n") == 200);
    CHECK(by_ingress("X-Rewrite-URL: /a\r\n") == 403);
    CHECK(by_ingress("X-HTTP-Method-Override: DELETE\r\n") == 403);
}

}  // namespace tidegate::test::forward_auth_test
