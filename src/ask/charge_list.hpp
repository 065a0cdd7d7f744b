// Lists what the store is asked: the identifiers of a request, each with the limits that count it,
// at what cost and for which moment. Pure. The result is decision.charge; without an item there is
// nothing to ask. decision.fault is set when the request goes no further.
#pragma once

#include "ask/decision.hpp"
#include "ask/facts.hpp"

namespace tidegate::ask {

struct ChargeNotes;

// Lists what the route's policies count; of a preflight, only the limit of preflights. Refuses a
// client that a policy's `deny` lists, a request without the user that its route or a policy needs,
// one that a policy cannot name, and one without the moment that a schedule needs. With `notes`,
// which are empty before, it tells how it came to that. Requires a route and a concluded identity.
void list_charges(const config::Config& config, const Facts& facts, Decision& decision,
                  ChargeNotes* notes = nullptr);

// Lists what `policy` alone counts. Refuses a client that its `deny` lists, and a request of which
// none of its keys makes an identifier. The cost is left to the caller. `notes` as above.
void list_policy_charges(const config::Config& config, const config::Policy& policy,
                         const Facts& facts, Decision& decision, ChargeNotes* notes = nullptr);

// Whether `policy` counts by the client's address, and the request has none.
bool lacks_address(const config::Policy& policy, const Decision& decision);

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
