// Clients that end their side of a connection: a FIN or a close_notify means that they have left,
// unless the listener has `half_close`.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/http2_world.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tls_world.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::half_close_test {

namespace {

bool says_close(const Message& answer) {
    return same_name(answer.field("Connection"), "close");
}

// Sends `bytes` and the end behind them.
RawClient said(RawClient client, const std::string& bytes) {
    client.send(bytes);
    client.finish_sending();
    return client;
}

// A Tidegate whose listener has `half_close`.
class Patient {
  public:
    explicit Patient(const std::string& yaml)
        : tidegate_("listen: {address: \"127.0.0.1:" + std::to_string(port_) +
                    "\", half_close: on}\n" + yaml) {}

    const Tidegate& tidegate() const { return tidegate_; }
    RawClient client(const std::string& from = "127.0.0.1") const { return RawClient(port_, from); }

  private:
    std::uint16_t port_ = free_port();
    Tidegate tidegate_;
};

// Takes requests, says `beginning` to each, and then waits for the proxy to cancel it.
class Stalling {
  public:
    explicit Stalling(std::string beginning = "")
        : beginning_(std::move(beginning)), upstream_([this](Conversation& conversation) {
              Message request;
              if (!conversation.read(request)) return;
              conversation.send(beginning_);
              ++begun_;
              conversation.wait_for_end();
              ++cancelled_;
          }) {}

    const Upstream& upstream() const { return upstream_; }
    int begun() const { return begun_; }
    int cancelled() const { return cancelled_; }

  private:
    std::string beginning_;
    std::atomic<int> begun_{0};
    std::atomic<int> cancelled_{0};
    Upstream upstream_;  // ends first, as its threads use the rest
};

}  // namespace

TEST_CASE("half-close: a client that closes while its request is at the upstream has left") {
    const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
    for (const std::string& beginning :
         {std::string(), std::string("HTTP/1.1 103 Early Hints\r\n\r\n"), head, head + "half "}) {
        for (const std::string& request :
             {get_request("/held"), post_request("/held", std::string(100'000, 'x')),
              std::string("POST /held HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n") +
                  chunk("all") + "0\r\n\r\n"}) {
            CAPTURE(beginning);
            CAPTURE(request.substr(0, 4));
            const Stalling stalling(beginning);
            const Tidegate tidegate(simple(stalling.upstream().url()));
            RawClient client = tidegate.client();
            client.send(request);
            await("the request", [&] { return stalling.begun() == 1; });
            client.finish_sending();
            CHECK(await_quietly([&] { return stalling.cancelled() == 1; }));
            CHECK(client.rest().find("HTTP/1.1 5") == std::string::npos);
            CHECK(logged(tidegate, "/held").at("error") == "client: left");
            CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
        }
    }
}

TEST_CASE("half-close: a request that comes together with the end waits for no upstream") {
    const Stalling stalling;
    const Tidegate tidegate("threads: 1\n" + simple(stalling.upstream().url()));
    for (int i = 0; i < 20; ++i) {
        CHECK(said(tidegate.client(), get_request("/" + std::to_string(i))).closed());
    }
    CHECK_SOON(tidegate.metric_sum("tidegate_requests_total", "outcome=\"aborted\"") == 20);
    // The end may come behind the request, while that is at the upstream already.
    CHECK_SOON(stalling.cancelled() == stalling.begun());
    CHECK(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("half-close: a client that leaves gives up its place in the queue, whole body or not") {
    GatedUpstream upstream;
    const Tidegate tidegate(
        "threads: 1\nupstreams: {api: {servers: [\"" + upstream.upstream().url() +
        "\"], max_connections: 1, request_buffer: off, queue: {max: 4, wait: 30s}}}\n"
        "routes: [{policies: []}]\n");
    RawClient first = tidegate.client();
    first.send(get_request("/first"));
    await("the first", [&] { return upstream.come() == 1; });
    for (const std::string& request :
         {get_request("/waits"), post_request("/waits", "whole"),
          std::string("POST /waits HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\npart")}) {
        CAPTURE(request);
        // A close_notify without a FIN is behind what is not read of the body.
        if (over_tls() && request.starts_with("POST")) continue;
        RawClient waiting = tidegate.client();
        waiting.send(request);
        CHECK_SOON(tidegate.metric_sum("tidegate_upstream_queue_length") == 1);
        waiting.finish_sending();
        CHECK_SOON(tidegate.metric_sum("tidegate_upstream_queue_length") == 0);
        CHECK(waiting.closed());
    }
    upstream.open();
    CHECK(first.response().status() == 200);
    CHECK(upstream.come() == 1);
}

TEST_CASE("half-close: a client that leaves gives up its slot of concurrency") {
    const CountedIn counted = either_store();
    const Stalling stalling;
    const Tidegate tidegate(
        counted.yaml() + "timeouts: {hold_aborted: 0s}\n" +
        one_policy(stalling.upstream(),
                   "{key: [ip], limits: [{algorithm: concurrency, quota: 1}]}"));
    for (int i = 1; i <= 3; ++i) {
        RawClient client = tidegate.client();
        client.send(get_request("/slot"));
        await("the request", [&] { return stalling.begun() == i; });
        CHECK(tidegate.get("/other").status() == 429);
        client.finish_sending();
        CHECK(await_quietly([&] { return stalling.cancelled() == i; }));
        CHECK(client.closed());
    }
}

TEST_CASE(
    "half-close: who leaves while the store decides has paid, and the upstream gets nothing") {
    RedisServer redis;
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis.port()) +
        "\", timeout: 20s}}\n" + one_policy(upstream, "{key: [ip], limits: [1/h]}"));
    // The connection to Redis is there.
    CHECK(tidegate.get("/warm", "", "127.0.0.2").status() == 200);
    redis.pause();
    RawClient client = tidegate.client();
    client.send(get_request("/decided"));
    CHECK_SOON(tidegate.metric_sum("tidegate_client_connections") == 1);
    client.finish_sending();
    std::this_thread::sleep_for(milliseconds{50});
    redis.resume();
    CHECK(client.closed());
    CHECK(logged(tidegate, "/decided").at("error") == "client: left");
    CHECK(upstream.requests() == 1);
    CHECK(tidegate.get().status() == 429);
}

TEST_CASE("half-close: what is answered without an upstream is answered, up to what needs one") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/forwarded") return conversation.wait_for_end();
            if (!conversation.send(ok())) return;
        }
    });
    const Tidegate tidegate("threads: 1\n" +
                            api(upstream,
                                "policies: {p: {key: [ip], limits: [1/h]}}\nroutes:\n"
                                "  - {name: limited, match: {path: /limited}, upstream: api, "
                                "policies: [p]}\n  - {name: all, upstream: api, policies: []}\n"));
    CHECK(tidegate.get("/limited").status() == 200);
    const std::string refused = get_request("/limited");
    RawClient all = said(tidegate.client(), refused + refused + refused);
    for (int i = 0; i < 3; ++i) CHECK(all.response().status() == 429);
    CHECK(all.closed());
    CHECK_FALSE(all.was_reset());
    RawClient some = said(tidegate.client(), refused + get_request("/forwarded") + refused);
    CHECK(some.response().status() == 429);
    CHECK(some.closed());
    CHECK_SOON(tidegate.metric_sum("tidegate_requests_total", "outcome=\"aborted\"") == 1);
}

