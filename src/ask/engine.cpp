#include "ask/engine.hpp"

#include <memory>
#include <string>

#include "ask/charge_list.hpp"
#include "ask/identify.hpp"
#include "ask/route.hpp"
#include "ask/verdict.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::ask {

void Decision::reset() {
    // A request with identifiers of unusual size does not keep its memory for ever.
    constexpr std::size_t kCapacityKept = 65'536;
    fault = Fault::none;
    fault_detail = {};
    fault_part = nullptr;
    route_index = telemetry::kNoRoute;
    route = nullptr;
    awaits_body = false;
    model.clear();
    price_row.reset();
    is_preflight = false;
    client.reset();
    chain_fault = identity::ChainFault::none;
    authentication->reset();
    user.reset();
    tier = {};
    identifiers.clear();
    if (identifiers.capacity() > kCapacityKept) identifiers.shrink_to_fit();
    spans.clear();
    charge.items.clear();
    charge.result = store::LimitDecision::Result::pending;
    charge.store_failed = charge.remembered = charge.is_partial = false;
    charge.needs_settling = charge.is_alone = false;
    charge.moment = {};
    cost_ignored.reset();
    charged_at = {};
    charge_time = {};
    ratelimit.clear();
}

bool Engine::begin(const Question& question) {
    const Ruleset& rules = question.rules;
    Decision& decision = question.decision;
    if (ignores_forwarding(question.facts)) {
        metrics_.forwarding_ignored.add();
        log_ignored_forwarding(question.facts);
    }
    match_route(*rules.config, question.facts, decision);
    if (decision.goes_on()) identify(rules, question.facts, decision);
    if (decision.chain_fault != identity::ChainFault::none) report_chain_fault(question);
    if (!decision.goes_on()) return true;
    return !needs_proof(decision) && list_and_charge(question);
}

// Not a coroutine: most requests wait for the store alone, which takes one.
Task<> Engine::finish(const Question& question) {
    return needs_proof(question.decision) ? prove_and_charge(question) : await_charge(question);
}

Task<> Engine::prove_and_charge(const Question& question) {
    co_await check_credential(question);
    if (question.decision.goes_on() && !list_and_charge(question)) co_await await_charge(question);
}

bool Engine::go_on(const Question& question) {
    question.decision.awaits_body = false;
    return list_and_charge(question);
}

bool Engine::list_and_charge(const Question& question) {
    Decision& decision = question.decision;
    if (decision.route->reads_body && question.can_read_body && question.facts.body == nullptr &&
        !decision.is_preflight) {
        decision.awaits_body = true;
        return true;
    }
    list_charges(*question.rules.config, question.facts, decision);
    if (decision.cost_ignored) metrics_.cost_ignored[*decision.cost_ignored].add();
    if (!decision.goes_on() || decision.charge.items.empty() || question.only_lists) return true;
    return begin_charge(question);
}

bool Engine::begin_charge(const Question& question) {
    Decision& decision = question.decision;
    decision.charged_at = std::chrono::steady_clock::now();
    decision.charge.owner = &question.rules.config;
    decision.charge.needed_by = question.needed_by;
    limiter_.decide(decision.charge, question.wakeup, decision.charged_at);
    return decision.charge.result != store::LimitDecision::Result::pending &&
           conclude_charge(question);
}

bool Engine::conclude_charge(const Question& question) {
    Decision& decision = question.decision;
    decision.charge_time = std::chrono::steady_clock::now() - decision.charged_at;
    apply_verdict(question.rules, metrics_, decision);
    return !decision.goes_on() || decision.charge.verdict.wait <= limit::Micros{0};
}

Task<> Engine::await_charge(const Question& question) {
    store::LimitDecision& charge = question.decision.charge;
    if (charge.result == store::LimitDecision::Result::pending) {
        while (limiter_.is_pending(charge)) co_await question.wakeup.wait();
        if (conclude_charge(question)) co_return;
    }
    co_await await_turn(question);
}

// leaky_bucket has the request wait in line, by a timer of its own: the deadline wheel is too
// coarse.
Task<> Engine::await_turn(const Question& question) {
    struct Turn {
        explicit Turn(const Executor& executor) : timer(executor) {}
        Timer timer;
        bool has_come = false;
        bool is_over = false;
    };
    // Shared: the timer may have fired already when the client leaves, and its handler runs later.
    const auto turn = std::make_shared<Turn>(executor_);
    turn->timer.expires_after(question.decision.charge.verdict.wait);
    turn->timer.async_wait([turn, &wakeup = question.wakeup](const error_code& ec) {
        if (ec || turn->is_over) return;
        turn->has_come = true;
        wakeup.wake_later();
    });
    while (!turn->has_come && !question.has_left(question.client)) {
        co_await question.wakeup.wait();
    }
    if (turn->has_come) co_return;
    turn->is_over = true;
    turn->timer.cancel();
    limiter_.leave_line(question.decision.charge);
    question.decision.refuse(Fault::client_left);
}

void Engine::settle(Decision& decision, limit::AnswerStatus status,
                    std::chrono::milliseconds hold) {
    if (decision.charge.needs_settling) limiter_.settle(decision.charge, status, hold);
}

// Counts that a trusted proxy's field did not name the client, and logs it once an hour.
void Engine::report_chain_fault(const Question& question) {
    static telemetry::LogInterval said{std::chrono::hours{1}};
    metrics_.forwarding_invalid.add();
    if (question.facts.peer.is_gateway) return;  // the face reports it
    if (!said.is_due(std::chrono::steady_clock::now())) return;
    const auto text = [](const std::optional<IpAddress>& address, const char* otherwise) {
        return address ? address->to_string() : std::string(otherwise);
    };
    telemetry::log(telemetry::Level::warn,
                   "the field {} from {} {}: Tidegate counts all such requests as the client {}. "
                   "Correct the proxy that writes the field, or identity.client_ip.header. Counted "
                   "in tidegate_forwarding_invalid_total; logged once an hour",
                   identity::field_of(question.rules.config->client_ip),
                   text(question.facts.peer.address, "a Unix socket"),
                   identity::describe(question.decision.chain_fault),
                   text(question.decision.client, "one without an address"));
}

}  // namespace tidegate::ask
