// Settling in Redis: one script corrects the counts and claims the reservation, so the same
// settlement may be sent again whenever its answer is lost.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>

#include "store/redis_asking.hpp"
#include "store/reservation.hpp"

namespace tidegate::test::redis_settle_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;
using limit::Refund;
using limit::Verdict;
using store::Claim;

LimitSpec spec_of(Algorithm algorithm, limit::Count count) {
    LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = 9;
    spec.duration = 90s;
    spec.count = count;
    return spec;
}

// Each algorithm that can be reserved: 9 in 90 s.
std::vector<Limit> reserved(limit::Count count = limit::Count::admitted) {
    LimitSpec opens = spec_of(Algorithm::fixed_window, count);
    opens.anchor = limit::Anchor::first_request;
    return {made(spec_of(Algorithm::sliding_window, count)),
            made(spec_of(Algorithm::fixed_window, count)), made(opens),
            made(spec_of(Algorithm::sliding_log, count)), made(spec_of(Algorithm::gcra, count))};
}

// A round moment, so that no window ends by chance.
constexpr Micros kRound = 1'700'000'100s;

std::string answer_to(RedisSubject& redis, const std::string& command) {
    redis.connection().send(command);
    const Reply reply = redis.connection().read();
    return {reply->str, reply->len};
}

// How many single units would pass.
std::int64_t room(RedisSubject& redis, const limit::Policy& some,
                  std::string_view identifier = "user:a") {
    return redis.charge(Ask(some, {identifier}, 0), kRound).limits[0].remaining;
}

// A reservation of 4 units of one policy, and how it is settled.
class Reserved {
  public:
    Reserved(RedisSubject& redis, const limit::Policy& some,
             std::initializer_list<std::string_view> identifiers = {"user:a"})
        : redis_(redis), some_(some), identifiers_(identifiers) {
        taken_ = redis.charge(Ask(some, identifiers, kUnits), kRound);
        REQUIRE(taken_.admitted);
        all_ = some;
        for (Limit& limit : all_.limits) limit.count = limit::Count::all;
    }
    // With which cost it is settled then, or an error.
    std::string settle(std::int64_t cost) const {
        std::string command;
        const std::string costs = std::to_string(cost);
        const Claim claim{"0f", identifiers_.front(), costs, 60s};
        if (cost > kUnits) {
            const Ask more(items_of(all_), cost - kUnits);
            store::append_settle_more_command(claim, more, "t:", kRound, command);
        } else {
            const Ask less(items_of(some_), kUnits - cost);
            store::append_settle_less_command(claim, {less, &taken_.receipt, Refund::Of::all, 0},
                                              "t:", kRound, command);
        }
        return answer_to(redis_, command);
    }

  private:
    static constexpr std::int64_t kUnits = 4;

    std::vector<limit::ChargeItem> items_of(const limit::Policy& policy) const {
        std::vector<limit::ChargeItem> items;
        for (const std::string_view identifier : identifiers_) {
            items.push_back({&policy, identifier});
        }
        return items;
    }

    RedisSubject& redis_;
    const limit::Policy& some_;
    limit::Policy all_;  // the same, with limits that count every cost
    std::vector<std::string_view> identifiers_;
    Verdict taken_;
};

constexpr const char* kClaimKey = "t:settled:0f:{user:a}";

}  // namespace

TEST_CASE("redis: a reservation that is settled for less gives back once, however often") {
    for (const Limit& limit : reserved()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit});
        // Others count, too: only the claim keeps a second settlement from giving back units of
        // theirs.
        REQUIRE(redis.charge(Ask(some, {"user:a"}, 3), kRound).admitted);
        const Reserved one(redis, some);
        const std::int64_t before = room(redis, some);
        CHECK(one.settle(1) == "+1");
        CHECK(room(redis, some) == before + 3);
        CHECK(one.settle(1) == "1");
        CHECK(one.settle(1) == "1");
        CHECK(room(redis, some) == before + 3);
        // Other costs change nothing, and get the first.
        CHECK(one.settle(0) == "1");
        CHECK(one.settle(4) == "1");
        CHECK(one.settle(7) == "1");
        CHECK(room(redis, some) == before + 3);
    }
}

TEST_CASE("redis: a reservation that is settled for more takes once, also above the quota") {
    for (const Limit& limit : reserved()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit});
        const Reserved one(redis, some);
        const std::int64_t before = room(redis, some);
        CHECK(one.settle(6) == "+6");
        CHECK(room(redis, some) == before - 2);
        CHECK(one.settle(6) == "6");
        CHECK(one.settle(0) == "6");
        CHECK(one.settle(9) == "6");
        CHECK(room(redis, some) == before - 2);
    }
    for (const Limit& limit : reserved()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit});
        CHECK(Reserved(redis, some).settle(4'000'000'000) == "+4000000000");
        CHECK(room(redis, some) == 0);
    }
}

TEST_CASE("redis: a reservation without anything to correct is only claimed") {
    RedisSubject redis;
    const auto some = policy("p", reserved());
    const Reserved one(redis, some);
    const std::string before = redis.text({"GET", "t:4:p:{user:a}"});
    CHECK(one.settle(4) == "+4");
    CHECK(one.settle(4) == "4");
    CHECK(one.settle(0) == "4");
    CHECK(one.settle(5) == "4");
    CHECK(redis.text({"GET", "t:4:p:{user:a}"}) == before);
    CHECK(redis.text({"GET", kClaimKey}) == "4");
    // Its policies are gone.
    std::string command;
    const limit::Receipt none;
    store::append_settle_less_command({"10", "user:a", "2", 60s}, {{{}, 2}, &none}, "t:", {},
                                      command);
    CHECK(answer_to(redis, command) == "+2");
    CHECK(redis.text({"DBSIZE"}) == "3");
}

