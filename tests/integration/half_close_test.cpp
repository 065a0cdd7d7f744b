// Clients that finish sending and wait for their answers: nc, old Java, some load balancers.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::half_close_test {

namespace {

bool says_close(const Message& answer) {
    return same_name(answer.field("Connection"), "close");
}

// Sends `bytes` and the end behind them.
RawClient said(const Tidegate& tidegate, const std::string& bytes) {
    RawClient client = tidegate.client();
    client.send(bytes);
    client.finish_sending();
    return client;
}

}  // namespace

TEST_CASE("half-close: a client that has finished sending gets its answer and the end") {
    GatedUpstream upstream;
    const Tidegate tidegate(simple(upstream.upstream().url()));
    RawClient at_once = said(tidegate, get_request("/at-once"));
    RawClient posted = said(tidegate, post_request("/posted", std::string(100'000, 'x')));
    RawClient later = tidegate.client();
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
    CHECK(tidegate.metric_sum("tidegate_request_faults_total") == 0);
}

TEST_CASE(
    "half-close: every request before the end is served, and the last is answered as the last") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    std::string requests;
    for (int i = 0; i < 40; ++i) requests += get_request("/" + std::to_string(i));
    RawClient client = said(tidegate, requests);
    for (int i = 0; i < 40; ++i) {
        const auto answer = client.response();
        CHECK(answer.status() == 200);
        CHECK(says_close(answer) == (i == 39));
    }
    CHECK(client.closed());
    CHECK(upstream.requests() == 40);
}

TEST_CASE(
    "half-close: the proxy's own answers are sent, too, and a request cut by the end gets none") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "1/h"));
    CHECK(tidegate.get().status() == 200);
    RawClient refused = said(tidegate, get_request("/refused"));
    CHECK(refused.response().status() == 429);
    CHECK(refused.closed());
    for (const std::string part :
         {"GET /head HTTP/1.1\r\nHo",
          "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"}) {
        RawClient broken = tidegate.client("127.0.0.2");
        broken.send(part);
        broken.finish_sending();
        CHECK(broken.closed());
    }
    CHECK(logged(tidegate, "/body").at("error") == "client: left");
}

TEST_CASE("half-close: the proxy serves such a client through each kind of wait") {
    const CountedIn counted = either_store();
    const TemporaryFolder folder;
    const std::string htpasswd = folder.write("users.htpasswd", kSlowPasswords);
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\n" + counted.yaml() + "identity: {user: [{basic: {htpasswd: \"" + htpasswd +
        "\"}}]}\n" +
        api(upstream,
            "policies: {line: {key: [ip], limits: [{algorithm: leaky_bucket, quota: 5, per: 1s, "
            "burst: 3}]}}\nroutes:\n  - {name: line, match: {path: /line}, upstream: api, "
            "policies: "
            "[line]}\n  - {name: all, upstream: api, policies: []}\n"));
    const auto begin = Clock::now();
    std::vector<RawClient> clients;
    for (int i = 0; i < 3; ++i) clients.push_back(said(tidegate, get_request("/line")));
    // The second of these waits for what the first has checked.
    const std::string right = basic("slow", "slower-password");
    for (int i = 0; i < 2; ++i) clients.push_back(said(tidegate, get_request("/user", right)));
    for (RawClient& client : clients) {
        CHECK(client.response().status() == 200);
        CHECK(client.closed());
    }
    CHECK(Clock::now() - begin >= milliseconds{380});
    CHECK(upstream.requests() == 5);
}

TEST_CASE("half-close: waiting with such a client takes no processor time, and a reset is seen") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (conversation.read(request)) conversation.wait_for_end();
    });
    const Tidegate tidegate(simple(upstream.url()));
    std::vector<RawClient> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(said(tidegate, get_request("/held")));
    await("all four", [&] { return upstream.requests() == 4; });
    const auto before = tidegate.processor_time();
    std::this_thread::sleep_for(milliseconds{400});
    CHECK(tidegate.processor_time() - before < milliseconds{150});
    CHECK(tidegate.metric_sum("tidegate_requests_total") == 0);
    for (RawClient& client : clients) client.reset();
    CHECK_SOON(tidegate.metric_sum("tidegate_requests_total", "outcome=\"aborted\"") == 4);
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

}  // namespace tidegate::test::half_close_test
