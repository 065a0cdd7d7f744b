// Days, weeks and months, over every store and by the clock of Redis.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "limit/time_zone.hpp"
#include "limit/window.hpp"
#include "store/calendar.hpp"
#include "store/charge_script.hpp"
#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "store/process_clock.hpp"
#include "store/redis_asking.hpp"
#include "store/scripts.hpp"
#include "tzif.hpp"

namespace tidegate::test::periods_test {
namespace {

using namespace std::chrono_literals;
using limit::Anchor;
using limit::Limit;
using limit::LimitSpec;
using limit::Verdict;
using std::chrono::sys_days;

constexpr std::chrono::hours kDay{24};

Micros utc(int year, int month, int day) {
    return sys_days(std::chrono::year(year) / month / day).time_since_epoch();
}

Limit quota_of(std::int64_t quota, Anchor anchor) {
    LimitSpec spec;
    spec.algorithm = limit::Algorithm::fixed_window;
    spec.quota = quota;
    spec.anchor = anchor;
    return made(spec);
}

// A period, from its first moment to the first one of the next.
struct Case {
    Anchor anchor;
    Micros begins;
    Micros ends;
};

const std::vector<Case>& cases() {
    static const std::vector<Case> kCases{
        {Anchor::utc_day, utc(2024, 2, 29), utc(2024, 3, 1)},
        {Anchor::utc_week, utc(2023, 11, 13), utc(2023, 11, 20)},  // Mondays
        {Anchor::utc_week, utc(2024, 12, 30), utc(2025, 1, 6)},    // over the end of a year
        {Anchor::utc_month, utc(2023, 2, 1), utc(2023, 3, 1)},
        {Anchor::utc_month, utc(2024, 2, 1), utc(2024, 3, 1)},  // a leap year
        {Anchor::utc_month, utc(2000, 2, 1), utc(2000, 3, 1)},  // so is this one
        {Anchor::utc_month, utc(2100, 2, 1), utc(2100, 3, 1)},  // and this is none
        {Anchor::utc_month, utc(2023, 4, 1), utc(2023, 5, 1)},
        {Anchor::utc_month, utc(2023, 12, 1), utc(2024, 1, 1)},
        {Anchor::utc_month, utc(2024, 1, 1), utc(2024, 2, 1)},
        {Anchor::utc_month, utc(2024, 3, 1), utc(2024, 4, 1)},
    };
    return kCases;
}

Limit quota_in(std::int64_t quota, Anchor anchor, const Tzif& file) {
    LimitSpec spec;
    spec.algorithm = limit::Algorithm::fixed_window;
    spec.quota = quota;
    spec.anchor = anchor;
    spec.time_zone = "Test/Zone";
    spec.zone = std::make_shared<const limit::TimeZone>(*limit::TimeZone::parse(file.bytes()));
    return made(spec);
}

Limit day_in(std::int64_t quota, const Tzif& file) {
    return quota_in(quota, Anchor::day, file);
}

// Days, weeks and months, of UTC and of a time zone.
std::vector<Limit> all_periods(std::int64_t quota) {
    return {quota_of(quota, Anchor::utc_day),        quota_of(quota, Anchor::utc_week),
            quota_of(quota, Anchor::utc_month),      quota_in(quota, Anchor::day, berlin()),
            quota_in(quota, Anchor::week, berlin()), quota_in(quota, Anchor::month, berlin())};
}

// For its life the wall clock of this process is wrong by so much.
struct WrongClock {
    explicit WrongClock(Micros by) { set(by); }
    ~WrongClock() { set(Micros{0}); }
    WrongClock(const WrongClock&) = delete;
    WrongClock& operator=(const WrongClock&) = delete;