TEST_CASE("redis: all identifiers of a reservation are corrected by one command") {
    RedisSubject redis;
    const auto some = policy("p", reserved());
    const Reserved one(redis, some, {"user:a", "user:b"});
    SUBCASE("less") {
        CHECK(one.settle(1) == "+1");
        CHECK(one.settle(1) == "1");
        CHECK(room(redis, some) == 8);
        CHECK(room(redis, some, "user:b") == 8);
    }
    SUBCASE("more") {
        CHECK(one.settle(5) == "+5");
        CHECK(one.settle(5) == "5");
        CHECK(room(redis, some) == 4);
        CHECK(room(redis, some, "user:b") == 4);
    }
    CHECK(redis.text({"DBSIZE"}) == "3");
}

TEST_CASE("redis: of one reservation some items give back and others take, each by its own cost") {
    for (const Limit& limit : reserved()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit});
        const Ask asked(some, {"user:a", "user:b", "user:c", "user:d"}, 4);
        const Verdict taken = redis.charge(asked, kRound);
        REQUIRE(taken.admitted);
        std::vector<limit::ChargeItem> less{{&some, "user:a"}, {&some, "user:b"}};
        less[0].own_cost = 3;
        less[1].own_cost = 1;
        const limit::Receipt receipt{taken.receipt.at,
                                     {taken.receipt.generations[0], taken.receipt.generations[1]}};
        auto all = some;
        for (Limit& one : all.limits) one.count = limit::Count::all;
        std::vector<limit::ChargeItem> more{{&all, "user:c"}, {&all, "user:d"}};
        more[0].own_cost = 2;
        more[1].own_cost = 40;  // above the quota
        const std::vector<std::int64_t> before{room(redis, some), room(redis, some, "user:b"),
                                               room(redis, some, "user:c")};
        constexpr const char* kCosts = "1,3,6,44";
        const auto settle = [&](const char* costs, const std::string& sign) {
            const Claim first{"0f", "user:a", costs, 60s};
            std::string command;
            store::append_settle_less_command(first, {{less, 0}, &receipt, Refund::Of::all, 0},
                                              "t:", kRound, command);
            CHECK(answer_to(redis, command) == sign + kCosts);
            const Claim second{"0f.more", "user:a", costs, 60s};
            command.clear();
            store::append_settle_more_command(second, {more, 0}, "t:", kRound, command);
            CHECK(answer_to(redis, command) == sign + kCosts);
        };
        for (const char* sign : {"+", "", "other costs"}) {
            const bool is_other = std::string_view(sign) == "other costs";
            settle(is_other ? "0,0,0,0" : kCosts, is_other ? "" : sign);
            CHECK(room(redis, some) == before[0] + 3);
            CHECK(room(redis, some, "user:b") == before[1] + 1);
            CHECK(room(redis, some, "user:c") == before[2] - 2);
            CHECK(room(redis, some, "user:d") == 0);
        }
    }
}

TEST_CASE("redis: a claim is kept for the time that its argument says") {
    RedisSubject redis;
    const auto some = policy("p", reserved());
    for (const std::int64_t cost : {1, 4, 5}) {
        redis.text({"FLUSHALL"});
        const Reserved one(redis, some);
        one.settle(cost);
        CHECK(ttl_ms(redis, kClaimKey) > 50'000);
        CHECK(ttl_ms(redis, kClaimKey) <= 60'000);
    }
}

TEST_CASE("redis: a settlement that could not be charged is not claimed, and can come later") {
    RedisSubject redis;
    const auto some = policy("p", reserved());
    const Reserved one(redis, some, {"user:a", "user:b"});
    const std::string state = redis.text({"GET", "t:4:p:{user:a}"});
    const std::string good = redis.text({"GET", "t:4:p:{user:b}"});
    redis.text({"SET", "t:4:p:{user:b}", "not ours"});
    CHECK(one.settle(6).find("unreadable state") != std::string::npos);
    CHECK(redis.text({"GET", "t:4:p:{user:a}"}) == state);
    CHECK(redis.text({"EXISTS", kClaimKey}) == "0");
    redis.text({"SET", "t:4:p:{user:b}", good});
    CHECK(one.settle(6) == "+6");
    CHECK(room(redis, some) == 3);
    CHECK(room(redis, some, "user:b") == 3);
}

TEST_CASE("redis: without room for the claim, Redis corrects nothing") {
    RedisSubject redis;
    const auto some = policy("p", reserved());
    const Reserved one(redis, some);
    const std::int64_t before = room(redis, some);
    redis.text({"CONFIG", "SET", "maxmemory", "1"});
    const std::string less = one.settle(1);
    const std::string more = one.settle(6);
    redis.text({"CONFIG", "SET", "maxmemory", "0"});
    CHECK(less.find("OOM") != std::string::npos);
    CHECK(more.find("OOM") != std::string::npos);
    CHECK(room(redis, some) == before);
    CHECK(one.settle(1) == "+1");
    CHECK(room(redis, some) == before + 3);
}

TEST_CASE("redis: a Redis that has lost a reservation gives nothing back, and claims it") {
    RedisSubject redis;
    const auto some = policy("p", reserved());
    const Reserved one(redis, some);
    redis.text({"DEL", "t:4:p:{user:a}"});
    REQUIRE(redis.charge(Ask(some, {"user:a"}, 5), kRound + 1us).admitted);
    const std::int64_t before = room(redis, some);
    CHECK(one.settle(0) == "+0");
    CHECK(room(redis, some) == before);
}

}  // namespace tidegate::test::redis_settle_test
