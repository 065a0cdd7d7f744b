// How list_charges() came to its result, for `tidegate explain`. A request that is only served has
// no notes, which costs a comparison.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/decision.hpp"
#include "base/described_enum.hpp"
#include "config/config.hpp"

namespace tidegate::ask {

// What a key of a policy came to.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    KeyOutcome, std::uint8_t,
    counted,   // it made `spans`; those that an earlier key made are counted once
    skipped,   // it made none, and the policy goes on without it
    shared,    // it made none, and one is shared by all such requests
    rejected,  // it made none, and the policy wants it
    unclear)   // what it wants is there in a way that could be read as something else

// What a policy came to.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    PolicyOutcome, std::uint8_t, counted,
    exempt,         // the policy leaves this client alone
    unlimited,      // as it does the user's tier
    denied,         // it turns this client away
    skipped,        // the request has none of its keys, and the policy says `on_missing: skip`
    no_identifier,  // the request has none of its keys, or lacks one that is required
    no_user,        // the same, and a user would help: the request has none
    unclear)

struct ChargeNotes {
    using KeyOutcome = ask::KeyOutcome;
    using Outcome = PolicyOutcome;

    struct Key {
        const limit::Key* key;  // never null
        KeyOutcome outcome;
        std::vector<IdentifierSpan> spans{};  // into decision.identifiers
    };

    struct Policy {
        const config::Policy* policy;  // never null
        Outcome outcome = Outcome::counted;
        const limit::Tier* tier = nullptr;  // null: its own limits hold
        std::vector<Key> keys{};            // as far as they were looked at
    };

    std::vector<Policy> policies;  // as far as they were looked at
    bool cost_stated = false;      // by the request, where the route lets it
};

}  // namespace tidegate::ask
