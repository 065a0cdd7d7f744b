// The names of one policy in a shard, by age, and which of them goes when there is no room.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/memory_store_state.hpp"

namespace tidegate::store {

// The newest quarter of the names passes through; the older ones have settled. The choice is among
// some that have settled and those about to settle: the lightest of them, of equal ones the newest.
// So
// * a name stays until an eighth of the policy's names is newer than it, whatever they hold;
// * one that has settled goes only if it is lighter than those about to settle: a flood of names
// that
//   hold no more than it does pushes out itself.
//
// Not thread-safe: the caller holds the mutex of the shard, and owns the states.
class PolicyNames {
  public:
    struct Choice {
        State* state = nullptr;  // null: none may go
        // Against names of other policies. 0 for a policy in shadow or without a share: its counts
        // decide nothing.
        double weight = 0;
    };

    explicit PolicyNames(std::uint64_t policy) : policy_(policy) {}

    std::uint64_t policy() const { return policy_; }
    std::size_t size() const { return size_; }
    bool has_share() const { return has_share_; }
    bool decides() const { return has_share_ && !shadow_; }
    void set_share(bool has_share) { has_share_ = has_share; }
    void set_shadow(bool shadow) { shadow_ = shadow; }

    // Adds a state as the newest.
    void add(State& state);
    void remove(State& state);
    // Looks at a bounded number of states, at others each time. Where those it looks at first may
    // not go, it looks on, from where the last such look ended: in the end past any number of them.
    Choice choose(const limit::Now& now);

  private:
    State* look_from(State* from, const State* end, std::size_t most, std::size_t& steps,
                     const limit::Now& now, Choice& choice);
    void look_on(const limit::Now& now, Choice& choice);
    void move_mark();

    std::uint64_t policy_;  // hash of its name
    State* oldest_ = nullptr;
    State* newest_ = nullptr;
    State* mark_ = nullptr;  // the oldest that has not settled; null if there are none
    State* hand_ =
        nullptr;  // where looking at those that have settled goes on; null: at the oldest
    State* further_ = nullptr;  // where looking on goes on, past names of all ages; null: likewise
    std::size_t size_ = 0;
    std::size_t fresh_ = 0;  // how many have not settled
    bool has_share_ = true;  // the configuration has the policy
    bool shadow_ = false;
};

}  // namespace tidegate::store
