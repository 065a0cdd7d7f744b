#include "proxy/record.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <boost/container/static_vector.hpp>

#include "ask/verdict.hpp"
#include "http/field.hpp"
#include "proxy/answer_cost.hpp"
#include "proxy/request_trace.hpp"

namespace tidegate::proxy {

namespace {

using telemetry::RecordedVerdict;

std::string_view verdict_of(const ask::Decision& of) {
    const store::LimitDecision& decision = of.charge;
    if (decision.items.empty()) {
        // A request that is refused before anything is counted has no verdict.
        const bool rejected = ask::traits(of.fault).outcome == telemetry::Outcome::rejected;
        return of.route != nullptr && !rejected ? to_string(RecordedVerdict::unlimited) : "";
    }
    switch (decision.result) {
        case store::LimitDecision::Result::pending:
            return "";
        case store::LimitDecision::Result::limited:
            return to_string(RecordedVerdict::limited);
        case store::LimitDecision::Result::unavailable:
            return to_string(RecordedVerdict::unavailable);
        case store::LimitDecision::Result::admitted:
            break;
    }
    if (!decision.store_failed) return to_string(RecordedVerdict::admitted);
    return to_string(decision.decided().empty() ? RecordedVerdict::allowed
                                                : RecordedVerdict::local);
}

std::string_view store_of(const store::LimitDecision& decision) {
    if (decision.items.empty() || decision.result == store::LimitDecision::Result::pending)
        return "";
    if (decision.remembered) return "remembered";
    return to_string(decision.decided_by);
}

// A limit that refused a request, or in shadow would have, and the identifier that was over it.
struct Refuser {
    std::string_view name;                    // empty: there is none
    const limit::ChargeItem* item = nullptr;  // null: likewise
    ask::UnitsTaken units;
    std::size_t limit = 0;  // among those of the item
};

// The first limit that refused, of the policies that are enforced and of the others.
struct Refusers {
    Refuser enforced;
    Refuser in_shadow;
    Refuser soft;
    Refuser candidate;

