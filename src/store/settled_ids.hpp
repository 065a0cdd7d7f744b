// Which reservations have been settled, so that none is settled twice: in Redis, where all who
// share it see it, or in this process.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>

#include "net/task.hpp"
#include "net/wakeup.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

// Of the process: workers share it. Any thread.
class SettledIds {
  public:
    using Time = std::chrono::steady_clock::time_point;
    enum class Claim : std::uint8_t {
        first,
        again,  // somebody has settled it
        full,   // kIdsMax are remembered
    };
    static constexpr std::size_t kIdsMax = 1'000'000;

    // Remembers `id` until `until`.
    Claim claim(const std::string& id, Time now, Time until);
    void forget(const std::string& id);

  private:
    std::mutex mutex_;
    std::unordered_map<std::string, Time> ids_;
    Time swept_{};
};

enum class RedisClaim : std::uint8_t { first, again, unknown };

// Takes the claim back. Does not wait; if Redis does not get it, the claim stays.
void forget_claim_in_redis(const RedisStore& redis, const std::string& id);

// Claims `id` in Redis for `time`. `unknown`: Redis did not say so; it may have been claimed.
Task<RedisClaim> claim_in_redis(const RedisStore& redis, const std::string& id,
                                std::chrono::milliseconds time, Wakeup& wakeup);

}  // namespace tidegate::store
