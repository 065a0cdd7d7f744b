// How much a request takes: what it costs, by the status of its answer, though it was refused.
#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::count_test {

using nlohmann::json;

namespace {

std::string header(const std::string& name, const std::string& value) {
    return name + ": " + value + "\r\n";
}

// RateLimit has an item `name` with that much left.
bool has_left(const Message& answer, const std::string& name, int left) {
    return answer.field("RateLimit").find('"' + name + "\";r=" + std::to_string(left)) !=
           std::string::npos;
}

// 401 to a bad guess, 403 to a forbidden one, 200 to a good one; takes a moment for it.
Upstream::Handler login() {
    return Upstream::answering([](const Message& request) -> std::string {
        std::this_thread::sleep_for(milliseconds{3});
        const auto guess = request.field("X-Guess");
        if (guess == "good") return ok();
        const std::string status = guess == "bad" ? "401 Unauthorized" : "403 Forbidden";
        return "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n";
    });
}

// A request that fails here after it was sent on: what the upstream gets of it, what then comes,
// and what we answer. The upstream does what its path says.
struct Failing {
    std::string path;
    std::string begin;
    std::string rest;
    int status;
};

std::vector<Failing> failing_requests() {
    const std::string chunked = "Transfer-Encoding: chunked\r\n\r\n" + chunk("begin");
    const auto post = [](const std::string& path, const std::string& rest) {
        return "POST " + path + " HTTP/1.1\r\nHost: a\r\n" + rest;
    };
    return {
        {"/bad-chunk", post("/bad-chunk", chunked), "zz\r\n", 400},
        {"/bad-trailer", post("/bad-trailer", chunked), "0\r\nbad trailer\r\n\r\n", 400},
        {"/too-large", post("/too-large", chunked), chunk(std::string(2000, 'x')), 413},
        {"/slow-body", post("/slow-body", chunked), "", 408},
        {"/slow-length", post("/slow-length", "Content-Length: 9\r\n\r\nbegin"), "", 408},
        {"/closes", get_request("/closes"), "", 502},
        {"/resets", get_request("/resets"), "", 502},
        {"/garbage", get_request("/garbage"), "", 502},
        {"/broken-body", get_request("/broken-body"), "", 502},
        {"/too-late", get_request("/too-late"), "", 504},
    };
}

void act_and_fail(Conversation& conversation) {
    Message request;
    if (!conversation.read_head(request)) return;
    const std::string path = request.target();
    if (path == "/closes") return;
    if (path == "/resets") return conversation.reset();
    if (path == "/garbage") conversation.send("garbage\r\n\r\n");
    // Of a status that counts, from the upstream.
    if (path == "/broken-body") {
        conversation.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    }
    conversation.wait_for_end();
}

int seen(const Upstream& upstream, const std::string& path) {
    const auto all = upstream.seen();
    return static_cast<int>(
        std::count_if(all.begin(), all.end(), [&](auto& one) { return one.target() == path; }));
}

// Bodies of 1 KiB at most. A body, and the upstream that has it, may be silent for `silence`.
std::string impatient(const Upstream& upstream, const std::string& limit,
                      const std::string& silence = "100ms") {
    return "limits_on_requests: {body_bytes: 1KiB}\ntimeouts: {request_body: " + silence +
           ", hold_aborted: 0s}\nupstreams: {api: {servers: [" + upstream.url() +
           "], request_buffer: off, timeouts: {response: " + silence +
           "}}}\npolicies: {p: {key: [ip], limits: [" + limit +
           "]}}\nroutes: [{name: all, upstream: api, policies: [p]}]\n";
}

std::string failures(const Upstream& upstream, const std::string& quota = "5") {
    return one_policy(upstream, "{key: [ip], limits: [{name: failures, quota: " + quota +
                                    ", per: 15min, count: [401, 403]}]}");
}

}  // namespace

TEST_CASE("count by status: of a thousand guesses at once no more than the quota come through") {
    const CountedIn counted = either_store();
    const Upstream upstream(login());
    const std::string yaml = counted.yaml() + failures(upstream);
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    std::vector<std::uint16_t> ports{first.port()};
    if (counted.redis) ports.push_back(second.port());
    CHECK(hammer(ports, 50, 1000, header("X-Guess", "bad")) == Statuses{{401, 5}, {429, 995}});
    CHECK(upstream.requests() == 5);
    const auto refusal = first.get("/refused", header("X-Guess", "good"));
    CHECK(refusal.status() == 429);
    CHECK(std::stoi(refusal.field("Retry-After")) > 800);
    CHECK(logged(first, "/refused").at("limited_by") == "p-failures");
    CHECK(logged(first, "/refused").at("store") == counted.name());
}

