#include "store/reservation.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
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

using limit::ChargeItem;
using limit::Limit;
using limit::Micros;
using redis::AwaitedCommand;

const limit::Tier* tier_of(const limit::Policy& policy, std::string_view name) {
    const auto found = std::find_if(policy.tiers.begin(), policy.tiers.end(),
                                    [&](const limit::Tier& tier) { return tier.name == name; });
    return found != policy.tiers.end() ? &*found : nullptr;
}

// A denied group has taken nothing, but for limits that count denied requests, too.
std::vector<Reservation::Taken> taken_from(const LimitDecision& decision,
                                           const limit::ChargeItem& item,
                                           std::uint64_t generation) {
    const bool all = generation != 0 || decision.charge().cost_of(item) == 0;
    std::vector<Reservation::Taken> taken;
    for (const Limit& limit : item.limits()) {
        if (!all && limit.count != limit::Count::all) continue;
        taken.push_back({limit.id, static_cast<std::uint32_t>(limit.quota)});
    }
    return taken;
}

std::uint32_t position_of(const ChargeItem& item, const LimitDecision& decision) {
    const auto found =
        std::find_if(decision.items.begin(), decision.items.end(), [&](const ChargeItem& one) {
            return one.policy == item.policy && one.identifier == item.identifier;
        });
    return static_cast<std::uint32_t>(found - decision.items.begin());
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

// Adds `item`, as far as the configuration still has it. `change(limit, taken)` makes each limit
// what the correction needs.
template <class Change>
void add_item(const Reservation::Item& item, std::int64_t own_cost, const config::Config& config,
              Change change, ReservedItems& made) {
    const Known known = find(item, config);
    std::vector<Limit> limits;
    for (const Limit& limit : known.limits) {
        const auto taken = std::find_if(item.limits.begin(), item.limits.end(),
                                        [&](const auto& one) { return one.limit == limit.id; });
        if (taken != item.limits.end()) change(limits.emplace_back(limit), *taken);
    }
    if (limits.empty()) return;
    auto policy = std::make_unique<limit::Policy>(*known.policy);
    policy->limits = std::move(limits);
    policy->tiers.clear();
    policy->index = known.index;
    made.items.push_back({policy.get(), item.identifier});
    made.items.back().own_cost = own_cost;
    made.receipt.generations.push_back(item.generation);
    made.policies.push_back(std::move(policy));
}

template <class Change>
ReservedItems items_of(const Reservation::Part& part, const config::Config& config, Change change) {
    ReservedItems made;
    made.receipt.at = part.at;
    for (const Reservation::Item& item : part.items) {
        add_item(item, ChargeItem::kOfCharge, config, change, made);
    }
    return made;
}

// For giving back `cost` units.
auto gives_back(std::int64_t cost) {
    return [cost](Limit& limit, const Reservation::Taken& taken) {
        limit::with_kind(limit.state(), [&]<class Kind>(std::type_identity<Kind>) {
            Kind::adapt_to_refund(limit, taken.quota, cost);
        });
    };
}

void counts_whatever_is_asked(Limit& limit, const Reservation::Taken&) {
    limit.count = limit::Count::all;
}

void append_settle_call(const redis::Script& script, std::size_t keys, std::size_t arguments,
                        std::string& out) {
    append_length('*', 3 + keys + arguments, out);
    append_string("EVALSHA", out);
    append_string(script.sha1, out);
    append_number(keys, out);
}

void append_claim_key(const Claim& claim, std::string_view prefix, std::string& out) {
    std::string key(prefix);
    key.append("settled:").append(claim.reservation);
    key.append(":{").append(claim.identifier).append("}");
    append_string(key, out);
}

void append_claim_arguments(const Claim& claim, std::string& out) {
    assert(claim.cost >= 0 && claim.kept_for.count() > 0);
    append_number(static_cast<std::uint64_t>(claim.kept_for.count()), out);
    append_number(static_cast<std::uint64_t>(claim.cost), out);
}

using CommandPtr = std::unique_ptr<AwaitedCommand>;

CommandPtr more_command(const RedisStore& redis, const Claim& claim, const limit::Charge& more,
                        Wakeup& wakeup) {
    std::string command;
    append_settle_more_command(claim, more, redis.key_prefix, redis.clock(), command);
    return std::make_unique<AwaitedCommand>(std::move(command), wakeup, &settle_more_script());
}

CommandPtr less_command(const RedisStore& redis, const Claim& claim, const limit::Refund& less,
                        Wakeup& wakeup) {
    std::string command;
    append_settle_less_command(claim, less, redis.key_prefix, redis.clock(), command);
    return std::make_unique<AwaitedCommand>(std::move(command), wakeup, &settle_less_script());
}

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

// Appends the commands that settle one part, under the name `claimed`, with `cost`. Two, where some
// items cost more than was reserved and others less: each has a claim of its own.
void append_settle_commands(const RedisStore& redis, const Settlement& settlement,
                            const Reservation::Part& part, std::string_view claimed,
                            std::int64_t cost, const config::Config& config, Wakeup& wakeup,
                            std::vector<CommandPtr>& commands) {
    const Reservation& reservation = settlement.reservation;
    // The identifier of the reservation, not of today's configuration: every process means one key.
    const Claim claim{claimed, part.items.front().identifier, cost, settlement.remembered_for};
    if (!settlement.costs.empty()) {
        const PartCorrection correction =
            correction_of(reservation, part, settlement.costs, config);
        const limit::Charge less{correction.less.items, 0, {}, reservation.moment};
        commands.push_back(less_command(redis, claim, {less, &correction.less.receipt}, wakeup));
        if (correction.more.items.empty()) return;
        const std::string second = std::string(claimed) + "m";
        commands.push_back(
            more_command(redis, {second, claim.identifier, claim.cost, claim.kept_for},
                         {correction.more.items, 0, {}, reservation.moment}, wakeup));
        return;
    }
    if (cost > reservation.cost) {
        const ReservedItems counted = items_to_take(part, config);
        if (!counted.items.empty()) {
            const std::int64_t units = cost - reservation.cost;
            commands.push_back(
                more_command(redis, claim, {counted.items, units, {}, reservation.moment}, wakeup));
            return;
        }
    }
    const std::int64_t units = std::max<std::int64_t>(0, reservation.cost - cost);
    const ReservedItems reserved = items_to_give_back(part, reservation.cost, config);
    const limit::Charge less{reserved.items, units, {}, reservation.moment};
    commands.push_back(less_command(redis, claim, {less, &reserved.receipt}, wakeup));
}

// Null: it was not sent.
CommandPtr send_to_slot(const RedisStore& redis, const Reservation::Part& part,
                        CommandPtr command) {
    const std::uint16_t slot = redis::slot_of_tag(part.items.front().identifier);
    if (redis.servers.send(*command, slot)) return nullptr;
    return command;
}

// The cost that Redis has answered. Requires a command that is done, or null.
std::optional<std::int64_t> settled_cost(const CommandPtr& command) {
    if (!command || !command->reply()) return std::nullopt;
    const redis::Reply& reply = *command->reply();
    std::int64_t cost = 0;
    const char* const end = reply.text.data() + reply.text.size();
    const auto [stop, fault] = std::from_chars(reply.text.data(), end, cost);
    const bool is_number = fault == std::errc() && stop == end && cost >= 0;
    if (reply.kind != redis::Reply::Kind::string || !is_number) return std::nullopt;
    return cost;
}

}  // namespace

