// The request that `tidegate explain` explains, and the parts of the explanation.
#pragma once

#include <memory>
#include <utility>

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

// Identifies the client and checks its credential, which may end in a fault.
void explain_identity(ExplainedRequest& request, const FetchKeys& fetch_keys, Explanation& out);

// Lists what the policies of the route count, which may end in a fault. Requires a route.
void explain_charges(ExplainedRequest& request, Explanation& out);

}  // namespace tidegate::cli