TEST_CASE("count by status: successes give their units back, failures do not") {
    const CountedIn counted = either_store();
    const Upstream upstream(login());
    const Tidegate tidegate(counted.yaml() + failures(upstream));
    auto client = tidegate.client();
    for (int i = 0; i < 30; ++i) CHECK(client.get("/", header("X-Guess", "good")).status() == 200);
    CHECK(client.get("/", header("X-Guess", "bad")).status() == 401);
    CHECK(client.get("/", header("X-Guess", "forbidden")).status() == 403);
    for (int i = 0; i < 30; ++i) CHECK(client.get("/", header("X-Guess", "good")).status() == 200);
    for (int i = 0; i < 3; ++i) CHECK(client.get("/", header("X-Guess", "bad")).status() == 401);
    CHECK(client.get("/", header("X-Guess", "bad")).status() == 429);
    CHECK(client.get("/", header("X-Guess", "good")).status() == 429);
}

TEST_CASE("count by status: of many good and bad guesses at once, five bad ones pass, never six") {
    const CountedIn counted = either_store();
    const Upstream upstream(login());
    const Tidegate tidegate(counted.yaml() + failures(upstream));
    std::atomic<int> bad{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back([&, i] {
            auto client = tidegate.client();
            for (int n = 0; n < 60; ++n) {
                const auto guess = (i + n) % 4 == 0 ? "bad" : "good";
                if (client.get("/", header("X-Guess", guess)).status() == 401) ++bad;
            }
        });
    }
    for (auto& client : clients) client.join();
    CHECK(bad.load() <= 5);
    // Good ones may have held the last unit each time that a bad one came. It is still there.
    for (int more = bad; more < 5; ++more) {
        CHECK(tidegate.get("/", header("X-Guess", "bad")).status() == 401);
    }
    CHECK(tidegate.get("/", header("X-Guess", "bad")).status() == 429);
}

TEST_CASE("count by status: a client that leaves before the answer has guessed all the same") {
    const CountedIn counted = either_store();
    GatedUpstream upstream;
    const Tidegate tidegate(counted.yaml() + failures(upstream.upstream(), "3"));
    for (int i = 0; i < 3; ++i) {
        auto client = tidegate.client();
        client.send(get_request("/guess"));
        await("the guess", [&] { return upstream.come() == i + 1; });
        client.reset();
    }
    await("them to leave", [&] {
        return tidegate.metric_sum("tidegate_requests_total", "outcome=\"aborted\"") == 3;
    });
    // What is given back by mistake would be on its way: the second answer comes behind it.
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get().status() == 429);
    CHECK(upstream.come() == 3);
}

TEST_CASE("count by status: once the upstream has a part, only its own answer gives units back") {
    const CountedIn counted = either_store();
    const Upstream upstream(act_and_fail);
    const Tidegate tidegate(counted.yaml() +
                            impatient(upstream, "{quota: 3, per: 1h, count: [200]}"));
    int number = 0;
    for (const Failing& request : failing_requests()) {
        CAPTURE(request.path);
        if (over_http2() && request.path.starts_with("/bad-")) continue;  // it has no chunks
        const std::string from = "127.0.3." + std::to_string(++number);
        std::vector<RawClient> clients;
        for (int i = 0; i < 3; ++i) {
            clients.push_back(tidegate.client(from));
            clients.back().send(request.begin);
        }
        await("the requests", [&] { return seen(upstream, request.path) == 3; });
        for (RawClient& client : clients) {
            client.send(request.rest);
            CHECK(client.response().status() == request.status);
        }
        for (int i = 3; i < 20; ++i) {
            CHECK(tidegate.client(from).ask(request.begin).status() == 429);
        }
        CHECK(seen(upstream, request.path) == 3);
    }
}

