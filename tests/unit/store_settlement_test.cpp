// Settling over the slots of a cluster, whose nodes answer what a test says.
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "redis/slot.hpp"
#include "store/scripts.hpp"
#include "store/settlement.hpp"
#include "unit/fake_redis.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::store::settlement_test {
namespace {

using namespace std::chrono_literals;
using test::FakeRedis;
using test::run_until;
using test::Words;

// Identifiers in slots of the first and of the second node.
constexpr std::string_view kOnFirst = "ip:192.0.2.1";
constexpr std::string_view kOnSecond = "user:alice";

// Two nodes: the first serves the slot of kOnFirst alone, the second all others. Each remembers
// claims as lua/claim.lua does.
struct SettleRig {
    SettleRig() {
        const auto slot = redis::slot_of_tag(kOnFirst);
        const auto line = [&](std::size_t node, const std::string& slots) {
            return "id 127.0.0.1:" + std::to_string(nodes[node].port()) +
                   "@1 master - 0 0 1 connected " + slots + "\n";
        };
        const std::string text =
            line(0, std::to_string(slot)) +
            line(1, "0-" + std::to_string(slot - 1) + " " + std::to_string(slot + 1) + "-16383");
        const std::string list = "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            nodes[i].other = [list](const Words& words) {
                return words[0] == "CLUSTER" ? list : std::string("+OK\r\n");
            };
            nodes[i].evalsha = [this, i](const Words& words) { return settle_on(i, words); };
        }
        redis::ClusterOptions options;
        options.seeds = {{"127.0.0.1", static_cast<std::uint16_t>(nodes[0].port())}};
        options.node.timeout = 60ms;
        options.node.probe_every = 20ms;
        options.node.scripts = all_scripts();
        cluster =
            std::make_shared<redis::Cluster>(io.get_executor(), options, redis::Cluster::OnState{});
        redis = {cluster, "tg:"};
        spawn(io.get_executor(), redis::Cluster::run(cluster),
              [this](const std::exception_ptr&) { ended = true; });
        CHECK(run_until(io, [&] { return nodes[1].count("SCRIPT") == all_scripts().size(); }));

        auto policy = std::make_unique<config::Policy>();
        static_cast<limit::Policy&>(*policy) = test::policy("p", {test::window(9, 1h)});
        config.policies.push_back(std::move(policy));
        reservation.cost = 4;
        for (const std::string_view identifier : {kOnFirst, kOnSecond}) {
            reservation.parts.push_back(
                {true, limit::Micros{1s}, {{"p", "", std::string(identifier), 7}}});
        }
    }
    ~SettleRig() {
        cluster->stop();
        CHECK(run_until(io, [&] { return ended; }));
    }

    std::string settle_on(std::size_t node, const Words& words) {
        const std::string& key = words.at(2 + std::stoul(words.at(2)));
        const auto [claim, is_first] = claims.try_emplace(key, words.back());
        if (is_first) scripts[key] = words[1];
        const std::string& cost = claim->second;
        late[node] += "$" + std::to_string(cost.size()) + "\r\n" + cost + "\r\n";
        return silent[node] ? std::string() : std::exchange(late[node], {});
    }
    std::optional<std::int64_t> settle(std::int64_t cost) {
        const Settlement settlement{reservation, "0f", cost, 70s};
        std::optional<std::int64_t> settled;
        bool done = false;
        spawn(io.get_executor(), run(*this, settlement, settled),
              [&](const std::exception_ptr& fault) { done = fault == nullptr; });
        CHECK(run_until(io, [&] { return done; }));
        return settled;
    }
    static Task<> run(SettleRig& rig, const Settlement& settlement,
                      std::optional<std::int64_t>& settled) {
        settled = co_await settle_in_redis(rig.redis, settlement, rig.config, rig.sleeper);
    }
    std::size_t asked(std::size_t node) const { return nodes[node].count("EVALSHA"); }

    asio::io_context io;
    std::array<FakeRedis, 2> nodes{FakeRedis{io}, FakeRedis{io}};
    std::array<bool, 2> silent{};
    std::array<std::string, 2> late;             // answers that a silent node has not sent
    std::map<std::string, std::string> claims;   // what was settled with which cost,
    std::map<std::string, std::string> scripts;  // and by which script
    std::shared_ptr<redis::Cluster> cluster;
    RedisStore redis;
    config::Config config;
    Reservation reservation;
    Wakeup sleeper{io.get_executor()};
    bool ended = false;
};

const std::string kFirstClaim = "tg:settled:0f:{ip:192.0.2.1}";
const std::string kSecondClaim = "tg:settled:0f:{user:alice}";

}  // namespace

TEST_CASE(
    "settlement: each slot gets one command, with its counts, and the same again on a repeat") {
    SettleRig rig;
    std::string_view script = settle_less_script().sha1;
    std::int64_t cost = 1;
    SUBCASE("less") {}
    SUBCASE("as much") {
        cost = 4;
    }
    SUBCASE("more") {
        cost = 6;
        script = settle_more_script().sha1;
    }
    CHECK(rig.settle(cost) == cost);
    CHECK(rig.claims == std::map<std::string, std::string>{{kFirstClaim, std::to_string(cost)},
                                                           {kSecondClaim, std::to_string(cost)}});
    CHECK(rig.scripts[kFirstClaim] == script);
    CHECK(rig.scripts[kSecondClaim] == script);
    CHECK(rig.settle(cost) == cost);
    CHECK(rig.settle(cost + 1) == cost);
    CHECK(rig.asked(0) == 3);
    CHECK(rig.asked(1) == 3);
}

TEST_CASE("settlement: while the first slot does not answer, no other is asked") {
    SettleRig rig;
    rig.silent[0] = true;
    CHECK(rig.settle(1) == std::nullopt);
    CHECK(rig.asked(1) == 0);
    rig.silent[0] = false;
    // Its answer was lost, but it was done.
    CHECK(rig.settle(2) == 1);
    CHECK(rig.claims[kSecondClaim] == "1");
}

TEST_CASE("settlement: a correction that a slot has missed is made up for, with the first cost") {
    SettleRig rig;
    rig.nodes[1].evalsha = [](const Words&) { return "-ERR no\r\n"; };
    CHECK(rig.settle(1) == std::nullopt);
    CHECK(rig.claims.size() == 1);
    rig.nodes[1].evalsha = [&](const Words& words) { return rig.settle_on(1, words); };
    CHECK(rig.settle(5) == 1);
    CHECK(rig.claims[kSecondClaim] == "1");
    CHECK(rig.scripts[kSecondClaim] == settle_less_script().sha1);
}

TEST_CASE("settlement: an answer that is no cost is refused") {
    SettleRig rig;
    for (const std::string answer : {":1\r\n", "$1\r\nx\r\n", "$2\r\n-1\r\n", "$-1\r\n"}) {
        CAPTURE(answer);
        rig.nodes[0].evalsha = [&](const Words&) { return answer; };
        CHECK(rig.settle(1) == std::nullopt);
    }
}

TEST_CASE("settlement: without its policy a reservation is claimed, and nothing else is sent") {
    SettleRig rig;
    rig.config.policies.clear();
    CHECK(rig.settle(9) == 9);
    for (const FakeRedis& node : rig.nodes) {
        CHECK(node.seen.back() == Words{"EVALSHA", std::string(settle_less_script().sha1), "1",
                                        &node == &rig.nodes[0] ? kFirstClaim : kSecondClaim,
                                        "70000", "9"});
    }
}

}  // namespace tidegate::store::settlement_test
