// Random traces through a real Redis Cluster, the parts of each request joined as the limiter does:
// no window of any limit may ever hold more than its quota, wherever its identifiers lie.
// TIDEGATE_CLUSTER_TRACES is how many, TIDEGATE_SEED which.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>

#include "cluster_world.hpp"
#include "redis/cluster_map.hpp"
#include "store/charge_script.hpp"
#include "store/cross_slot_charge.hpp"
#include "store/model.hpp"
#include "store/refund.hpp"
#include "store/safety.hpp"
#include "store/scripts.hpp"
#include "store/stores.hpp"
#include "store/trace.hpp"

namespace tidegate::test::cluster_traces_test {
namespace {

using limit::ChargeItem;
using limit::Verdict;
using store::CrossSlotVerdict;

constexpr std::string_view kPrefix = "t:";

std::uint16_t slot_of(const ChargeItem& item) {
    return redis::slot_of_tag(item.identifier);
}

class ClusterSubject : public Subject {
  public:
    ClusterSubject() : world_({.masters = 3}) {
        for (std::size_t i = 0; i < world_.size(); ++i) {
            connections_.push_back(std::make_unique<RedisConnection>(world_.node(i).port()));
            for (const std::uint16_t slot : world_.slots_of(i)) owners_[slot] = i;
            for (const redis::Script* script : store::all_scripts()) {
                connections_[i]->command({"SCRIPT", "LOAD", std::string(script->text)});
            }
        }
    }

    Verdict charge(const limit::Charge& charge, Micros now) override {
        verdict_.begin(charge.items, charge.cost, slot_of);
        for (CrossSlotVerdict::Part& part : verdict_.parts()) ask(part, charge, now);
        if (verdict_.next(true) != CrossSlotVerdict::Next::end) throw std::runtime_error("no end");
        Verdict verdict;
        std::vector<ChargeItem> decided;
        verdict_.merge(verdict, decided);
        verdict.receipt.at = now;
        verdict.receipt.generations.assign(charge.items.size(), 0);
        bool any_back = false;
        for (CrossSlotVerdict::Part& part : verdict_.parts()) {
            any_back = give_back_part(part, charge, now) || any_back;
            for (std::size_t i = 0; i < part.positions.size(); ++i) {
                verdict.receipt.generations[part.positions[i]] =
                    part.verdict.receipt.generations[i];
            }
        }
        crossing += verdict_.parts().size() > 1 ? 1 : 0;
        given_back += any_back ? 1 : 0;
        return verdict;
    }

    void give_back(const limit::Refund& refund, Micros now) override {
        const limit::Charge& charge = refund.charge;
        verdict_.begin(charge.items, charge.cost, slot_of);
        for (const CrossSlotVerdict::Part& part : verdict_.parts()) {
            limit::Receipt receipt{refund.receipt->at, {}};
            for (const std::size_t place : part.positions) {
                receipt.generations.push_back(refund.receipt->generations[place]);
            }
            return_to(part.slot, {part_of(part, charge), &receipt, refund.of, refund.status}, now);
        }
    }

    void release(const limit::Charge& charge, Micros) override {
        verdict_.begin(charge.items, charge.cost, slot_of);
        for (const CrossSlotVerdict::Part& part : verdict_.parts()) {
            release_slots(part.slot, part_of(part, charge));
        }
    }

    ClusterWorld& world() { return world_; }
    std::size_t owner_of(std::uint16_t slot) const { return owners_[slot]; }
    void forget_all() { world_.command_all({"FLUSHALL"}); }

    std::uint64_t crossing = 0;    // charges over several slots
    std::uint64_t given_back = 0;  // of which something was

  private:
    static limit::Charge part_of(const CrossSlotVerdict::Part& part, const limit::Charge& charge) {
        return {part.items, charge.cost, charge.slot_hold, charge.moment};
    }

