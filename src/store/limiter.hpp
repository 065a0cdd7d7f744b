// A worker's way to a verdict: the in-process store, or Redis with the failure policy behind it.
//
// One Limiter a worker, one thread; what several share (the in-process store, the number of
// replicas) is made for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/wakeup.hpp"
#include "limit/charge.hpp"
#include "redis/client.hpp"
#include "store/memory_store.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::store {

class Limiter;

// One question to the limiter and its answer. Reused from request to request.
class Decision final : private redis::Request {
  public:
    enum class Result : std::uint8_t {
        pending,
        admitted,
        limited,
        unavailable,  // the store did not answer and a policy says deny
    };

    // Asked. Both stay as they are until the result is there.
    std::vector<limit::ChargeItem> items;
    std::int64_t cost = 1;

    // Answered. `verdict` speaks of `decided()`: all items, or after a failure of the store those
    // that were decided without it.
    Result result = Result::pending;
    limit::Verdict verdict;
    telemetry::StoreKind decided_by = telemetry::StoreKind::memory;
    bool store_failed = false;  // decided by the failure policy

    std::span<const limit::ChargeItem> decided() const {
        return store_failed ? std::span<const limit::ChargeItem>(local_items_) : items;
    }

  private:
    friend class Limiter;

    void append_command(std::string& out) override;
    const redis::Script* script() const override;
    void on_reply(const redis::Reply& reply) override;
    void on_failure(redis::Failure failure) override;

    Limiter* limiter_ = nullptr;
    Wakeup* sleeper_ = nullptr;
    std::vector<limit::ChargeItem> local_items_;
};

// How many proxies share the store; 0: not known. Written by the heartbeat.
using Replicas = std::atomic<int>;

class Limiter {
  public:
    struct RedisParts {
        std::shared_ptr<redis::Client> client;
        std::string key_prefix;
        bool local_clock = false;
        const Replicas* replicas = nullptr;  // for the local share
    };

    // Counts in `memory` alone.
    Limiter(MemoryStore& memory, telemetry::MetricsShard& metrics);
    // Counts in Redis; `memory` is what `local` falls back to.
    Limiter(MemoryStore& memory, RedisParts redis, telemetry::MetricsShard& metrics);

    // Decides, or begins to: then decision.result is `pending`, and `sleeper` is woken when it is
    // no longer, at the latest when Redis's deadline has passed. Both must live until then.
    void decide(Decision& decision, Wakeup& sleeper);

  private:
    friend class Decision;

    void decide_in(Decision& decision, std::span<const limit::ChargeItem> items);
    void read_reply(Decision& decision, const redis::Reply& reply);
    void fall_back(Decision& decision, telemetry::StoreFailure failure);

    MemoryStore* memory_;
    RedisParts redis_;  // no client: in process
    telemetry::MetricsShard* metrics_;
};

}  // namespace tidegate::store