    Refuser& of(const limit::Policy& policy) {
        if (policy.soft) return soft;
        if (!policy.shadow) return enforced;
        return policy.is_candidate() ? candidate : in_shadow;
    }
    const Refuser& described() const {
        if (enforced.item != nullptr) return enforced;
        return in_shadow.item != nullptr ? in_shadow : candidate;
    }
};

Refusers refusers_of(const ask::Ruleset& rules, const store::LimitDecision& decision) {
    Refusers first;
    if (decision.result != store::LimitDecision::Result::limited &&
        decision.result != store::LimitDecision::Result::admitted)
        return first;
    const auto& verdicts = decision.verdict.limits;
    // Usually none did; this saves the walk through the policies.
    if (std::none_of(verdicts.begin(), verdicts.end(), [](auto& one) { return one.denied; })) {
        return first;
    }
    ask::for_each_limit(decision, [&](const limit::ChargeItem& item, std::size_t i,
                                      const limit::LimitVerdict& one) {
        Refuser& refuser = first.of(*item.policy);
        if (!one.denied || refuser.item != nullptr) return;
        refuser = {rules.policy_texts.of(item, i).name, &item,
                   ask::units_taken(item.limits()[i], one), i};
    });
    return first;
}

// Says in `record` what refused the request, and how far over the limit it was.
void describe_refusal(const Refusers& refusers, const store::LimitDecision& charge,
                      telemetry::RequestRecord& record) {
    record.limited_by = refusers.enforced.name;
    record.shadow_limited_by = refusers.in_shadow.name;
    record.soft_over = refusers.soft.name;
    record.candidate_limited_by = refusers.candidate.name;
    const Refuser& one = refusers.described();
    if (one.item == nullptr) return;
    record.limited_identifier = one.item->identifier;
    const bool in_money = one.item->limits()[one.limit].in_money;
    const std::int64_t cost = charge.charge().cost_of(*one.item);
    record.limit_count = {one.units.count, in_money};
    record.limit_quota = {one.units.of, in_money};
    record.cost = {cost, in_money};
    if (ask::too_large(*one.item, one.limit, cost)) record.refusal = telemetry::kTooLarge;
    if (one.item->tier != nullptr) record.tier = one.item->tier->name;
    if (charge.result != store::LimitDecision::Result::limited) return;
    const std::int64_t retry_after = ask::retry_after_seconds(charge);
    if (retry_after > 0) record.retry_after = retry_after;
}

// Each identifier once, though several policies may count it.
std::span<const std::string_view> identifiers_of(const store::LimitDecision& decision,
                                                 std::span<std::string_view> room) {
    std::size_t count = 0;
    for (const limit::ChargeItem& item : decision.items) {
        const auto known = room.first(count);
        if (count < room.size() &&
            std::find(known.begin(), known.end(), item.identifier) == known.end()) {
            room[count++] = item.identifier;
        }
    }
    return room.first(count);
}

telemetry::Outcome outcome_of(const Exchange& exchange) {
    using telemetry::Outcome;
    if (!exchange.decision.goes_on()) return ask::traits(exchange.decision.fault).outcome;
    if (exchange.relay.is_redirect) return Outcome::redirected;
    return exchange.face == Face::proxy ? Outcome::forwarded : Outcome::answered;
}

std::string_view error_of(const Exchange& exchange) {
    const ask::Decision& decision = exchange.decision;
    if (decision.fault == ask::Fault::bad_credentials) {
        return identity::to_string(decision.authentication->fault);
    }
    const std::string_view name = ask::traits(decision.fault).name;
    return name.empty() ? exchange.relay.tunnel_fault : name;
}

// Adds the request, which ended at `now`, to the metrics and to the activity of clients.
void count_exchange(WorkerContext& worker, const Exchange& exchange, telemetry::Outcome outcome,
                    SteadyTime now) {
    const Generation& generation = *exchange.generation;
    const ask::Decision& decision = exchange.decision;
    const store::LimitDecision& charge = decision.charge;
    const Relay& relay = exchange.relay;
    const auto took = relay.tunnel_end ? relay.handshake_time : now - relay.began;
    worker.metrics.count_request(generation.slots.route(decision.route_index), exchange.face,
                                 relay.status, outcome, took);
    if (!decision.goes_on()) worker.metrics.count_fault(decision.fault);
    // A tunnel has counted its own as they came.
    if (!relay.tunnel_end) {
        worker.metrics.bytes_received.add(relay.bytes_received);
        worker.metrics.bytes_sent.add(relay.bytes_sent);
    }
    if (!charge.items.empty() && charge.result != store::LimitDecision::Result::pending) {
        worker.metrics.decision_seconds[charge.decided_by].observe(decision.charge_time);
        if (telemetry::Activity::Names* const names = worker.activity.names()) {
            note_activity(*names, generation, decision, exchange.facts.request_id, now);
        }
        if (worker.recording == nullptr) return;
        Recording::Request request{.decision = decision, .began = exchange.facts.began_at};
        request.status = relay.status;
        request.took = std::chrono::duration_cast<std::chrono::microseconds>(now - relay.began);
        if (exchange.answer_cost != nullptr) request.settled = exchange.answer_cost->settled();
        add_to_recording(worker.recording, request, now);
    }
}

// Identifiers that one decision denies, each once; beyond the bound they are left out.
class IdentifierSet {
  public:
    // False: the set has it already, or is full.
    bool insert(std::string_view identifier) {
        if (all_.size() == all_.capacity()) return false;
        if (std::find(all_.begin(), all_.end(), identifier) != all_.end()) return false;
        all_.push_back(identifier);
        return true;
    }