TEST_CASE("half-close: a request that the end has cut gets no answer") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    for (const std::string part :
         {"GET /head HTTP/1.1\r\nHo",
          "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"}) {
        CHECK(said(tidegate.client(), part).closed());
    }
    CHECK(logged(tidegate, "/body").at("error") == "client: left");
}

TEST_CASE("half-close: in HTTP/2, neither the end of a request nor a GOAWAY is leaving; a FIN is" *
          only_in_the_clear("the listener is")) {
    const std::string rest = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    std::atomic<bool> may_answer{false};
    std::atomic<int> come{0};
    std::atomic<int> cancelled{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            ++come;
            if (request.target() == "/left") {
                conversation.wait_for_end();
                ++cancelled;
                return;
            }
            await_quietly([&] { return may_answer.load(); });
            conversation.send(rest);
        }
    });
    Http2Proxy proxy(unlimited({upstream.url()}));
    H2Wire wire(proxy.port());
    wire.send(h2_headers(1, h2_request("GET", "/answered")));
    CHECK(await_quietly([&] { return come == 1; }));
    wire.send(h2_frame(NGHTTP2_GOAWAY, 0, 0, std::string(8, '\0')));
    std::this_thread::sleep_for(milliseconds{50});
    may_answer = true;
    CHECK(wire.await(NGHTTP2_DATA).payload == "ok");
    Socket leaving = connect_h2(proxy.port());
    leaving.send(h2_preface() + h2_headers(1, h2_request("GET", "/left")));
    CHECK(await_quietly([&] { return come == 2; }));
    leaving.finish_sending();
    CHECK(await_quietly([&] { return cancelled == 1; }));
}

