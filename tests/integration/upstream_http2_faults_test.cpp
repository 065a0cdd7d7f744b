// Upstreams that speak HTTP/2 and fail, refuse or leave, through the built program.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/h2_proxy.hpp"
#include "integration/h2_upstream.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "tls_server.hpp"

namespace tidegate::test::upstream_http2_faults_test {

namespace {

// One worker, so that the test knows whose connections are counted.
std::string to(const H2Upstream& upstream, const std::string& more = "") {
    return "threads: 1\n" + unlimited({upstream.url()}, more);
}

// Answers later.
std::optional<H2Reply> wait(const H2Call&) {
    return std::nullopt;
}

std::vector<int> begin_many(H2Client& client, int count) {
    std::vector<int> streams;
    for (int i = 0; i < count; ++i) {
        streams.push_back(client.begin({.path = "/" + std::to_string(i)}));
    }
    return streams;
}

}  // namespace

TEST_CASE("upstream http2: GOAWAY loses nothing") {
    H2Upstream upstream([](const H2Call& call) -> std::optional<H2Reply> {
        if (call.connection > 1) return H2Reply{.body = "second"};
        return std::nullopt;
    });
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client();
    const std::vector<int> streams = begin_many(client, 2);
    const int posted = client.begin(
        {.method = "POST", .path = "/post", .fields = {{"content-length", "4"}}, .body = "held"});
    CHECK_SOON(upstream.whole_calls() == 3);
    // The server has looked at the first request only.
    int last = INT32_MAX;
    for (const H2Call& call : upstream.calls()) last = std::min(last, call.stream);
    H2Call kept;
    for (const H2Call& call : upstream.calls()) {
        if (call.stream == last) kept = call;
    }
    upstream.goaway(1, last);
    CHECK_SOON(upstream.whole_calls() == 5);
    upstream.answer(kept, {.body = "first"});
    std::multiset<std::string> bodies;
    for (const int stream : {streams[0], streams[1], posted}) {
        const H2Answer answer = client.answer(stream);
        CHECK(answer.status() == 200);
        bodies.insert(answer.body);
    }
    CHECK(bodies == std::multiset<std::string>{"first", "second", "second"});
    CHECK(upstream.connections() == 2);
    CHECK_SOON(upstream.open() == 1);
}

TEST_CASE("upstream http2: a refused request is repeated once, whatever its method") {
    H2Upstream upstream(wait);
    const Tidegate tidegate(to(upstream));
    RawClient client = tidegate.client();
    client.send(post_request("/post", "body"));
    CHECK_SOON(upstream.whole_calls() == 1);
    upstream.reset(upstream.calls()[0], NGHTTP2_REFUSED_STREAM);
    CHECK_SOON(upstream.whole_calls() == 2);
    upstream.answer(upstream.calls()[1], {.body = "done"});
    const Message answer = client.response();
    CHECK(answer.status() == 200);
    CHECK(answer.body == "done");
    CHECK(upstream.calls()[1].body == "body");

    client.send(get_request("/twice"));
    CHECK_SOON(upstream.whole_calls() == 3);
    upstream.reset(upstream.calls()[2], NGHTTP2_REFUSED_STREAM);
    CHECK_SOON(upstream.whole_calls() == 4);
    upstream.reset(upstream.calls()[3], NGHTTP2_REFUSED_STREAM);
    const Message refused = client.response();
    CHECK(refused.status() == 503);
    CHECK(refused.field("retry-after") == "1");
    CHECK(upstream.connections() == 1);
    CHECK(tidegate.access_log(2).at(1).at("error") == "upstream: refused");
}

TEST_CASE("upstream http2: a client that leaves cancels its request, and the connection stays") {
    H2Upstream upstream(wait);
    const Tidegate tidegate(to(upstream));
    {
        RawClient client = tidegate.client();
        client.send(get_request("/left"));
        CHECK_SOON(upstream.whole_calls() == 1);
    }
    CHECK_SOON(upstream.call("/left").reset.has_value());
    CHECK(upstream.call("/left").reset == NGHTTP2_CANCEL);
    RawClient client = tidegate.client();
    client.send(get_request("/next"));
    CHECK_SOON(upstream.whole_calls() == 2);
    upstream.answer(upstream.call("/next"), {.body = "next"});
    CHECK(client.response().body == "next");
    CHECK(upstream.connections() == 1);
}

TEST_CASE("upstream http2: a lost connection breaks the requests that have begun, and no others") {
    H2Upstream upstream([](const H2Call& call) -> std::optional<H2Reply> {
        if (call.path() == "/begun") return H2Reply{.body = "part", .stays_open = true};
        if (call.path() == "/post" || call.connection == 1) return std::nullopt;
        return H2Reply{.body = "second"};
    });
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client();
    const int begun = client.begin({.path = "/begun"});
    CHECK(client.some(begun) == "part");
    const int idempotent = client.begin({.path = "/get"});
    const int post = client.begin(
        {.method = "POST", .path = "/post", .fields = {{"content-length", "1"}}, .body = "x"});
    CHECK_SOON(upstream.whole_calls() == 3);
    upstream.close(1);
    CHECK(client.answer(idempotent).body == "second");
    CHECK(client.answer(post).status() == 502);
    const H2Answer broken = client.answer(begun);
    CHECK_FALSE(broken.is_whole);
    CHECK(broken.reset == NGHTTP2_INTERNAL_ERROR);
}

TEST_CASE("upstream http2: an answer that breaks off or is malformed is a broken one") {
    H2Upstream upstream([](const H2Call& call) -> std::optional<H2Reply> {
        if (call.path() == "/short")
            return H2Reply{.fields = {{"content-length", "9"}}, .body = "x"};
        if (call.path() == "/hop") return H2Reply{.fields = {{"connection", "close"}}};
        if (call.path() == "/begun") return H2Reply{.body = "part", .stays_open = true};
        return H2Reply{.body = "well"};
    });
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client();
    CHECK(client.get("/hop").status() == 502);
    const H2Answer cut = client.get("/short");
    CHECK((cut.status() == 502 || !cut.is_whole));
    const int begun = client.begin({.path = "/begun"});
    CHECK(client.some(begun) == "part");
    upstream.reset(upstream.call("/begun"), NGHTTP2_INTERNAL_ERROR);
    CHECK_FALSE(client.answer(begun).is_whole);
    CHECK(client.get("/well").body == "well");
    CHECK(upstream.connections() == 1);
}

TEST_CASE("upstream http2: a silent server is a slow one, and its seat comes back") {
    H2Upstream upstream(wait, {.is_silent = true});
    const Tidegate tidegate(to(upstream, "timeouts: {response: 200ms}, max_connections: 1"));
    CHECK(tidegate.get("/1").status() == 504);
    CHECK(tidegate.get("/2").status() == 504);
    CHECK(tidegate.access_log(2).at(0).at("error") == "upstream: slow");
}

TEST_CASE("upstream http2: a server that speaks HTTP/1 is reported by name") {
    Upstream upstream([](Conversation& conversation) {
        conversation.some();
        conversation.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        conversation.wait_for_end();
    });
    const Tidegate tidegate("threads: 1\n" +
                            unlimited({"h2c://127.0.0.1:" + std::to_string(upstream.port())}));
    CHECK(tidegate.get().status() == 502);
    CHECK(tidegate.access_log(1).at(0).at("error") == "upstream: no HTTP/2");
    CHECK_SOON(tidegate.errors().find("it does not speak HTTP/2") != std::string::npos);
}

TEST_CASE("upstream http2: health checks use HTTP/2, too") {
    H2Upstream upstream([](const H2Call& call) {
        return H2Reply{.status = call.path() == "/healthz" ? 204 : 200};
    });
    const Tidegate tidegate(to(upstream, "health_check: {path: /healthz, every: 5s, timeout: 5s}"));
    CHECK_SOON(upstream.whole_calls() > 0);
    CHECK(upstream.call("/healthz").field("user-agent").starts_with("tidegate-health/"));
    CHECK(tidegate.get("/").status() == 200);
    Upstream http1(ok());
    const Tidegate other("threads: 1\n" +
                         unlimited({"h2c://127.0.0.1:" + std::to_string(http1.port())},
                                   "health_check: {path: /healthz, every: 5s, timeout: 5s}"));
    CHECK_SOON(other.get("/").status() == 503);
    CHECK_SOON(other.errors().find("is unhealthy") != std::string::npos);
}

TEST_CASE("upstream http2: over TLS, ALPN decides") {
    const Authority authority;
    TemporaryFolder folder;
    folder.write("ca.pem", authority.pem());
    const auto configuration = [&](std::uint16_t port) {
        return "threads: 1\n" +
               unlimited({"https://127.0.0.1:" + std::to_string(port)},
                         "http: h2, tls: {ca: \"" + (folder.path() / "ca.pem").string() + "\"}");
    };
    const TlsServer http2(
        authority.issue(),
        [](TlsServer::Conversation& client) {
            H2ServerSession session(1, {}, always({.body = "over TLS"}));
            char bytes[16'384];
            bool goes_on = client.send(session.output());
            while (goes_on) {
                const std::size_t size = client.read(bytes, sizeof bytes);
                goes_on = size > 0 && session.feed({bytes, size});
                goes_on = client.send(session.output()) && goes_on;
            }
        },
        0, nullptr, TlsServer::Clients::must_have_one, "h2");
    {
        const Tidegate tidegate(configuration(http2.port()));
        RawClient client = tidegate.client();
        CHECK(client.get("/1").body == "over TLS");
        CHECK(client.get("/2").body == "over TLS");
        CHECK(http2.connections() == 1);
    }
    const TlsServer http1(authority.issue(), ok());
    const Tidegate tidegate(configuration(http1.port()));
    CHECK(tidegate.get().status() == 502);
    CHECK(tidegate.access_log(1).at(0).at("error") == "upstream: no HTTP/2");
    CHECK_SOON(tidegate.errors().find("does not offer HTTP/2 (ALPN h2)") != std::string::npos);
}

TEST_CASE("upstream http2: doctor says whether a server speaks it") {
    H2Upstream upstream(wait);
    Upstream http1(ok());
    const TemporaryFolder folder;
    const auto examine = [&](const std::string& yaml) {
        return run_tidegate({"doctor", "-c", folder.write("tidegate.yaml", yaml)}).output;
    };
    const std::string well = examine(to(upstream));
    CHECK_MESSAGE(well.find("speaks HTTP/2, in the clear") != std::string::npos, well);
    const std::string wrong =
        examine("threads: 1\n" + unlimited({"h2c://127.0.0.1:" + std::to_string(http1.port())}));
    CHECK_MESSAGE(wrong.find("requests go in HTTP/2: ") != std::string::npos, wrong);
}

}  // namespace tidegate::test::upstream_http2_faults_test
