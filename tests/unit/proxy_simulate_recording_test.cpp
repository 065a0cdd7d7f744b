// The lines of a recording, and which requests have one.
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "proxy/simulate_recording.hpp"
#include "unit/simulate_world.hpp"

namespace tidegate::proxy::simulate_recording_test {

using namespace std::chrono_literals;
using Result = store::LimitDecision::Result;

namespace {

constexpr Recording::Time kNow{1'000s};
constexpr std::chrono::system_clock::time_point kBegan{1'795'946'400'123'456us};

limit::Policy policy(const std::string& name) {
    limit::Policy policy;
    policy.name = name;
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    limit::LimitSpec spec;
    spec.quota = 3;
    spec.duration = 1h;
    policy.limits = {*limit::make_limit(spec)};
    policy.tiers = {{"gold", policy.limits}};
    return policy;
}

struct World {
    explicit World(std::int64_t share = RecordingPlan::kAll, std::size_t bytes_max = 1U << 20) {
        plan->share = share;
        plan->bytes_max = bytes_max;
        recording.emplace(plan, kNow);
    }

    void charge(const limit::Policy& by, std::string_view identifier, bool denied = false,
                const limit::Tier* tier = nullptr) {
        decision.charge.items.push_back({&by, identifier, tier});
        decision.charge.verdict.limits.push_back({.denied = denied});
        if (denied && !by.shadow) decision.charge.result = Result::limited;
    }
    void begin(Result result = Result::admitted) {
        decision.charge.items.clear();
        decision.charge.verdict.limits.clear();
        decision.charge.result = result;
    }
    // The lines since the last call.
    std::vector<JsonValue> lines() {
        std::vector<JsonValue> lines;
        std::string_view rest = taken = recording->take(kNow).lines;
        while (!rest.empty()) {
            const std::size_t end = rest.find('\n');
            REQUIRE(end != rest.npos);
            lines.push_back(*parse_json_object(rest.substr(0, end)));
            rest.remove_prefix(end + 1);
        }
        return lines;
    }
    std::string digest(std::string_view identifier) const {
        std::string out;
        append_hex(std::span<const unsigned char>(plan->names.of({identifier})), out);
        return out;
    }

    const limit::Policy one = policy("one");
    const limit::Policy two = policy("two");
    std::shared_ptr<RecordingPlan> plan = std::make_shared<RecordingPlan>();
    std::optional<Recording> recording;
    ask::Decision decision;
    std::string taken;
};

}  // namespace

TEST_CASE("recording: a line has the identifiers as digests, with cost and tier") {
    World world;
    world.begin();
    world.charge(world.one, "ip:203.0.113.7");
    world.charge(world.two, "user:alice", false, &world.two.tiers.front());
    world.decision.charge.cost = 3;
    world.decision.charge.items[1].own_cost = 70;
    const std::vector<std::int64_t> settled{-1, 50};
    world.recording->add({world.decision, kBegan, 200, 1'500us, settled});
    const auto lines = world.lines();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].at("at") == 1'795'946'400'123'456);
    CHECK(lines[0].at("charges") == "one " + world.digest("ip:203.0.113.7") + " 3;two " +
                                        world.digest("user:alice") + " 50 gold");
    CHECK(lines[0].at("verdict") == "admitted");
    CHECK(lines[0].at("status") == 200);
    CHECK(lines[0].at("took_us") == 1'500);
    CHECK(world.taken.find("alice") == std::string::npos);
    CHECK(world.taken.find("203.0.113.7") == std::string::npos);
    CHECK(world.lines().empty());
}

TEST_CASE("recording: another recording has other digests") {
    const World first;
    const World second;
    CHECK(first.digest("user:alice") != second.digest("user:alice"));
}

TEST_CASE("recording: what is not known of a request is not in its line") {
    World world;
    world.begin();
    world.charge(world.one, "ip:203.0.113.7");
    world.recording->add({world.decision, kBegan});
    const auto lines = world.lines();
    REQUIRE(lines.size() == 1);
    CHECK_FALSE(lines[0].contains("status"));
    CHECK_FALSE(lines[0].contains("took_us"));
}

TEST_CASE("recording: of a share of the identifiers it has every request, of others none") {
    World world(RecordingPlan::kAll / 4);
    std::set<int> recorded;
    for (int round = 0; round < 3; ++round) {
        std::set<int> now;
        for (int i = 0; i < 2'000; ++i) {
            const std::string name = "user:" + std::to_string(i);
            world.begin();
            world.charge(world.one, name);
            world.recording->add({world.decision, kBegan});
            if (!world.lines().empty()) now.insert(i);
        }
        if (round > 0) CHECK(now == recorded);
        recorded = now;
    }
    // Of 2,000 with a chance of a quarter, within six standard deviations.
    CHECK(recorded.size() > 384);
    CHECK(recorded.size() < 616);
}

TEST_CASE("recording: identifiers that many clients share are left out") {
    World world;
    for (const std::string_view shared : {"route:api", "constant:all", "method:GET",
                                          "shared:header:x", "9:route:api+12:constant:all"}) {
        CAPTURE(shared);
        world.begin();
        world.charge(world.one, shared);
        world.recording->add({world.decision, kBegan});
        CHECK(world.lines().empty());
    }
    for (const std::string_view own :
         {"9:route:api+10:user:alice", "routes:x", "header:x=constant:"}) {
        CAPTURE(own);
        world.begin();
        world.charge(world.one, own);
        world.recording->add({world.decision, kBegan});
        CHECK(world.lines().size() == 1);
    }
}

TEST_CASE("recording: descriptors of Envoy's rate limit service are left out") {
    World world;
    const limit::Policy by_rule = policy("rls:shop.remote_address");
    const limit::Policy by_call = policy("rls:override-minute");
    world.begin();
    world.charge(by_rule, "descriptor:remote_address=203.0.113.7");
    world.charge(by_call, "11:domain:shop+34:descriptor:remote_address=203.0.113.7", true);
    world.recording->add({world.decision, kBegan});
    CHECK(world.lines().empty());
    world.charge(world.one, "ip:203.0.113.7");
    world.recording->add({world.decision, kBegan});
    const auto lines = world.lines();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].at("charges") == "one " + world.digest("ip:203.0.113.7") + " 1");
}

TEST_CASE("recording: a line says if an identifier that it lacks was refused") {
    World world;
    const auto last = [&] {
        world.recording->add({world.decision, kBegan});
        const auto lines = world.lines();
        REQUIRE(lines.size() == 1);
        CHECK(lines[0].at("verdict") == "limited");
        return lines[0].value("refused_elsewhere", 0) == 1;
    };
    world.begin();
    world.charge(world.one, "ip:203.0.113.7", true);
    world.charge(world.two, "constant:all");
    CHECK_FALSE(last());
    world.begin();
    world.charge(world.one, "ip:203.0.113.7");
    world.charge(world.two, "constant:all", true);
    CHECK(last());
    // A policy in shadow refuses nothing.
    limit::Policy shadow = policy("shadow");
    shadow.shadow = true;
    world.begin();
    world.charge(shadow, "ip:203.0.113.7", true);
    world.charge(world.two, "constant:all", true);
    CHECK(last());
}

TEST_CASE("recording: a cost above all that a limit counts is in a line that can be read") {
    World world;
    world.begin();
    world.charge(world.one, "ip:203.0.113.7");
    const std::vector<std::int64_t> settled{limit::kMoneyMax + 1};
    world.recording->add({world.decision, kBegan, 200, 1ms, settled});
    const auto lines = world.lines();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].at("charges") ==
          "one " + world.digest("ip:203.0.113.7") + " " + std::to_string(limit::kMoneyMax));
}

TEST_CASE("recording: a simulation decides its lines as the proxy has decided") {
    World world;
    std::string log;
    const auto add = [&](std::string_view client, bool is_denied, bool is_denied_elsewhere,
                         std::int64_t cost = 1) {
        world.begin();
        world.charge(world.one, client, is_denied);
        world.charge(world.two, "constant:all", is_denied_elsewhere);
        const std::vector<std::int64_t> settled{cost, cost};
        world.recording->add({world.decision, kBegan, 200, 1'500us, settled});
        log += world.recording->take(kNow).lines;
    };
    for (int i = 0; i < 5; ++i) add("ip:203.0.113.7", i >= 3, false);
    add("ip:203.0.113.8", false, true);
    add("ip:203.0.113.9", true, false, limit::kMoneyMax + 1);
    const simulate::Ran ran(
        "upstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n"
        "policies: {one: {key: [ip], limits: [3/h]}, two: {key: ['constant:all'], limits: "
        "[9/h]}}\n"
        "routes: [{name: all, match: {path: '/**'}, upstream: api, policies: [one, two]}]\n",
        {log});
    CHECK(ran.doc.json["logs"][0]["format"] == "recording");
    CHECK(ran.doc.json["unread"] == 0);
    CHECK(ran.doc.json["requests"] == 7);
    CHECK(ran.doc.json["admitted"] == 3);
    CHECK(ran.doc.json["limited"] == 3);
    CHECK(ran.doc.json["refused_elsewhere"] == 1);
    CHECK(ran.times.front() == kBegan.time_since_epoch());
}

TEST_CASE("recording: requests that the limiter has not decided have no line") {
    World world;
    for (const Result result : {Result::pending, Result::unavailable}) {
        world.begin(result);
        world.charge(world.one, "ip:203.0.113.7");
        world.recording->add({world.decision, kBegan});
        CHECK(world.lines().empty());
    }
}

TEST_CASE("recording: lines without room are counted, and there is room once they are taken") {
    World world(RecordingPlan::kAll, 300);
    world.begin();
    world.charge(world.one, "ip:203.0.113.7");
    for (int i = 0; i < 10; ++i) world.recording->add({world.decision, kBegan});
    const auto portion = world.recording->take(kNow);
    CHECK(portion.lines.size() <= 300);
    CHECK(portion.left_out > 0);
    const auto kept = std::count(portion.lines.begin(), portion.lines.end(), '\n');
    CHECK(static_cast<std::uint64_t>(kept) + portion.left_out == 10);
    world.recording->add({world.decision, kBegan});
    CHECK(world.recording->take(kNow).left_out == portion.left_out);
}

TEST_CASE("recording: it ends where its lines are not taken") {
    World world;
    const auto patience = world.plan->patience;
    CHECK_FALSE(world.recording->has_ended(kNow + patience - 1s));
    CHECK(world.recording->has_ended(kNow + patience));
    (void)world.recording->take(kNow + 5s);
    CHECK_FALSE(world.recording->has_ended(kNow + patience));
    CHECK(world.recording->has_ended(kNow + patience + 5s));
}

}  // namespace tidegate::proxy::simulate_recording_test