    static void set(Micros by) { store::follow_wall_clock(std::chrono::system_clock::now() + by); }
};

// A quota of three holds in that period, and begins anew with the next one.
void check_period(Subject& subject, const Limit& limit, Micros begins, Micros ends) {
    CAPTURE(begins.count());
    const auto some = policy("p", {limit});
    const std::string name = "user:" + std::to_string(begins.count()) + limit.name;
    const Ask ask(some, {name});
    REQUIRE(subject.charge(ask, begins - 1us).admitted);
    const Verdict first = subject.charge(ask, begins);
    CHECK(first.limits[0].remaining == 2);
    CHECK(first.limits[0].next_unit == ends - begins);
    REQUIRE(subject.charge(ask, begins + 1us).admitted);
    CHECK(subject.charge(ask, ends - 1us).limits[0].next_unit == 1us);
    const Verdict denied = subject.charge(ask, ends - 1us);
    CHECK_FALSE(denied.admitted);
    CHECK(denied.retry_after == 1us);
    const Verdict next = subject.charge(ask, ends);
    CHECK(next.admitted);
    CHECK(next.limits[0].remaining == 2);
}

}  // namespace

TEST_CASE("periods: a quota holds from the first microsecond of a period to its last") {
    over_every_store([](Subject& subject) {
        for (const Case& one : cases()) {
            check_period(subject, quota_of(3, one.anchor), one.begins, one.ends);
        }
    });
}

TEST_CASE("periods: so does that of a zone's day of 23 or 25 hours, and without a midnight") {
    over_every_store([](Subject& subject) {
        const Limit germany = day_in(3, berlin());
        check_period(subject, germany, utc(2026, 3, 28) + 23h, utc(2026, 3, 29) + 22h);
        check_period(subject, germany, utc(2026, 10, 24) + 22h, utc(2026, 10, 25) + 23h);
        const Limit brazil =
            day_in(3, {.offsets = {-10'800, -7'200}, .rule = "<-03>3<-02>,M11.1.0/0,M2.3.0/0"});
        check_period(subject, brazil, utc(2018, 11, 4) + 3h, utc(2018, 11, 5) + 2h);
        check_period(subject, brazil, utc(2018, 2, 17) + 2h, utc(2018, 2, 18) + 3h);
    });
}

TEST_CASE("periods: a denial names the end of the period, and holds until then") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {quota_of(5, Anchor::utc_month), sliding(4, 1h)});
        const Ask all(some, {"user:a"}, 4);
        const Micros now = utc(2024, 2, 10) + 7h;
        REQUIRE(subject.charge(all, now).admitted);
        const Verdict denied = subject.charge(all, now + 2h);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.limits[0].denied);
        CHECK_FALSE(denied.limits[1].denied);
        CHECK(denied.retry_after == utc(2024, 3, 1) - now - 2h);
        CHECK_FALSE(subject.charge(all, utc(2024, 3, 1) - 1us).admitted);
        CHECK(subject.charge(all, utc(2024, 3, 1)).admitted);
    });
}

TEST_CASE("periods: a clock that steps back into the month before opens no second quota") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {quota_of(2, Anchor::utc_month)});
        const Ask ask(some, {"user:a"});
        const Micros march = utc(2024, 3, 1);
        REQUIRE(subject.charge(ask, march).admitted);
        const Verdict before = subject.charge(ask, march - 3s);
        CHECK(before.admitted);
        CHECK(before.limits[0].remaining == 0);
        CHECK(before.limits[0].next_unit == 31 * kDay + 3s);
        CHECK_FALSE(subject.charge(ask, march - 2s).admitted);
        CHECK_FALSE(subject.charge(ask, march + 1s).admitted);
        CHECK(subject.charge(ask, march + 31 * kDay).admitted);
    });
}

TEST_CASE("periods: units are given back to their period, and to no later one") {
    over_every_store([](Subject& subject) {
        for (const Anchor anchor : {Anchor::utc_day, Anchor::utc_week, Anchor::utc_month}) {
            const std::string name = "user:" + std::string(to_string(anchor));
            const auto some = policy("p", {quota_of(4, anchor)});
            const Ask ask(some, {name});
            const Micros begins = utc(2024, 4, 1);  // a Monday
            const Verdict old = subject.charge(ask, begins - 1us);
            const Verdict first = subject.charge(ask, begins);
            const Verdict second = subject.charge(ask, begins + 1h);
            REQUIRE(second.limits[0].remaining == 2);
            using limit::Refund;
            subject.give_back({ask, &old.receipt, Refund::Of::all, 0}, begins + 2h);
            CHECK(subject.charge(Ask(some, {name}, 0), begins + 2h).limits[0].remaining == 2);
            subject.give_back({ask, &first.receipt, Refund::Of::all, 0}, begins + 2h);
            CHECK(subject.charge(Ask(some, {name}, 0), begins + 2h).limits[0].remaining == 3);
            subject.give_back({ask, &second.receipt, Refund::Of::all, 0}, begins + 3h);
            const Verdict empty = subject.charge(Ask(some, {name}, 0), begins + 3h);
            CHECK(empty.limits[0].remaining == 4);
            CHECK(empty.limits[0].next_unit == 0us);
        }
    });
}

