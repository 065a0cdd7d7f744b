// What the store's verdict means for a request and its client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"
#include "base/units.hpp"
#include "store/limit_decision.hpp"

namespace tidegate::ask {

// Reads decision.charge, which is answered: sets decision.ratelimit and, unless the store admits
// the request, a fault. Counts what each limit decided.
void apply_verdict(const Ruleset& rules, Metrics& metrics, Decision& decision);

// The units that decision.charge took were given back: corrects what the verdict and
// decision.ratelimit say is left.
void note_given_back(const Ruleset& rules, Decision& decision);

// Seconds for Retry-After of a denial: whole, rounded up, at least 1, never earlier than a denying
// limit's next unit. 0: the request would never pass, or the store knows no time.
std::int64_t retry_after_seconds(const store::LimitDecision& charge);

// How many units of a limit are taken, of how many that it allows at once: its quota, or its burst.
struct UnitsTaken {
    std::int64_t count = 0;
    std::int64_t of = 0;
};
UnitsTaken units_taken(const limit::Limit& limit, const limit::LimitVerdict& verdict);

// A limit that a request can never pass, as it asks for more than the limit ever allows at once.
struct TooLarge {
    const limit::ChargeItem* item = nullptr;
    std::size_t limit = 0;  // among those of the item
    Amount cost;
    Amount most;  // above 0
};
// Nothing: the limit may admit such a request.
std::optional<TooLarge> too_large(const limit::ChargeItem& item, std::size_t limit,
                                  std::int64_t cost);
// The first such limit that refused the request, which no policy in shadow and no soft one does.
std::optional<TooLarge> refused_as_too_large(const store::LimitDecision& charge);
// `This request would use 500 tokens of a quota of 100 (limit `tokens-1min`): it never passes. Ask
// for less.`
std::string text_of(const Ruleset& rules, const TooLarge& one);

// Of a denial, if the first limit that refused is of a policy with a cost of its own: `tokens-1min,
// 40000 tokens: 20003 used, this request may take 30032`. Else empty.
std::string text_of_usage(const Ruleset& rules, const store::LimitDecision& charge);

// The sentences that say to the client why its request goes no further. `room` holds them, unless
// the program or the decision does.
std::string_view refusal_text(const Ruleset& rules, const Facts& facts, const Decision& decision,
                              std::string& room);

// Whether a request that was admitted or limited would have been admitted, were `candidate` live:
// it and all policies that would be enforced beside it admit, as far as they were decided.
bool admits_as_live(const store::LimitDecision& charge, const limit::Policy& candidate);

// Whether the limits of a candidate would have refused a request that was admitted.
bool is_refused_by_candidate(const store::LimitDecision& charge);

// Visits the verdict of each limit of a decision: calls `each` with the item, the position of the
// limit among the item's, and its verdict; in the order of the verdict.
template <class F>
void for_each_limit(const store::LimitDecision& decision, F each) {
    std::size_t position = 0;
    for (const limit::ChargeItem& item : decision.decided()) {
        const std::size_t count = item.limits().size();
        for (std::size_t i = 0; i < count; ++i, ++position) {
            each(item, i, decision.verdict.limits[position]);
        }
    }
}

}  // namespace tidegate::ask
