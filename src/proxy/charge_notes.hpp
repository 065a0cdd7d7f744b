// What list_charges() found out on the way to its question, for who explains a request. Whoever
// only serves it gives none, and pays a comparison.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.hpp"
#include "proxy/exchange.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::proxy {

struct ChargeNotes {
    enum class KeyOutcome : std::uint8_t {
        counted,   // it made `spans`; those that an earlier key made are counted once
        skipped,   // it made none, and the policy goes on without it
        shared,    // it made none, and one is shared by all such requests
        rejected,  // it made none, and the policy wants it
        unclear,   // what it wants is there in a way that could be read as something else
    };
    struct Key {
        const limit::Key* key;  // never null
        KeyOutcome outcome;
        std::vector<IdentifierSpan> spans{};  // into exchange.identifiers
    };

    enum class Outcome : std::uint8_t {
        counted,
        exempt,     // the policy leaves this client alone
        unlimited,  // as it does the user's tier
        denied,     // it turns this client away
        nobody,     // no key of it names anybody it could count, or one that it wants is missing
        unclear,
    };
    struct Policy {
        const config::Policy* policy;  // never null
        Outcome outcome = Outcome::counted;
        const limit::Tier* tier = nullptr;  // null: its own limits hold
        std::vector<Key> keys{};            // as far as they were looked at
    };

    std::vector<Policy> policies;  // as far as they were looked at
    bool cost_stated = false;      // by the request, where the route lets it
    std::optional<telemetry::CostFault> cost_ignored;
};

}  // namespace tidegate::proxy
