#include "store/reservation.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "limit/kinds.hpp"
#include "redis/client.hpp"
#include "redis/cluster_map.hpp"
#include "store/charge_script.hpp"
#include "store/cross_slot_charge.hpp"
#include "store/refund.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::Limit;
using limit::Micros;
using redis::AwaitedCommand;

const limit::Tier* tier_of(const limit::Policy& policy, std::string_view name) {
    const auto found = std::find_if(policy.tiers.begin(), policy.tiers.end(),
                                    [&](const limit::Tier& tier) { return tier.name == name; });
    return found != policy.tiers.end() ? &*found : nullptr;
}

// A denied group has taken nothing, but for limits that count denied requests, too.
std::vector<Reservation::Taken> taken_from(const limit::ChargeItem& item, std::int64_t cost,
                                           std::uint64_t generation) {
    const bool all = generation != 0 || cost == 0;
    std::vector<Reservation::Taken> taken;
    for (const Limit& limit : item.limits()) {
        if (!all && limit.count != limit::Count::all) continue;
        taken.push_back({limit.id, limit.quota});
    }
    return taken;
}

std::size_t position_in(const LimitDecision& decision, const limit::ChargeItem& item) {
    const auto found =
        std::find_if(decision.items.begin(), decision.items.end(), [&](const auto& one) {
            return one.policy == item.policy && one.identifier == item.identifier;
        });
    assert(found != decision.items.end());
    return static_cast<std::size_t>(found - decision.items.begin());
}

// The limits that the configuration has for `item` now; none if its policy or tier is gone.
struct Known {
    const limit::Policy* policy = nullptr;
    std::span<const Limit> limits{};
    std::uint32_t index = 0;  // of this list of limits
};

Known find(const Reservation::Item& item, const config::Config& config) {
    const auto policy = std::find_if(config.policies.begin(), config.policies.end(),
                                     [&](const auto& one) { return one->name == item.policy; });
    if (policy == config.policies.end()) return {};
    const limit::Tier* const tier = tier_of(**policy, item.tier);
    if (tier == nullptr && !item.tier.empty()) return {};
    if (tier != nullptr) return {policy->get(), tier->limits, tier->index};
    return {policy->get(), (*policy)->limits, (*policy)->index};
}

// `difference(item)` is what the item corrects; 0: nothing. `change(limit, taken, item)` makes each
// limit what the correction needs.
template <class Difference, class Change>
ReservedItems items_of(const Reservation::Part& part, const config::Config& config,
                       Difference difference, Change change) {
    ReservedItems made;
    made.receipt.at = part.at;
    for (const Reservation::Item& item : part.items) {
        const std::int64_t units = difference(item);
        if (units <= 0) continue;
        const Known known = find(item, config);
        std::vector<Limit> limits;
        for (const Limit& limit : known.limits) {
            const auto taken = std::find_if(item.limits.begin(), item.limits.end(),
                                            [&](const auto& one) { return one.limit == limit.id; });
            if (taken != item.limits.end()) change(limits.emplace_back(limit), *taken, item);
        }
        if (limits.empty()) continue;
        auto policy = std::make_unique<limit::Policy>(*known.policy);
        policy->limits = std::move(limits);
        policy->tiers.clear();
        policy->index = known.index;
        // The copy is charged for itself.
        policy->candidate_of = policy->twin_of = nullptr;
        policy->has_candidate = false;
        made.items.push_back({.policy = policy.get(), .identifier = item.identifier});
        made.items.back().own_cost = units;
        made.receipt.generations.push_back(item.generation);
        made.policies.push_back(std::move(policy));
    }
    return made;
}

void append_claim_key(const Claim& claim, std::string_view prefix, std::string& out) {
    std::string key(prefix);
    key.append("settled:").append(claim.reservation);
    key.append(":{").append(claim.identifier).append("}");
    append_string(key, out);
}

void append_claim_arguments(const Claim& claim, std::string& out) {
    assert(!claim.costs.empty() && claim.kept_for.count() > 0);
    append_number(static_cast<std::uint64_t>(claim.kept_for.count()), out);
    append_string(claim.costs, out);
}

using CommandPtr = std::unique_ptr<AwaitedCommand>;

