// Requests that wait for their turn in the proxy.
#include <signal.h>

#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"

namespace tidegate::test::leaky_bucket_test {

namespace {

std::string leaky(const std::string& rest) {
    return "{key: [ip], limits: [{name: line, algorithm: leaky_bucket, " + rest + "}]}";
}

double decided(const Tidegate& tidegate) {
    return decisions(tidegate, "admitted") + decisions(tidegate, "denied");
}

// A request that asks now, and the verdict on it, before any answer.
struct Asking {
    Asking(const Tidegate& tidegate, const std::string& path = "/") : client(tidegate.client()) {
        const double admitted_before = decisions(tidegate, "admitted");
        const double before = decided(tidegate);
        client.send(get_request(path));
        await("a verdict on " + path, [&] { return decided(tidegate) == before + 1; });
        admitted = decisions(tidegate, "admitted") == admitted_before + 1;
    }

    RawClient client;
    bool admitted = false;
};

double left(const Tidegate& tidegate) {
    return tidegate.metric_sum("tidegate_requests_total", "outcome=\"aborted\"");
}

}  // namespace

TEST_CASE("leaky_bucket: requests are held, and forwarded in the order and at the times of turns") {
    const CountedIn counted = either_store();
    std::mutex mutex;
    std::vector<std::pair<std::string, Clock::time_point>> arrived;
    const Upstream upstream(Upstream::answering([&](const Message& request) {
        const std::lock_guard lock(mutex);
        arrived.emplace_back(request.target(), Clock::now());
        return ok();
    }));
    const Tidegate tidegate("threads: 1\n" + counted.yaml() +
                            one_policy(upstream, leaky("quota: 10, per: 1s")));
    const auto begun = Clock::now();
    std::vector<Asking> askings;
    Clock::time_point first_decided;
    for (int i = 0; i < 6; ++i) {
        askings.emplace_back(tidegate, "/" + std::to_string(i));
        CHECK(askings.back().admitted);
        if (i == 0) first_decided = Clock::now();
    }
    // A busy machine may have sent the last one when its turn had come.
    const bool is_held = Clock::now() < begun + milliseconds{400};
    for (auto& asking : askings) CHECK(asking.client.response().status() == 200);
    REQUIRE(arrived.size() == 6);
    for (int i = 0; i < 6; ++i) {
        const auto& [path, at] = arrived[static_cast<std::size_t>(i)];
        CHECK(path == "/" + std::to_string(i));
        CHECK(at >= begun + i * milliseconds{100});
        CHECK(at <= first_decided + i * milliseconds{100} + slack());
    }
    const auto line = logged(tidegate, "/5");
    CHECK(line.at("verdict") == "admitted");
    CHECK(line.at("store") == counted.name());
    if (is_held) CHECK(line.at("duration_us").get<long>() >= 100'000);
    CHECK(line.at("decision_us").get<long>() < 400'000);
}

TEST_CASE("leaky_bucket: beyond the line, and beyond max_delay, requests are refused at once") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    for (const std::string rest :
         {"quota: 6, per: 1min, burst: 1", "quota: 6, per: 1min, burst: 5, max_delay: 15s"}) {
        CAPTURE(rest);
        const Tidegate tidegate(counted.yaml() + one_policy(upstream, leaky(rest)));
        CHECK(tidegate.get().status() == 200);
        const Asking held(tidegate);
        CHECK(held.admitted);
        const auto refusal = tidegate.get("/refused");
        CHECK(refusal.status() == 429);
        CHECK(std::stoi(refusal.field("Retry-After")) <= 10);
        CHECK(logged(tidegate, "/refused").at("limited_by") == "p-line");
        CHECK(upstream.last().target() == "/");
        if (counted.redis) counted.redis->command({"FLUSHALL"});
    }
    CHECK(upstream.requests() == 2);
}

TEST_CASE(
    "leaky_bucket: when a request leaves the line, its place is free only if it was the last") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted.yaml() +
                            one_policy(upstream, leaky("quota: 6, per: 1min, burst: 2")));
    CHECK(tidegate.get().status() == 200);
    Asking earlier(tidegate, "/earlier");
    Asking later(tidegate, "/later");
    CHECK(earlier.admitted);
    CHECK(later.admitted);
    CHECK(tidegate.get().status() == 429);

    earlier.client.reset();
    await("the earlier to leave", [&] { return left(tidegate) == 1; });
    // What is given back by mistake would be on its way: the second answer comes behind it.
    CHECK(tidegate.get().status() == 429);
    CHECK(tidegate.get().status() == 429);

