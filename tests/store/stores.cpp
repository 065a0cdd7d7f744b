#include "store/stores.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

#include <hiredis/hiredis.h>

#include "store/charge_script.hpp"
#include "store/inspector.hpp"
#include "store/refund.hpp"
#include "store/scripts.hpp"

namespace tidegate::test {
namespace {

constexpr std::string_view kPrefix = "t:";

limit::Verdict verdict_of(const Reply& reply, const limit::Charge& charge) {
    if (reply->type != REDIS_REPLY_STRING) {
        throw std::runtime_error("not a verdict: " + std::string(reply->str ? reply->str : "?"));
    }
    limit::Verdict verdict;
    limit::Verdict* const verdicts[] = {&verdict};
    if (!store::read_charge_reply({reply->str, reply->len}, {&charge, 1}, verdicts)) {
        throw std::runtime_error("a reply that is no verdict on the charge");
    }
    return verdict;
}

void expect_integer(const Reply& reply) {
    if (reply->type != REDIS_REPLY_INTEGER) {
        throw std::runtime_error("not an integer: " + std::string(reply->str ? reply->str : "?"));
    }
}

}  // namespace

limit::LimitSpec spec_of(limit::Algorithm algorithm, std::int64_t quota, Micros duration) {
    limit::LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = quota;
    spec.duration = duration;
    return spec;
}

limit::Limit made(const limit::LimitSpec& spec) {
    auto limit = limit::make_limit(spec);
    if (!limit) throw std::runtime_error(limit.error().what);
    return *limit;
}

limit::Verdict MemorySubject::charge(const limit::Charge& charge, Micros now) {
    limit::Verdict verdict;
    if (store_.charge(charge, now, verdict) != store::MemoryStore::Outcome::decided) {
        throw std::runtime_error("the store is full");
    }
    return verdict;
}

void MemorySubject::give_back(const limit::Refund& refund, Micros now) {
    store_.give_back(refund, now);
}

void MemorySubject::release(const limit::Charge& charge, Micros) {
    store_.release(charge);
}

void MemorySubject::keep(const limit::Charge& charge, Micros time, Micros now) {
    store_.release(charge, now + time);
}

RedisServer& shared_server() {
    static RedisServer server;
    return server;
}

RedisSubject::RedisSubject() : connection_(shared_server().port()) {
    text({"FLUSHALL"});
    for (const redis::Script* script : store::all_scripts()) {
        const std::string sha = text({"SCRIPT", "LOAD", std::string(script->text)});
        if (sha != script->sha1) throw std::runtime_error("script refused: " + sha);
    }
}

limit::Verdict RedisSubject::charge(const limit::Charge& charge, Micros now) {
    return verdict_of(run(charge, now), charge);
}

void RedisSubject::give_back(const limit::Refund& refund, Micros now) {
    // Slots are not units: commands of their own give them up.
    if (refund.of == limit::Refund::Of::all) {
        std::vector<limit::ChargeItem> taken;
        for (std::size_t i = 0; i < refund.charge.items.size(); ++i) {
            const limit::ChargeItem& item = refund.charge.items[i];
            if (refund.charge.cost_of(item) == 0) continue;
            if (refund.receipt->generations[i] != 0) taken.push_back(refund.charge.items[i]);
        }
        release({taken, refund.charge.cost, refund.charge.slot_hold}, now);
    }
    std::string command;
    if (!store::append_refund_command(refund, kPrefix, now, command)) return;
    connection_.send(command);
    expect_integer(connection_.read());
}

void RedisSubject::release(const limit::Charge& charge, Micros) {
    for (const std::string& command : store::release_commands(charge, kPrefix)) {
        connection_.send(command);
        expect_integer(connection_.read());
    }
}

void RedisSubject::keep(const limit::Charge& charge, Micros time, Micros now) {
    std::string command;
    if (!store::append_hold_command(charge, kPrefix, time, now, command)) return;
    connection_.send(command);
    expect_integer(connection_.read());
}

store::Counts RedisSubject::count(std::span<const limit::ChargeItem> items, Micros now) {
    std::string command;
    store::append_counts_command(items, kPrefix, now, command);
    connection_.send(command);
    const Reply reply = connection_.read();
    store::Counts counts;
    if (reply->type != REDIS_REPLY_STRING ||
        !store::read_counts_reply({reply->str, reply->len}, items, counts)) {
        throw std::runtime_error("not counts: " + std::string(reply->str ? reply->str : "?"));
    }
    return counts;
}

std::vector<bool> RedisSubject::forget(std::span<const limit::ChargeItem> items) {
    std::string command;
    store::append_forget_command(items, kPrefix, command);
    connection_.send(command);
    const Reply reply = connection_.read();
    if (reply->type != REDIS_REPLY_STRING) throw std::runtime_error("nothing was forgotten");
    return store::read_forget_reply({reply->str, reply->len}, items).value();
}

limit::Verdict RedisSubject::charge_by_server_clock(const limit::Charge& charge) {
    return verdict_of(run(charge, std::nullopt), charge);
}

std::string RedisSubject::error(const limit::Charge& charge, std::optional<Micros> now) {
    const Reply reply = run(charge, now);
    return reply->type == REDIS_REPLY_ERROR ? reply->str : "";
}

std::vector<limit::Verdict> RedisSubject::pipeline(const std::vector<Asked>& asked) {
    std::string commands;
    for (const Asked& one : asked) {
        store::append_charge_command({&one.charge, 1}, kPrefix, one.now, commands);
    }
    connection_.send(commands);
    std::vector<limit::Verdict> verdicts;
    for (const Asked& one : asked) verdicts.push_back(verdict_of(connection_.read(), one.charge));
    return verdicts;
}

std::string RedisSubject::text(const std::vector<std::string>& words) {
    const Reply reply = connection_.command(words);
    if (reply->type == REDIS_REPLY_INTEGER) return std::to_string(reply->integer);
    return reply->str ? std::string(reply->str, reply->len) : std::string();
}

Reply RedisSubject::run(const limit::Charge& charge, std::optional<Micros> now) {
    std::string command;
    store::append_charge_command({&charge, 1}, kPrefix, now, command);
    connection_.send(command);
    return connection_.read();
}

limit::Limit sliding(std::int64_t quota, Micros duration, const WindowOptions& options) {
    return made({.name = {},
                 .algorithm = limit::Algorithm::sliding_window,
                 .quota = quota,
                 .duration = duration,
                 .precision = options.precision,
                 .strict = options.strict,
                 .anchor = limit::Anchor::clock});
}

limit::Limit fixed(std::int64_t quota, Micros duration, limit::Anchor anchor) {
    return made({.name = {},
                 .algorithm = limit::Algorithm::fixed_window,
                 .quota = quota,
                 .duration = duration,
                 .precision = std::nullopt,
                 .strict = false,
                 .anchor = anchor});
}

limit::Policy policy(std::string name, std::vector<limit::Limit> limits) {
    limit::Policy policy;
    policy.name = std::move(name);
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.limits = std::move(limits);
    return policy;
}

Ask::Ask(const limit::Policy& policy, std::initializer_list<std::string_view> identifiers,
         std::int64_t cost)
    : cost_(cost) {
    for (std::string_view identifier : identifiers) items_.push_back({&policy, identifier});
}

Ask::Ask(std::vector<limit::ChargeItem> items, std::int64_t cost)
    : items_(std::move(items)), cost_(cost) {}

}  // namespace tidegate::test
