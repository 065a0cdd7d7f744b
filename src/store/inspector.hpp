// A worker's way to what Redis counts for one identifier: to be told, and to make it forget. Off
// the hot path. One thread, that of the worker.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "limit/charge.hpp"
#include "redis/servers.hpp"
#include "store/counts.hpp"

namespace tidegate::store {

class Inspector {
  public:
    // A sentence says why there is no answer.
    using OnCounts = std::function<void(Result<Counts, std::string>)>;
    using OnForgotten = std::function<void(Result<std::vector<bool>, std::string>)>;

    // Requires servers. `local_clock` as in Limiter.
    Inspector(redis::Servers servers, std::string key_prefix, bool local_clock);

    // Asks about items as append_counts_command() takes them, however many; at least one. They and
    // what they point to live until `done` was called: once, at the latest when Redis's deadlines
    // have passed. It must not resume a coroutine.
    void count(std::span<const limit::ChargeItem> items, OnCounts done) const;

    // Forgets all that is counted of the items but slots, kItemsCountedMax of them at once: whether
    // there was something of each; of a policy whose items are not all in one portion, only in the
    // portion where it was. On a failure some of it may have been done; it can be asked again.
    // Otherwise as count().
    void forget(std::span<const limit::ChargeItem> items, OnForgotten done) const;

  private:
    struct Counting;
    struct Forgetting;
    template <class Words>
    class Question;

    std::optional<Micros> clock() const;

    redis::Servers servers_;
    std::string key_prefix_;
    bool local_clock_;
};

}  // namespace tidegate::store
