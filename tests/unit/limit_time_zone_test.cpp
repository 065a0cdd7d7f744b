#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "limit/time_zone.hpp"
#include "limit/window.hpp"
#include "tzif.hpp"

namespace tidegate::limit::time_zone_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::year;
using test::berlin;
using test::Tzif;

sys_days date(int a_year, unsigned month, unsigned day) {
    return year(a_year) / static_cast<int>(month) / static_cast<int>(day);
}

// In seconds since 1970.
std::int64_t utc(sys_days day, seconds time = 0s) {
    return (day.time_since_epoch() + time) / 1s;
}

TimeZone zone_of(const Tzif& file) {
    auto zone = TimeZone::parse(file.bytes());
    REQUIRE_MESSAGE(zone.has_value(), (zone ? "" : zone.error()));
    return *zone;
}

std::string fault_of(const std::string& bytes) {
    const auto zone = TimeZone::parse(bytes);
    return zone ? "" : zone.error();
}

Limit limit_in(const Tzif& file, Anchor anchor) {
    LimitSpec spec;
    spec.algorithm = Algorithm::fixed_window;
    spec.quota = 3;
    spec.anchor = anchor;
    spec.time_zone = "Test/Zone";
    spec.zone = std::make_shared<const TimeZone>(zone_of(file));
    return *make_limit(spec);
}

Micros micros(std::int64_t at) {
    return seconds{at};
}

// Restores the zone of the C library.
struct LibraryZone {
    explicit LibraryZone(const std::string& name) { set(name.c_str()); }
    ~LibraryZone() { set("UTC"); }
    static void set(const char* name) {
        ::setenv("TZ", name, 1);
        ::tzset();
    }
};

}  // namespace

TEST_CASE("time_zone: names have letters, digits and parts, and lead nowhere else") {
    for (const char* name : {"Europe/Berlin", "UTC", "Etc/GMT+5", "America/Port-au-Prince",
                             "America/Argentina/Buenos_Aires", "EST5EDT"}) {
        CHECK_MESSAGE(is_time_zone_name(name), name);
    }
    for (const char* name :
         {"", "/etc/passwd", "../etc/passwd", "Europe/../UTC", "Europe//Berlin", "Europe/", ".",
          "Europe/Ber lin", "Europe\\Berlin", "tzdata.zi", "a\nb"}) {
        CHECK_FALSE_MESSAGE(is_time_zone_name(name), name);
    }
    CHECK_FALSE(is_time_zone_name(std::string(65, 'a')));
    CHECK_FALSE(is_time_zone_name(std::string("UTC\0", 4)));
}

