// Redis away and back: what two proxies admit by themselves meanwhile, and what they report.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/load.hpp"

namespace tidegate::test::redis_local_test {

namespace {

std::string settings(const RedisServer& redis, const Upstream& upstream,
                     const std::string& limits) {
    return "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis.port()) +
           "\", breaker: {failures: 2, probe_every: 100ms}}}\nreplicas: 2\ndeny_cache: off\n" +
           simple(upstream.url(), limits);
}

// How many of so many requests one after the other were admitted.
int admitted_of(const Tidegate& tidegate, int requests) {
    int admitted = 0;
    for (int i = 0; i < requests; ++i) admitted += tidegate.get().status() == 200 ? 1 : 0;
    return admitted;
}

double reports(const Tidegate& tidegate, const std::string& result = "reported") {
    return tidegate.metric("tidegate_local_reports_total{result=\"" + result + "\"}");
}

bool sees_redis(const Tidegate& tidegate, bool up) {
    return tidegate.metric("tidegate_store_state{state=\"down\"}") == (up ? 0 : 2);
}

// Until all workers have Redis, and have reported everything.
void await_all_told(const Tidegate& tidegate) {
    double told = 0;
    await("it to have told", [&] {
        const double before = told;
        told = reports(tidegate);
        std::this_thread::sleep_for(milliseconds{300});
        return sees_redis(tidegate, true) && told > 0 && told == before &&
               told == reports(tidegate);
    });
}

}  // namespace

TEST_CASE("redis local: what was admitted without Redis counts in it when it is back") {
    const Upstream upstream(ok());
    RedisServer redis;
    const Tidegate first(settings(redis, upstream, "60/h"));
    const Tidegate second(settings(redis, upstream, "60/h"));
    CHECK(admitted_of(first, 5) + admitted_of(second, 5) == 10);

    redis.stop();
    // Each its half, and not more however often it is asked.
    CHECK(admitted_of(first, 40) == 30);
    CHECK(admitted_of(second, 40) == 30);
    CHECK(reports(first) == 0);
    redis.start();  // empty: a loss
    await("both to have told", [&] { return reports(first) > 0 && reports(second) > 0; });
    await("all to have been told", [&] {
        return sees_redis(first, true) && sees_redis(second, true) && redis.text({"DBSIZE"}) != "0";
    });

    // Sixty were admitted since the loss, so Redis admits no more.
    await("Redis to deny", [&] { return first.get().status() == 429; });
    CHECK(admitted_of(first, 5) == 0);
    CHECK(admitted_of(second, 5) == 0);
    CHECK(second.access_log(50)[45].at("store") == "redis");  // the first of these
    for (const Tidegate* one : {&first, &second}) {
        CHECK(reports(*one, "lost") == 0);
        CHECK(reports(*one, "refused") == 0);
        CHECK(reports(*one, "forgotten") == 0);
    }
}

TEST_CASE("redis local: a report is sent once, and the local share is not granted anew") {
    const Upstream upstream(ok());
    RedisServer redis;
    const Tidegate tidegate(settings(redis, upstream, "20/h"));
    redis.stop();
    CHECK(admitted_of(tidegate, 30) == 10);
    redis.start();
    await_all_told(tidegate);
    const double told = reports(tidegate);

    redis.stop();
    CHECK(admitted_of(tidegate, 30) == 0);  // in this window it has had its share
    redis.start();
    await("it to be back", [&] { return sees_redis(tidegate, true); });
    std::this_thread::sleep_for(milliseconds{300});
    CHECK(reports(tidegate) == told);
    // Lost twice, reported once: the second Redis knows of nothing.
    CHECK(redis.command({"KEYS", "tg:4:*"})->elements == 0);
}

TEST_CASE("redis local: under load a window holds no more than the bound, whatever Redis does") {
    const Upstream upstream(ok());
    RedisServer redis;
    constexpr int kQuota = 300;
    const std::string yaml = settings(redis, upstream, std::to_string(kQuota) + "/h");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    Statuses statuses;
    const auto pass_time = [] { std::this_thread::sleep_for(milliseconds{500}); };
    {
        BackgroundLoad one(first.port(), 2);
        BackgroundLoad two(second.port(), 2);
        std::this_thread::sleep_for(milliseconds{100});
        redis.pause();
        pass_time();
        redis.resume();
        pass_time();
        redis.stop();
        pass_time();
        redis.start();
        pass_time();
        redis.pause();
        pass_time();
        redis.resume();
        pass_time();
        statuses = one.stop();
        for (const auto& [status, count] : two.stop()) statuses[status] += count;
    }
    CHECK(statuses[0] == 0);
    CHECK(statuses[200] + statuses[429] > 1'000);
    constexpr int kLosses = 1;
    constexpr int kShare = kQuota / 2;
    CHECK(statuses[200] <= kQuota * (1 + kLosses) + 2 * kShare);
    CHECK(statuses[200] >= kQuota);
    CHECK(reports(first) + reports(second) > 0);
    MESSAGE("admitted ", statuses[200], " of at most ", kQuota * (1 + kLosses) + 2 * kShare);
}

}  // namespace tidegate::test::redis_local_test