  private:
    boost::container::static_vector<std::string_view, 16> all_;
};

void count_identifiers(const store::LimitDecision& charge, telemetry::TopNames& names,
                       std::chrono::steady_clock::time_point now) {
    // Counts each identifier once, though several policies may count it; there are few.
    for (auto item = charge.items.begin(); item != charge.items.end(); ++item) {
        const bool is_counted = std::any_of(
            charge.items.begin(), item,
            [&](const limit::ChargeItem& other) { return other.identifier == item->identifier; });
        if (!is_counted) names.add(item->identifier, now);
    }
}

// A decision, and what is known of the request that asked for it.
struct Caller {
    const ask::Ruleset& rules;
    const ask::Decision& decision;
    std::string_view request_id;
    std::chrono::steady_clock::time_point now;
};

// The policies whose limits a log of denials is about.
enum class Whose : std::uint8_t { enforced, in_shadow, candidates };

Whose whose(const limit::Policy& policy) {
    if (!policy.shadow) return Whose::enforced;
    return policy.is_candidate() ? Whose::candidates : Whose::in_shadow;
}

// Adds the identifiers that were over a limit of these policies to `names`, if there are names, and
// the request to `last`.
void note_denial(const Caller& caller, Whose of, telemetry::TopNames* names,
                 telemetry::DenialLog& last) {
    const ask::Decision& decision = caller.decision;
    IdentifierSet denied;
    bool is_first = true;
    ask::for_each_limit(decision.charge, [&](const limit::ChargeItem& item, std::size_t i,
                                             const limit::LimitVerdict& one) {
        if (!one.denied || item.policy->soft || whose(*item.policy) != of) return;
        if (denied.insert(item.identifier) && names != nullptr) {
            names->add(item.identifier, caller.now);
        }
        // The limit that the access log names.
        if (!std::exchange(is_first, false) || !last.admits(item.identifier, caller.now)) return;
        const ask::UnitsTaken units = ask::units_taken(item.limits()[i], one);
        telemetry::Denial& denial = last.keep(std::chrono::system_clock::now());
        denial.request_id = caller.request_id;
        denial.identifier = item.identifier;
        if (decision.route != nullptr) denial.route = decision.route->name;
        denial.policy = item.policy->name;
        denial.limit = caller.rules.policy_texts.of(item, i).name;
        const bool in_money = item.limits()[i].in_money;
        denial.count = {units.count, in_money};
        denial.quota = {units.of, in_money};
        denial.cost = {decision.charge.charge().cost_of(item), in_money};
        const std::int64_t retry_after =
            of == Whose::enforced ? ask::retry_after_seconds(decision.charge) : 0;
        if (retry_after > 0) denial.retry_after_seconds = retry_after;
    });
}

}  // namespace

void record(WorkerContext& worker, const Exchange& exchange) {
    const Generation& generation = *exchange.generation;
    const ask::Facts& facts = exchange.facts;
    const ask::Decision& decision = exchange.decision;
    const store::LimitDecision& charge = decision.charge;
    const Relay& relay = exchange.relay;
    const auto outcome = outcome_of(exchange);
    const auto now = std::chrono::steady_clock::now();
    count_exchange(worker, exchange, outcome, now);
    const bool is_traced = exchange.trace != nullptr && is_kept(exchange, outcome);
    if (generation.access_log == nullptr && !is_traced) return;
    std::array<std::string_view, 16> room;
    const auto identifiers = identifiers_of(charge, room);
    worker.client_text.clear();
    if (decision.client) decision.client->append_to(worker.client_text);
    telemetry::RequestRecord known{
        .time = facts.began_at,
        .request_id = facts.request_id,
        .client = worker.client_text,
        .method = facts.head.method,
        .version = facts.version(),
        .path = facts.head.path,
        .user_agent = relay.tunnel_end ? relay.user_agent
                                       : http::single_value(facts.head.fields, "user-agent"),
        .host = facts.host,
        .route = decision.route != nullptr ? std::string_view(decision.route->name) : "",
        .identifiers = identifiers,
        .verdict = verdict_of(decision),
        .store = store_of(charge),
        .upstream = relay.server ? std::string_view(relay.server->name()) : "",
        .upstream_server = relay.server ? std::string_view(relay.server->address()) : "",
        .error = error_of(exchange),
        .outcome = outcome,
        .face = exchange.face,
        .status = relay.status,
        .grpc_status = relay.grpc_status,
        .tries = relay.tries,
        .bytes_received = relay.bytes_received,
        .bytes_sent = relay.bytes_sent,
        .duration = now - relay.began,
        .decision = decision.charge_time,
        .upstream_time = relay.upstream_time,
        .queue_time = relay.queue_time};
    describe_refusal(refusers_of(generation, charge), charge, known);
    if (exchange.answer_cost != nullptr) exchange.answer_cost->describe(exchange, known);
    if (is_traced) keep_trace(worker, exchange, known);
    if (generation.access_log != nullptr) generation.access_log->write(worker.thread, known);
}

void add_to_recording(std::unique_ptr<Recording>& recording, const Recording::Request& request,
                      std::chrono::steady_clock::time_point now) {
    if (recording->has_ended(now)) {
        recording.reset();
    } else {
        recording->add(request);
    }
}

void note_activity(telemetry::Activity::Names& names, const ask::Ruleset& rules,
                   const ask::Decision& decision, std::string_view request_id,
                   std::chrono::steady_clock::time_point now) {
    using Result = store::LimitDecision::Result;
    const store::LimitDecision& charge = decision.charge;
    if (charge.result == Result::pending) return;
    // A request of cost 0 takes nothing.
    if (charge.cost > 0) count_identifiers(charge, names.requests, now);
    const Caller caller{rules, decision, request_id, now};
    if (charge.result == Result::limited) {
        note_denial(caller, Whose::enforced, &names.denials.names, names.denials.last);
    } else if (charge.result == Result::admitted) {
        if (!charge.verdict.shadow_admitted) {
            note_denial(caller, Whose::in_shadow, &names.shadow_denials.names,
                        names.shadow_denials.last);
        }
        if (rules.has_candidates && ask::is_refused_by_candidate(charge)) {
            note_denial(caller, Whose::candidates, nullptr, names.candidate_denials);
        }
    }
}

}  // namespace tidegate::proxy