TEST_CASE("half-close: with half_close, a client that has finished sending gets its answer") {
    GatedUpstream upstream;
    const Patient patient(simple(upstream.upstream().url()));
    RawClient at_once = said(patient.client(), get_request("/at-once"));
    RawClient posted = said(patient.client(), post_request("/posted", std::string(100'000, 'x')));
    RawClient later = patient.client();
    later.send(get_request("/later"));
    await("all three", [&] { return upstream.come() == 3; });
    later.finish_sending();
    std::this_thread::sleep_for(milliseconds{50});
    upstream.open();
    for (RawClient* client : {&at_once, &posted, &later}) {
        const auto answer = client->response();
        CHECK(answer.status() == 200);
        CHECK(says_close(answer));
        CHECK(client->closed());
        CHECK_FALSE(client->was_reset());
    }
    CHECK(patient.tidegate().metric_sum("tidegate_request_faults_total") == 0);
}

TEST_CASE("half-close: with half_close, so does one that has finished with a close_notify of TLS") {
    const Upstream upstream(ok());
    const TlsWorld world;
    for (const bool keeps : {true, false}) {
        CAPTURE(keeps);
        const TlsProxy proxy(world, certificates({world.keep("own")}), simple(upstream.url()),
                             keeps ? ", half_close: on" : "");
        RawClient client = said(proxy.client(), get_request("/"));
        CHECK(client.rest().starts_with("HTTP/1.1 200") == keeps);
    }
}

TEST_CASE("half-close: with half_close, the proxy serves every request before the end") {
    const Upstream upstream(ok());
    const Patient patient(simple(upstream.url()));
    std::string requests;
    for (int i = 0; i < 40; ++i) requests += get_request("/" + std::to_string(i));
    RawClient client = said(patient.client(), requests);
    for (int i = 0; i < 40; ++i) {
        const auto answer = client.response();
        CHECK(answer.status() == 200);
        CHECK(says_close(answer) == (i == 39));
    }
    CHECK(client.closed());
    CHECK(upstream.requests() == 40);
}

TEST_CASE("half-close: with half_close, the proxy serves such a client through each kind of wait") {
    const CountedIn counted = either_store();
    const TemporaryFolder folder;
    const std::string htpasswd = folder.write("users.htpasswd", kSlowPasswords);
    const Upstream upstream(ok());
    const Patient patient(
        "threads: 1\n" + counted.yaml() + "identity: {user: [{basic: {htpasswd: \"" + htpasswd +
        "\"}}]}\n" +
        api(upstream,
            "policies: {line: {key: [ip], limits: [{algorithm: leaky_bucket, quota: 5, per: 1s, "
            "burst: 3}]}}\nroutes:\n  - {name: line, match: {path: /line}, upstream: api, "
            "policies: "
            "[line]}\n  - {name: all, upstream: api, policies: []}\n"));
    const auto begin = Clock::now();
    std::vector<RawClient> clients;
    for (int i = 0; i < 3; ++i) clients.push_back(said(patient.client(), get_request("/line")));
    // The second of these waits for what the first has checked.
    const std::string right = basic("slow", "slower-password");
    for (int i = 0; i < 2; ++i) {
        clients.push_back(said(patient.client(), get_request("/user", right)));
    }
    for (RawClient& client : clients) {
        CHECK(client.response().status() == 200);
        CHECK(client.closed());
    }
    CHECK(Clock::now() - begin >= milliseconds{380});
    CHECK(upstream.requests() == 5);
}

TEST_CASE("half-close: with half_close, such a client takes no processor time; a reset is seen") {
    const Stalling stalling;
    const Patient patient(simple(stalling.upstream().url()));
    const Tidegate& tidegate = patient.tidegate();
    std::vector<RawClient> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(said(patient.client(), get_request("/held")));
    await("all four", [&] { return stalling.begun() == 4; });
    const auto before = tidegate.processor_time();
    std::this_thread::sleep_for(milliseconds{400});
    CHECK(tidegate.processor_time() - before < milliseconds{150});
    CHECK(tidegate.metric_sum("tidegate_requests_total") == 0);
    for (RawClient& client : clients) client.reset();
    CHECK_SOON(tidegate.metric_sum("tidegate_requests_total", "outcome=\"aborted\"") == 4);
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("half-close: a reload turns half_close on for connections from then on") {
    const std::uint16_t port = free_port();
    const Upstream upstream(ok());
    const auto yaml = [&](const std::string& half_close) {
        return "listen: {address: \"127.0.0.1:" + std::to_string(port) +
               "\", half_close: " + half_close + "}\n" + simple(upstream.url());
    };
    const Tidegate tidegate(yaml("off"));
    CHECK(said(RawClient(port), get_request("/off")).closed());
    tidegate.write_configuration(yaml("on"));
    CHECK(tidegate.reload().status() == 200);
    CHECK(said(RawClient(port), get_request("/on")).response().status() == 200);
}

}  // namespace tidegate::test::half_close_test
