// Settling over the slots of a cluster, whose nodes answer what a test says.
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "limit/gcra.hpp"
#include "redis/cluster_map.hpp"
#include "store/reservation.hpp"
#include "store/scripts.hpp"
#include "store_asking.hpp"
#include "unit/fake_redis.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::store::reservation_test {

using namespace std::chrono_literals;
using limit::ChargeItem;
using limit::Micros;
using limit::Refund;
using test::doubles;
using test::FakeRedis;
using test::policy;
using test::run_until;
using test::window;
using test::Words;
using test::words_of;

namespace {

// Identifiers in slots of the first and of the second node.
constexpr std::string_view kOnFirst = "ip:192.0.2.1";
constexpr std::string_view kOnSecond = "user:alice";

const limit::Limit kHour = test::window(9, 1h);
const limit::Limit kDay = test::window(90, 24h);

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

        set_limits({kHour});
        reservation.costs = {{4}};
        for (const std::string_view identifier : {kOnFirst, kOnSecond}) {
            reservation.parts.push_back({true,
                                         limit::Micros{1s},
                                         {{"p", "", std::string(identifier), 7, {{kHour.id, 9}}}}});
        }
    }
    ~SettleRig() {
        cluster->stop();
        CHECK(run_until(io, [&] { return ended; }));
    }

    // Of the policy, as a reload would.
    void set_limits(std::vector<limit::Limit> limits) {
        auto policy = std::make_unique<config::PolicySettings>();
        static_cast<limit::Policy&>(*policy) = test::policy("p", std::move(limits));
        config.policies.clear();
        config.policies.push_back(std::move(policy));
    }
    std::string settle_on(std::size_t node, const Words& words) {
        const std::string& key = words.at(2 + std::stoul(words.at(2)));
        const auto [claim, is_first] = claims.try_emplace(key, words.back());
        if (is_first) scripts[key] = words[1];
        const std::string cost = (is_first ? "+" : "") + claim->second;
        late[node] += "$" + std::to_string(cost.size()) + "\r\n" + cost + "\r\n";
        return silent[node] ? std::string() : std::exchange(late[node], {});
    }
    // Of a reservation with one cost.
    std::optional<std::int64_t> settle(std::int64_t cost) {
        const auto settled = settle(Costs{cost});
        return settled ? std::optional(settled->front()) : std::nullopt;
    }
    std::optional<Costs> settle(const Costs& costs) {
        const Settlement settlement{reservation, "0f", costs, 70s};
        std::optional<Costs> settled;
        bool done = false;
        spawn(io.get_executor(), run(*this, settlement, settled),
              [&](const std::exception_ptr& fault) { done = fault == nullptr; });
        CHECK(run_until(io, [&] { return done; }));
        return settled;
    }
    static Task<> run(SettleRig& rig, const Settlement& settlement, std::optional<Costs>& settled) {
        const auto found = co_await settle_in_redis(rig.redis, settlement, rig.config, rig.sleeper);
        if (found) settled = found->costs;
        rig.was_first = found && found->is_first;
    }
    // What was sent to the second node last.
    Words last() const { return nodes[1].seen.back(); }
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
    bool was_first = false;  // the last call that settled
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
    CHECK(rig.was_first);
    CHECK(rig.settle(cost) == cost);
    CHECK_FALSE(rig.was_first);
    CHECK(rig.settle(cost + 1) == cost);
    CHECK_FALSE(rig.was_first);
    CHECK(rig.asked(0) == 3);
    CHECK(rig.asked(1) == 3);
}

TEST_CASE("settlement: what cost less is given back, and what cost more is taken, each once") {
    SettleRig rig;
    // Both items of the second slot.
    rig.reservation.costs = {{4}, {4}, {6}};
    rig.reservation.parts[1].items.push_back({"p", "", "user:alice2", 8, {{kHour.id, 9}}, 2});
    rig.reservation.parts[1].items[0].cost = 1;
    const Costs costs{4, 1, 9};
    const std::string second = "tg:settled:0f.more:{user:alice}";
    SUBCASE("as asked") {
        CHECK(rig.settle(costs) == costs);
    }
    SUBCASE("in two calls") {
        // Redis takes nothing at first.
        rig.nodes[1].evalsha = [&](const Words& words) {
            const bool takes = words[1] == settle_more_script().sha1;
            return takes ? std::string("-ERR no\r\n") : rig.settle_on(1, words);
        };
        CHECK(rig.settle(costs) == std::nullopt);
        CHECK_FALSE(rig.claims.contains(second));
        rig.nodes[1].evalsha = [&](const Words& words) { return rig.settle_on(1, words); };
        // The costs of the first call hold.
        CHECK(rig.settle({1, 2, 3}) == costs);
    }
    CHECK(rig.claims == std::map<std::string, std::string>{
                            {kFirstClaim, "4,1,9"}, {kSecondClaim, "4,1,9"}, {second, "4,1,9"}});
    CHECK(rig.scripts[kFirstClaim] == settle_less_script().sha1);
    CHECK(rig.scripts[kSecondClaim] == settle_less_script().sha1);
    CHECK(rig.scripts[second] == settle_more_script().sha1);
    CHECK(rig.settle(costs) == costs);
    CHECK(rig.settle({0, 0, 0}) == costs);
}

