#include <chrono>

#include <doctest/doctest.h>

#include "limit/window.hpp"

namespace tidegate::limit::calendar_window_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::year;

Micros utc(int a_year, int month, int day) {
    return sys_days(year(a_year) / month / day).time_since_epoch();
}

Limit limit_of(Anchor anchor) {
    LimitSpec spec;
    spec.algorithm = Algorithm::fixed_window;
    spec.quota = 3;
    spec.anchor = anchor;
    return *make_limit(spec);
}

Period month(Micros at) {
    return period_at(limit_of(Anchor::utc_month), at);
}

Period week(Micros at) {
    return period_at(limit_of(Anchor::utc_week), at);
}

// Three units a day of UTC, as one identifier takes them.
struct Day {
    Limit limit = limit_of(Anchor::utc_day);
    PeriodUnits count{};

    WindowStanding standing(const Now& now) const { return standing_at(count, now); }
    // The units that were taken: 0 or 1.
    int take(const Now& now) {
        const WindowStanding before = standing(now);
        if (before.units >= limit.quota) return 0;
        limit::take(count, limit, before, now, 1);
        return 1;
    }
    int take_all(const Now& now) {
        int taken = 0;
        while (take(now) == 1) ++taken;
        return taken;
    }
};

const Micros kNoon = utc(2024, 5, 15) + 12h;

}  // namespace

TEST_CASE("period: a day ends at midnight by the wall clock, however that was set") {
    Day day;
    CHECK(day.take(kNoon) == 1);
    CHECK(day.standing(kNoon).next_free == kNoon + 12h);
    // Set forward, and back behind where it was, within the day.
    for (const Micros by : {2h, -9h}) {
        const WindowStanding standing = day.standing({kNoon + 1s, kNoon + 1s + by});
        CHECK(standing.units == 1);
        CHECK(standing.next_free == kNoon + 12h);
    }
    // The steady clock is still at noon, and the day is over.
    CHECK(day.take_all({kNoon + 2s, kNoon + 12h - 1us}) == 2);
    CHECK(day.take_all({kNoon + 3s, kNoon + 12h}) == 3);
    // The steady clock has passed midnight, and the day goes on.
    CHECK(day.take_all({kNoon + 40h, kNoon + 36h - 1us}) == 0);
}

TEST_CASE("period: steps back and forth bring no second quota") {
    Day day;
    REQUIRE(day.take_all(kNoon) == 3);
    Micros steady = kNoon;
    for (const auto by : {-1h, -24h, -48h, 0h, -8760h, 0h, 11h}) {
        steady += 1min;
        CHECK(day.take_all({steady, kNoon + by}) == 0);
    }
    CHECK(day.take_all({steady + 1min, kNoon + 24h}) == 3);
    for (const auto by : {0h, -24h, 23h}) {
        steady += 1min;
        CHECK(day.take_all({steady + 1min, kNoon + by}) == 0);
    }
}

TEST_CASE("period: a clock that was years ahead locks out for what was left of the day") {
    Day day;
    REQUIRE(day.take_all({kNoon, kNoon + 87600h}) == 3);  // twelve hours before midnight
    const Now back{kNoon + 1h, kNoon + 1h};
    CHECK(day.standing(back).next_free == back.wall + 11h);
    CHECK(day.take_all({kNoon + 12h - 1us, kNoon + 12h - 1us}) == 0);
    CHECK(day.take_all({kNoon + 12h, kNoon + 12h}) == 3);
    CHECK(day.standing({kNoon + 13h, kNoon + 13h}).next_free == kNoon + 36h);
}

TEST_CASE("period: units are given back to the period that they were taken in, by steady time") {
    Day day;
    REQUIRE(day.take_all(kNoon) == 3);
    // The next day, by a clock that was set forward.
    const Now next{kNoon + 1min, kNoon + 24h};
    REQUIRE(day.take_all(next) == 3);
    give_back(day.count, kNoon, 1, {kNoon + 2min, next.wall + 1min});
    CHECK(day.standing({kNoon + 2min, next.wall + 1min}).units == 3);
    give_back(day.count, next.steady, 2, {kNoon + 2min, next.wall - 1h});
    CHECK(day.standing(next).units == 1);
    give_back(day.count, next.steady, 5, next);
    CHECK(day.standing(next).units == 0);
}

TEST_CASE("period: a thread that read the clock earlier gets its unit back, too") {
    Day day;
    REQUIRE(day.take(kNoon) == 1);
    REQUIRE(day.take(kNoon - 7us) == 1);
    give_back(day.count, kNoon - 7us, 1, kNoon);
    CHECK(day.standing(kNoon).units == 1);
}

TEST_CASE("period: so does such a thread where the count was full, as a soft policy's may be") {
    const Limit limit = limit_of(Anchor::utc_day);
    PeriodCount count;
    const Charge charge{{}, limit.most_counted()};
    const auto take = [&](const Asked& asked) {
        count.take(limit, asked, count.look(limit, asked));
    };
    take({charge, kNoon, 1});
    take({charge, kNoon - 7us, 1});
    count.give_back(limit, {charge, kNoon, 1}, kNoon - 7us);
    CHECK(count.look(limit, {charge, kNoon, 1}).units == 0);
}

