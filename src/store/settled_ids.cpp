#include "store/settled_ids.hpp"

#include <algorithm>

#include "redis/awaited_command.hpp"
#include "redis/resp.hpp"
#include "redis/slot.hpp"

namespace tidegate::store {

namespace {

std::string claim_tag(const std::string& id) {
    return "settled:" + id;
}

std::string claim_key(const RedisStore& redis, const std::string& id) {
    return redis.key_prefix + "{" + claim_tag(id) + "}";
}

}  // namespace

SettledIds::Claim SettledIds::claim(const std::string& id, Time now, Time until) {
    constexpr std::chrono::seconds kSweepIdsEvery{10};
    const std::lock_guard lock(mutex_);
    if (now - swept_ >= kSweepIdsEvery) {
        swept_ = now;
        std::erase_if(ids_, [&](const auto& one) { return one.second <= now; });
    }
    if (ids_.contains(id)) return Claim::again;
    if (ids_.size() >= kIdsMax) return Claim::full;
    ids_.emplace(id, until);
    return Claim::first;
}

void SettledIds::forget(const std::string& id) {
    const std::lock_guard lock(mutex_);
    ids_.erase(id);
}

void forget_claim_in_redis(const RedisStore& redis, const std::string& id) {
    std::string command;
    redis::append_resp({"DEL", claim_key(redis, id)}, command);
    redis.send_and_forget(std::move(command), nullptr, redis::slot_of_tag(claim_tag(id)));
}

Task<RedisClaim> claim_in_redis(const RedisStore& redis, const std::string& id,
                                std::chrono::milliseconds time, Wakeup& wakeup) {
    const std::string tag = claim_tag(id);
    const std::string key = claim_key(redis, id);
    std::string command;
    redis::append_resp({"SET", key, "1", "NX", "PX", std::to_string(time.count())}, command);
    redis::AwaitedCommand asked(std::move(command), wakeup);
    if (redis.servers.send(asked, redis::slot_of_tag(tag))) co_return RedisClaim::unknown;
    while (!asked.done()) co_await wakeup.wait();
    if (!asked.reply()) co_return RedisClaim::unknown;
    switch (asked.reply()->kind) {
        case redis::Reply::Kind::string:
            co_return RedisClaim::first;
        case redis::Reply::Kind::nil:
            co_return RedisClaim::again;
        default:
            co_return RedisClaim::unknown;
    }
}

}  // namespace tidegate::store