    void ask(CrossSlotVerdict::Part& part, const limit::Charge& whole, Micros now) {
        const limit::Charge charge = part_of(part, whole);
        std::string command;
        store::append_charge_command({&charge, 1}, kPrefix, now, command);
        const Reply reply = run(part.slot, command);
        Verdict* const verdict = &part.verdict;
        if (reply->type != REDIS_REPLY_STRING ||
            !store::read_charge_reply({reply->str, reply->len}, {&charge, 1}, {&verdict, 1})) {
            throw std::runtime_error("no verdict: " + std::string(reply->str ? reply->str : "?"));
        }
        CrossSlotVerdict::answered(part);
    }

    // As the limiter: what is given back leaves the receipt.
    bool give_back_part(CrossSlotVerdict::Part& part, const limit::Charge& charge, Micros now) {
        limit::Receipt& receipt = part.verdict.receipt;
        limit::Receipt given = receipt;
        bool any = false;
        for (std::size_t i = 0; i < part.items.size(); ++i) {
            const bool goes_back = verdict_.gives_back(part, i);
            any = any || goes_back;
            (goes_back ? receipt : given).generations[i] = 0;
        }
        if (!any) return false;
        return_to(part.slot, {part_of(part, charge), &given, limit::Refund::Of::all, 0}, now);
        return true;
    }

    void return_to(std::uint16_t slot, const limit::Refund& refund, Micros now) {
        if (refund.of == limit::Refund::Of::all) {
            std::vector<ChargeItem> taken;
            for (std::size_t i = 0; i < refund.charge.items.size(); ++i) {
                const ChargeItem& item = refund.charge.items[i];
                const bool is_given = refund.charge.cost_of(item) > 0;
                if (refund.receipt->generations[i] != 0 && is_given) taken.push_back(item);
            }
            release_slots(slot, {taken, refund.charge.cost, refund.charge.slot_hold});
        }
        std::string command;
        if (!store::append_refund_command(refund, kPrefix, now, command)) return;
        expect_integer(run(slot, command));
    }

    void release_slots(std::uint16_t slot, const limit::Charge& charge) {
        for (const std::string& command : store::release_commands(charge, kPrefix)) {
            expect_integer(run(slot, command));
        }
    }

    static void expect_integer(const Reply& reply) {
        if (reply->type == REDIS_REPLY_INTEGER) return;
        throw std::runtime_error("not an integer: " + std::string(reply->str ? reply->str : "?"));
    }

    Reply run(std::uint16_t slot, const std::string& command) {
        RedisConnection& connection = *connections_[owners_[slot]];
        connection.send(command);
        return connection.read();
    }

    ClusterWorld world_;
    std::vector<std::unique_ptr<RedisConnection>> connections_;
    std::array<std::size_t, redis::kSlots> owners_{};
    CrossSlotVerdict verdict_;
};

class ModelSubject : public Subject {
  public:
    Verdict charge(const limit::Charge& charge, Micros now) override {
        return model_.charge(charge, now);
    }
    void give_back(const limit::Refund& refund, Micros now) override {
        model_.give_back(refund, now);
    }
    void release(const limit::Charge& charge, Micros) override { model_.release(charge); }