TEST_CASE("settlement: a claim says one number for all, or each with commas between them") {
    CHECK(claim_text({7}) == "7");
    CHECK(claim_text({7, 7}) == "7");
    CHECK(claim_text({7, 0, 7}) == "7,0,7");
    CHECK(read_claim_text("7", 1) == Costs{7});
    CHECK(read_claim_text("7", 3) == Costs{7, 7, 7});
    CHECK(read_claim_text("7,0,1000000000000000", 3) == Costs{7, 0, 1'000'000'000'000'000});
    for (const std::string wrong : {"", ",", "7,", ",7", "7,8", "7,8,9,1", "7,x,9", "-1", "7;8;9",
                                    " 7", "99999999999999999999"}) {
        CAPTURE(wrong);
        CHECK(read_claim_text(wrong, 3) == std::nullopt);
    }
}

TEST_CASE("settlement: each item is corrected by its own cost") {
    SettleRig rig;
    Reservation::Part part;
    for (std::uint32_t i = 0; i < 4; ++i) {
        part.items.push_back({"p", "", "user:" + std::to_string(i), 7, {{kHour.id, 9}}, i});
    }
    rig.reservation.costs = {{4}, {4}, {4}, {0}};
    const Costs costs{1, 4, 6, 2};
    const ReservedItems less = items_to_give_back(rig.reservation, part, costs, rig.config);
    REQUIRE(less.items.size() == 1);
    CHECK(less.items[0].identifier == "user:0");
    CHECK(less.items[0].own_cost == 3);
    CHECK(less.receipt.generations.size() == 1);
    const ReservedItems more = items_to_take(rig.reservation, part, costs, rig.config);
    REQUIRE(more.items.size() == 2);
    CHECK(more.items[0].identifier == "user:2");
    CHECK(more.items[0].own_cost == 2);
    CHECK(more.items[1].identifier == "user:3");
    CHECK(more.items[1].own_cost == 2);
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

TEST_CASE("settlement: limits that the reservation took nothing from are left alone") {
    for (const std::int64_t cost : {1, 9}) {
        CAPTURE(cost);
        SettleRig before;
        CHECK(before.settle(cost) == cost);
        SettleRig added;
        added.set_limits({kDay, kHour, test::window(5, 1s)});
        CHECK(added.settle(cost) == cost);
        CHECK(added.last() == before.last());
        SettleRig gone;
        gone.set_limits({kDay});
        CHECK(gone.settle(cost) == cost);
        CHECK(gone.last() == Words{"EVALSHA", std::string(settle_less_script().sha1), "1",
                                   kSecondClaim, "70000", std::to_string(cost)});
    }
}

TEST_CASE("settlement: a bucket gets back the time that it took under the quota of then") {
    auto spec = test::spec_of(limit::Algorithm::gcra, 100, 1h);
    const limit::Limit fast = test::made(spec);
    spec.quota = 10;
    const limit::Limit slow = test::made(spec);
    REQUIRE(fast.id == slow.id);
    SettleRig rig;
    rig.set_limits({slow});
    const Reservation::Part part{
        true, limit::Micros{1s}, {{"p", "", "user:alice", 7, {{fast.id, 100}}}}};
    rig.reservation.costs = {{40}};
    const ReservedItems back = items_to_give_back(rig.reservation, part, {0}, rig.config);
    REQUIRE(back.items.size() == 1);
    const limit::Limit& corrected = back.items[0].limits()[0];
    CHECK(limit::time_for(corrected, 40).us == limit::time_for(fast, 40).us);
    // What is spent now counts as the quota of now says.
    const ReservedItems more = items_to_take(rig.reservation, part, {41}, rig.config);
    CHECK(more.items[0].limits()[0].quota == 10);
    CHECK(more.items[0].own_cost == 1);
}

TEST_CASE(
    "settlement: of a group in shadow that denied, only what counted the denial is corrected") {
    auto spec = test::spec_of(limit::Algorithm::fixed_window, 5, 1h);
    spec.count = limit::Count::all;
    const limit::Limit counts_all = test::made(spec);
    const auto enforced = test::policy("p", {kHour, kDay});
    auto shadow = test::policy("s", {kHour, counts_all});
    shadow.shadow = true;
    LimitDecision decision;
    decision.items = {{&enforced, "user:a"}, {&shadow, "user:a"}};
    decision.cost = 6;
    decision.decided_by = StoreKind::redis;
    decision.verdict.receipt = {limit::Micros{1s}, {7, 0}};
    const auto taken_by = [&](std::size_t item) {
        std::vector<std::uint32_t> ids;
        const std::vector<std::uint32_t> cost_of_item{0, 0};
        const Reservation made = reservation_of(decision, {{decision.cost}}, cost_of_item);
        for (const auto& one : made.parts[0].items[item].limits) {
            ids.push_back(one.limit);
        }
        return ids;
    };
    CHECK(taken_by(0) == std::vector{kHour.id, kDay.id});
    CHECK(taken_by(1) == std::vector{counts_all.id});
    // A reservation of nothing may still be settled for more, by all of them.
    decision.cost = 0;
    decision.verdict.receipt.generations = {0, 0};
    CHECK(taken_by(0) == std::vector{kHour.id, kDay.id});
    CHECK(taken_by(1) == std::vector{kHour.id, counts_all.id});
}

namespace {

const Claim kOne{"0f", "user:a", "3", 1'500ms};

}  // namespace

TEST_CASE(
    "settle_script: a lower cost has the keys and argument of a refund, and a claim behind each") {
    const auto some = policy("p", {window(9, 1s)});
    const std::vector<ChargeItem> items{{&some, "user:a"}, {&some, "user:b"}};
    const limit::Receipt receipt{1s, {5, 6}};
    std::string out;
    append_settle_less_command(kOne, {{items, 2}, &receipt, Refund::Of::all, 0}, "tg:", Micros{9},
                               out);
    const auto words = words_of(out);
    REQUIRE(words.size() == 10);
    CHECK(words[0] == "EVALSHA");
    CHECK(words[1] == settle_less_script().sha1);
    CHECK(words[2] == "3");
    CHECK(words[3] == "tg:4:p:{user:a}");
    CHECK(words[4] == "tg:4:p:{user:b}");
    CHECK(words[5] == "tg:settled:0f:{user:a}");
    CHECK(words[6].starts_with('\x02' + doubles(5) + '\x01'));
    CHECK(words[7] == "9");
    CHECK(words[8] == "1500");
    CHECK(words[9] == "3");
}

TEST_CASE("settle_script: with nothing to give back, there is only the claim") {
    const auto some = policy("p", {window(9, 1s)});
    const ChargeItem item{&some, "user:a"};
    const std::vector<std::string> wanted{"EVALSHA", std::string(settle_less_script().sha1),
                                          "1",       "tg:settled:0f:{user:a}",
                                          "1500",    "3"};
    const auto words = [&](std::int64_t cost, std::uint64_t generation) {
        const limit::Receipt receipt{1s, {generation}};
        std::string out;
        append_settle_less_command(kOne, {{{&item, 1}, cost}, &receipt, Refund::Of::all, 0},
                                   "tg:", Micros{9}, out);
        return words_of(out);
    };
    CHECK(words(0, 5) == wanted);  // the cost was right
    CHECK(words(2, 0) == wanted);  // nothing was taken
}

TEST_CASE("settle_script: a higher cost has the keys and arguments of a charge, and a claim") {
    const auto some = policy("p", {window(9, 1s)});
    const ChargeItem item{&some, "user:a"};
    std::string out;
    append_settle_more_command(kOne, {{&item, 1}, 2}, "tg:", std::nullopt, out);
    const auto words = words_of(out);
    REQUIRE(words.size() == 9);
    CHECK(words[1] == settle_more_script().sha1);
    CHECK(words[2] == "2");
    CHECK(words[3] == "tg:4:p:{user:a}");
    CHECK(words[4] == "tg:settled:0f:{user:a}");
    CHECK(words[5].starts_with("\x01\x01"));
    CHECK(words[6] == doubles(2));
    CHECK(words[7] == "1500");
    CHECK(words[8] == "3");
}

// Reservations that were settled are remembered for as long as they could be settled.

TEST_CASE("settled ids: the first claim counts, and the others learn its cost, until it expires") {
    using State = SettledIds::Claim::State;
    SettledIds ids;
    const SettledIds::Time begin{1h};
    CHECK(ids.claim("a", {3, 5}, begin, begin + 60s).state == State::first);
    CHECK(ids.claim("a", {3, 5}, begin, begin + 60s).state == State::settling);
    ids.settled("a");
    for (const std::int64_t cost : {3, 4}) {
        const auto again = ids.claim("a", {cost, 5}, begin + 59s, begin + 60s);
        CHECK(again.state == State::settled);
        CHECK(again.costs == Costs{3, 5});
    }
    CHECK(ids.claim("b", {1}, begin + 59s, begin + 119s).state == State::first);
    // Long after that no process asks any more: an id is refused once it has expired.
    CHECK(ids.claim("c", {1}, begin + 100s, begin + 160s).state == State::first);
    CHECK(ids.claim("b", {1}, begin + 101s, begin + 119s).state == State::settling);
    CHECK(ids.claim("a", {4}, begin + 101s, begin + 119s).state == State::first);
}

TEST_CASE("settled ids: a settlement that could not be corrected is claimed anew, with any cost") {
    using State = SettledIds::Claim::State;
    SettledIds ids;
    const SettledIds::Time begin{1h};
    CHECK(ids.claim("a", {3}, begin, begin + 60s).state == State::first);
    ids.forget("a");
    CHECK(ids.claim("a", {4}, begin, begin + 60s).state == State::first);
    ids.settled("a");
    CHECK(ids.claim("a", {3}, begin, begin + 60s).costs == Costs{4});
}

}  // namespace tidegate::store::reservation_test
