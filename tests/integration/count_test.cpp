// How much a request takes: what it costs, by the status of its answer, though it was refused.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"

using namespace tidegate::test;
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
    CHECK(logged(first, "/refused").at("limited_by") == "p/failures");
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

TEST_CASE("count by status: good and bad guesses at once, from many: five bad ones, never six") {
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

TEST_CASE("count by status: who leaves before the answer has guessed all the same") {
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

TEST_CASE("count by status: an answer made here is none of the upstream's, and gives units back") {
    const CountedIn counted = either_store();
    const Tidegate tidegate(counted.yaml() + "upstreams: {api: {servers: [http://127.0.0.1:" +
                            std::to_string(free_port()) +
                            "]}}\npolicies: {p: {key: [ip], limits: [{quota: 2, per: 1h, count: "
                            "[401]}]}}\nroutes: [{name: all, upstream: api, policies: [p]}]\n");
    auto client = tidegate.client();
    for (int i = 0; i < 6; ++i) CHECK(client.get().status() == 502);
}

TEST_CASE("count all: hammering keeps you out, silence lets you in; no denial is remembered") {
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
    CHECK(has_left(tidegate.get(), "tries", 4));
    for (int left = 3; left >= 0; --left) {
        const auto refusal = tidegate.get();
        CHECK(refusal.status() == 429);
        CHECK(has_left(refusal, "tries", left));
        CHECK(has_left(refusal, "few", 0));
    }
    CHECK(json::parse(tidegate.get().body).at("violated-policies") ==
          json::array({"few", "tries"}));
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
    CHECK(has_left(ask(header("X-Cost", "7")), "units", 93));
    CHECK(has_left(ask(header("X-Cost", "1"), "127.0.0.1"), "units", 91));
    CHECK(has_left(ask(""), "units", 89));
    for (const std::string value : {"-5", "1.5", "0x10", "1e1", "seven", "99999999999999999999"})
        CHECK(ask(header("X-Cost", value)).status() == 200);
    CHECK(has_left(ask(header("X-Cost", "3") + header("X-Cost", "4")), "units", 75));
    for (const std::string value : {"0", "51"}) CHECK(ask(header("X-Cost", value)).status() == 200);
    CHECK(has_left(ask(header("X-Cost", "50")), "units", 21));
    const auto refusal = ask(header("X-Cost", "22"));
    CHECK(refusal.status() == 429);
    CHECK(has_left(refusal, "units", 21));
    CHECK(has_left(ask(header("X-Cost", "21")), "units", 0));
    CHECK_SOON(tidegate.metric("tidegate_cost_ignored_total{reason=\"untrusted\"}") == 1);
    CHECK_SOON(tidegate.metric("tidegate_cost_ignored_total{reason=\"unreadable\"}") == 7);
    CHECK_SOON(tidegate.metric("tidegate_cost_ignored_total{reason=\"out_of_range\"}") == 2);
}

TEST_CASE("costs: one that is above what can ever pass is refused without a time to come back") {
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
    CHECK(has_left(tidegate.get("/", header("X-Cost", "10")), "units", 0));
}

TEST_CASE("costs: a route that costs nothing asks and takes nothing, even when all is used up") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        api(upstream,
            "policies: {p: {key: [ip], limits: [{name: units, quota: 2, per: 1h}]}}\n"
            "routes:\n  - {name: ask, match: {path: /ask}, cost: 0, upstream: api, "
            "policies: [p]}\n  - {name: all, upstream: api, policies: [p]}\n"));
    for (int i = 0; i < 5; ++i) CHECK(has_left(tidegate.get("/ask"), "units", 2));
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
    const auto asked = tidegate.get("/ask");
    CHECK(asked.status() == 200);
    CHECK(has_left(asked, "units", 0));
}
