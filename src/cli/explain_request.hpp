// The request that `tidegate explain` explains, and the parts of the explanation.
#pragma once

#include <memory>
#include <utility>

#include "ask/charge_notes.hpp"
#include "ask/decision.hpp"
#include "ask/facts.hpp"
#include "ask/ruleset.hpp"
#include "cli/explain.hpp"

namespace tidegate::cli {

struct ExplainedRequest {
    explicit ExplainedRequest(std::shared_ptr<const config::Config> config)
        : rules(std::move(config)) {}

    const config::Config& config() const { return *rules.config; }

    ask::Ruleset rules;
    ask::Facts facts;
    ask::Decision decision;
};

// Says which peer the connection has.
void explain_peer(const ExplainedRequest& request, Explanation& out);

// The steps of the engine, as far as the request goes, which has passed check_framing(). Identity
// is explained also for a request without a route, which the engine does not identify; the answer
// to it stays the same.
void explain_steps(ExplainedRequest& request, const FetchKeys& fetch_keys, Explanation& out);

// Tells why the request goes no further, if it does not.
void explain_fault(const ask::Decision& decision, Explanation& out);

// Identifies the client and checks its credential, which may end in a fault.
void explain_identity(ExplainedRequest& request, const FetchKeys& fetch_keys, Explanation& out);

// Lists what the policies of the route count, which may end in a fault. Requires a route.
void explain_charges(ExplainedRequest& request, Explanation& out);

// Tells what is listed in the decision, and how it came to that; the cost still lacks its reason.
void explain_notes(const ExplainedRequest& request, const ask::ChargeNotes& notes,
                   Explanation& out);

}  // namespace tidegate::cli
