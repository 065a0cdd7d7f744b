#include "store/settlement.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "redis/awaited_command.hpp"
#include "redis/cluster_map.hpp"
#include "store/scripts.hpp"
#include "store/settle_script.hpp"

namespace tidegate::store {

namespace {

using redis::AwaitedCommand;
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

// The command that settles one part, under the name `claimed`, with `cost`.
CommandPtr settle_command(const RedisStore& redis, const Settlement& settlement,
                          const Reservation::Part& part, std::string_view claimed,
                          std::int64_t cost, const config::Config& config, Wakeup& wakeup) {
    const Reservation& reservation = settlement.reservation;
    // The identifier of the reservation, not of today's configuration: every process means one key.
    const Claim claim{claimed, part.items.front().identifier, cost, settlement.remembered_for};
    std::string command;
    if (cost > reservation.cost) {
        const ReservedItems counted = items_to_take(part, config);
        if (!counted.items.empty()) {
            const limit::Charge more{
                counted.items, cost - reservation.cost, {}, reservation.moment};
            append_settle_more_command(claim, more, redis.key_prefix, redis.clock(), command);
            return std::make_unique<AwaitedCommand>(std::move(command), wakeup,
                                                    &settle_more_script());
        }
    }
    const std::int64_t units = std::max<std::int64_t>(0, reservation.cost - cost);
    const ReservedItems reserved = items_to_give_back(part, reservation.cost, config);
    const limit::Refund less{{reserved.items, units, {}, reservation.moment}, &reserved.receipt};
    append_settle_less_command(claim, less, redis.key_prefix, redis.clock(), command);
    return std::make_unique<AwaitedCommand>(std::move(command), wakeup, &settle_less_script());
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

Task<std::optional<std::int64_t>> settle_in_redis(const RedisStore& redis,
                                                  const Settlement& settlement,
                                                  const config::Config& config, Wakeup& wakeup) {
    const std::vector<const Reservation::Part*> parts = parts_in_redis(settlement.reservation);
    std::vector<CommandPtr> sent;
    std::optional<std::int64_t> cost = settlement.cost;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string claimed = claim_name(settlement.id, parts, i);
        CommandPtr command =
            settle_command(redis, settlement, *parts[i], claimed, *cost, config, wakeup);
        sent.push_back(send_to_slot(redis, *parts[i], std::move(command)));
        if (sent.size() > 1) continue;
        while (sent[0] && !sent[0]->done()) co_await wakeup.wait();
        cost = settled_cost(sent[0]);
        if (!cost) co_return std::nullopt;
    }
    const auto is_under_way = [](const CommandPtr& one) { return one && !one->done(); };
    while (std::any_of(sent.begin(), sent.end(), is_under_way)) co_await wakeup.wait();
    for (const CommandPtr& one : sent) {
        const std::optional<std::int64_t> answered = settled_cost(one);
        if (!answered) co_return std::nullopt;
        // The first slot has lost its claim: that of another slot is older.
        if (*answered != *cost) co_return answered;
    }
    co_return cost;
}

}  // namespace tidegate::store
