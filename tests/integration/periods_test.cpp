// Quotas of days, weeks and months of UTC: what clients, the log and the commands show.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/process.hpp"
#include "tzif.hpp"

namespace tidegate::test::periods_test {

using nlohmann::json;

namespace {

// Seconds until the present month of UTC ends, as the C library knows it.
std::int64_t seconds_left_in_month() {
    const std::time_t now = std::time(nullptr);
    std::tm date{};
    gmtime_r(&now, &date);
    date.tm_hour = date.tm_min = date.tm_sec = 0;
    date.tm_mday = 1;
    ++date.tm_mon;
    return timegm(&date) - now;
}

// `NAME;r=1;t=` is how it begins; -1 if it is not there.
std::int64_t number_after(const std::string& text, const std::string& begin) {
    const std::size_t found = text.find(begin);
    return found == std::string::npos ? -1 : std::stoll(text.substr(found + begin.size()));
}

// The clock moves between two looks; a month may end meanwhile.
bool is_end_of_month(std::int64_t seconds) {
    const std::int64_t left = seconds_left_in_month();
    return seconds >= left - 1 && seconds <= left + 10;
}

const std::string kPolicy =
    "{key: [ip], limits: [{quota: 3, algorithm: fixed_window, anchor: utc_month}, "
    "{quota: 7, algorithm: fixed_window, anchor: utc_week}, "
    "{quota: 9, algorithm: fixed_window, anchor: utc_day}]}";

}  // namespace

TEST_CASE("periods: answers have the quota of a month and when the month ends") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted.yaml() + one_policy(upstream, kPolicy));
    for (int left = 2; left >= 0; --left) {
        const auto answer = tidegate.get();
        CHECK(answer.status() == 200);
        // Months differ in length: no `w`.
        CHECK(answer.field("RateLimit-Policy") ==
              "\"p-utc_month\";q=3, \"p-utc_week\";q=7;w=604800, \"p-utc_day\";q=9;w=86400");
        CHECK(is_end_of_month(number_after(answer.field("RateLimit"),
                                           "\"p-utc_month\";r=" + std::to_string(left) + ";t=")));
    }
    const auto refusal = tidegate.get("/refused");
    CHECK(refusal.status() == 429);
    CHECK(is_end_of_month(std::stoll(refusal.field("Retry-After"))));
    CHECK(json::parse(refusal.body).at("violated-policies") == json::array({"p-utc_month"}));
    const json line = logged(tidegate, "/refused");
    CHECK(line.at("limited_by") == "p-utc_month");
    CHECK(line.at("store") == counted.name());

    const json told =
        json::parse(tidegate.admin("/api/inspect?identifier=ip:127.0.0.1").value().body);
    const json& limits = told.at("identifiers").at(0).at("policies").at(0).at("limits");
    CHECK(limits.at(0).at("name") == "p-utc_month");
    CHECK(limits.at(0).at("anchor") == "utc_month");
    CHECK_FALSE(limits.at(0).contains("duration_us"));
    CHECK(limits.at(0).at("remaining") == 0);
    CHECK(is_end_of_month(limits.at(0).at("all_free_us").get<std::int64_t>() / 1'000'000));
    CHECK(is_end_of_month(limits.at(0).at("denied_for_us").get<std::int64_t>() / 1'000'000));
    CHECK(limits.at(1).at("duration_us") == 604'800'000'000);
    CHECK(limits.at(1).at("remaining") == 4);
}

TEST_CASE("periods: a key in Redis lives until its period ends") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        one_policy(
            upstream,
            "{key: [ip], limits: [{quota: 3, algorithm: fixed_window, anchor: utc_month}]}"));
    CHECK(tidegate.get().status() == 200);
    const std::string ttl = counted.redis->text({"TTL", "tg:4:p:{ip:127.0.0.1}"});
    CHECK(is_end_of_month(std::stoll(ttl)));
}

TEST_CASE(
    "periods: a proxy admits its share without Redis, and the units count when Redis is back") {
    const Upstream upstream(ok());
    RedisServer redis;
    const Tidegate tidegate(
        "threads: 1\nstore: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis.port()) +
        "\", breaker: {failures: 2, probe_every: 100ms}}}\nreplicas: 2\ndeny_cache: off\n" +
        one_policy(
            upstream,
            "{key: [ip], limits: [{quota: 9, algorithm: fixed_window, anchor: utc_month}]}"));
    CHECK(tidegate.get().status() == 200);
    redis.stop();
    int admitted = 0;
    for (int i = 0; i < 12; ++i) admitted += tidegate.get().status() == 200 ? 1 : 0;
    CHECK(admitted == 4);
    redis.start();  // empty
    await("it to have told",
          [&] { return tidegate.metric("tidegate_local_reports_total{result=\"reported\"}") > 0; });
    // Redis admits the rest of nine.
    await("Redis to decide", [&] { return tidegate.get().status() == 200; });
    int later = 1;
    for (int i = 0; i < 12; ++i) later += tidegate.get().status() == 200 ? 1 : 0;
    CHECK(later == 5);
    CHECK(is_end_of_month(std::stoll(tidegate.get().field("Retry-After"))));
}

