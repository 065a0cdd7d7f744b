// Asking what is counted, and forgetting it, in the words of lua/inspect.lua and lua/forget.lua.
// Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "limit/charge.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

using limit::Counts;
using limit::ItemCounts;
using limit::LimitCount;
using limit::Micros;
using limit::OtherCount;

// Items that one command asks about at most.
inline constexpr std::size_t kItemsCountedMax = 128;

// Appends the whole command (RESP, EVALSHA of inspect_script()). Items of one identifier; each has
// limits, and those of one policy, with other tiers, stand side by side. `clock` as in
// append_charge_command().
void append_counts_command(std::span<const limit::ChargeItem> items, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out);
// Reads the reply: appends to counts.items, sets counts.now. False if it is none.
bool read_counts_reply(std::string_view reply, std::span<const limit::ChargeItem> items,
                       Counts& counts);

// Appends the whole command (RESP, EVALSHA of forget_script()) that forgets all that is counted of
// these items but slots. What is in the state of a policy goes with it, of other tiers and of
// limits that are not known any more; not so the moments of a schedule that is not known any more:
// they are a set of their own, whose name is not known here. It expires, and counts if that limit
// comes back before. Items as above.
void append_forget_command(std::span<const limit::ChargeItem> items, std::string_view prefix,
                           std::string& out);
// Whether there was something to forget of each item's policy. Nothing if that is no reply.
std::optional<std::vector<bool>> read_forget_reply(std::string_view reply,
                                                   std::span<const limit::ChargeItem> items);

// Reads what Redis counts for one identifier, and resets it. Off the hot path. One thread, that of
// the worker.
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
