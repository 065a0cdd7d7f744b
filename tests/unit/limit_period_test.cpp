#include <chrono>

#include <doctest/doctest.h>

#include "limit/period.hpp"

namespace tidegate::limit::period_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::year;

Micros utc(int a_year, int month, int day) {
    return sys_days(year(a_year) / month / day).time_since_epoch();
}

Period month(Micros at) {
    return period_at(Anchor::utc_month, at);
}

Period week(Micros at) {
    return period_at(Anchor::utc_week, at);
}

}  // namespace

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
        Period last = period_at(anchor, 0us);
        while (last.ends.count() < std::int64_t{1} << 52) {
            const Period next = period_at(anchor, last.ends);
            REQUIRE(next.begins == last.ends);
            REQUIRE(next.ends - next.begins >= (anchor == Anchor::utc_week ? days{7} : days{28}));
            REQUIRE(next.ends - next.begins <= (anchor == Anchor::utc_week ? days{7} : days{31}));
            REQUIRE(period_at(anchor, next.ends - 1us) == next);
            last = next;
        }
    }
}

}  // namespace tidegate::limit::period_test
