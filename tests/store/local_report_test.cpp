// Units that were admitted in process while Redis was away, and what Redis makes of the report.
#include "store/local_report.hpp"

#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>

#include "limit/window.hpp"
#include "store/redis_asking.hpp"

namespace tidegate::test::local_report_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;
using store::LocalLedger;
using store::LocalTaken;

// A proxy that counts by itself.
class Alone {
  public:
    explicit Alone(std::int64_t divisor = 1) : memory_(options_of(divisor)) {}

    bool charge(const limit::Charge& charge, Micros now) {
        limit::Verdict verdict;
        REQUIRE(memory_.charge(charge, now, verdict) == store::MemoryStore::Outcome::decided);
        ledger_.take(charge, verdict);
        return verdict.admitted;
    }
    std::vector<LocalTaken> all() {
        return ledger_.hand_out(64, [](const LocalTaken&) { return true; });
    }

  private:
    static store::MemoryStore::Options options_of(std::int64_t divisor) {
        store::MemoryStore::Options options;
        options.divisor = divisor;
        return options;
    }

    store::MemoryStore memory_;
    LocalLedger ledger_{LocalLedger::Options{}};
};

// "1", "0" or an error.
std::string reported(RedisSubject& redis, const std::string& command) {
    redis.connection().send(command);
    const Reply reply = redis.connection().read();
    return reply->type == REDIS_REPLY_INTEGER ? std::to_string(reply->integer) : reply->str;
}

std::string report(RedisSubject& redis, const LocalTaken& taken, Micros sent, Micros now,
                   const std::string& prefix = "t:") {
    std::string command;
    store::append_report_command(taken, sent, prefix, now, command);
    return reported(redis, command);
}

void report_all(RedisSubject& redis, Alone& alone, Micros now, const std::string& prefix = "t:") {
    for (const LocalTaken& taken : alone.all()) {
        const std::string answer = report(redis, taken, now, now, prefix);
        CHECK((answer == "1" || answer == "0"));
    }
}

std::string value_of(RedisSubject& redis, const std::string& key) {
    const Reply reply = redis.connection().command({"GET", key});
    return reply->type == REDIS_REPLY_STRING ? std::string(reply->str, reply->len) : std::string();
}

// What counts of a state, however it came about.
std::string counted(RedisSubject& redis, const std::string& key) {
    State state = taken_apart(value_of(redis, key));
    state.generation = 0;
    state.expiry = 0;
    for (StateRecord& record : state.records) {
        for (auto& mark : record.marks) mark.first -= record.base;
        // The last in a line is unknown once others were reported.
        record.oldest = std::abs(record.oldest);
        record.base = 0;
    }
    return written(state);
}

Limit log(std::int64_t quota, Micros duration) {
    return made(spec_of(Algorithm::sliding_log, quota, duration));
}

Limit money(std::int64_t quota, Micros duration) {
    LimitSpec spec = spec_of(Algorithm::sliding_window, quota, duration);
    spec.in_money = true;
    return made(spec);
}

Limit gcra(std::int64_t quota, Micros duration, std::int64_t burst) {
    LimitSpec spec = spec_of(Algorithm::gcra, quota, duration);
    spec.burst = burst;
    return made(spec);
}

}  // namespace

