// Reads what Redis counts for one identifier, and resets it. Off the hot path. One thread, that of
// the worker.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "limit/charge.hpp"
#include "store/counts.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

class Inspector {
  public:
    // On a failure: a sentence that says why.
    using OnCounts = std::function<void(Result<Counts, std::string>)>;
    using OnForgotten = std::function<void(Result<std::vector<bool>, std::string>)>;

    // Requires servers.
    explicit Inspector(RedisStore redis) : redis_(std::move(redis)) {}

    // Asks about items as append_counts_command() takes them, however many; at least one. They and
    // what they point to live until `done` was called: once, at the latest when Redis's deadlines
    // have passed, and without counts at `needed_by`. It must not resume a coroutine.
    void count(std::span<const limit::ChargeItem> items, SteadyTime needed_by, OnCounts done) const;
    void count(std::span<const limit::ChargeItem> items, OnCounts done) const {
        count(items, SteadyTime::max(), std::move(done));
    }

    // Resets all that is counted of the items but slots, kItemsCountedMax of them at once. Says of
    // each whether there was something; of a policy whose items are not all in one portion, only in
    // the portion where it was. After a failure some may be reset; a caller can try again.
    // Otherwise as count().
    void forget(std::span<const limit::ChargeItem> items, OnForgotten done) const;

  private:
    struct Count;
    struct Forget;
    template <class Command>
    class Request;

    RedisStore redis_;
};

}  // namespace tidegate::store
