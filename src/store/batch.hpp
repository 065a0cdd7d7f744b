// Decisions that one command to Redis makes: about the same items, or about different identifiers
// under the same policies. Pure: knows the command and its reply, not the connection.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "redis/script.hpp"
#include "store/charge_script.hpp"
#include "store/limit_decision.hpp"

namespace tidegate::store {

// Tells lists of items apart at a glance; add() compares those with equal hashes.
std::size_t hash_of(std::span<const limit::ChargeItem> items);

// Reused for command after command; allocates only to grow.
class Batch {
  public:
    // Begins anew. `hash` is that of decision.items; decisions stay where they are until the reply
    // was read.
    void begin(LimitDecision& decision, std::size_t hash);

    // Adds the decision if the same command can make it: for the same items up to kBatchMax of
    // them, with `may_mix` also for different identifiers up to kMixedMax. Requires that all can
    // share a command (can_share_command()).
    bool add(LimitDecision& decision, std::size_t hash, bool may_mix);

    // Whether the decisions are about different identifiers.
    bool is_mixed() const { return is_mixed_; }
    std::span<LimitDecision* const> decisions() const { return decisions_; }

    void append_command(std::string_view prefix, std::optional<limit::Micros> clock,
                        std::string& out);
    const redis::Script& script() const;

    // Reads the reply to the command that was appended last into the verdicts of the decisions.
    // Says of each whether that worked.
    std::span<const Mixed> read_reply(std::string_view reply);
    // The reply is of another kind: of no decision.
    std::span<const Mixed> reject_reply();

  private:
    bool can_be_mixed_with(const LimitDecision& decision, bool may_mix) const;

    bool is_mixed_ = false;
    std::size_t hash_ = 0;
    std::vector<LimitDecision*> decisions_;
    std::vector<limit::Charge> charges_;  // of the command
    std::vector<limit::Verdict*> verdicts_;
    std::vector<Mixed> answers_;
};

}  // namespace tidegate::store