TEST_CASE("count by status: of many bad bodies at once no more than the quota come through" *
          only_over_http1("what is bad are chunks")) {
    const CountedIn counted = either_store();
    const Upstream upstream(act_and_fail);
    const Tidegate tidegate(counted.yaml() +
                            impatient(upstream, "{quota: 3, per: 1h, count: [200]}", "10s"));
    const Failing bad = failing_requests().front();
    for (int wave = 0; wave < 2; ++wave) {
        std::vector<RawClient> clients;
        for (int i = 0; i < 30; ++i) {
            clients.push_back(tidegate.client());
            clients.back().send(bad.begin);
        }
        await("the requests", [&] { return upstream.requests() >= 3; });
        await("the refusals",
              [&] { return decisions(tidegate, "denied") >= (wave == 0 ? 27 : 57); });
        Statuses statuses;
        for (RawClient& client : clients) {
            client.send(bad.rest);
            ++statuses[client.response().status()];
        }
        CHECK(statuses == (wave == 0 ? Statuses{{400, 3}, {429, 27}} : Statuses{{429, 30}}));
        CHECK(upstream.requests() == 3);
    }
}

TEST_CASE(
    "count by status: a request never forwarded gives units back, as does a status not in "
    "`count`") {
    const CountedIn counted = either_store();
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        // The status of the upstream counts, though its answer breaks off, and though its client
        // sends rubbish behind its request.
        conversation.send("HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\npart");
        if (request.target() == "/cut") return;
        conversation.wait_for_end();
    });
    const Tidegate tidegate(counted.yaml() +
                            impatient(upstream, "{quota: 1, per: 1h, count: [200, 400]}"));
    // The body is refused before the head is sent on: over HTTP/1 since both come in one piece.
    // Over HTTP/2 they may not, so there the head says the length.
    const std::string body(2000, 'x');
    const std::string large = "POST / HTTP/1.1\r\nHost: a\r\n" +
                              (over_http2() ? "Content-Length: 2000\r\n\r\n" + body
                                            : "Transfer-Encoding: chunked\r\n\r\n" + chunk(body));
    for (int i = 0; i < 3; ++i) {
        await("the unit of one that was too large",
              [&] { return tidegate.client().ask(large).status() == 413; });
        await("the unit of one that was cut off", [&] { return tidegate.get("/cut").broken; });
        await("the unit of one that was left", [&] {
            RawClient client = tidegate.client();
            client.send(get_request("/left"));
            const bool answered = client.some().find(" 404") != std::string::npos;
            client.reset();
            return answered;
        });
    }
    CHECK(upstream.requests() == 6);
}

TEST_CASE("count by status: a kept connection that was closed took the request all the same") {
    const CountedIn counted = either_store();
    std::optional<Socket> listener(Socket::listen());
    const std::string url = "http://127.0.0.1:" + std::to_string(listener->port());
    const Tidegate tidegate(counted.yaml() + "threads: 1\nupstreams: {api: {servers: [\"" + url +
                            "\"]}}\npolicies: {p: {key: [ip], limits: [{quota: 2, per: 1h, count: "
                            "[200]}]}}\nroutes: [{name: all, upstream: api, policies: [p]}]\n");
    RawClient client = tidegate.client();
    client.send(get_request("/first"));
    std::optional<Socket> server = listener->accept(kPatience);
    REQUIRE(server.has_value());
    MessageReader reader(*server);
    Message request;
    CHECK(reader.request(request));
    server->send(ok());
    CHECK(client.response().status() == 200);
    client.send(get_request("/second"));
    CHECK(reader.request(request));
    listener.reset();
    server->close();
    CHECK(client.response().status() == 502);
    // It could not be sent again, but it was sent.
    CHECK(client.get("/third").status() == 429);
}

TEST_CASE("count by status: an answer of the proxy's own gives units back") {
    const CountedIn counted = either_store();
    const Tidegate tidegate(counted.yaml() + "upstreams: {api: {servers: [http://127.0.0.1:" +
                            std::to_string(free_port()) +
                            "]}}\npolicies: {p: {key: [ip], limits: [{quota: 2, per: 1h, count: "
                            "[401]}]}}\nroutes: [{name: all, upstream: api, policies: [p]}]\n");
    auto client = tidegate.client();
    for (int i = 0; i < 6; ++i) CHECK(client.get().status() == 502);
}