TEST_CASE("periods: several requests in one command get the end of the month") {
    RedisSubject redis;
    const auto some = policy("p", {quota_of(2, Anchor::utc_month)});
    const Ask ask(some, {"user:a"});
    const limit::Charge charges[] = {ask, ask, ask};
    const Micros now = utc(2024, 2, 29) + 23h;
    const auto verdicts = charge_together(redis, charges, "t:", now);
    CHECK(verdicts[0].limits[0].next_unit == 1h);
    CHECK(verdicts[1].limits[0].next_unit == 1h);
    CHECK(verdicts[1].limits[0].remaining == 0);
    CHECK_FALSE(verdicts[2].admitted);
    CHECK(verdicts[2].retry_after == 1h);
}

TEST_CASE("periods: inspecting names what is left and when the period ends") {
    const auto some = policy("p", {quota_of(3, Anchor::utc_week), quota_of(1, Anchor::utc_month)});
    const limit::ChargeItem item{&some, "user:a"};
    const Micros now = utc(2024, 4, 30) + 12h;  // a Tuesday
    const auto check = [&](KeepingSubject& subject) {
        REQUIRE(subject.charge(Ask(some, {"user:a"}), now).admitted);
        const auto counts = subject.count({&item, 1}, now).items.at(0).limits;
        CHECK(counts[0].remaining == 2);
        CHECK(counts[0].all_free == utc(2024, 5, 6) - now);
        CHECK_FALSE(counts[0].denied);
        CHECK(counts[1].remaining == 0);
        CHECK(counts[1].all_free == 12h);
        CHECK(counts[1].denied_for == 12h);
    };
    MemorySubject memory;
    check(memory);
    RedisSubject redis;
    check(redis);
}

namespace {

// What the scripts have of a window, in microseconds.
struct ScriptWindow {
    std::int64_t width;
    std::int64_t span;
};

ScriptWindow window_in(std::string_view bytes) {
    return {static_cast<std::int64_t>(limit::read_double(bytes)),
            static_cast<std::int64_t>(limit::read_double(bytes.substr(8)))};
}

// As a command to charge has it at `at`.
ScriptWindow terms_of(const Limit& limit, Micros at) {
    std::array<char, 16> bytes;
    limit::Packer packed(bytes.data());
    limit::PeriodCount::pack_terms(limit, at, packed);
    return window_in({bytes.data(), bytes.size()});
}

// As a command to give back units of `at` has it.
ScriptWindow window_of_units(const Limit& limit, Micros at) {
    const limit::Receipt receipt{at, {}};
    std::string bytes;
    limit::PeriodCount::append_refund(limit, {{}, &receipt}, bytes);
    return window_in(bytes);
}

// The functions that a charge counts windows by.
std::string window_functions() {
    std::string script(store::lua_file("state"));
    script.append(store::lua_file("algorithms"));
    return script.append(store::lines_for(store::lua_file("window"), "charge"));
}

}  // namespace

