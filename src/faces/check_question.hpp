// Turns an item of a call of the check API into a question to the engine, and the decision into the
// JSON of the answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ask/charge_list.hpp"
#include "ask/decision.hpp"
#include "ask/ruleset.hpp"
#include "config/config.hpp"
#include "faces/check_call.hpp"
#include "store/reservation.hpp"

namespace tidegate::faces {

// Outlives the decision about it. Is not moved: `facts` point into it. May be asked again after
// reset().
struct CheckQuestion {
    CheckQuestion() = default;
    CheckQuestion(const CheckQuestion&) = delete;
    CheckQuestion& operator=(const CheckQuestion&) = delete;

    ask::Facts facts;
    std::string head;         // what `facts` are views of
    std::string form;         // likewise, of keys of a form
    ask::InspectedBody body;  // likewise, of a policy that counts by members of bodies
    config::Route route;      // of an item that names a policy
    std::string user;

    // Forgets the item. Strings and vectors keep their capacity.
    void reset() {
        facts.reset();
        facts.peer = {};
        facts.body_bytes = 0;
        facts.captures.clear();
        head.clear();
        form.clear();
        body.reset();
        route.name.clear();
        route.captures.clear();
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

// Sets the cost that an item states, once the charge of its request is listed; policies with a cost
// of their own keep it. A sentence says why it cannot be asked. What a policy would settle by the
// answer stays as it is reserved, unless a call settles it.
std::string finish_request_item(const CheckItem& item, ask::Decision& decision);

// Adds what one item is charged with to `whole`, the charge of all. A sentence says why these
// cannot be one charge.
std::string add_to_charge(const store::LimitDecision& listed, store::LimitDecision& whole);

// The costs that a settlement of a reservation states, in the order of its items.
struct ReservedCosts {
    std::vector<store::Reservation::Cost> costs;
    std::vector<std::uint32_t> cost_of_item;  // of each identifier, a position in `costs`
    bool has_several = false;                 // an item has several costs
};

// Adds those of one item, whose charge is listed. An item that names a policy has one. A request
// has that of its route, if a policy counts by it, and one for each policy with a cost of its own,
// in the route's order; those are there whether the policies count this client or not.
void add_costs(const CheckItem& item, const config::Config& config, const ask::Decision& listed,
               ReservedCosts& whole);

// The status of an answer to a decision: 200, 429, or that of its fault.
int status_of(const ask::Decision& decision);

// Appends `"admitted":...,"limits":[...]`, and of a refusal `"retry_after_ms"`, or of a fault other
// than a limit `"status"` and `"detail"`: members without braces, so that more can follow. Limits
// of policies in shadow are left out: they refuse no request.
void append_answer(const ask::Ruleset& rules, const ask::Decision& decision, std::string& out);

// Appends an object of an answer to `each`: the same members, and in any case `"status"`.
void append_each_answer(const ask::Ruleset& rules, const ask::Decision& decision, std::string& out);

// Appends the object of an item that makes no sense.
void append_each_fault(std::string_view detail, std::string& out);

// Writes what is wrong with a call, as problem details (RFC 9457).
std::string problem_text(int status, std::string_view detail, std::string_view request_id);

// The same for a reservation that was settled with other costs: `7`, or with `is_list` `[7,8]`,
// which are the member `cost` or `costs`.
std::string settled_problem_text(std::string_view costs, bool is_list, std::string_view request_id);

}  // namespace tidegate::faces