  private:
    Model model_{true};
};

std::uint64_t setting(const char* name, std::uint64_t fallback) {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

// A request that asks for one limit of the policy of one user.
struct AskOne {
    AskOne(const limit::Policy& policy, Micros moment, std::uint64_t request)
        : items{{&policy, "user:alice"}}, moment_(moment), request_(request) {}
    limit::Charge charge() const { return {items, 1, {1, request_}, moment_}; }

    std::vector<ChargeItem> items;
    Micros moment_;
    std::uint64_t request_;
};

}  // namespace

// While a slot moves away a key that is gone from it is not made anew: a script that empties a set
// and then fills it would stop half way.
TEST_CASE("in a cluster: sorted sets are charged and given back while their slot moves") {
    ClusterSubject cluster;
    limit::LimitSpec schedule;
    schedule.algorithm = limit::Algorithm::schedule;
    schedule.quota = 2;
    schedule.duration = std::chrono::minutes{1};
    limit::LimitSpec slots;
    slots.algorithm = limit::Algorithm::concurrency;
    slots.quota = 3;
    const limit::Policy both = policy("p", {made(schedule), made(slots)});
    const Micros moment = kStart + std::chrono::seconds{10};
    const AskOne first(both, moment, 1);
    const AskOne second(both, moment, 2);
    const AskOne third(both, moment, 3);
    const Verdict one = cluster.charge(first.charge(), kStart);
    CHECK(one.admitted);
    const std::uint16_t slot = redis::slot_of_tag("user:alice");
    const std::size_t from = cluster.owner_of(slot);
    const std::size_t to = (from + 1) % 3;
    ClusterWorld& world = cluster.world();
    world.begin_move({slot}, from, to);
    // The only slot has run out and is swept, the only moment is written anew.
    const Micros later = kStart + limit::kSlotTime + std::chrono::seconds{1};
    const AskOne late(both, later, 2);
    CHECK(cluster.charge(late.charge(), later).admitted);
    CHECK_FALSE(cluster.charge(AskOne(both, later, 4).charge(), later).admitted);
    SUBCASE("two moments in one member, one of them given back") {
        cluster.forget_all();
        world.end_move({slot}, from, from);
        const Verdict took = cluster.charge(first.charge(), kStart);
        CHECK(cluster.charge(second.charge(), kStart).admitted);
        world.begin_move({slot}, from, to);
        cluster.give_back({first.charge(), &took.receipt, limit::Refund::Of::all, 0}, kStart);
        world.end_move({slot}, from, from);
        CHECK(cluster.charge(third.charge(), kStart).admitted);
        CHECK_FALSE(cluster.charge(AskOne(both, moment, 5).charge(), kStart).admitted);
    }
}

TEST_CASE("in a cluster: random traces never get more than a limit allows") {
    const std::uint64_t traces = setting("TIDEGATE_CLUSTER_TRACES", 1'500);
    const std::uint64_t seed = setting("TIDEGATE_SEED", std::random_device{}());
    MESSAGE("TIDEGATE_SEED=" << seed << " TIDEGATE_CLUSTER_TRACES=" << traces);
    ClusterSubject cluster;
    std::uint64_t charges = 0;
    std::uint64_t admitted = 0;
    std::uint64_t as_the_model = 0;
    for (std::uint64_t i = 0; i < traces; ++i) {
        // The limiter draws a new hold for each request, so what it gives back was never
        // another's.
        const Trace trace(seed + i, Limits::all, Holds::own);
        const auto begin = std::chrono::steady_clock::now();
        const auto verdicts = play(trace, cluster);
        if (may_have_lost_keys(begin)) continue;
        ModelSubject model;
        const auto expected = play(trace, model);
        // Where the clock is put back, a slot of concurrency that had run out would be held again,
        // had not a request swept it that was then given back: these traces prove nothing here.
        const bool steady = trace.clock() == Clock::steady;
        const std::string fault = steady ? unsafe(trace, verdicts, true) : "";
        if (!fault.empty()) {
            FAIL("TIDEGATE_SEED=" << seed + i << " TIDEGATE_CLUSTER_TRACES=1, " << fault);
        }
        for (std::size_t step = 0; step < verdicts.size(); ++step) {
            if (trace.steps()[step].kind != Step::Kind::charge) continue;
            ++charges;
            admitted += verdicts[step].admitted ? 1 : 0;
            as_the_model += verdicts[step].admitted == expected[step].admitted ? 1 : 0;
        }
        if (i % 300 == 0) cluster.forget_all();
    }
    MESSAGE(charges << " charges, " << admitted << " admitted, " << cluster.crossing
                    << " over several slots, " << cluster.given_back << " given back, "
                    << charges - as_the_model << " not as one Redis would have decided");
    CHECK(cluster.crossing * 10 > charges);
    CHECK(cluster.given_back * 50 > charges);
    CHECK(admitted * 10 > charges);
    // One after the other, as here, giving back leaves next to no trace.
    CHECK(as_the_model * 100 >= charges * 95);
}

}  // namespace tidegate::test::cluster_traces_test