TEST_CASE("period: a month lasts until it ends, and never goes back to the last") {
    Day month{.limit = limit_of(Anchor::utc_month)};
    const Micros march = utc(2024, 3, 1);
    CHECK(verdict_of(month.limit, month.standing(march - 1s), march - 1s, 3, 1).next_unit == 1s);
    REQUIRE(month.take(march - 29 * 24h) == 1);  // the first moment of February
    CHECK(month.standing(march - 1us).units == 1);
    CHECK(month.standing(march - 1us).next_free == march);
    CHECK(month.standing(march).units == 0);
    REQUIRE(month.take(march) == 1);
    CHECK(month.standing(march - 1h).at == march);
    REQUIRE(month.take(march - 1h) == 1);
    CHECK(month.standing(march + 31 * 24h - 1us).units == 2);
    CHECK(month.standing(march + 31 * 24h).units == 0);
    give_back(month.count, march - 1h, 1, march);
    CHECK(month.standing(march).units == 2);  // that was February
    give_back(month.count, march + 30 * 24h, 5, march);
    CHECK(month.standing(march).units == 0);
}

TEST_CASE("period: where all units came back from a time that was years ahead, units count") {
    Day day;
    const Now ahead{kNoon, kNoon + 87600h};
    REQUIRE(day.take(ahead) == 1);
    give_back(day.count, kNoon, 1, ahead);
    CHECK(day.take_all({kNoon + 13h, kNoon + 13h}) == 3);
    CHECK(day.take_all({kNoon + 14h, kNoon + 14h}) == 0);
}

TEST_CASE("period: what it holds ends, by the steady clock, as the clocks differ then") {
    Day day;
    REQUIRE(day.take(kNoon) == 1);
    CHECK(end_of(day.count, kNoon) == kNoon + 12h);
    CHECK(end_of(day.count, {kNoon, kNoon + 2h}) == kNoon + 10h);
    CHECK(end_of(day.count, {kNoon, kNoon - 2h}) == kNoon + 14h);
    CHECK(end_of(day.count, {kNoon, kNoon - 48h}) == kNoon + 12h);
}

TEST_CASE("period: a month has the days that the calendar gives it") {
    CHECK(month(utc(2023, 2, 28)) == Period{utc(2023, 2, 1), utc(2023, 3, 1)});
    CHECK(month(utc(2024, 2, 29)) == Period{utc(2024, 2, 1), utc(2024, 3, 1)});
    CHECK(month(utc(2000, 2, 29)).ends - month(utc(2000, 2, 29)).begins == days{29});
    CHECK(month(utc(2100, 2, 28)).ends - month(utc(2100, 2, 28)).begins == days{28});
    CHECK(month(utc(2024, 4, 30)).ends - month(utc(2024, 4, 30)).begins == days{30});
    CHECK(month(utc(2024, 12, 31)) == Period{utc(2024, 12, 1), utc(2025, 1, 1)});
}

TEST_CASE("period: it is half-open, to the microsecond") {
    const Micros march = utc(2024, 3, 1);
    CHECK(month(march).begins == march);
    CHECK(month(march - 1us).ends == march);
    const Micros monday = utc(2024, 4, 1);
    CHECK(week(monday).begins == monday);
    CHECK(week(monday - 1us).ends == monday);
}

TEST_CASE("period: a week begins on Monday, also over the end of a month and of a year") {
    CHECK(week(utc(2024, 5, 1)) == Period{utc(2024, 4, 29), utc(2024, 5, 6)});
    CHECK(week(utc(2025, 1, 1)) == Period{utc(2024, 12, 30), utc(2025, 1, 6)});
    CHECK(week(utc(2024, 12, 29)).ends == utc(2024, 12, 30));  // a Sunday
}

TEST_CASE("period: it is known at and before the epoch, too") {
    CHECK(month(0us) == Period{utc(1970, 1, 1), utc(1970, 2, 1)});
    CHECK(month(-1us) == Period{utc(1969, 12, 1), utc(1970, 1, 1)});
    CHECK(week(0us) == Period{utc(1969, 12, 29), utc(1970, 1, 5)});
}

TEST_CASE("period: weeks and months follow each other without a gap until 2112") {
    for (const Anchor anchor : {Anchor::utc_week, Anchor::utc_month}) {
        const Limit limit = limit_of(anchor);
        Period last = period_at(limit, 0us);
        while (last.ends.count() < std::int64_t{1} << 52) {
            const Period next = period_at(limit, last.ends);
            REQUIRE(next.begins == last.ends);
            REQUIRE(next.ends - next.begins >= (anchor == Anchor::utc_week ? days{7} : days{28}));
            REQUIRE(next.ends - next.begins <= (anchor == Anchor::utc_week ? days{7} : days{31}));
            REQUIRE(period_at(limit, next.ends - 1us) == next);
            last = next;
        }
    }
}

}  // namespace tidegate::limit::calendar_window_test
