// A limiter on a Redis that a test plays.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/limiter.hpp"
#include "unit/script_reply.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store {

inline limit::Policy policy_of(const limit::LimitSpec& spec, std::string name = "p") {
    return test::policy(std::move(name), {test::made(spec)});
}

inline limit::Policy policy(std::string name, std::int64_t quota,
                            limit::OnStoreFailure on_store_failure) {
    limit::Policy policy =
        test::policy(std::move(name), {test::window(quota, std::chrono::hours{1})});
    policy.on_store_failure = on_store_failure;
    return policy;
}

inline limit::Policy slots(std::int64_t quota) {
    return policy_of(test::spec_of(limit::Algorithm::concurrency, quota, {}));
}

// Answers to a charge of slots of concurrency, and to all later commands about them.
inline std::string answer_to_slots(const test::Words& words) {
    return words.at(2) == "2" ? test::script_reply(true, 0, {0}) : std::string(":0\r\n");
}

// The timeout where Redis is to be silent: long enough for what it does answer on a busy machine.
inline constexpr std::chrono::milliseconds kSoon{500};

// A limiter on a Redis that answers charges with `server.evalsha`.
struct LimiterRig : test::RedisFixture {
    explicit LimiterRig(std::size_t max_in_flight = 100,
                        std::chrono::milliseconds timeout = std::chrono::seconds{10})
        : RedisFixture(all_scripts(), max_in_flight, timeout) {
        limiter.emplace(
            memory, Limiter::RedisParts{.store = {client, "tg:"}, .replicas = &replicas}, metrics);
    }
    ~LimiterRig() { stop(); }

    void run_without_redis() {
        server.refuse();
        run();
        await_up(false);
    }
    // One unit of each policy for one client.
    LimitDecision::Result decide(const std::vector<const limit::Policy*>& policies) {
        decision.items.clear();
        for (const limit::Policy* one : policies) decision.items.push_back({one, "ip:192.0.2.1"});
        limiter->decide(decision, sleeper);
        CHECK(wait([&] { return decision.result != LimitDecision::Result::pending; }));
        return decision.result;
    }
    // Whether the store failed so often for this reason.
    bool counted(const std::string& reason, int times) const {
        return metrics_have("tidegate_store_failures_total{reason=\"" + reason + "\"} " +
                            std::to_string(times));
    }
    // How often it failed, for all reasons.
    int failures() const {
        const std::string text = test::text_of(metrics);
        const std::string name = "\ntidegate_store_failures_total{";
        int sum = 0;
        for (std::size_t at = text.find(name); at != std::string::npos;
             at = text.find(name, at + 1)) {
            sum += std::stoi(text.substr(text.find(' ', at + 1)));
        }
        return sum;
    }

    Replicas replicas{0};
    MemoryStore memory{MemoryStore::Options{}};
    std::optional<Limiter> limiter;
    Wakeup sleeper{io.get_executor()};
    LimitDecision decision;
};

}  // namespace tidegate::store
