// Each algorithm through the program: what it admits over time, by the system's clock.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::algorithms_test {

namespace {

using Admissions = std::vector<Admitted>;
using std::chrono::microseconds;

// Between two decisions at least lies what lies between the first's sending and the second's
// answer; clocks may disagree by this.
constexpr milliseconds kClocksApart{2};

// No half-open interval of `window` held more than `quota`.
bool keeps(const Admissions& admitted, std::size_t quota, milliseconds window) {
    for (std::size_t i = quota; i < admitted.size(); ++i) {
        auto last = Clock::time_point::min();
        for (std::size_t k = i - quota; k <= i; ++k) last = std::max(last, admitted[k].answered);
        if (last - admitted[i - quota].sent + kClocksApart < window) return false;
    }
    return true;
}

// No interval of length w held more than burst + w * rate.
bool keeps_rate(const Admissions& admitted, int burst, microseconds emission) {
    for (std::size_t i = 0; i < admitted.size(); ++i) {
        auto last = admitted[i].answered;
        for (std::size_t k = i; k < admitted.size(); ++k) {
            last = std::max(last, admitted[k].answered);
            const auto units = static_cast<int>(k - i) + 1;
            if (last - admitted[i].sent + kClocksApart < (units - burst) * emission) return false;
        }
    }
    return true;
}

// No second of the system's clock held more than `quota`.
bool keeps_seconds(const Admissions& admitted, int quota) {
    const auto offset =
        std::chrono::system_clock::now().time_since_epoch() - Clock::now().time_since_epoch();
    const auto second = [&](Clock::time_point at) {
        return std::chrono::floor<std::chrono::seconds>(at.time_since_epoch() + offset).count();
    };
    std::map<std::int64_t, int> seconds;
    for (const auto& one : admitted) {
        const auto begun = second(one.sent - kClocksApart);
        if (begun == second(one.answered + kClocksApart)) ++seconds[begun];
    }
    return std::all_of(seconds.begin(), seconds.end(),
                       [&](const auto& one) { return one.second <= quota; });
}

}  // namespace

TEST_CASE("algorithms: a flood over two and a half windows passes the quota of each, and no more") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const std::map<std::string, std::string> limits{
        {"sliding", "{quota: 20, per: 1s, precision: 100ms}"},
        {"strict", "{quota: 20, per: 1s, precision: 100ms, strict: on}"},
        {"logged", "{quota: 20, per: 1s, algorithm: sliding_log}"},
        {"clock", "{quota: 20, per: 1s, algorithm: fixed_window}"},
        {"first", "{quota: 20, per: 1s, algorithm: fixed_window, anchor: first_request}"},
        {"gcra", "{quota: 20, per: 1s, algorithm: gcra, burst: 5}"},
    };
    std::string policies = "policies:\n";
    std::string routes = "routes:\n";
    for (const auto& [name, limit] : limits) {
        policies += "  " + name + ": {key: [ip], limits: [" + limit + "]}\n";
        routes += "  - {name: " + name + ", match: {path: /" + name +
                  "}, upstream: api, policies: [" + name + "]}\n";
    }
    const std::string yaml = counted.yaml() + api(upstream, policies + routes);
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    std::vector<std::uint16_t> ports{first.port()};
    if (counted.redis) ports.push_back(second.port());

    std::map<std::string, Admissions> admitted;
    for (const auto& [name, limit] : limits) admitted[name];
    std::vector<std::thread> threads;
    for (auto& [name, into] : admitted) {
        threads.emplace_back(
            [&, path = "/" + name] { into = admitted_in(ports, 2, path, milliseconds{2500}); });
    }
    for (auto& thread : threads) thread.join();

    CHECK(keeps(admitted["sliding"], 20, milliseconds{900}));
    CHECK(keeps(admitted["strict"], 20, milliseconds{1000}));
    CHECK(keeps(admitted["logged"], 20, milliseconds{1000}));
    CHECK(keeps_seconds(admitted["clock"], 20));
    CHECK(keeps_rate(admitted["gcra"], 5, milliseconds{50}));
    auto& opened = admitted["first"];
    for (std::size_t i = 20; i < opened.size(); i += 20)
        CHECK(opened[i].answered - opened[i - 20].sent + kClocksApart >= milliseconds{1000});
    // And units do come back: at least two windows' worth.
    for (const auto& [name, passed] : admitted) {
        CAPTURE(name);
        CHECK(passed.size() >= 40);
        CHECK(passed.size() <= (name == "clock" ? 80 : 60));
        CHECK_SOON(decisions(first, "admitted", name) + decisions(second, "admitted", name) ==
                   passed.size());
    }
    CHECK(logged(first, "/gcra").at("store") != "local");
}

TEST_CASE("gcra: the burst passes at once, and the next answer says when a unit is free") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        one_policy(upstream,
                   "{key: [ip], limits: [{name: tokens, quota: 6, per: 1min, algorithm: "
                   "token_bucket, burst: 3}]}"));
    for (const std::string left : {"r=2", "r=1", "r=0"}) {
        const auto answer = tidegate.get();
        CHECK(answer.status() == 200);
        CHECK(answer.field("RateLimit").find(left) != std::string::npos);
        CHECK(answer.field("RateLimit-Policy") == "\"p-tokens\";q=6;w=60");
    }
    const auto refusal = tidegate.get("/refused");
    CHECK(refusal.status() == 429);
    CHECK(std::stoi(refusal.field("Retry-After")) <= 10);
    CHECK(std::stoi(refusal.field("Retry-After")) >= 5);
    const auto line = logged(tidegate, "/refused");
    CHECK(line.at("verdict") == "limited");
    CHECK(line.at("limited_by") == "p-tokens");
    CHECK(line.at("store") == counted.name());
    CHECK(line.at("identifiers") == nlohmann::json::array({"ip:127.0.0.1"}));
}

TEST_CASE(
    "algorithms: limits of every kind are charged together, and a denial by one takes nothing") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\n" + counted.yaml() +
        one_policy(upstream,
                   "{key: [ip], limits: [{name: a, quota: 2, per: 1h, algorithm: sliding_log}, "
                   "{name: b, quota: 9, per: 1h}, {name: c, quota: 9, per: 1h, algorithm: gcra}, "
                   "{name: d, quota: 9, algorithm: concurrency}, {name: e, quota: 9, per: 1h, "
                   "algorithm: fixed_window, anchor: first_request}]}"));
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get().status() == 200);
    for (int i = 0; i < 5; ++i) {
        const auto refusal = tidegate.get();
        CHECK(refusal.status() == 429);
        CHECK(nlohmann::json::parse(refusal.body).at("violated-policies") ==
              nlohmann::json::array({"p-a"}));
        const auto counts = refusal.field("RateLimit");
        for (const std::string item : {"\"p-b\";r=7", "\"p-c\";r=7", "\"p-e\";r=7"}) {
            CAPTURE(counts);
            CHECK(counts.find(item) != std::string::npos);
        }
        CHECK(counts.find("\"p-d\";r=9") != std::string::npos);
    }
    if (counted.redis) CHECK(calls(*counted.redis, "evalsha") >= 7);
}

}  // namespace tidegate::test::algorithms_test