TEST_CASE(
    "count all: a client that retries stays denied, one that waits passes, and no denial is kept") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        one_policy(upstream,
                   "{key: [ip], limits: [{quota: 3, per: 1s, precision: 100ms, count: all}]}"));
    CHECK(admitted_in({tidegate.port()}, 2, "/", milliseconds{2200}).size() == 3);
    CHECK(tidegate.metric("tidegate_deny_cache_hits_total") == 0);
    std::this_thread::sleep_for(milliseconds{1150});
    CHECK(tidegate.get().status() == 200);
}

TEST_CASE("count all: a denial by another limit takes units, too") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        one_policy(upstream,
                   "{key: [ip], limits: [{name: few, quota: 1, per: 1h}, {name: tries, "
                   "quota: 5, per: 1day, count: all}]}"));
    CHECK(has_left(tidegate.get(), "p-tries", 4));
    for (int left = 3; left >= 0; --left) {
        const auto refusal = tidegate.get();
        CHECK(refusal.status() == 429);
        CHECK(has_left(refusal, "p-tries", left));
        CHECK(has_left(refusal, "p-few", 0));
    }
    CHECK(json::parse(tidegate.get().body).at("violated-policies") ==
          json::array({"p-few", "p-tries"}));
}

TEST_CASE("costs: taken from a field only from trusted peers and within bounds, else the default") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() + "identity: {client_ip: {trusted_proxies: [127.0.0.2]}}\n" +
        api(upstream,
            "policies: {p: {key: [\"constant:all\"], limits: [{name: units, quota: 100, per: "
            "1h}]}}\nroutes: [{name: all, upstream: api, policies: [p], cost: {header: x-cost, "
            "from: trusted_proxies, default: 2, min: 1, max: 50}}]\n"));
    const auto ask = [&](const std::string& fields, const std::string& from = "127.0.0.2") {
        return tidegate.get("/", fields, from);
    };
    CHECK(has_left(ask(header("X-Cost", "7")), "p-units", 93));
    CHECK(has_left(ask(header("X-Cost", "1"), "127.0.0.1"), "p-units", 91));
    CHECK(has_left(ask(""), "p-units", 89));
    for (const std::string value : {"-5", "1.5", "0x10", "1e1", "seven", "99999999999999999999"})
        CHECK(ask(header("X-Cost", value)).status() == 200);
    CHECK(has_left(ask(header("X-Cost", "3") + header("X-Cost", "4")), "p-units", 75));
    for (const std::string value : {"0", "51"}) CHECK(ask(header("X-Cost", value)).status() == 200);
    CHECK(has_left(ask(header("X-Cost", "50")), "p-units", 21));
    const auto refusal = ask(header("X-Cost", "22"));
    CHECK(refusal.status() == 429);
    CHECK(has_left(refusal, "p-units", 21));
    CHECK(has_left(ask(header("X-Cost", "21")), "p-units", 0));
    CHECK_SOON(tidegate.metric("tidegate_cost_ignored_total{reason=\"untrusted\"}") == 1);
    CHECK_SOON(tidegate.metric("tidegate_cost_ignored_total{reason=\"unreadable\"}") == 7);
    CHECK_SOON(tidegate.metric("tidegate_cost_ignored_total{reason=\"out_of_range\"}") == 2);
}

TEST_CASE("costs: a cost above the quota is refused without a time to come back") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        api(upstream,
            "policies: {p: {key: [ip], limits: [{name: units, quota: 10, per: 1h}]}}\n"
            "routes: [{name: all, upstream: api, policies: [p], cost: {header: x-cost, "
            "from: anyone, max: 50}}]\n"));
    const auto refusal = tidegate.get("/", header("X-Cost", "11"));
    CHECK(refusal.status() == 429);
    CHECK_FALSE(refusal.has("Retry-After"));
    CHECK(has_left(tidegate.get("/", header("X-Cost", "10")), "p-units", 0));
}

TEST_CASE("costs: a route of cost 0 takes nothing, even when the quota is used up") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        api(upstream,
            "policies: {p: {key: [ip], limits: [{name: units, quota: 2, per: 1h}]}}\n"
            "routes:\n  - {name: ask, match: {path: /ask}, cost: 0, upstream: api, "
            "policies: [p]}\n  - {name: all, upstream: api, policies: [p]}\n"));
    for (int i = 0; i < 5; ++i) CHECK(has_left(tidegate.get("/ask"), "p-units", 2));
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
    const auto asked = tidegate.get("/ask");
    CHECK(asked.status() == 200);
    CHECK(has_left(asked, "p-units", 0));
}

}  // namespace tidegate::test::count_test
