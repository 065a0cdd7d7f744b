#include "cli/explain_check.hpp"

#include <utility>

#include "ask/charge_notes.hpp"
#include "cli/explain_request.hpp"
#include "faces/check_question.hpp"

namespace tidegate::cli {

namespace {

using Form = faces::CheckCall::Form;

constexpr int kBadCall = 400;

// The charges of an item point into it.
struct ExplainedItem {
    explicit ExplainedItem(std::shared_ptr<const config::Config> config)
        : request(std::move(config)) {}

    faces::CheckQuestion asked;
    ExplainedRequest request;
};

std::string explain_policy_item(const faces::CheckItem& item, ExplainedItem& explained,
                                Explanation& out) {
    ExplainedRequest& request = explained.request;
    ask::ChargeNotes notes;
    std::string fault =
        faces::list_policy_item(item, request.config(), explained.asked, request.decision, &notes);
    if (fault.empty()) explain_notes(request, notes, out);
    return fault;
}

std::string explain_request_item(const faces::CheckItem& item, ExplainedItem& explained,
                                 const FetchKeys& fetch_keys, Explanation& out) {
    ExplainedRequest& request = explained.request;
    faces::make_request_question(item, request.config(), explained.asked, request.decision);
    request.facts = explained.asked.facts;
    explain_peer(request, out);
    explain_steps(request, fetch_keys, out);
    if (!request.decision.goes_on()) return {};
    std::string fault = faces::finish_request_item(item, request.decision);
    if (out.cost) out.cost->units = request.decision.charge.cost;
    return fault;
}

Explanation explain_item(const faces::CheckItem& item, ExplainedItem& explained,
                         const FetchKeys& fetch_keys) {
    Explanation out;
    out.is_call = true;
    const std::string fault = item.policy.empty()
                                  ? explain_request_item(item, explained, fetch_keys, out)
                                  : explain_policy_item(item, explained, out);
    explain_fault(explained.request.decision, out);
    if (!fault.empty()) {
        out.refusal = kBadCall;
        out.refusal_reason = fault;
    }
    if (out.refusal != 0) out.cost.reset();
    if (out.cost && item.cost) out.cost->why = "stated by the call";
    if (out.cost && out.cost->why.empty()) out.cost->why = "by default";
    return out;
}

}  // namespace

CallExplanation explain_call(const std::shared_ptr<const config::Config>& config,
                             const CallQuestion& question, const FetchKeys& fetch_keys) {
    CallExplanation explained_call;
    const auto refuse = [&](int status, std::string reason) {
        explained_call.refusal = status;
        explained_call.refusal_reason = std::move(reason);
    };
    if (question.from && !question.listen.admits(question.from)) {
        const ask::FaultTraits& fault = ask::traits(ask::Fault::peer_not_admitted);
        refuse(fault.status, std::string(fault.detail));
        return explained_call;
    }
    const auto call = faces::read_check_call(question.body, question.reserves);
    if (!call) {
        refuse(kBadCall, call.error());
        return explained_call;
    }
    explained_call.form = call->form;
    std::vector<std::unique_ptr<ExplainedItem>> explained;
    store::LimitDecision whole;
    for (std::size_t i = 0; i < call->items.size(); ++i) {
        ExplainedItem& item = *explained.emplace_back(std::make_unique<ExplainedItem>(config));
        const Explanation& one =
            explained_call.items.emplace_back(explain_item(call->items[i], item, fetch_keys));
        if (call->form == Form::each) continue;
        const std::string place =
            call->form == Form::all ? "all[" + std::to_string(i) + "]: " : std::string();
        if (one.refusal != 0) {
            refuse(one.refusal, place + one.refusal_reason);
            return explained_call;
        }
        const std::string fault = faces::add_to_charge(item.request.decision.charge, whole);
        if (!fault.empty()) {
            refuse(kBadCall, place + fault);
            return explained_call;
        }
    }
    explained_call.identifiers = whole.items.size();
    for (const limit::ChargeItem& item : whole.items) explained_call.limits += item.limits().size();
    return explained_call;
}

}  // namespace tidegate::cli