std::vector<const Reservation::Part*> parts_in_redis(const Reservation& reservation) {
    std::vector<const Reservation::Part*> parts;
    for (const Reservation::Part& part : reservation.parts) {
        if (part.in_redis) parts.push_back(&part);
    }
    return parts;
}

// The name of a part among all: two that were charged one after the other may have one identifier.
std::string claim_name(std::string_view reservation,
                       std::span<const Reservation::Part* const> parts, std::size_t position) {
    const auto identifier_of = [&](std::size_t i) -> const std::string& {
        return parts[i]->items.front().identifier;
    };
    std::string name(reservation);
    for (std::size_t i = 0; i < position; ++i) {
        if (identifier_of(i) == identifier_of(position)) name += "+";
    }
    return name;
}

// Settles the parts of a reservation, each in its slot.
class SlotSettling {
  public:
    SlotSettling(const RedisStore& redis, const Settlement& settlement,
                 const config::Config& config, Wakeup& wakeup)
        : redis_(redis), settlement_(settlement), config_(config), wakeup_(wakeup) {}

    // The command that decides the costs of the part and corrects what has cost less, or if nothing
    // has, what has cost more. Null: it was not sent.
    CommandPtr send_first(const Reservation::Part& part, std::string_view claimed,
                          const Costs& costs) const {
        const bool gives = has(part, costs, std::less<>());
        const bool takes = has(part, costs, std::greater<>());
        return takes && !gives ? send_more(part, claimed, costs) : send_less(part, claimed, costs);
    }
    // Whether the part needs a second one, which takes once the first has given back.
    bool needs_second(const Reservation::Part& part, const Costs& costs) const {
        return has(part, costs, std::less<>()) && has(part, costs, std::greater<>());
    }
    CommandPtr send_second(const Reservation::Part& part, std::string_view claimed,
                           const Costs& costs) const {
        return send_more(part, std::string(claimed) + ".more", costs);
    }

    // The costs that Redis has answered. Requires a command that is done, or null.
    std::optional<Costs> costs_of(const CommandPtr& command) const {
        if (!command || !command->reply()) return std::nullopt;
        const redis::Reply& reply = *command->reply();
        if (reply.kind != redis::Reply::Kind::string) return std::nullopt;
        const std::string_view text = reply.text.substr(is_first(command) ? 1 : 0);
        return read_claim_text(text, settlement_.reservation.costs.size());
    }
    // Whether that command has settled its slot, as none did before. The same requirement.
    static bool is_first(const CommandPtr& command) {
        return command && command->reply() && command->reply()->text.starts_with('+');
    }

  private:
    // Whether an item has a true cost that compares so with what it reserved.
    template <class Compare>
    bool has(const Reservation::Part& part, const Costs& costs, Compare compare) const {
        return std::any_of(part.items.begin(), part.items.end(), [&](const auto& item) {
            return compare(costs[item.cost], settlement_.reservation.costs[item.cost].units);
        });
    }

    // The identifier of the reservation, not of today's configuration: every process means one key.
    Claim claim_of(const Reservation::Part& part, std::string_view claimed,
                   std::string_view costs) const {
        return {claimed, part.items.front().identifier, costs, settlement_.remembered_for};
    }

    CommandPtr send_less(const Reservation::Part& part, std::string_view claimed,
                         const Costs& costs) const {
        const Reservation& reservation = settlement_.reservation;
        const ReservedItems less = items_to_give_back(reservation, part, costs, config_);
        const limit::Refund refund{{less.items, 0, {}, reservation.moment}, &less.receipt};
        const std::string text = claim_text(costs);
        std::string command;
        append_settle_less_command(claim_of(part, claimed, text), refund, redis_.key_prefix,
                                   redis_.clock(), command);
        return send(part, settle_less_script(), std::move(command));
    }

    CommandPtr send_more(const Reservation::Part& part, std::string_view claimed,
                         const Costs& costs) const {
        const Reservation& reservation = settlement_.reservation;
        const ReservedItems more = items_to_take(reservation, part, costs, config_);
        const std::string text = claim_text(costs);
        const Claim claim = claim_of(part, claimed, text);
        std::string command;
        if (more.items.empty()) {
            append_settle_less_command(claim, {{}, &more.receipt}, redis_.key_prefix,
                                       redis_.clock(), command);
            return send(part, settle_less_script(), std::move(command));
        }
        append_settle_more_command(claim, {more.items, 0, {}, reservation.moment},
                                   redis_.key_prefix, redis_.clock(), command);
        return send(part, settle_more_script(), std::move(command));
    }