TEST_CASE("local report: the state is that of the same charges asked of Redis") {
    RedisSubject redis;
    for (std::uint32_t seed = 0; seed < 150; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto between = [&](int low, int high) {
            return std::uniform_int_distribution<int>(low, high)(random);
        };
        const auto some =
            policy("p" + std::to_string(seed),
                   {sliding(90'000, 10s, {.precision = 1s}), sliding(90'000, 7s, {.precision = 2s}),
                    sliding(90'000, 9s, {.precision = 1s, .strict = true}), fixed(90'000, 5s),
                    money(90'000, 10s), log(1'000, 10s), gcra(997, 10s, 1'500),
                    made(spec_of(Algorithm::leaky_bucket, 1'009, 10s))});
        Alone alone;
        Micros now = kStart;
        for (int phase = 0; phase < 6; ++phase) {
            const bool redis_is_away = phase % 2 == 1;
            for (int step = between(0, 12); step > 0; --step) {
                now += Micros{between(0, 1'500'000)};
                const Ask ask(some, {"user:a"}, between(1, 9));
                REQUIRE(charge_as(redis, ask, "whole:", now).admitted);
                if (redis_is_away) {
                    REQUIRE(alone.charge(ask, now));
                } else {
                    REQUIRE(charge_as(redis, ask, "parts:", now).admitted);
                }
            }
            if (redis_is_away) {
                now += Micros{between(0, 3'000'000)};
                report_all(redis, alone, now, "parts:");
            }
        }
        // Of one moment, as the scripts forget what is over only when they write.
        const Ask last(some, {"user:a"});
        CHECK(written(charge_as(redis, last, "parts:", now)) ==
              written(charge_as(redis, last, "whole:", now)));
        const std::string key = "4:" + some.name + ":{user:a}";
        CHECK(counted(redis, "parts:" + key) == counted(redis, "whole:" + key));
        CHECK(ttl_ms(redis, "parts:" + key) > 0);
    }
}

TEST_CASE(
    "local report: units that several proxies admitted over the quota deny until they leave") {
    RedisSubject redis;
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto between = [&](int low, int high) {
            return std::uniform_int_distribution<int>(low, high)(random);
        };
        std::vector<Limit> limits;
        limits.push_back(seed % 2 == 0 ? sliding(12, 10s, {.precision = 1s}) : log(12, 10s));
        const auto some = policy("q" + std::to_string(seed), std::move(limits));
        const Limit& limit = some.limits[0];
        Alone first(2);
        Alone second(2);
        const limit::ChargeItem item{&some, "user:a"};
        const limit::Charge ask{{&item, 1}};
        const limit::Charge look{{&item, 1}, 0};
        std::vector<Micros> taken;
        Micros now = kStart;
        for (int step = 0; step < 60; ++step) {
            now += Micros{between(0, 500'000)};
            const int who = between(0, 2);
            const bool admitted = who == 0 && step < 20 ? redis.charge(ask, now).admitted
                                  : who == 1            ? first.charge(ask, now)
                                                        : second.charge(ask, now);
            if (admitted) taken.push_back(now);
        }
        report_all(redis, first, now);
        report_all(redis, second, now);
        // As plainly as it can be said: each unit counts from its sub-bucket on for ten of them.
        for (; !taken.empty(); now += 700ms) {
            std::erase_if(taken, [&](Micros at) {
                const Micros began = at - at % limit.precision;
                return began + limit::span_of(limit) <= now;
            });
            const auto count = static_cast<std::int64_t>(taken.size());
            const limit::Verdict verdict = redis.charge(look, now);
            CHECK(verdict.limits[0].remaining == std::max<std::int64_t>(0, 12 - count));
            CHECK(verdict.admitted == (count <= 12));
        }
    }
}

TEST_CASE("local report: a window that the first request opened is the same window") {
    RedisSubject redis;
    const auto some = policy("p", {fixed(10, 10s, limit::Anchor::first_request)});
    const Ask ask(some, {"user:a"});
    SUBCASE("Redis knows of none") {
        Alone alone;
        REQUIRE(alone.charge(ask, kStart));
        REQUIRE(alone.charge(ask, kStart + 4s));
        report_all(redis, alone, kStart + 6s);
        const limit::Verdict verdict = redis.charge(ask, kStart + 6s);
        CHECK(verdict.limits[0].remaining == 7);
        CHECK(verdict.limits[0].next_unit == 4s);
        CHECK(redis.charge(ask, kStart + 10s).limits[0].remaining == 9);
    }
    SUBCASE("Redis has it open") {
        REQUIRE(redis.charge(ask, kStart).admitted);
        Alone alone;
        REQUIRE(alone.charge(ask, kStart + 4s));
        report_all(redis, alone, kStart + 6s);
        CHECK(redis.charge(ask, kStart + 6s).limits[0].remaining == 7);
        CHECK(redis.charge(ask, kStart + 10s).limits[0].remaining == 9);
    }
    SUBCASE("it is over") {
        Alone alone;
        REQUIRE(alone.charge(ask, kStart));
        report_all(redis, alone, kStart + 10s);
        CHECK(redis.charge(ask, kStart + 10s).limits[0].remaining == 9);
    }
}

TEST_CASE("local report: a bucket is never left fuller than with twice its burst") {
    RedisSubject redis;
    const auto some = policy("p", {gcra(10, 10s, 5)});
    const Ask ask(some, {"user:a"});
    for (int i = 0; i < 5; ++i) REQUIRE(redis.charge(ask, kStart).admitted);
    for (int proxy = 0; proxy < 4; ++proxy) {
        Alone alone;
        for (int i = 0; i < 5; ++i) REQUIRE(alone.charge(ask, kStart));
        report_all(redis, alone, kStart);
    }
    // Ten units of a second each, of which five must have gone, and one more.
    const limit::Verdict verdict = redis.charge(ask, kStart);
    CHECK_FALSE(verdict.admitted);
    CHECK(verdict.retry_after == 6s);
}

TEST_CASE(
    "local report: after a long absence a bucket holds what has not leaked, not all there was") {
    RedisSubject redis;
    const auto some = policy("p", {gcra(10, 10s, 5)});
    const Ask ask(some, {"user:a"});
    Alone alone;
    for (int i = 0; i < 200; ++i) REQUIRE(alone.charge(ask, kStart + i * 2s));
    const Micros now = kStart + 199 * 2s;
    // Redis was charged before the report came.
    REQUIRE(redis.charge(ask, now).admitted);
    report_all(redis, alone, now);
    CHECK(redis.charge(ask, now).limits[0].remaining == 2);
}

TEST_CASE("local report: no place is given back once later requests have theirs") {
    RedisSubject redis;
    const auto some = policy("p", {made(spec_of(Algorithm::leaky_bucket, 10, 10s))});
    const Ask ask(some, {"user:a"});
    const limit::Charge charge = ask;
    for (const Micros theirs : {1ms, 3ms}) {
        CAPTURE(theirs.count());
        const std::string prefix = std::to_string(theirs.count()) + ":";
        Alone alone;
        const limit::Verdict ours = charge_as(redis, charge, prefix, kStart + 2ms);
        REQUIRE(alone.charge(charge, kStart + theirs));
        report_all(redis, alone, kStart + 4ms, prefix);
        give_back_as(redis, {charge, &ours.receipt, limit::Refund::Of::place, 0}, prefix,
                     kStart + 4ms);
        CHECK(charge_as(redis, charge, prefix, kStart + 4ms).wait > 1'990ms);
    }
}

TEST_CASE("local report: units that no longer count leave nothing behind") {
    RedisSubject redis;
    const auto some = policy(
        "p", {sliding(10, 10s, {.precision = 1s}), log(10, 10s), fixed(10, 10s), gcra(10, 10s, 5)});
    Alone alone;
    REQUIRE(alone.charge(Ask(some, {"user:a"}), kStart));
    const Micros over = kStart + 20s;
    for (const LocalTaken& taken : alone.all()) CHECK(report(redis, taken, over, over) == "0");
    CHECK(redis.text({"DBSIZE"}) == "0");
}

TEST_CASE("local report: with clocks that differ the age of units counts") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(10, 10s, {.precision = 1s}), gcra(10, 10s, 10)});
    const Ask ask(some, {"user:a"}, 4);
    const Micros theirs = kStart + 5h;
    for (const Micros skew : {Micros{-5h}, Micros{5h}}) {
        const std::string prefix = skew < 0us ? "behind:" : "ahead:";
        Alone alone;
        REQUIRE(alone.charge(ask, theirs + skew));
        for (const LocalTaken& taken : alone.all()) {
            CHECK(report(redis, taken, theirs + skew + 2s, theirs + 2s, prefix) == "1");
        }
        const auto asked = charge_as(redis, Ask(some, {"user:a"}, 0), prefix, theirs + 2s);
        CHECK(asked.limits[0].remaining == 6);
        CHECK(asked.limits[1].remaining == 8);
        // Not shorter than they would count, and at most by a sub-bucket longer.
        const auto later = charge_as(redis, Ask(some, {"user:a"}, 0), prefix, theirs + 11s);
        CHECK(later.limits[0].remaining == 10);
    }
}

TEST_CASE("local report: counts never pass what fits, and a log keeps its last thousand") {
    RedisSubject redis;
    SUBCASE("units") {
        const auto most = limit::kQuotaMax;
        const auto some = policy("p", {sliding(most, 10s, {.precision = 1s})});
        REQUIRE(redis.charge(Ask(some, {"user:a"}, most - 5), kStart).admitted);
        Alone alone;
        REQUIRE(alone.charge(Ask(some, {"user:a"}, most), kStart + 1s));
        report_all(redis, alone, kStart + 1s);
        const State state = taken_apart(value_of(redis, "t:4:p:{user:a}"));
        CHECK(state.records[0].units == most);
        CHECK_FALSE(redis.charge(Ask(some, {"user:a"}), kStart + 1s).admitted);
        CHECK(redis.charge(Ask(some, {"user:a"}, most - 5), kStart + 10s).admitted);
    }
    SUBCASE("moments") {
        const auto some = policy("p", {log(1'000, 10s)});
        const Ask ask(some, {"user:a"});
        Alone alone;
        for (int i = 0; i < 1'000; ++i) {
            REQUIRE(redis.charge(ask, kStart + i * 3ms).admitted);
            REQUIRE(alone.charge(ask, kStart + i * 3ms + 1ms));
        }
        report_all(redis, alone, kStart + 3s);
        const State state = taken_apart(value_of(redis, "t:4:p:{user:a}"));
        CHECK(state.records[0].marks.size() == 1'000);
        CHECK(state.records[0].units == 1'001);
        CHECK_FALSE(redis.charge(ask, kStart + 3s).admitted);
        CHECK(redis.charge(Ask(some, {"user:a"}, 1'000), kStart + 13s).admitted);
    }
}

TEST_CASE("local report: records of other limits stay, and no key's life is shortened") {
    RedisSubject redis;
    const auto hourly = policy("p", {sliding(100, 1h)});
    auto other = policy("p", {sliding(100, 10s, {.precision = 1s})});
    REQUIRE(redis.charge(Ask(hourly, {"user:a"}, 7), kStart).admitted);
    const std::int64_t life = ttl_ms(redis, "t:4:p:{user:a}");
    Alone alone;
    REQUIRE(alone.charge(Ask(other, {"user:a"}, 3), kStart + 1s));
    report_all(redis, alone, kStart + 1s);
    CHECK(ttl_ms(redis, "t:4:p:{user:a}") > life - 60'000);
    CHECK(redis.charge(Ask(hourly, {"user:a"}, 0), kStart + 1s).limits[0].remaining == 93);
    CHECK(redis.charge(Ask(other, {"user:a"}, 0), kStart + 1s).limits[0].remaining == 97);
}

TEST_CASE(
    "local report: a report that is cut, or meets a value that is no state, changes nothing") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(100, 10s, {.precision = 1s}), gcra(10, 10s, 10)});
    const Ask ask(some, {"user:a"});
    REQUIRE(redis.charge(ask, kStart).admitted);
    Alone alone;
    REQUIRE(alone.charge(ask, kStart));
    REQUIRE(alone.charge(ask, kStart + 1s));
    const auto taken = alone.all();
    REQUIRE(taken.size() == 1);
    std::string command;
    store::append_report_command(taken[0], kStart + 2s, "t:", kStart + 2s, command);
    const std::string before = value_of(redis, "t:4:p:{user:a}");

    // The report is the last string but one: 8 bytes, two portions, then a bucket.
    constexpr std::size_t kReportBytes = 8 + 2 + 2 * 12 + 2 + 7 * 8;
    const std::string head = "$" + std::to_string(kReportBytes) + "\r\n";
    const std::size_t at = command.find(head);
    REQUIRE(at != std::string::npos);
    const std::string body = command.substr(at + head.size(), kReportBytes);
    for (std::size_t size = 0; size < kReportBytes; ++size) {
        std::string cut = command;
        cut.replace(at, head.size() + kReportBytes,
                    "$" + std::to_string(size) + "\r\n" + body.substr(0, size));
        const std::string answer = reported(redis, cut);
        CAPTURE(size);
        CHECK(answer.find("data string too short") != std::string::npos);
        REQUIRE(value_of(redis, "t:4:p:{user:a}") == before);
    }
    redis.connection().command({"SET", "t:4:p:{user:a}", "no state"});
    CHECK(reported(redis, command).starts_with("TIDEGATE unreadable state"));
    CHECK(value_of(redis, "t:4:p:{user:a}") == "no state");
    redis.connection().command({"DEL", "t:4:p:{user:a}"});
    redis.connection().command({"LPUSH", "t:4:p:{user:a}", "1"});
    CHECK(reported(redis, command).starts_with("TIDEGATE unreadable state"));
    CHECK(redis.text({"TYPE", "t:4:p:{user:a}"}) == "list");
}

}  // namespace tidegate::test::local_report_test
