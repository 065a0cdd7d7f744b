#include "store/stores.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

#include <hiredis/hiredis.h>

#include "store/charge_script.hpp"
#include "store/lua_scripts.hpp"

namespace tidegate::test {
namespace {

constexpr std::string_view kPrefix = "t:";

limit::Verdict verdict_of(const Reply& reply, const limit::Charge& charge) {
    if (reply->type != REDIS_REPLY_STRING) {
        throw std::runtime_error("not a verdict: " + std::string(reply->str ? reply->str : "?"));
    }
    limit::Verdict verdict;
    if (!store::read_charge_reply({reply->str, reply->len}, charge, verdict)) {
        throw std::runtime_error("a reply that is no verdict on the charge");
    }
    return verdict;
}

limit::Limit made(const limit::LimitSpec& spec) {
    auto limit = limit::make_limit(spec);
    if (!limit) throw std::runtime_error(limit.error());
    return *limit;
}

}  // namespace

limit::Verdict MemorySubject::charge(const limit::Charge& charge, Micros now) {
    limit::Verdict verdict;
    if (store_.charge(charge, now, verdict) != store::MemoryStore::Outcome::decided) {
        throw std::runtime_error("the store is full");
    }
    return verdict;
}

RedisServer& shared_server() {
    static RedisServer server;
    return server;
}

RedisSubject::RedisSubject() : connection_(shared_server().port()) {
    text({"FLUSHALL"});
    const std::string sha = text({"SCRIPT", "LOAD", std::string(store::kchargeScript.text)});
    if (sha != store::kchargeScript.sha1) throw std::runtime_error("script refused: " + sha);
}

limit::Verdict RedisSubject::charge(const limit::Charge& charge, Micros now) {
    return verdict_of(run(charge, now), charge);
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
        store::append_charge_command(one.charge, kPrefix, one.now, commands);
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
    store::append_charge_command(charge, kPrefix, now, command);
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
    policy.key = {limit::Key::ip};
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
