// One question of the check API, as the engine is asked it.
#pragma once

#include <string>

#include "ask/charge_notes.hpp"
#include "ask/decision.hpp"
#include "ask/facts.hpp"
#include "ask/ruleset.hpp"
#include "config/config.hpp"
#include "faces/check_call.hpp"

namespace tidegate::faces {

// Outlives the decision about it. Is not moved: `facts` point into it. May be asked again after
// reset().
struct CheckQuestion {
    CheckQuestion() = default;
    CheckQuestion(const CheckQuestion&) = delete;
    CheckQuestion& operator=(const CheckQuestion&) = delete;

    ask::Facts facts;
    std::string head;     // what `facts` are views of
    config::Route route;  // of an item that names a policy
    std::string user;

    // Forgets the item. Strings and vectors keep their capacity.
    void reset() {
        facts.reset();
        facts.peer = {};
        facts.body_bytes = 0;
        head.clear();
        route.name.clear();
        user.clear();
    }
};

// Fills in the facts of an item that is a request: it is read as strictly as the proxy reads one.
// Sets a fault where the proxy would refuse it. Its peer is `from`, which is not trusted.
void make_request_question(const CheckItem& item, const config::Config& config,
                           CheckQuestion& question, ask::Decision& decision);

// Lists what the item's policy counts. A sentence says what is wrong with the item; a fault is set
// where the policy refuses it. `notes` are for explanations.
std::string list_policy_item(const CheckItem& item, const config::Config& config,
                             CheckQuestion& question, ask::Decision& decision,
                             ask::ChargeNotes* notes = nullptr);

// Of an item that is a request, once its charge is listed: sets the cost that the item states. A
// sentence says why it cannot be asked.
std::string finish_request_item(const CheckItem& item, ask::Decision& decision);

// Adds what one item is charged with to `whole`, the charge of all. A sentence says why these
// cannot be one charge.
std::string add_to_charge(const store::LimitDecision& listed, store::LimitDecision& whole);

}  // namespace tidegate::faces
