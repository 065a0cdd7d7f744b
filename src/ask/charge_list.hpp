// Lists what the store is asked: the identifiers of a request, each with the limits that count it,
// at what cost and for which moment. Pure. The result is decision.charge; without an item there is
// nothing to ask. decision.fault is set when the request goes no further.
#pragma once

#include <cstdint>
#include <string_view>
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

// How list_charges() came to its result, for `tidegate explain`. A request that is only served has
// no notes, which costs a comparison.
struct ChargeNotes {
    using KeyOutcome = ask::KeyOutcome;
    using Outcome = PolicyOutcome;

    struct Key {
        const limit::Key* key;  // never null
        KeyOutcome outcome;
        std::vector<IdentifierSpan> spans{};  // into decision.identifiers
    };

    struct Policy {
        const config::PolicySettings* policy;  // never null
        Outcome outcome = Outcome::counted;
        const limit::Tier* tier = nullptr;  // null: its own limits hold
        std::vector<Key> keys{};            // as far as they were looked at
    };

    std::vector<Policy> policies;  // as far as they were looked at
    bool cost_stated = false;      // by the request, where the route lets it
};

// Whether a policy with `enforce` refuses requests of this identifier: the same in all processes,
// and still so when the share is raised.
bool is_in_share(const config::PolicySettings& policy, std::string_view identifier);

// Lists what the route's policies count; of a preflight, only the limit of preflights. Refuses a
// client that a policy's `deny` lists, a request without the user that its route or a policy needs,
// one that a policy cannot name, and one without the moment that a schedule needs. With `notes`,
// which are empty before, it tells how it came to that. Requires a route and a concluded identity.
void list_charges(const config::Config& config, const Facts& facts, Decision& decision,
                  ChargeNotes* notes = nullptr);

// Lists what `policy` alone counts. Refuses a client that its `deny` lists, and a request of which
// none of its keys makes an identifier. The cost is left to the caller. `notes` as above.
void list_policy_charges(const config::Config& config, const config::PolicySettings& policy,
                         const Facts& facts, Decision& decision, ChargeNotes* notes = nullptr);

// Whether `policy` counts by the client's address, and the request has none.
bool lacks_address(const config::PolicySettings& policy, const Decision& decision);

// Whether a limit of decision.charge counts statuses of gRPC. Requires a charge that needs
// settling: no other has such a limit.
bool counts_grpc_status(const config::Config& config, const Decision& decision);

// Before a credential is checked:

// Refuses a client whose address a policy's `deny` lists.
void refuse_denied_client(Decision& decision);
// Lists the limits of the route that hold for the client's address with any user: the store
// looks at them, nothing is charged. Policies with tiers or exempt users depend on the user and are
// left out. False: none.
bool list_address_limits(const config::Config& config, const Facts& facts, Decision& decision);
// Lists the charge for one more guess (`identity.failed_credentials`). False: none.
bool list_failed_credentials(const config::Config& config, const Facts& facts, Decision& decision);
// Forgets either question and its answer.
void clear_charge(Decision& decision);

}  // namespace tidegate::ask