TEST_CASE("redis: the script and the program agree on each week and month of UTC until 2112") {
    RedisSubject redis;
    for (const Anchor anchor : {Anchor::utc_week, Anchor::utc_month}) {
        const Limit limit = quota_of(1, anchor);
        const std::string width = std::to_string(terms_of(limit, 0us).width);
        // Of the first microsecond of each day, and of the last.
        std::string script = window_functions();
        script.append(
            "local which, day, told = tonumber(ARGV[1]), 86400000000, {} "
            "local begin = algorithm('w').begin "
            "for time = 0, 4503599627370495 - day, day do "
            "now = time "
            "local ends, next_ends = begin(which, 0) "
            "now = time + day - 1 "
            "local last_ends, last_next = begin(which, 0) "
            "told[#told + 1] = struct.pack('<dddd', ends, next_ends, last_ends, last_next) "
            "end return table.concat(told)");
        const std::string told = redis.text({"EVAL", script, "0", width});
        REQUIRE(told.size() % 32 == 0);
        REQUIRE(told.size() / 32 > 52'000);
        std::size_t wrong = 0;
        for (std::size_t day = 0; day < told.size() / 32; ++day) {
            double numbers[4];
            std::memcpy(numbers, told.data() + 32 * day, sizeof(numbers));
            const Micros time = static_cast<std::int64_t>(day) * Micros{kDay};
            const ScriptWindow window = window_of_units(limit, time);
            const bool same = numbers[0] == static_cast<double>(window.width) &&
                              numbers[1] == static_cast<double>(window.span) &&
                              numbers[2] == numbers[0] && numbers[3] == numbers[1] &&
                              -window.width == period_end(anchor, time.count()) &&
                              window.span == period_end(anchor, -window.width);
            wrong += same ? 0 : 1;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("redis: units go to the zone's period that holds the time of Redis") {
    RedisSubject redis;
    std::string script = window_functions();
    script.append(
        "now = tonumber(ARGV[1]) "
        "local limit = {second = tonumber(ARGV[2]), third = tonumber(ARGV[3])} "
        "local record = {size = 6, units = 0, ends = 0, oldest = 0, base = 0, marks = ''} "
        "algorithm('w').take(limit, record, 1, 1) return decimal(record.ends)");
    const Limit month = quota_in(3, Anchor::month, {.offsets = {0}, .rule = "UTC0"});
    const auto end_at = [&](Micros now, Micros told_at) {
        const ScriptWindow window = terms_of(month, told_at);
        return Micros{
            std::stoll(redis.text({"EVAL", script, "0", std::to_string(now.count()),
                                   std::to_string(window.width), std::to_string(window.span)}))};
    };
    const Micros march = utc(2024, 3, 1);
    const Micros april = utc(2024, 4, 1);
    CHECK(end_at(march - 1us, march - 1us) == march);
    CHECK(end_at(march, march) == april);
    // The proxy's clock is ahead, or behind.
    CHECK(end_at(march - 3s, march) == april);
    CHECK(end_at(march, march - 3s) == april);
    CHECK(end_at(april - 1us, march - 3s) == april);
}

TEST_CASE("redis: a proxy whose wall clock was set back or forward admits no second quota") {
    for (const Limit& limit : all_periods(3)) {
        CAPTURE(limit.name);
        for (const auto ahead : {-3'650 * kDay, -400 * kDay, -100 * kDay, -60 * kDay, -33 * kDay,
                                 -8 * kDay, -3h, 3h, 8 * kDay, 40 * kDay, 400 * kDay}) {
            CAPTURE(ahead.count());
            RedisSubject redis;
            const auto some = policy("p", {limit});
            const Ask ask(some, {"user:a"});
            int admitted = 0;
            const auto ask_all = [&](Micros by) {
                const WrongClock clock(by);
                for (int i = 0; i < 5; ++i) {
                    if (!redis.error(Ask(some, {"user:a"}, 0), std::nullopt).empty()) continue;
                    admitted += redis.charge_by_server_clock(ask).admitted ? 1 : 0;
                }
            };
            ask_all(ahead);
            ask_all(0s);
            CHECK(admitted == 3);
            ask_all(ahead);
            CHECK(admitted == 3);
        }
    }
}

TEST_CASE("redis: the period of a proxy whose clock is behind ends when it ends for all") {
    for (const Limit& limit : all_periods(3)) {
        CAPTURE(limit.name);
        for (const auto behind : {3'650 * kDay, 100 * kDay, 60 * kDay, 8 * kDay, 20h}) {
            CAPTURE(behind.count());
            RedisSubject redis;
            const auto some = policy("p", {limit});
            const Ask ask(some, {"user:a"});
            {
                const WrongClock clock(-behind);
                if (!redis.error(ask, std::nullopt).empty()) continue;
            }
            const Verdict right = redis.charge_by_server_clock(ask);
            CHECK(right.limits[0].remaining == 1);
            CHECK(right.receipt.at + right.limits[0].next_unit ==
                  limit::period_at(limit, right.receipt.at).ends);
        }
    }
}

TEST_CASE("redis: where the proxy's clock is periods of a zone off, the script takes nothing") {
    RedisSubject redis;
    const std::string fault =
        "TIDEGATE the clocks of the proxy and of Redis differ by more than a day, week or month of "
        "a "
        "limit with time_zone: set the clock that is wrong";
    const auto error_of = [&](const Limit& limit, Micros by) {
        const WrongClock clock(by);
        return redis.error(Ask(policy("p", {sliding(9, 1h), limit}), {"user:a", "user:b"}),
                           std::nullopt);
    };
    const auto takes_nothing = [&](Anchor anchor, Micros by) {
        CAPTURE(by.count());
        CHECK(error_of(quota_in(3, anchor, berlin()), by) == fault);
        CHECK(redis.text({"DBSIZE"}) == "0");
    };
    takes_nothing(Anchor::day, -49h);
    takes_nothing(Anchor::day, 100h);
    takes_nothing(Anchor::week, -15 * kDay);
    takes_nothing(Anchor::week, 30 * kDay);
    takes_nothing(Anchor::month, -63 * kDay);
    takes_nothing(Anchor::month, 100 * kDay);
    // Weeks and months of UTC need no clock of the proxy.
    CHECK(error_of(quota_of(3, Anchor::utc_week), -400 * kDay).empty());
    CHECK(error_of(quota_of(3, Anchor::utc_month), 400 * kDay).empty());
    CHECK(redis.text({"DBSIZE"}) == "2");
}

TEST_CASE("redis: the server's clock decides which period it is, and a key lives until its end") {
    RedisSubject redis;
    for (const Anchor anchor : {Anchor::utc_day, Anchor::utc_week, Anchor::utc_month}) {
        const std::string name = "user:" + std::string(to_string(anchor));
        const auto some = policy("p", {quota_of(2, anchor)});
        const Ask ask(some, {name});
        const Micros before = server_time(redis);
        const Verdict verdict = redis.charge_by_server_clock(ask);
        const Micros ends = verdict.receipt.at + verdict.limits[0].next_unit;
        if (anchor == Anchor::utc_day) {
            CHECK(ends % kDay == 0us);
            CHECK(ends - before <= kDay);
        } else {
            CHECK(ends.count() == period_end(anchor, verdict.receipt.at.count()));
        }
        const Micros left = Micros{1'000 * ttl_ms(redis, "t:4:p:{" + name + "}")};
        CHECK(left > ends - verdict.receipt.at);
        CHECK(left < ends - verdict.receipt.at + 2s);
        REQUIRE(redis.charge_by_server_clock(ask).admitted);
        CHECK_FALSE(redis.charge_by_server_clock(ask).admitted);
    }
}

TEST_CASE("redis: a clock that was months ahead locks no client out, and one period ahead holds") {
    RedisSubject redis;
    for (const Anchor anchor : {Anchor::utc_week, Anchor::utc_month}) {
        const std::string name = "user:" + std::string(to_string(anchor));
        const auto some = policy("p", {quota_of(2, anchor)});
        const Ask ask(some, {name});
        const Micros now = server_time(redis);
        const Micros next{period_end(anchor, now.count())};
        // One period ahead: what was counted there counts.
        REQUIRE(redis.charge(Ask(some, {name}, 2), next + 1h).admitted);
        const Verdict held = redis.charge_by_server_clock(ask);
        CHECK_FALSE(held.admitted);
        CHECK(held.receipt.at + held.retry_after == Micros{period_end(anchor, next.count())});
        // More than one: the record moves to the present period, and keeps its units.
        const std::string other = name + "-far";
        REQUIRE(redis.charge(Ask(some, {other}, 2), next + 100 * kDay).admitted);
        const Verdict moved = redis.charge_by_server_clock(Ask(some, {other}));
        CHECK_FALSE(moved.admitted);
        CHECK(moved.receipt.at + moved.retry_after ==
              Micros{period_end(anchor, moved.receipt.at.count())});
        CHECK(redis.charge(Ask(some, {other}), moved.receipt.at + moved.retry_after).admitted);
        const Micros left = Micros{1'000 * ttl_ms(redis, "t:4:p:{" + other + "}")};
        CHECK(left < 32 * kDay);
    }
}

TEST_CASE("local report: what was admitted in process counts in its month, though clocks differ") {
    const auto some = policy("p", {quota_of(10, Anchor::utc_month)});
    const Ask ask(some, {"user:a"}, 2);
    const Ask look(some, {"user:a"}, 0);
    const Micros march = utc(2024, 3, 1);
    const auto counted = [&](Micros taken_at, Micros sent, Micros now) {
        RedisSubject redis;
        store::MemoryStore memory{store::MemoryStore::Options{}};
        store::LocalLedger ledger{store::LocalLedger::Options{}};
        Verdict verdict;
        memory.charge(ask, taken_at - 3h, verdict);
        ledger.take(ask, verdict);
        memory.charge(ask, taken_at, verdict);
        ledger.take(ask, verdict);
        for (const auto& taken : ledger.hand_out(9, [](const auto&) { return true; })) {
            std::string command;
            store::append_report_command(taken, sent, "t:", now, command);
            redis.connection().send(command);
            redis.connection().read();
        }
        return 10 - redis.charge(look, now).limits[0].remaining;
    };
    CHECK(counted(march - 2h, march - 1h, march - 1h) == 4);
    CHECK(counted(march - 2h, march + 1h, march + 1h) == 0);  // the month is over
    CHECK(counted(march + 4h, march + 5h, march + 5h) == 4);
    // The proxy's clock is 20 s behind that of Redis. The units that it took in February stay
    // there.
    CHECK(counted(march - 2h, march - 30s, march - 10s) == 4);
    CHECK(counted(march - 2h, march + 9 * kDay, march + 9 * kDay + 20s) == 0);
    // Of its last seconds in February, Redis' clock says that it was March. The proxy's counts.
    CHECK(counted(march - 10s, march + 1h, march + 1h + 20s) == 0);
    // A clock that is months behind names a month that Redis does not know: its present one counts.
    CHECK(counted(march - 2h, march - 1h, march + 100 * kDay) == 4);
    CHECK(counted(march - 2h, march + 1h, march + 100 * kDay) == 0);  // that month is over
}

TEST_CASE("local report: a month that Redis has counted in gets the units added") {
    RedisSubject redis;
    const auto some = policy("p", {quota_of(10, Anchor::utc_month)});
    const Ask ask(some, {"user:a"}, 3);
    const Micros now = utc(2024, 2, 20);
    REQUIRE(redis.charge(ask, now).admitted);
    store::MemoryStore memory{store::MemoryStore::Options{}};
    store::LocalLedger ledger{store::LocalLedger::Options{}};
    Verdict verdict;
    memory.charge(ask, now + 1h, verdict);
    ledger.take(ask, verdict);
    auto handed = ledger.hand_out(9, [](const auto&) { return true; });
    REQUIRE(handed.size() == 1);
    CHECK(handed[0].ends == utc(2024, 3, 1));
    // Units that could not be sent join those that came later.
    memory.charge(Ask(some, {"user:a"}), now + 2h, verdict);
    ledger.take(Ask(some, {"user:a"}), verdict);
    ledger.put_back(std::move(handed[0]));
    handed = ledger.hand_out(9, [](const auto&) { return true; });
    REQUIRE(handed.size() == 1);
    std::string command;
    store::append_report_command(handed[0], now + 3h, "t:", now + 3h, command);
    redis.connection().send(command);
    redis.connection().read();
    const Verdict told = redis.charge(Ask(some, {"user:a"}, 0), now + 3h);
    CHECK(told.limits[0].remaining == 3);
    CHECK(told.limits[0].next_unit == utc(2024, 3, 1) - now - 3h);
}

}  // namespace tidegate::test::periods_test