    CommandPtr send(const Reservation::Part& part, const redis::Script& script,
                    std::string text) const {
        auto command = std::make_unique<AwaitedCommand>(std::move(text), wakeup_, &script);
        const std::uint16_t slot = redis::slot_of_tag(part.items.front().identifier);
        if (redis_.servers.send(*command, slot)) return nullptr;
        return command;
    }

    const RedisStore& redis_;
    const Settlement& settlement_;
    const config::Config& config_;
    Wakeup& wakeup_;
};

bool is_under_way(const CommandPtr& command) {
    return command && !command->done();
}

Task<> await_all(const std::vector<CommandPtr>& sent, Wakeup& wakeup) {
    while (std::any_of(sent.begin(), sent.end(), is_under_way)) co_await wakeup.wait();
}

}  // namespace

Reservation reservation_of(const LimitDecision& decision, std::vector<Reservation::Cost> costs,
                           std::span<const std::uint32_t> cost_of_item) {
    Reservation made;
    made.costs = std::move(costs);
    made.moment = decision.moment;
    for_each_admission(decision, [&](const Admission& admission) {
        Reservation::Part& part = made.parts.emplace_back();
        part.in_redis = admission.in_redis;
        part.at = admission.receipt.at;
        for (std::size_t i = 0; i < admission.charge.items.size(); ++i) {
            const limit::ChargeItem& item = admission.charge.items[i];
            const auto& generations = admission.receipt.generations;
            const std::uint64_t generation = i < generations.size() ? generations[i] : 0;
            part.items.push_back({item.policy->name, item.tier != nullptr ? item.tier->name : "",
                                  std::string(item.identifier), generation,
                                  taken_from(item, admission.charge.cost_of(item), generation),
                                  cost_of_item[position_in(decision, item)]});
        }
    });
    return made;
}

ReservedItems items_to_give_back(const Reservation& reservation, const Reservation::Part& part,
                                 const Costs& costs, const config::Config& config) {
    const auto reserved = [&](const Reservation::Item& item) {
        return reservation.costs[item.cost].units;
    };
    return items_of(
        part, config, [&](const auto& item) { return reserved(item) - costs[item.cost]; },
        [&](Limit& limit, const Reservation::Taken& taken, const Reservation::Item& item) {
            limit::with_kind(limit.state(), [&]<class Kind>(std::type_identity<Kind>) {
                Kind::adapt_to_refund(limit, taken.quota, reserved(item));
            });
        });
}

ReservedItems items_to_take(const Reservation& reservation, const Reservation::Part& part,
                            const Costs& costs, const config::Config& config) {
    return items_of(
        part, config,
        [&](const auto& item) { return costs[item.cost] - reservation.costs[item.cost].units; },
        [](Limit& limit, const Reservation::Taken&, const Reservation::Item&) {
            limit.count = limit::Count::all;
        });
}

std::string claim_text(const Costs& costs) {
    const bool is_one = std::all_of(costs.begin(), costs.end(),
                                    [&](std::int64_t cost) { return cost == costs.front(); });
    std::string text;
    for (const std::int64_t cost : std::span(costs).first(is_one ? 1 : costs.size())) {
        if (!text.empty()) text += ',';
        text += std::to_string(cost);
    }
    return text;
}

std::optional<Costs> read_claim_text(std::string_view text, std::size_t count) {
    Costs costs;
    const char* at = text.data();
    const char* const end = at + text.size();
    for (;;) {
        std::int64_t cost = 0;
        const auto [stop, fault] = std::from_chars(at, end, cost);
        if (fault != std::errc() || cost < 0) return std::nullopt;
        costs.push_back(cost);
        if (stop == end) break;
        if (*stop != ',') return std::nullopt;
        at = stop + 1;
    }
    if (costs.size() == 1) costs.resize(count, costs.front());
    if (costs.size() != count) return std::nullopt;
    return costs;
}