TEST_CASE("time_zone: days of 23, 24 and 25 hours, by the rule of the years to come") {
    const TimeZone zone = zone_of(berlin());
    CHECK(zone.begin_of(date(2026, 3, 28)) == utc(date(2026, 3, 27), 23h));
    CHECK(zone.begin_of(date(2026, 3, 29)) == utc(date(2026, 3, 28), 23h));
    CHECK(zone.begin_of(date(2026, 3, 30)) == utc(date(2026, 3, 29), 22h));
    CHECK(zone.begin_of(date(2026, 10, 25)) == utc(date(2026, 10, 24), 22h));
    CHECK(zone.begin_of(date(2026, 10, 26)) == utc(date(2026, 10, 25), 23h));
    CHECK(zone.offset_at(utc(date(2026, 3, 29), 1h) - 1) == 3'600);
    CHECK(zone.offset_at(utc(date(2026, 3, 29), 1h)) == 7'200);
    CHECK(zone.offset_at(utc(date(2026, 10, 25), 1h) - 1) == 7'200);
    CHECK(zone.offset_at(utc(date(2026, 10, 25), 1h)) == 3'600);
    CHECK(zone.begin_of(date(2112, 7, 1)) == utc(date(2112, 6, 30), 22h));
}

TEST_CASE("time_zone: a midnight that the clocks skip is when they skip it; of two, the first") {
    // Brazil until 2019.
    const TimeZone zone =
        zone_of({.offsets = {-10'800, -7'200}, .rule = "<-03>3<-02>,M11.1.0/0,M2.3.0/0"});
    CHECK(zone.begin_of(date(2018, 11, 4)) == utc(date(2018, 11, 4), 3h));
    CHECK(zone.begin_of(date(2018, 11, 5)) == utc(date(2018, 11, 5), 2h));  // 23 hours
    // At midnight of February 18 the clocks went back to 23:00.
    CHECK(zone.begin_of(date(2018, 2, 18)) == utc(date(2018, 2, 18), 3h));
    CHECK(zone.begin_of(date(2018, 2, 17)) == utc(date(2018, 2, 17), 2h));  // 25 hours
    // A minute after midnight they go back by an hour.
    const TimeZone newfoundland =
        zone_of({.offsets = {-12'600, -9'000}, .rule = "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01"});
    CHECK(newfoundland.begin_of(date(2010, 11, 7)) == utc(date(2010, 11, 7), 2h + 30min));
    CHECK(newfoundland.begin_of(date(2010, 11, 8)) == utc(date(2010, 11, 8), 3h + 30min));
}

TEST_CASE("time_zone: a day that the clocks skip begins with the next one") {
    // Samoa had no December 30 in 2011.
    const std::int64_t change = utc(date(2011, 12, 30), 10h);
    const Tzif samoa{.offsets = {-36'000, 50'400}, .changes = {{change, 1}}, .rule = "<+14>-14"};
    const TimeZone zone = zone_of(samoa);
    CHECK(zone.begin_of(date(2011, 12, 30)) == change);
    CHECK(zone.begin_of(date(2011, 12, 31)) == change);
    const Limit day = limit_in(samoa, Anchor::day);
    const Period last = period_at(day, micros(change) - 1us);
    CHECK(last == Period{micros(change - 86'400), micros(change)});
    CHECK(period_at(day, micros(change)) == Period{micros(change), micros(change + 86'400)});
}

TEST_CASE("time_zone: summers of the southern half, below the standard time, and all year") {
    const TimeZone south =
        zone_of({.offsets = {36'000, 39'600}, .rule = "AEST-10AEDT,M10.1.0,M4.1.0/3"});
    CHECK(south.offset_at(utc(date(2030, 1, 15))) == 39'600);
    CHECK(south.offset_at(utc(date(2030, 7, 15))) == 36'000);
    const TimeZone dublin = zone_of({.offsets = {0, 3'600}, .rule = "IST-1GMT0,M10.5.0,M3.5.0/1"});
    CHECK(dublin.offset_at(utc(date(2030, 1, 15))) == 0);
    CHECK(dublin.offset_at(utc(date(2030, 7, 15))) == 3'600);
    const TimeZone always = zone_of({.offsets = {-14'400}, .rule = "XXX3EDT4,0/0,J365/23"});
    for (int month = 1; month <= 12; ++month) {
        CHECK(always.offset_at(utc(date(2030, static_cast<unsigned>(month), 1))) == -14'400);
    }
    const TimeZone julian = zone_of({.offsets = {0, 3'600}, .rule = "AAA0BBB,J60/0,J300/0"});
    CHECK(julian.offset_at(utc(date(2028, 2, 29))) == 0);  // never counted
    CHECK(julian.offset_at(utc(date(2028, 3, 1))) == 3'600);
    CHECK(julian.offset_at(utc(date(2027, 3, 1)) - 1) == 0);
}

TEST_CASE("time_zone: days, weeks and months of a zone are its calendar's") {
    const Limit day = limit_in(berlin(), Anchor::day);
    CHECK(period_at(day, micros(utc(date(2026, 3, 29), 12h))) ==
          Period{micros(utc(date(2026, 3, 28), 23h)), micros(utc(date(2026, 3, 29), 22h))});
    const Limit week = limit_in(berlin(), Anchor::week);
    CHECK(period_at(week, micros(utc(date(2026, 3, 29), 22h)) - 1us) ==
          Period{micros(utc(date(2026, 3, 22), 23h)), micros(utc(date(2026, 3, 29), 22h))});
    const Limit month = limit_in(berlin(), Anchor::month);
    CHECK(period_at(month, micros(utc(date(2026, 9, 30), 22h))) ==
          Period{micros(utc(date(2026, 9, 30), 22h)), micros(utc(date(2026, 10, 31), 23h))});
}

TEST_CASE("time_zone: periods follow each other without a gap, whatever the zone") {
    for (const Tzif& file :
         {berlin(),
          Tzif{.offsets = {-12'600, -9'000}, .rule = "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01"},
          Tzif{.offsets = {-10'800, -7'200}, .rule = "<-03>3<-02>,M11.1.0/0,M2.3.0/0"}}) {
        for (const Anchor anchor : {Anchor::day, Anchor::week, Anchor::month}) {
            const Limit limit = limit_in(file, anchor);
            Period last = period_at(limit, 0us);
            while (last.ends.count() < std::int64_t{1} << 52) {
                const Period next = period_at(limit, last.ends);
                REQUIRE(next.begins == last.ends);
                REQUIRE(next.ends > next.begins);
                REQUIRE(period_at(limit, next.ends - 1us) == next);
                REQUIRE(next.ends - next.begins <= limit.duration);
                last = next;
            }
        }
    }
}

TEST_CASE("time_zone: each file of the system's database says what the C library says") {
    const std::filesystem::path folder = "/usr/share/zoneinfo";
    if (!std::filesystem::exists(folder / "Europe/Berlin")) return;
    std::size_t zones = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        const std::string name = entry.path().lexically_relative(folder);
        const bool is_copy = name.starts_with("posix/");
        if (is_copy || !entry.is_regular_file() || !is_time_zone_name(name)) continue;
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string bytes(std::istreambuf_iterator<char>(file), {});
        if (!bytes.starts_with("TZif")) continue;
        const auto zone = TimeZone::parse(bytes);
        if (name.starts_with("right/")) {
            CHECK_FALSE(zone.has_value());
            continue;
        }
        REQUIRE_MESSAGE(zone.has_value(), name << ": " << (zone ? "" : zone.error()));
        ++zones;
        const LibraryZone library(name);
        std::size_t wrong = 0;
        // From 1970 to 2112, at various times of day.
        for (std::time_t at = 0; at < 4'503'599'627; at += 5'000'003) {
            std::tm local{};
            ::localtime_r(&at, &local);
            wrong += local.tm_gmtoff == zone->offset_at(at) ? 0 : 1;
        }
        CHECK_MESSAGE(wrong == 0, name);
    }
    CHECK(zones > 100);
}

TEST_CASE("time_zone: a file that is cut off, or has more than it says, is refused") {
    Tzif file = berlin();
    file.changes = {{1'000'000, 1}, {2'000'000, 0}};
    const std::string whole = file.bytes();
    CHECK(fault_of(whole).empty());
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CHECK_FALSE(fault_of(whole.substr(0, size)).empty());
    }
    CHECK_FALSE(fault_of(whole + "x").empty());
    CHECK_FALSE(fault_of(whole + "\n").empty());
}

TEST_CASE("time_zone: what no file of the database has is refused") {
    const auto with = [](auto change) {
        Tzif file = berlin();
        file.changes = {{1'000'000, 1}, {2'000'000, 0}};
        change(file);
        return fault_of(file.bytes());
    };
    CHECK(with([](Tzif&) {}).empty());
    CHECK(with([](Tzif& file) { file.version = '\0'; }).find("version") != std::string::npos);
    CHECK(with([](Tzif& file) { file.version = '5'; }).find("version") != std::string::npos);
    CHECK(with([](Tzif& file) { file.leaps = 1; }).find("leap") != std::string::npos);
    CHECK_FALSE(with([](Tzif& file) { file.changes[1].first = 1'000'000; }).empty());  // not later
    CHECK_FALSE(with([](Tzif& file) { file.changes[1].second = 2; }).empty());  // no such type
    CHECK_FALSE(with([](Tzif& file) { file.offsets[1] = 26 * 3'600; }).empty());
    CHECK_FALSE(with([](Tzif& file) { file.offsets.clear(); }).empty());
    CHECK_FALSE(with([](Tzif& file) { file.changes.resize(5'000); }).empty());
    for (const char* rule :
         {"CET", "CE-1", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0",
          "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,J365",
          "CET-1CEST,366,1", "CET-25CEST,M3.5.0,M10.5.0", "<CET-1CEST,M3.5.0,M10.5.0",
          "CET-1CEST,M3.5.0/168,M10.5.0", "CET-1CEST,M3.5.0,M10.5.0/3 ", "UTC0", "CET-1:60"}) {
        CHECK_FALSE_MESSAGE(with([&](Tzif& file) { file.rule = rule; }).empty(), rule);
    }
    CHECK(with([](Tzif& file) { file.rule = ""; }).empty());
    CHECK(fault_of("hello") == "is no time zone: it does not begin as one");
}

}  // namespace tidegate::limit::time_zone_test
