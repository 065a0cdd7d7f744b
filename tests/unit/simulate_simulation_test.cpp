#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/timestamp.hpp"
#include "unit/simulate_world.hpp"

namespace tidegate::simulate::simulation_test {
namespace {

using Verdict = Simulation::Verdict;

constexpr std::int64_t kMillis = 1'000;
constexpr std::int64_t kSecond = 1'000'000;
// 2026-11-29T10:00:00Z.
constexpr std::int64_t kTen = 1'795'946'400 * kSecond;

// A configuration with one route.
std::string config_of(const std::string& policies, const std::string& names = "one",
                      const std::string& more = "") {
    return "upstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n" + more + "policies:\n" +
           policies + "routes: [{name: all, match: {path: '/**'}, upstream: api, policies: [" +
           names + "]}]\n";
}

std::string second_of(std::int64_t at) {
    return fmt::format("29/Nov/2026:10:{:02}:{:02} +0000", at / 60, at % 60);
}

std::string combined(std::int64_t second, const std::string& client, int status = 200,
                     const std::string& user = "-", const std::string& target = "/") {
    return fmt::format("{} - {} [{}] \"GET {} HTTP/1.1\" {} 1 \"-\" \"-\"\n", client, user,
                       second_of(second), target, status);
}

// A line of Tidegate's JSON.
std::string line_of(std::int64_t at, const std::string& client, const std::string& more = "") {
    return fmt::format(R"({{"time":"{}","client":"{}","method":"GET","path":"/","status":200{}}})"
                       "\n",
                       format_timestamp(Micros{kTen + at}), client, more);
}

struct Asked {
    std::int64_t at;
    int client;
};

std::vector<Asked> random_requests(std::uint32_t seed, std::size_t count) {
    std::mt19937 random(seed);
    std::vector<Asked> asked;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
        at += static_cast<std::int64_t>(random() % 60) * kMillis;
        // Few clients ask often.
        const int client = static_cast<int>(std::min(random() % 12, random() % 40));
        asked.push_back({at, client});
    }
    return asked;
}

std::string log_of(const std::vector<Asked>& asked) {
    std::string log;
    for (const Asked& one : asked) {
        log += line_of(one.at, "10.0.0." + std::to_string(one.client));
    }
    return log;
}

// A sliding window of sub-buckets that counts one by one.
struct Window {
    std::int64_t quota;
    std::int64_t precision;
    std::int64_t blocks;
    std::map<int, std::vector<std::int64_t>> taken{};  // by client: sub-buckets