SettledIds::Claim SettledIds::claim(const std::string& id, const Costs& costs, Time now,
                                    Time until) {
    using State = Claim::State;
    constexpr std::chrono::seconds kSweepIdsEvery{10};
    const std::lock_guard lock(mutex_);
    if (now - swept_ >= kSweepIdsEvery) {
        swept_ = now;
        std::erase_if(ids_, [&](const auto& one) { return one.second.until <= now; });
    }
    if (const auto known = ids_.find(id); known != ids_.end()) {
        const Entry& entry = known->second;
        return {entry.is_settled ? State::settled : State::settling, entry.costs};
    }
    if (ids_.size() >= kIdsMax) return {State::full};
    ids_.emplace(id, Entry{costs, until});
    return {State::first};
}

void SettledIds::settled(const std::string& id) {
    const std::lock_guard lock(mutex_);
    if (const auto known = ids_.find(id); known != ids_.end()) known->second.is_settled = true;
}

void SettledIds::forget(const std::string& id) {
    const std::lock_guard lock(mutex_);
    ids_.erase(id);
}

void append_settle_less_command(const Claim& claim, const limit::Refund& refund,
                                std::string_view prefix, std::optional<Micros> clock,
                                std::string& out) {
    const std::size_t keys = refund_keys(refund);
    const bool corrects = keys > 0;
    const std::size_t arguments = corrects ? 3 + (clock ? 1 : 0) : 2;
    redis::append_evalsha(settle_less_script(), keys + 1, arguments, out);
    if (corrects) append_refund_keys(refund, prefix, out);
    append_claim_key(claim, prefix, out);
    if (corrects) {
        append_refund_argument(refund, out);
        append_clock(clock, out);
    }
    append_claim_arguments(claim, out);
}

void append_settle_more_command(const Claim& claim, const limit::Charge& charge,
                                std::string_view prefix, std::optional<Micros> clock,
                                std::string& out) {
    assert(!charge.items.empty() && charge.takes());
    const std::size_t keys = reading_keys(charge.items);
    redis::append_evalsha(settle_more_script(), keys + 1, 4 + (clock ? 1 : 0), out);
    append_reading_keys(charge.items, prefix, out);
    append_claim_key(claim, prefix, out);
    append_charge_arguments({&charge, 1}, clock, out);
    append_clock(clock, out);
    append_claim_arguments(claim, out);
}

Task<std::optional<SettledCosts>> settle_in_redis(const RedisStore& redis,
                                                  const Settlement& settlement,
                                                  const config::Config& config, Wakeup& wakeup) {
    const std::vector<const Reservation::Part*> parts = parts_in_redis(settlement.reservation);
    const SlotSettling slots(redis, settlement, config, wakeup);
    std::vector<std::string> names;
    std::vector<CommandPtr> sent;
    Costs costs = settlement.costs;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        names.push_back(claim_name(settlement.id, parts, i));
        sent.push_back(slots.send_first(*parts[i], names[i], costs));
        if (i > 0) continue;
        co_await await_all(sent, wakeup);
        auto decided = slots.costs_of(sent[0]);
        if (!decided) co_return std::nullopt;
        costs = std::move(*decided);
    }
    co_await await_all(sent, wakeup);
    std::vector<CommandPtr> second;
    std::vector<Costs> settled;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        auto decided = slots.costs_of(sent[i]);
        if (!decided) co_return std::nullopt;
        settled.push_back(std::move(*decided));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!slots.needs_second(*parts[i], settled[i])) continue;
        second.push_back(slots.send_second(*parts[i], names[i], settled[i]));
    }
    co_await await_all(second, wakeup);
    for (const CommandPtr& one : second) {
        auto taken = slots.costs_of(one);
        if (!taken) co_return std::nullopt;
        settled.push_back(std::move(*taken));
    }
    // The first slot has lost its claim: that of another slot is older.
    const auto other = std::find_if(settled.begin(), settled.end(),
                                    [&](const Costs& one) { return one != costs; });
    co_return SettledCosts{other != settled.end() ? *other : costs, slots.is_first(sent[0])};
}

}  // namespace tidegate::store
