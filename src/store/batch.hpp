// Charges that one command to Redis decides: of the same items, or of different identifiers under
// the same policies. Pure: knows the command and its reply, not the connection.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "redis/request.hpp"
#include "store/charge_script.hpp"

namespace tidegate::store {

// Tells lists of items apart at a glance; add() compares those with equal hashes.
std::size_t hash_of(std::span<const limit::ChargeItem> items);

// Reused for command after command; allocates only to grow.
class Batch {
  public:
    // Begins anew. `hash` is that of the items; they and the verdict stay where they are until the
    // reply was read.
    void begin(const limit::Charge& charge, limit::Verdict& verdict, std::size_t hash);

    // Adds the charge if the same command can decide it: of the same items up to kBatchMax of
    // them, with `may_mix` also of different identifiers up to kMixedMax. Requires that all can
    // share a command (can_share_command()).
    bool add(const limit::Charge& charge, limit::Verdict& verdict, std::size_t hash, bool may_mix);

    // Whether the charges are of different identifiers.
    bool is_mixed() const { return is_mixed_; }
    std::size_t size() const { return charges_.size(); }

    void append_command(std::string_view prefix, std::optional<limit::Micros> clock,
                        std::string& out) const;
    const redis::Script& script() const;

    // Reads the reply to the command that was appended last into the verdicts. Says of each whether
    // that worked.
    std::span<const Mixed> read_reply(std::string_view reply);
    // The reply is of another kind: of no decision.
    std::span<const Mixed> reject_reply();

  private:
    bool can_be_mixed_with(const limit::Charge& charge, bool may_mix) const;

    bool is_mixed_ = false;
    std::size_t hash_ = 0;
    std::vector<limit::Charge> charges_;
    std::vector<limit::Verdict*> verdicts_;  // of the charges
    std::vector<Mixed> answers_;
};

}  // namespace tidegate::store