    std::int64_t count(const Asked& asked) {
        std::int64_t units = 0;
        for (const std::int64_t block : taken[asked.client]) {
            if (block > block_of(asked) - blocks) ++units;
        }
        return units;
    }
    std::int64_t block_of(const Asked& asked) const { return (kTen + asked.at) / precision; }
    void take(const Asked& asked) { taken[asked.client].push_back(block_of(asked)); }
};

TEST_CASE("simulation: the same requests are limited as by counting one by one") {
    for (const std::uint32_t seed : {1, 2, 3}) {
        CAPTURE(seed);
        const std::vector<Asked> asked = random_requests(seed, 3'000);
        const Ran ran(config_of("  one: {key: [ip], limits: [3/s, 20/min]}\n"), {log_of(asked)});
        Window second{3, 20 * kMillis, 50};
        Window minute{20, kSecond, 60};
        REQUIRE(ran.verdicts.size() == asked.size());
        std::uint64_t by_second = 0;
        std::uint64_t by_minute = 0;
        for (std::size_t i = 0; i < asked.size(); ++i) {
            const bool over_second = second.count(asked[i]) >= second.quota;
            const bool over_minute = minute.count(asked[i]) >= minute.quota;
            by_second += over_second ? 1 : 0;
            by_minute += over_minute ? 1 : 0;
            const bool passes = !over_second && !over_minute;
            REQUIRE((ran.verdicts[i] == Verdict::admitted) == passes);
            if (!passes) continue;
            second.take(asked[i]);
            minute.take(asked[i]);
        }
        CHECK(by_second > 0);
        CHECK(by_minute > 0);
        CHECK(ran.limit(0, 0)["limited"] == by_second);
        CHECK(ran.limit(0, 1)["limited"] == by_minute);
    }
}

TEST_CASE("simulation: the suggested quota is the smallest that limits so few clients") {
    const std::vector<Asked> asked = random_requests(4, 2'000);
    std::set<int> clients;
    for (const Asked& one : asked) clients.insert(one.client);
    const auto limited_by = [&](std::int64_t quota) {
        Window window{quota, kSecond, 60};
        std::set<int> limited;
        for (const Asked& one : asked) {
            if (window.count(one) >= quota) {
                limited.insert(one.client);
            } else {
                window.take(one);
            }
        }
        return limited.size();
    };
    for (const std::int64_t percent : {0, 5, 10, 25, 50}) {
        CAPTURE(percent);
        const Ran ran(config_of("  one: {key: [ip], limits: [7/min]}\n"), {log_of(asked)},
                      {.suggest_share = percent * 10'000});
        const auto quota = ran.limit()["suggest"].get<std::int64_t>();
        const std::size_t allowed = clients.size() * static_cast<std::size_t>(percent) / 100;
        CHECK(limited_by(quota) <= allowed);
        CHECK(limited_by(quota - 1) > allowed);
        CHECK(limited_by(quota) == ran.limit()["suggest_clients"]);
        CHECK(ran.says("suggest: quota "));
    }
}

TEST_CASE("simulation: peaks count what was refused, by this policy and by another") {
    const std::vector<Asked> asked = random_requests(5, 2'000);
    for (const std::string limits :
         {"[3/s, 20/min]", "[3/s, {quota: 20, per: 1min, count: all}]", "[1000/s, 1000/min]"}) {
        CAPTURE(limits);
        const std::string policies = "  one: {key: [ip], limits: " + limits +
                                     "}\n  all: {key: [\"constant:all\"], limits: [30/s]}\n";
        const Ran ran(config_of(policies, "one, all"), {log_of(asked)});
        Window second{0, 20 * kMillis, 50};
        Window minute{0, kSecond, 60};
        std::int64_t most_in_second = 0;
        std::int64_t most_in_minute = 0;
        for (const Asked& one : asked) {
            second.take(one);
            minute.take(one);
            most_in_second = std::max(most_in_second, second.count(one));
            most_in_minute = std::max(most_in_minute, minute.count(one));
        }
        CHECK(ran.limit(0, 0)["peaks"]["max"] == most_in_second);
        CHECK(ran.limit(0, 1)["peaks"]["max"] == most_in_minute);
    }
}

TEST_CASE("simulation: of a bucket the burst is suggested that limits no client") {
    std::string log;
    // Eight at once, where one a second leaks.
    for (int i = 0; i < 8; ++i) log += line_of(0, "10.0.0.1");
    log += line_of(3 * kSecond, "10.0.0.1");
    const std::string policy =
        "  one: {key: [ip], limits: [{quota: 60, per: 1min, algorithm: gcra, burst: 2}]}\n";
    const Ran ran(config_of(policy), {log}, {.suggest_share = 0});
    CHECK(ran.limit()["limited"] == 6);
    CHECK(ran.limit()["suggest"] == 8);
    CHECK(ran.limit()["peaks"]["max"] == 8);
}

TEST_CASE("simulation: the report tells when, and which clients were over, or only just") {
    std::string log;
    for (int i = 0; i < 3; ++i) log += line_of(i, "10.0.0.1");
    for (int i = 0; i < 9; ++i) log += line_of(70 * kSecond + i, "10.0.0.2");
    log += line_of(90 * kSecond, "10.0.0.3");
    const Ran ran(config_of("  one: {key: [ip], limits: [2/min]}\n"), {log});
    const auto& json = ran.doc.json;
    CHECK(json["requests"] == 13);
    CHECK(json["limited"] == 8);
    CHECK(json["clients"] == 3);
    CHECK(json["unread"] == 0);
    CHECK(json["late"] == 0);
    const auto& limit = ran.limit();
    CHECK(limit["limit"] == "one-1min");
    CHECK(limit["limited"] == 8);
    CHECK(limit["clients"] == 2);
    CHECK(limit["near"] == 1);
    CHECK(limit["first"] == "2026-11-29T10:00:00Z");
    CHECK(limit["worst"]["at"] == "2026-11-29T10:01:00Z");
    CHECK(limit["worst"]["limited"] == 7);
    CHECK(limit["peaks"]["p50"] == 3);
    CHECK(limit["peaks"]["max"] == 9);
    CHECK(limit["top"][0]["identifier"] == "ip:10.0.0.2");
    CHECK(limit["top"][0]["limited"] == 7);
    CHECK(limit["top"][0]["peak"] == 9);
    CHECK(limit["top"].size() == 2);
    CHECK(ran.says("limited 8 requests of 2 clients"));
    CHECK(ran.says("1 of these clients asked for less than twice the limit"));
    CHECK(ran.doc.exit_code == 0);
}

TEST_CASE("simulation: requests that nginx has answered after a while count when they began") {
    std::string log;
    const auto ended = [&](std::int64_t second, const char* took) {
        std::string line = combined(second, "10.0.0.1");
        line.back() = ' ';
        log += line + took + "\n";
    };
    // Two begin in the first second, and one ends then.
    ended(10, "0.100");
    ended(30, "20.100");
    const Ran ran(config_of("  one: {key: [ip], limits: [1/s]}\n"), {log});
    CHECK(ran.doc.json["limited"] == 1);
    CHECK(ran.times[1] - ran.times[0] < Micros{kSecond});
}

TEST_CASE("simulation: lines of whole seconds are spread over them, and none is limited for that") {
    std::string log;
    for (int second = 0; second < 5; ++second) {
        for (int i = 0; i < 10; ++i) log += combined(second, "10.0.0.1");
    }
    const Ran ran(config_of("  one: {key: [ip], limits: [{quota: 1, per: 100ms}]}\n"), {log});
    CHECK(ran.doc.json["limited"] == 0);
    CHECK(ran.doc.json["logs"][0]["format"] == "combined");
}

TEST_CASE("simulation: a line that comes more than a minute late is counted apart") {
    const std::string log =
        combined(0, "10.0.0.1") + combined(120, "10.0.0.1") + combined(59, "10.0.0.1");
    const Ran ran(config_of("  one: {key: [ip], limits: [5/min]}\n"), {log});
    CHECK(ran.doc.json["late"] == 1);
    CHECK(ran.doc.json["requests"] == 2);
    CHECK(ran.says("late"));
    CHECK(ran.doc.json["first_late"]["at"] == "2026-11-29T10:00:59Z");
    CHECK(ran.says("The first is of 2026-11-29T10:00:59Z, behind one of 2026-11-29T10:02:00Z"));
}

TEST_CASE("simulation: a request that was answered 429 was asked, and counts as asked") {
    const std::string log =
        combined(0, "10.0.0.1") + combined(1, "10.0.0.1", 429) + combined(2, "10.0.0.1", 429);
    const Ran ran(config_of("  one: {key: [ip], limits: [2/min]}\n"), {log});
    CHECK(ran.doc.json["requests"] == 3);
    CHECK(ran.doc.json["limited"] == 1);
}

TEST_CASE("simulation: a policy whose key the log lacks is named, with the map that would do") {
    const std::string policies =
        "  one: {key: [ip], limits: [1/s]}\n"
        "  tenants: {key: ['header:x-tenant'], limits: [1/min]}\n"
        "  both: {key: ['header:x-plan|ip'], limits: [100/min]}\n";
    const std::string config = config_of(policies, "one, tenants, both");
    const Ran ran(config, {combined(0, "10.0.0.1") + combined(1, "10.0.0.1")});
    CHECK(ran.doc.json["policies"][1]["simulated"] == false);
    CHECK(ran.doc.json["policies"][1]["map"][0] == "header:x-tenant=FIELD");
    CHECK(ran.says("policy tenants: not simulated"));
    CHECK(ran.says("--map header:x-tenant=FIELD"));
    CHECK(ran.doc.json["policies"][2]["simulated"] == true);
    CHECK(ran.says("simulated without `header:x-plan`"));
    CHECK(ran.doc.json["limited"] == 0);
    // The tenth word of the line.
    std::string log;
    for (int i = 0; i < 2; ++i) {
        log += combined(i, "10.0.0.1");
        log.back() = ' ';
        log += "\"acme\"\n";
    }
    const Ran mapped(config, {log}, {.map = {"header:x-tenant=10"}});
    CHECK(mapped.doc.json["policies"][1]["simulated"] == true);
    CHECK(mapped.doc.json["limited"] == 1);
    CHECK(mapped.limit(1)["top"][0]["identifier"] == "header:x-tenant=acme");
}

TEST_CASE("simulation: the user is the one of the log, and a route that needs one refuses") {
    const std::string config =
        config_of("  one: {key: [user], on_missing: skip, limits: [1/min]}\n");
    const std::string log = combined(0, "10.0.0.1", 200, "alice") +
                            combined(1, "10.0.0.2", 200, "alice") + combined(2, "10.0.0.3");
    const Ran ran(config, {log});
    CHECK(ran.doc.json["limited"] == 1);
    CHECK(ran.limit()["top"][0]["identifier"] == "user:alice");
    const Ran strict(config_of("  one: {key: [user], limits: [1/min]}\n", "one",
                               "identity: {require: on, user: [{header: {name: x-user, from: "
                               "trusted_proxies}}]}\n"),
                     {log});
    CHECK(strict.doc.json["refused"] == 1);
}

TEST_CASE(
    "simulation: lines that are not read are counted, five are shown, and over 1% is a fault") {
    std::string log;
    for (int i = 0; i < 693; ++i) log += combined(i % 50, "10.0.0.1");
    for (int i = 0; i < 7; ++i) log += "garbage " + std::to_string(i) + "\n";
    const std::string config = config_of("  one: {key: [ip], limits: [1/s]}\n");
    const Ran ran(config, {log});
    CHECK(ran.doc.json["unread"] == 7);
    CHECK(ran.doc.json["unread_lines"].size() == 5);
    CHECK(ran.doc.json["unread_lines"][0]["line"] == 694);
    CHECK(ran.says("garbage 4"));
    CHECK(ran.doc.exit_code == 0);
    const Ran worse(config, {log + "garbage\n"});
    CHECK(worse.doc.exit_code == 1);
    CHECK(worse.says("more than 1% of the lines were not read"));
}

TEST_CASE("simulation: a line whose client is no address is unread, where addresses are counted") {
    std::string log = combined(0, "crawler.example.net", 200, "alice") +
                      combined(1, "-", 200, "alice") + combined(2, "10.0.0.1", 200, "alice") +
                      combined(3, "[2001:db8::1]:443", 200, "bob");
    const Ran ran(config_of("  one: {key: [ip], limits: [1/min]}\n"), {log});
    CHECK(ran.doc.json["requests"] == 2);
    CHECK(ran.doc.json["refused"] == 0);
    CHECK(ran.doc.json["unread"] == 2);
    CHECK(ran.says("the client is not an address"));
    CHECK(ran.doc.exit_code == 1);
    const Ran users(config_of("  one: {key: [user], limits: [1/min]}\n"), {log});
    CHECK(users.doc.json["unread"] == 0);
    CHECK(users.doc.json["requests"] == 4);
    CHECK(users.doc.json["limited"] == 2);
    const Ran denied(config_of("  one: {key: [user], deny: [10.0.0.0/8], limits: [1/min]}\n"),
                     {log});
    CHECK(denied.doc.json["unread"] == 2);
    CHECK(denied.doc.json["refused"] == 1);
    // A line without a request needs no client.
    const Ran none(config_of("  one: {key: [ip], limits: [1/min]}\n"),
                   {"- - - [29/Nov/2026:10:00:09 +0000] \"-\" 400 0\n"});
    CHECK(none.doc.json["unread"] == 0);
    CHECK(none.doc.json["no_request"] == 1);
}

TEST_CASE("simulation: lines that come late are counted, and over 1% is a fault") {
    const std::string config = config_of("  one: {key: [ip], limits: [1/s]}\n");
    std::string log;
    for (int i = 0; i < 495; ++i) log += combined(2'000 + i, "10.0.0.1");
    const std::string earlier = combined(100, "10.0.0.1");
    const Ran ran(config, {log + earlier + earlier});
    CHECK(ran.doc.json["late"] == 2);
    CHECK(ran.doc.exit_code == 0);
    CHECK_FALSE(ran.says("oldest first"));
    std::string before;
    for (int i = 0; i < 6; ++i) before += earlier;
    const Ran worse(config, {log + before});
    CHECK(worse.doc.json["late"] == 6);
    CHECK(worse.doc.exit_code == 1);
    CHECK(worse.says("oldest first"));
}

TEST_CASE("simulation: a target that comes again has the route of its method and host, too") {
    const std::string config =
        "upstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n"
        "policies:\n"
        "  a: {key: ['constant:all'], limits: [1000/h]}\n"
        "  b: {key: ['constant:all'], limits: [1000/h]}\n"
        "  c: {key: ['query:k'], on_missing: skip, limits: [1000/h]}\n"
        "routes:\n"
        "  - {name: a, match: {path: /**, host: a.example, methods: [GET]}, upstream: api, "
        "policies: [a]}\n"
        "  - {name: b, match: {path: /x/**, host: b.example}, upstream: api, policies: [b, c]}\n";
    const auto line = [](const std::string& method, const std::string& host,
                         const std::string& path) {
        return R"({"ts":1795946400,"request":{"remote_ip":"10.0.0.1","method":")" + method +
               R"(","host":")" + host + R"(","uri":")" + path + R"("},"duration":0,"status":200})" +
               "\n";
    };
    std::string log;
    for (int i = 0; i < 50; ++i) {
        log += line("GET", "a.example", "/x/1");
        log += line("POST", "a.example", "/x/1");  // no route
        log += line("GET", "b.example", "/x/1?k=1");
        log += line("GET", "b.example", "/y");        // no route
        log += line("GETa", ".example", "/x/1");      // the same letters, divided in another way
        log += line("GET", "b.example", "/X/1");      // another route if case is ignored
        log += line("CONNECT", "a.example", "/x/1");  // no method that is forwarded
    }
    const Ran ran(config, {log});
    const auto peak = [&](std::size_t policy) { return ran.limit(policy)["peaks"]["max"]; };
    CHECK(peak(0) == 50);
    CHECK(peak(1) == 50);
    CHECK(peak(2) == 50);
    CHECK(ran.doc.json["admitted"] == 100);
    CHECK(ran.doc.json["refused"] == 250);
    CHECK(ran.doc.json["refused_by"]["no route"] == 150);
    CHECK(ran.doc.json["refused_by"]["client: ambiguous path"] == 50);
    CHECK(ran.doc.json["refused_by"]["client: unsupported method"] == 50);
}

TEST_CASE("simulation: logs of several servers are merged by their times") {
    const Ran ran(config_of("  one: {key: [ip], limits: [2/s]}\n"),
                  {line_of(0, "10.0.0.1") + line_of(200 * kSecond, "10.0.0.1"),
                   line_of(1, "10.0.0.1") + line_of(2, "10.0.0.1")});
    CHECK(ran.doc.json["late"] == 0);
    CHECK(ran.doc.json["limited"] == 1);
    CHECK(ran.doc.json["logs"].size() == 2);
    const Ran rotated(config_of("  one: {key: [ip], limits: [2/s]}\n"),
                      {"", line_of(0, "10.0.0.1"), ""});
    CHECK(rotated.doc.json["logs"].size() == 1);
}

TEST_CASE("simulation: the same log gives the same bytes, also where the store is full") {
    std::string log;
    std::mt19937 random(9);
    for (int i = 0; i < 6'000; ++i) {
        log += line_of(i * kMillis, fmt::format("10.0.{}.{}", random() % 16, random() % 250));
    }
    const std::string config = config_of("  one: {key: [ip], limits: [2/min]}\n", "one",
                                         "store: {memory: {max_keys: 1000}}\n");
    const Ran first(config, {log});
    CHECK(first.doc.json["evictions"] > 0);
    CHECK(first.doc.json["untracked"] > 0);
    for (int i = 0; i < 3; ++i) {
        const Ran again(config, {log});
        CHECK(again.doc.json["policies"].dump() == first.doc.json["policies"].dump());
        CHECK(picture(*again.simulation) == picture(*first.simulation));
    }
}

TEST_CASE("simulation: a candidate is compared request by request") {
    std::string log;
    for (int i = 0; i < 5; ++i) log += line_of(i, "10.0.0.1");
    for (int i = 0; i < 2; ++i) log += line_of(i, "10.0.0.2");
    const Ran ran(config_of("  one: {key: [ip], limits: [3/min]}\n"), {log},
                  {.candidate = config_of("  one: {key: [ip], limits: [1/min]}\n")});
    const auto& json = ran.doc.json;
    CHECK(json["both"] == 2);
    CHECK(json["neither"] == 2);
    CHECK(json["only_live"] == 0);
    CHECK(json["only_candidate"] == 3);
    CHECK(json["candidate"]["limited"] == 5);
    CHECK(json["changed"][0]["identifier"] == "ip:10.0.0.1");
    CHECK(json["changed"][0]["only_candidate"] == 2);
    CHECK(json["changed"].size() == 2);
    CHECK(ran.says("only by the candidate"));
}

TEST_CASE("simulation: `enforce` limits its share of the identifiers, and the rest in shadow") {
    std::string log;
    for (int client = 1; client <= 12; ++client) {
        for (int i = 0; i < 3; ++i)
            log += line_of(client * 3 + i, fmt::format("203.0.113.{}", client));
    }
    const auto policies = [](const std::string& share) {
        return config_of("  p: {key: [ip], limits: [2/h], enforce: " + share + "}\n", "p");
    };
    const Ran ran(policies("25%"), {log}, {.candidate = policies("60%")});
    // The same as the proxy takes: see the tests of charge_list.
    CHECK(ran.doc.json["limited"] == 5);
    CHECK(ran.doc.json["candidate"]["limited"] == 8);
    CHECK(ran.doc.json["only_candidate"] == 3);
    CHECK(ran.doc.json["policies"][0]["mode"] == "enforce");
    CHECK(ran.limit(0)["limited"] == 5);
    CHECK(ran.doc.json["policies"][1]["policy"] == "p");
    CHECK(ran.doc.json["policies"][1]["mode"] == "shadow");
    CHECK(ran.limit(1)["limited"] == 7);
    CHECK(ran.says("policy p (for the share of `enforce`)"));
    CHECK(ran.says("policy p (mode: shadow, for what `enforce` leaves out)"));
}

TEST_CASE("simulation: a candidate of the configuration says who would change sides") {
    std::string log;
    for (int i = 0; i < 6; ++i) log += combined(i, "10.0.0.1");
    // The log has no field x-tenant: the policy, its twin and its candidate do without that key.
    for (const std::string more : {"", ", \"header:x-tenant\""}) {
        CAPTURE(more);
        const auto ran_with = [&](const std::string& live, const std::string& candidate) {
            return Ran(
                config_of("  p: {key: [ip" + more + "], limits: [" + live +
                              "], enforce: 99.999%, candidate: {limits: [" + candidate + "]}}\n",
                          "p"),
                {log});
        };
        const Ran laxer = ran_with("2/h", "5/h");
        CHECK(laxer.doc.json["limited"] == 4);
        const auto& tried = laxer.doc.json["policies"][2];
        CHECK(tried["policy"] == "p@candidate");
        CHECK(tried["mode"] == "candidate");
        CHECK(tried["only_live"] == 3);
        CHECK(tried["only_candidate"] == 0);
        CHECK(tried["limits"][0]["limited"] == 1);
        CHECK(tried["limits"][0]["peaks"]["max"] == 6);
        CHECK(laxer.says("  live, it would limit 0 requests more and admit 3 more"));
        const Ran stricter = ran_with("5/h", "2/h");
        CHECK(stricter.doc.json["limited"] == 1);
        CHECK(stricter.doc.json["policies"][2]["only_candidate"] == 3);
    }
}

TEST_CASE("simulation: statuses, slots and tokens of the log count") {
    const std::string guesses =
        "  one: {key: [ip], limits: [{quota: 1, per: 1min, count: [401]}]}\n";
    std::string log = combined(0, "10.0.0.1") + combined(1, "10.0.0.1") +
                      combined(2, "10.0.0.1", 401) + combined(3, "10.0.0.1");
    const Ran ran(config_of(guesses), {log});
    CHECK(ran.doc.json["limited"] == 1);

    // Requests of two seconds each.
    log.clear();
    for (int i = 0; i < 4; ++i) {
        log += line_of(i * kSecond, "10.0.0.1", R"(,"duration_us":2000000)");
    }
    const std::string slots = "  one: {key: [ip], limits: [{quota: 1, algorithm: concurrency}]}\n";
    const Ran held(config_of(slots), {log});
    CHECK(held.doc.json["limited"] == 2);
    const Ran unknown(config_of(slots), {combined(0, "10.0.0.1")});
    CHECK(unknown.says("--map duration=FIELD"));

    log.clear();
    for (int i = 0; i < 3; ++i) {
        log += line_of(i, "10.0.0.1", R"(,"usage_input":30,"usage_output":10,"usage_cost":40)");
    }
    const std::string tokens =
        "  one: {key: [ip], cost: {reserve: auto, settle: openai}, limits: [100/min]}\n";
    const Ran spent(config_of(tokens), {log});
    CHECK(spent.doc.json["limited"] == 1);
    CHECK(spent.limit()["peaks"]["max"] == 120);
    const Ran without(config_of(tokens), {combined(0, "10.0.0.1")});
    CHECK(without.says("--map usage_input=FIELD"));
}

TEST_CASE("simulation: money counts by the model of the line, and by the one that answered") {
    const LogOnDisk prices(
        "models: {gpt-x-mini: {input: 1, output: 2}, gpt-x: {input: 10, output: 20}}\n");
    const std::string config = config_of(
        "  one:\n    key: [ip]\n    limits: [{quota: 0.001, unit: usd, per: 1h}]\n"
        "    cost: {reserve: auto, settle: openai, unit: usd}\n",
        "one", "prices: " + prices.path() + "\n");
    const auto line = [](int at, const std::string& models) {
        return line_of(at, "10.0.0.1", R"(,"usage_input":200,"usage_output":100)" + models);
    };
    // 400, 400 and 4,000 millionths of a dollar.
    const Ran ran(config, {line(0, R"(,"usage_model":"gpt-x-mini")") +
                           line(1, R"(,"usage_model":"gpt-x","usage_answer_model":"gpt-x-mini")") +
                           line(2, R"(,"usage_model":"gpt-x","usage_answer_model":"gpt-x-1")")});
    CHECK(ran.doc.json["refused"] == 0);
    CHECK(ran.doc.json["limited"] == 1);
    CHECK(ran.limit()["peaks"]["max"] == 0.0048);

    SUBCASE("a model without a price is refused, as the proxy does") {
        const Ran unknown(config, {line(0, R"(,"usage_model":"other")")});
        CHECK(unknown.doc.json["refused"] == 1);
    }
    SUBCASE("a line without a model has an unknown cost, or none if it failed") {
        const Ran unnamed(config,
                          {line(0, R"(,"usage_model":"gpt-x-mini")") + line_of(1, "10.0.0.1") +
                           R"({"time":"2026-11-29T10:00:01Z","client":"10.0.0.1","method":"GET",)"
                           R"("path":"/","status":429})"
                           "\n"});
        CHECK(unnamed.doc.json["refused"] == 0);
        CHECK(unnamed.doc.json["admitted"] == 3);
        CHECK(unnamed.doc.json["unknown_costs"] == 1);
    }
}

TEST_CASE("simulation: requests without a route, and lines about none, are counted apart") {
    const std::string config =
        "upstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n"
        "policies: {one: {key: [ip], limits: [1/min]}}\n"
        "routes: [{name: a, match: {path: /a}, upstream: api, policies: [one]}]\n";
    std::string log = combined(0, "10.0.0.1", 200, "-", "/a") +
                      combined(1, "10.0.0.1", 200, "-", "/b") +
                      combined(2, "10.0.0.1", 400, "-", "nothing") +
                      combined(3, "10.0.0.1", 200, "-", "https://api.example/a");
    log += "10.0.0.1 - - [29/Nov/2026:10:00:09 +0000] \"-\" 400 0\n";
    const Ran ran(config, {log});
    CHECK(ran.doc.json["requests"] == 3);
    CHECK(ran.doc.json["limited"] == 1);
    CHECK(ran.doc.json["refused"] == 1);
    CHECK(ran.doc.json["no_request"] == 2);
}

TEST_CASE("simulation: the report names what routes depend on and the log does not have") {
    const std::string config =
        "upstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n"
        "policies: {one: {key: [ip], limits: [1/min]}}\n"
        "routes:\n"
        "  - {name: a, match: {path: /**, host: a.example}, upstream: api, policies: [one]}\n"
        "  - {name: b, match: {path: /**, headers: {x-beta: '1'}}, upstream: api, policies: []}\n";
    const std::string log = combined(0, "10.0.0.1") + combined(1, "10.0.0.1");
    const Ran ran(config, {log});
    CHECK(ran.doc.json["refused"] == 2);
    CHECK(ran.doc.json["routes_lack"] == Doc::Json::array({"host", "header:x-beta"}));
    CHECK(ran.says("--host NAME"));
    const Ran with_host(config, {log}, {.host = "a.example"});
    CHECK(with_host.doc.json["limited"] == 1);
    // Apache's log of all virtual hosts has it.
    const Ran hosts(config, {"a.example:80 " + combined(0, "10.0.0.1") + "a.example:80 " +
                             combined(1, "10.0.0.1")});
    CHECK(hosts.doc.json["routes_lack"] == Doc::Json::array({"header:x-beta"}));
    CHECK(hosts.doc.json["limited"] == 1);
    // So have load balancers of AWS, in their URLs.
    const std::string alb =
        "http 2026-11-29T10:00:01.000000Z app/lb/1 10.0.0.1:4711 10.0.0.9:80 0.1 0.2 0.3 200 200 "
        "34 "
        "366 \"GET http://a.example:80/ HTTP/1.1\" \"curl/8\" - -\n";
    const Ran urls(config, {alb + alb});
    CHECK(urls.doc.json["routes_lack"] == Doc::Json::array({"header:x-beta"}));
    CHECK(urls.doc.json["limited"] == 1);
}

TEST_CASE("simulation: a byte order mark before the first line is no part of it") {
    const std::string config = config_of("  one: {key: [ip], limits: [1/min]}\n");
    const Ran ran(config, {"\xef\xbb\xbf" + combined(0, "10.0.0.1") + combined(1, "10.0.0.1")});
    CHECK(ran.doc.json["unread"] == 0);
    CHECK(ran.doc.json["limited"] == 1);
    const Ran json(config, {"\xef\xbb\xbf" + line_of(0, "10.0.0.1")});
    CHECK(json.doc.json["requests"] == 1);
}

TEST_CASE("simulation: a long line, a last line without an end, and CRLF") {
    const std::string log = combined(0, "10.0.0.1") + std::string(3'000'000, 'x') + "\n" +
                            combined(1, "10.0.0.1").append("\r\n\n") + combined(2, "10.0.0.1");
    const Ran ran(config_of("  one: {key: [ip], limits: [1/s]}\n"),
                  {log.substr(0, log.size() - 1)});
    CHECK(ran.doc.json["requests"] == 3);
    CHECK(ran.doc.json["lines"] == 4);
    CHECK(ran.doc.json["unread"] == 1);
}

TEST_CASE("simulation: it says that a file is compressed, empty or not there") {
    const auto told = [](const std::string& path) {
        auto opened = Replay::open({path}, {}, std::nullopt);
        return opened ? std::string() : opened.error();
    };
    const LogOnDisk gzip("\x1f\x8b\x08");
    CHECK(told(gzip.path()).find("`zcat FILE") != std::string::npos);
    const LogOnDisk zstandard("\x28\xb5\x2f\xfd");
    CHECK(told(zstandard.path()).find("`zstdcat FILE") != std::string::npos);
    const LogOnDisk xz(
        "\xfd"
        "7zXZ");
    CHECK(told(xz.path()).find("`xzcat FILE") != std::string::npos);
    const LogOnDisk bzip("BZh9");
    CHECK(told(bzip.path()).find("`bzcat FILE") != std::string::npos);
    CHECK(told("/tmp").find("Is a directory") != std::string::npos);
    const LogOnDisk empty("\n\n");
    CHECK(told(empty.path()).find("no lines") != std::string::npos);
    CHECK_FALSE(Replay::open({empty.path(), empty.path()}, {}, std::nullopt).has_value());
    CHECK(told("/nowhere/at.all").find("No such file") != std::string::npos);
    const LogOnDisk log(combined(0, "10.0.0.1"));
    const auto twice = Replay::open({log.path(), log.path()}, {}, std::nullopt);
    REQUIRE_FALSE(twice.has_value());
    CHECK(twice.error().find("given twice") != std::string::npos);
}

TEST_CASE("simulation: the picture is XML, and shows the limit and the clients") {
    std::string log;
    for (int i = 0; i < 50; ++i) log += line_of(i * kSecond, "10.0.0.1");
    const Ran ran(config_of("  one: {key: [ip], limits: [10/min]}\n"), {log});
    const std::string svg = picture(*ran.simulation);
    CHECK(svg.starts_with("<svg xmlns="));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(svg.find("one-1min") != std::string::npos);
    CHECK(svg.find("class=\"limited\"") != std::string::npos);
}

TEST_CASE("timeline: buckets grow until the log fits") {
    Timeline timeline;
    for (int i = 0; i < 10'000; ++i) timeline.add(Micros{kTen + i * kSecond}, i % 2 == 0);
    CHECK(timeline.buckets().size() <= Timeline::kBuckets);
    std::uint64_t requests = 0;
    std::uint64_t limited = 0;
    for (const auto& bucket : timeline.buckets()) {
        requests += bucket.requests;
        limited += bucket.limited;
    }
    CHECK(requests == 10'000);
    CHECK(limited == 5'000);
    CHECK(timeline.width() == Micros{32 * kSecond});
}

TEST_CASE("suggest: shares are read with their sign") {
    CHECK(*parse_share("0.1%") == 1'000);
    CHECK(*parse_share("100%") == 1'000'000);
    for (const std::string bad : {"0.1", "101%", "x%", "", "%"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_share(bad).has_value());
    }
}

}  // namespace
}  // namespace tidegate::simulate::simulation_test
