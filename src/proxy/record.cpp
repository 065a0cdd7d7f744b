#include <algorithm>
#include <array>
#include <chrono>

#include "proxy/decided_limits.hpp"
#include "proxy/street.hpp"

namespace tidegate::proxy {

namespace {

using Result = store::Decision::Result;

std::string_view verdict_of(const Exchange& exchange) {
    const store::Decision& decision = exchange.decision;
    if (decision.items.empty()) {
        // Whoever was turned away before anything could be counted got no verdict.
        const bool rejected = traits(exchange.fault).outcome == telemetry::Outcome::rejected;
        return exchange.route != nullptr && !rejected ? "unlimited" : "";
    }
    switch (decision.result) {
        case Result::pending:
            return "";
        case Result::limited:
            return "limited";
        case Result::unavailable:
            return "unavailable";
        case Result::admitted:
            break;
    }
    if (!decision.store_failed) return "admitted";
    return decision.decided().empty() ? "allowed" : "local";
}

std::string_view store_of(const store::Decision& decision) {
    if (decision.items.empty() || decision.result == Result::pending) return "";
    if (decision.remembered) return "remembered";
    return telemetry::to_string(decision.decided_by);
}

// The first limit that refused, of the policies that are enforced and of those in shadow.
struct Refusers {
    std::string_view enforced;
    std::string_view in_shadow;
};

Refusers refusers_of(const Generation& generation, const store::Decision& decision) {
    Refusers first;
    if (decision.result != Result::limited && decision.result != Result::admitted) return first;
    const auto& verdicts = decision.verdict.limits;
    // Mostly none did, and the way through the policies is saved.
    if (std::none_of(verdicts.begin(), verdicts.end(), [](auto& one) { return one.denied; })) {
        return first;
    }
    for_each_limit(decision, [&](const limit::ChargeItem& item, std::size_t i,
                                 const limit::LimitVerdict& one) {
        std::string_view& name = item.policy->shadow ? first.in_shadow : first.enforced;
        if (one.denied && name.empty()) name = generation.policy_texts.of(item, i).full_name;
    });
    return first;
}

// Each identifier once, though several policies may count it.
std::span<const std::string_view> identifiers_of(const store::Decision& decision,
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

}  // namespace

void record(WorkerContext& worker, Exchange& exchange) {
    const Generation& generation = *exchange.generation;
    const store::Decision& decision = exchange.decision;
    const FaultTraits& fault = traits(exchange.fault);
    const auto took = std::chrono::steady_clock::now() - exchange.began;
    worker.metrics.count_request(generation.slots.route(exchange.route_index), exchange.status,
                                 fault.outcome, took);
    if (exchange.fault != Fault::none) {
        worker.metrics.count_fault(static_cast<std::size_t>(exchange.fault));
    }
    worker.metrics.count_bytes(exchange.bytes_received, exchange.bytes_sent);
    if (!decision.items.empty() && decision.result != Result::pending) {
        worker.metrics.count_decision_time(decision.decided_by, exchange.decision_time);
    }
    if (generation.access_log == nullptr) return;
    const bool is_refused = exchange.fault == Fault::bad_credentials;

    std::array<std::string_view, 16> identifiers;
    if (exchange.client) exchange.client->append_to(exchange.client_text);
    const Refusers refusers = refusers_of(generation, decision);
    generation.access_log->write(
        worker.thread,
        {.time = exchange.began_at,
         .request_id = exchange.request_id,
         .client = exchange.client_text,
         .method = exchange.request.method,
         .path = exchange.request.path,
         .host = exchange.host,
         .route = exchange.route != nullptr ? std::string_view(exchange.route->name) : "",
         .identifiers = identifiers_of(decision, identifiers),
         .verdict = verdict_of(exchange),
         .limited_by = refusers.enforced,
         .shadow_limited_by = refusers.in_shadow,
         .store = store_of(decision),
         .upstream = exchange.upstream_address,
         .error = is_refused ? identity::to_string(exchange.who.fault) : fault.name,
         .outcome = fault.outcome,
         .status = exchange.status,
         .bytes_received = exchange.bytes_received,
         .bytes_sent = exchange.bytes_sent,
         .duration = took,
         .decision = exchange.decision_time,
         .upstream_time = exchange.upstream_time});
}

}  // namespace tidegate::proxy