TEST_CASE("periods: the commands show the windows") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string file = folder.write("t.yaml", one_policy(upstream, kPolicy));
    const Finished checked = run_tidegate({"check", "-c", file});
    CHECK(checked.code == 0);
    const Finished explained = run_tidegate({"explain", "-c", file, "--from", "203.0.113.7"});
    CAPTURE(explained.output);
    CHECK(explained.output.find("3 in a month of UTC, fixed_window") != std::string::npos);
    CHECK(explained.output.find("7 in a week of UTC, from Monday on") != std::string::npos);
    CHECK(explained.output.find("p-utc_day") != std::string::npos);
    const std::string berlin = folder.write(
        "b.yaml", one_policy(upstream,
                             "{key: [ip], limits: [{quota: 3, algorithm: fixed_window, "
                             "anchor: day, time_zone: Europe/Berlin}, {quota: 9, algorithm: "
                             "fixed_window, anchor: week, time_zone: America/New_York}]}"));
    const Finished explained_zone =
        run_tidegate({"explain", "-c", berlin, "--from", "203.0.113.7"});
    CAPTURE(explained_zone.output);
    CHECK(explained_zone.output.find("p-day-Europe/Berlin") != std::string::npos);
    CHECK(explained_zone.output.find("3 in a day of Europe/Berlin, fixed_window") !=
          std::string::npos);
    CHECK(explained_zone.output.find("9 in a week of America/New_York, from Monday on") !=
          std::string::npos);
}

// A zone that is so many seconds ahead of UTC all the time.
std::string zone_file(std::int32_t offset) {
    const std::int32_t west = -offset;
    const auto two = [](int number) { return (number < 10 ? "0" : "") + std::to_string(number); };
    const std::string rule = "<LCL>" + std::string(west < 0 ? "-" : "") +
                             std::to_string(std::abs(west) / 3'600) + ":" +
                             two(std::abs(west) / 60 % 60) + ":" + two(std::abs(west) % 60);
    return Tzif{.offsets = {offset}, .rule = rule}.bytes();
}

TEST_CASE("periods: a day of a time zone ends at its midnight, and a reload reads the zone anew") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const TemporaryFolder zones;
    // Midnight of this zone is in some two hours.
    const auto now = static_cast<std::int32_t>(std::time(nullptr) % 86'400);
    const auto ahead = [&](std::int32_t left) {
        std::int32_t offset = (86'400 - left - now) % 86'400;
        if (offset > 43'200) offset -= 86'400;
        if (offset < -43'200) offset += 86'400;
        return offset;
    };
    zones.write("Here", zone_file(ahead(7'200)));
    const std::string yaml = counted.yaml() + "deny_cache: off\n";
    const auto config = [&](const std::string& name) {
        return yaml + one_policy(upstream, "{key: [ip], limits: [{name: " + name +
                                               ", quota: 2, algorithm: fixed_window, anchor: day, "
                                               "time_zone: Here}]}");
    };
    const Tidegate tidegate(config("today"), "",
                            {.environment = {"TZDIR=" + zones.path().string()}});
    const auto first = tidegate.get();
    CHECK(first.status() == 200);
    CHECK(first.field("RateLimit-Policy") == "\"p-today\";q=2");  // days differ in length: no `w`
    const auto is_about = [](std::int64_t seconds, std::int64_t wanted) {
        return seconds > wanted - 60 && seconds <= wanted;
    };
    CHECK(is_about(number_after(first.field("RateLimit"), "\"p-today\";r=1;t="), 7'200));
    CHECK(tidegate.get().status() == 200);
    const auto refusal = tidegate.get();
    CHECK(refusal.status() == 429);
    CHECK(is_about(std::stoll(refusal.field("Retry-After")), 7'200));
    const json told =
        json::parse(tidegate.admin("/api/inspect?identifier=ip:127.0.0.1").value().body);
    const json& limit = told.at("identifiers").at(0).at("policies").at(0).at("limits").at(0);
    CHECK(limit.at("anchor") == "day");
    CHECK(limit.at("time_zone") == "Here");
    CHECK_FALSE(limit.contains("duration_us"));
    // The zone's clocks are set: a limit that begins to count follows them at once.
    zones.write("Here", zone_file(ahead(14'400)));
    tidegate.write_configuration(config("again"));
    CHECK(tidegate.reload().status() == 200);
    const auto again = tidegate.get();
    CHECK(again.status() == 200);
    CHECK(is_about(number_after(again.field("RateLimit"), "\"p-again\";r=1;t="), 14'400));
    // What is no zone any more is refused, and the limits stay.
    zones.write("Here", "no zone");
    CHECK(tidegate.reload().status() != 200);
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
}

}  // namespace tidegate::test::periods_test