    later.client.reset();
    await("the later to leave", [&] { return left(tidegate) == 2; });
    await("its place", [&] { return Asking(tidegate).admitted; });
    await("that place too to be given back", [&] { return left(tidegate) == 3; });
    await("it again", [&] {
        const Asking again(tidegate);
        return again.admitted && tidegate.get().status() == 429;
    });
    CHECK(upstream.requests() == 1);
    const auto line = logged(tidegate, "/earlier");
    CHECK(line.at("verdict") == "admitted");
    CHECK(line.at("outcome") == "aborted");
    CHECK(line.at("error") == "client: left");
    CHECK(line.at("status") == 0);
    CHECK(line.at("upstream") == "");
}

TEST_CASE("leaky_bucket: all other limits are charged on arrival, and a slot is held in the line") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\n" + counted.yaml() +
        api(upstream,
            "policies:\n"
            "  p: {key: [ip], limits: [{quota: 6, per: 1min, algorithm: leaky_bucket}]}\n"
            "  slots: {key: [ip], limits: [{name: slot, quota: 1, algorithm: concurrency}]}\n"
            "  hour: {key: [ip], limits: [{name: hour, quota: 10, per: 1h}]}\n"
            "routes: [{name: all, upstream: api, policies: [p, slots, hour]}]\n"));
    CHECK(tidegate.get().status() == 200);
    Asking held(tidegate);
    REQUIRE(held.admitted);
    const auto refusal = tidegate.get("/refused");
    CHECK(refusal.status() == 429);
    CHECK(refusal.field("RateLimit").find("\"hour-hour\";r=8") != std::string::npos);
    CHECK(refusal.field("Retry-After") == "1");
    CHECK(logged(tidegate, "/refused").at("limited_by") == "slots-slot");
    held.client.reset();
    await("the slot", [&] { return Asking(tidegate).admitted; });
    CHECK(upstream.requests() == 1);
}

TEST_CASE("leaky_bucket: a client that leaves the line gives back what its request reserved") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\n" + counted.yaml() +
        api(upstream,
            "policies:\n"
            "  p: {key: [ip], limits: [{quota: 6, per: 1min, algorithm: leaky_bucket}]}\n"
            "  tokens: {key: [ip], limits: [600/h], cost: {reserve: 500, settle: auto}}\n"
            "routes: [{name: all, upstream: api, policies: [p, tokens]}]\n"));
    CHECK(tidegate.client()
              .ask("OPTIONS / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n")
              .status() == 200);
    for (int i = 1; i <= 2; ++i) {
        CHECK(Asking(tidegate, "/held").admitted);
        await("it to leave", [&] { return left(tidegate) == i; });
    }
    CHECK(upstream.requests() == 0);
    CHECK(logged(tidegate, "/held").at("usage_cost") == 0);
}

TEST_CASE("leaky_bucket: of several limits the longest wait counts") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        one_policy(upstream,
                   "{key: [ip], limits: [{name: short, quota: 100, per: 1s, algorithm: "
                   "leaky_bucket}, {name: long, quota: 3, per: 1s, algorithm: leaky_bucket}]}"));
    const auto begun = Clock::now();
    for (int i = 0; i < 3; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(Clock::now() - begun >= milliseconds{666});
    CHECK(Clock::now() - begun <= milliseconds{666} + 3 * slack());
}

TEST_CASE("leaky_bucket: while the program stops, held requests are served") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    Tidegate tidegate(counted.yaml() + one_policy(upstream, leaky("quota: 2, per: 1s")));
    CHECK(tidegate.get().status() == 200);
    Asking held(tidegate);
    CHECK(held.admitted);
    tidegate.signal(SIGTERM);
    const auto answer = held.client.response();
    CHECK(answer.status() == 200);
    CHECK(same_name(answer.field("Connection"), over_http2() ? "" : "close"));
    CHECK(tidegate.wait() == 0);
}

TEST_CASE(
    "leaky_bucket: when the time to stop is over, held requests are cut off, never forwarded") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    Tidegate tidegate("timeouts: {drain: 200ms}\n" + counted.yaml() +
                      one_policy(upstream, leaky("quota: 6, per: 1min")));
    CHECK(tidegate.get().status() == 200);
    Asking held(tidegate, "/held");
    const auto begun = Clock::now();
    tidegate.signal(SIGTERM);
    CHECK(held.client.rest().empty());
    CHECK(tidegate.wait().has_value());
    CHECK(Clock::now() - begun < milliseconds{2000} + slack());
    CHECK(upstream.requests() == 1);
    CHECK(logged(tidegate, "/held").at("error") == "stopped");
}

TEST_CASE(
    "leaky_bucket: while a request is held its client may send the next, and both are served") {
    const CountedIn counted = either_store();
    const Upstream upstream(
        Upstream::answering([](const Message& request) { return ok(request.target()); }));
    const Tidegate tidegate(counted.yaml() + one_policy(upstream, leaky("quota: 5, per: 1s")));
    auto client = tidegate.client();
    client.send(get_request("/0") + get_request("/1"));
    client.send(get_request("/2"));
    for (const std::string path : {"/0", "/1", "/2"}) CHECK(client.response().body == path);
}

}  // namespace tidegate::test::leaky_bucket_test