Reservation reservation_of(const LimitDecision& decision) {
    Reservation made;
    made.cost = decision.cost;
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
                                  taken_from(decision, item, generation), item.own_cost,
                                  position_of(item, decision)});
        }
    });
    return made;
}

ReservedItems items_to_give_back(const Reservation::Part& part, std::int64_t cost,
                                 const config::Config& config) {
    return items_of(part, config, gives_back(cost));
}

ReservedItems items_to_take(const Reservation::Part& part, const config::Config& config) {
    return items_of(part, config, counts_whatever_is_asked);
}

PartCorrection correction_of(const Reservation& reservation, const Reservation::Part& part,
                             std::span<const std::int64_t> costs, const config::Config& config) {
    PartCorrection made;
    made.less.receipt.at = made.more.receipt.at = part.at;
    for (const Reservation::Item& item : part.items) {
        const std::int64_t reserved =
            item.own_cost == ChargeItem::kOfCharge ? reservation.cost : item.own_cost;
        const std::int64_t truly = item.position < costs.size() ? costs[item.position] : -1;
        if (truly < 0 || truly == reserved) continue;
        if (truly < reserved) {
            add_item(item, reserved - truly, config, gives_back(reserved), made.less);
        } else {
            add_item(item, truly - reserved, config, counts_whatever_is_asked, made.more);
        }
    }
    return made;
}

SettledIds::Claim SettledIds::claim(const std::string& id, std::int64_t cost, Time now,
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
        return {entry.is_settled ? State::settled : State::settling, entry.cost};
    }
    if (ids_.size() >= kIdsMax) return {State::full};
    ids_.emplace(id, Entry{cost, until});
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
    append_settle_call(settle_less_script(), keys + 1, arguments, out);
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
    append_settle_call(settle_more_script(), keys + 1, 4 + (clock ? 1 : 0), out);
    append_reading_keys(charge.items, prefix, out);
    append_claim_key(claim, prefix, out);
    append_charge_arguments({&charge, 1}, clock, out);
    append_clock(clock, out);
    append_claim_arguments(claim, out);
}

Task<std::optional<std::int64_t>> settle_in_redis(const RedisStore& redis,
                                                  const Settlement& settlement,
                                                  const config::Config& config, Wakeup& wakeup) {
    const std::vector<const Reservation::Part*> parts = parts_in_redis(settlement.reservation);
    std::vector<CommandPtr> sent;
    std::optional<std::int64_t> cost = settlement.cost;
    bool is_ours = true;  // the first slot has settled with this cost
    for (std::size_t i = 0; i < parts.size() && is_ours; ++i) {
        const std::string claimed = claim_name(settlement.id, parts, i);
        std::vector<CommandPtr> commands;
        append_settle_commands(redis, settlement, *parts[i], claimed, *cost, config, wakeup,
                               commands);
        for (std::size_t k = 0; k < commands.size() && is_ours; ++k) {
            sent.push_back(send_to_slot(redis, *parts[i], std::move(commands[k])));
            if (sent.size() > 1) continue;
            while (sent[0] && !sent[0]->done()) co_await wakeup.wait();
            cost = settled_cost(sent[0]);
            // With other costs of the items: what each cost then is not known here.
            is_ours = cost && (settlement.costs.empty() || *cost == settlement.cost);
        }
    }
    const auto is_under_way = [](const CommandPtr& one) { return one && !one->done(); };
    while (std::any_of(sent.begin(), sent.end(), is_under_way)) co_await wakeup.wait();
    if (!cost) co_return std::nullopt;
    for (const CommandPtr& one : sent) {
        const std::optional<std::int64_t> answered = settled_cost(one);
        if (!answered) co_return std::nullopt;
        // The first slot has lost its claim: that of another slot is older.
        if (*answered != *cost) co_return answered;
    }
    co_return cost;
}

}  // namespace tidegate::store
