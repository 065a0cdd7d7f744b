// Recordings of a running proxy, as `tidegate simulate` reads them.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "unit/simulate_world.hpp"

namespace tidegate::simulate::recording_test {
namespace {

constexpr std::int64_t kTen = 1'795'946'400'000'000;  // 2026-11-29T10:00:00Z, in microseconds

std::string digest(int client) {
    return fmt::format("{:032x}", client);
}

std::string line(std::int64_t at_ms, const std::string& charges, const std::string& more = "") {
    return fmt::format(R"({{"at":{},"route":"all","charges":"{}","verdict":"admitted"{}}})"
                       "\n",
                       kTen + at_ms * 1'000, charges, more);
}

std::string config_of(const std::string& policies, const std::string& names) {
    return "upstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n"
           "identity: {client_ip: {trusted_proxies: [127.0.0.1]}, user: [{header: {name: x-user, "
           "from: trusted_proxies}}]}\n"
           "policies:\n" +
           policies + "routes: [{name: all, match: {path: '/**'}, upstream: api, policies: [" +
           names + "]}]\n";
}

const std::string kOne = config_of("  one: {key: [ip], limits: [3/h]}\n", "one");

}  // namespace

TEST_CASE("recording: its requests are decided by identifier, policy and cost") {
    std::string log;
    for (int i = 0; i < 5; ++i) log += line(i, "one " + digest(1) + " 1");
    log += line(9, "one " + digest(2) + " 2;one " + digest(3) + " 4", R"(,"status":200)");
    const Ran ran(kOne, {log});
    CHECK(ran.doc.json["logs"][0]["format"] == "recording");
    CHECK(ran.doc.json["unread"] == 0);
    CHECK(ran.doc.json["requests"] == 6);
    CHECK(ran.doc.json["limited"] == 3);
    CHECK(ran.doc.json["clients"] == 3);
    CHECK(ran.limit()["top"][0]["identifier"] == digest(1));
    CHECK(ran.limit()["peaks"]["max"] == 5);
    CHECK(ran.times.front() == Micros{kTen});
    const Ran compared(kOne, {log},
                       {.candidate = config_of("  one: {key: [ip], limits: [4/h]}\n", "one")});
    CHECK(compared.doc.json["only_live"] == 2);
    CHECK(compared.doc.json["candidate"]["limited"] == 1);
}

TEST_CASE("recording: the limits of a tier hold for its users") {
    const std::string config = config_of(
        "  one: {key: [user], limits: [1/h], tiers: {gold: [3/h], free: unlimited}}\n", "one");
    std::string log;
    for (int i = 0; i < 4; ++i) {
        log += line(3 * i, "one " + digest(1) + " 1 gold");
        log += line(3 * i + 1, "one " + digest(2) + " 1 other");
        log += line(3 * i + 2, "one " + digest(3) + " 1 free");
    }
    const Ran ran(config, {log});
    CHECK(ran.doc.json["admitted"] == 3 + 1 + 4);
    CHECK(ran.doc.json["limited"] == 1 + 3);
}

TEST_CASE("recording: keys that all share are named, and no limit of theirs is simulated") {
    const std::string config = config_of(
        "  one: {key: [ip], limits: [3/h]}\n"
        "  all: {key: ['constant:all'], limits: [3/h]}\n"
        "  some: {key: [route, ip], limits: [9/h]}\n",
        "one, all, some");
    const Ran ran(config, {line(0, "one " + digest(1) + " 1;some " + digest(1) + " 1")});
    CHECK(ran.says("policy all: not simulated, as all requests share `constant:all`"));
    CHECK(ran.says("policy some: simulated without a key, as all requests share `route`"));
    const Doc::Json& policies = ran.doc.json["policies"];
    CHECK(policies[0]["simulated"] == true);
    CHECK(policies[1]["simulated"] == false);
    CHECK(policies[1]["shared"][0] == "constant:all");
    CHECK(policies[2]["simulated"] == true);
    CHECK(policies[2]["limits"][0]["peaks"]["max"] == 1);
}

TEST_CASE("recording: policies that the configuration does not have are named") {
    const Ran ran(kOne, {line(0, "former " + digest(1) + " 1;one " + digest(1) + " 1")});
    CHECK(ran.doc.json["admitted"] == 1);
    CHECK(ran.doc.json["unknown_policies"][0] == "former");
    CHECK(ran.says("left out"));
}

TEST_CASE("recording: a request that another identifier was refused for takes nothing") {
    std::string log;
    for (int i = 0; i < 5; ++i) {
        log += line(i, "one " + digest(1) + " 1", i < 2 ? R"(,"refused_elsewhere":1)" : "");
    }
    const Ran ran(kOne, {log});
    CHECK(ran.doc.json["requests"] == 5);
    CHECK(ran.doc.json["admitted"] == 3);
    CHECK(ran.doc.json["limited"] == 0);
    CHECK(ran.doc.json["refused_elsewhere"] == 2);
}

TEST_CASE("recording: what was refused elsewhere and has no simulated policy was not admitted") {
    const Ran ran(kOne, {line(0, "one " + digest(1) + " 1") +
                         line(1, "former " + digest(1) + " 1", R"(,"refused_elsewhere":1)")});
    CHECK(ran.doc.json["admitted"] == 1);
    CHECK(ran.doc.json["refused_elsewhere"] == 1);
}

TEST_CASE("recording: a candidate counts clients whose tier is unlimited in its policy") {
    const std::string config = config_of(
        "  one: {key: [user], limits: [1/h], tiers: {free: unlimited}, candidate: {limits: [2/h], "
        "tiers: {free: [3/h]}}}\n",
        "one");
    std::string log;
    for (int i = 0; i < 5; ++i) log += line(i, "one@candidate " + digest(1) + " 1 free");
    // Of the others a recording has both.
    for (int i = 5; i < 8; ++i) {
        log += line(i, "one " + digest(2) + " 1;one@candidate " + digest(2) + " 1");
    }
    const Ran ran(config, {log});
    CHECK(ran.doc.json["requests"] == 8);
    CHECK(ran.doc.json["limited"] == 2);
    const Doc::Json& candidate = ran.doc.json["policies"][1];
    CHECK(candidate["policy"] == "one@candidate");
    CHECK(candidate["limits"][0]["limited"] == 1);
    CHECK(candidate["limits"][1]["tier"] == "free");
    CHECK(candidate["limits"][1]["limited"] == 2);
    CHECK(ran.doc.json["policies"][0]["clients"] == 1);
    CHECK_FALSE(ran.doc.json.contains("unknown_policies"));
}

TEST_CASE("recording: requests of more than a minute are left out, which the report says") {
    // A line is written when the request ends.
    const Ran ran(kOne,
                  {line(0, "one " + digest(1) + " 1") + line(70'000, "one " + digest(1) + " 1") +
                   line(5'000, "one " + digest(1) + " 1")});
    CHECK(ran.doc.json["late"] == 1);
    CHECK(ran.doc.exit_code == 1);
    CHECK(ran.says("requests that lasted longer than 1min: left out"));
    CHECK(ran.says(
        "more than 1% of the requests lasted longer than 1min and are left out, so the counts are "
        "too low: write a longer --late"));
    CHECK_FALSE(ran.says("oldest first"));
}

TEST_CASE("recording: the report says what a recording does not have") {
    const Ran ran(config_of("  one: {key: [ip], limits: [3/h]}\n"
                            "  later: {key: [ip], limits: [{algorithm: schedule, quota: 3, per: "
                            "1h, at: {header: x-at}}]}\n",
                            "one, later"),
                  {line(0, "one " + digest(1) + " 1")});
    CHECK(ran.says(
        "policy later: not simulated, as recordings do not have the moment that a request is "
        "meant for"));
    CHECK_FALSE(ran.doc.json["policies"][1].contains("map"));
}

TEST_CASE("recording: amounts of money are dollars in the JSON") {
    const Ran ran(
        config_of("  one: {key: [ip], cost: {unit: usd, reserve: 0.05, settle: "
                  "{header: x-cost}}, limits: [{quota: 3, unit: usd, per: 1h}]}\n",
                  "one"),
        {line(0, "one " + digest(1) + " 2500000") + line(1, "one " + digest(1) + " 1500000")},
        {.suggest_share = 0});
    CHECK(ran.limit()["quota"] == 3);
    CHECK(ran.limit()["unit"] == "usd");
    CHECK(ran.limit()["limited"] == 1);
    CHECK(ran.limit()["peaks"]["max"] == 4.0);
    CHECK(ran.limit()["suggest"] == 4.0);
    CHECK(ran.limit()["top"][0]["peak"] == 4.0);
}

TEST_CASE("recording: a list of charges is read, or refused as a whole") {
    const auto count = [](std::string_view text) {
        int charges = 0;
        while (!text.empty()) {
            if (!take_recorded_charge(text)) return -1;
            ++charges;
        }
        return charges;
    };
    const std::string one = "one " + digest(1) + " 1";
    CHECK(count(one) == 1);
    CHECK(count(one + ";" + one + " gold") == 2);
    for (const std::string& wrong :
         {std::string("one"), std::string("one 1 1"), one + "x", one + " gold more", one + ";x",
          " " + one, "one " + digest(1), "one " + digest(1) + " -1",
          "one " + digest(1) + " 99999999999999999999",
          std::string("one gggggggggggggggggggggggggggggggg 1")}) {
        CAPTURE(wrong);
        CHECK(count(wrong) == -1);
        const Ran ran(kOne, {line(0, one) + line(1, wrong)}, {.format = LogFormat::recording});
        CHECK(ran.doc.json["unread"] == 1);
        CHECK(ran.doc.exit_code == 1);
    }
}

TEST_CASE("recording: it is not mixed with a log, which names clients in another way") {
    const LogOnDisk recording(line(0, "one " + digest(1) + " 1"));
    const LogOnDisk log("10.0.0.1 - - [29/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n");
    const auto opened = Replay::open({recording.path(), log.path()}, {}, std::nullopt);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().find("one of them at a time") != std::string::npos);
}

}  // namespace tidegate::simulate::recording_test
