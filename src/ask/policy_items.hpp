// The items of a charge that one policy makes: for each of its keys the identifiers of the request.
// Pure.
#pragma once

#include <cstddef>
#include <span>

#include "ask/charge_notes.hpp"
#include "ask/decision.hpp"
#include "ask/fault.hpp"
#include "ask/identifiers.hpp"

namespace tidegate::ask {

// Appends the items that `policy` counts, with the limits of the client's tier if it has that. With
// `note`, that gets the reasons.
PolicyOutcome list_policy(const config::Config& config, const config::Policy& policy,
                          IdentifierMaker& maker, Decision& decision, ChargeNotes::Policy* note);
// Why the request goes no further, if it does not.
Fault fault_of(PolicyOutcome outcome);

// Appends an item for each identifier that `maker` has made and that the policy, whose first item
// is at `first`, does not count yet. Without `tier` the policy's own limits hold.
void add_items(const limit::Policy& policy, const limit::Tier* tier, std::size_t first,
               const IdentifierMaker& maker, Decision& decision);
// Leaves the first `from` items.
void drop_items(Decision& decision, std::size_t from);
// Points the items at their identifiers. Requires that all are written: later, their bytes may not
// move.
void name_items(Decision& decision);

}  // namespace tidegate::ask
