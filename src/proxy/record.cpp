#include <algorithm>
#include <array>
#include <chrono>

#include "proxy/street.hpp"

namespace tidegate::proxy {

namespace {

using Result = store::Decision::Result;

std::string_view verdict_of(const Exchange& exchange) {
    const store::Decision& decision = exchange.decision;
    if (decision.items.empty()) return exchange.route != nullptr ? "unlimited" : "";
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
    return telemetry::to_string(decision.decided_by);
}

std::string_view limited_by(const WorkerContext& worker, const store::Decision& decision) {
    if (decision.result != Result::limited) return "";
    std::size_t position = 0;
    for (const limit::ChargeItem& item : decision.decided()) {
        for (std::size_t i = 0; i < item.policy->limits.size(); ++i, ++position) {
            if (decision.verdict.limits[position].denied) {
                return worker.policy_texts.of(*item.policy, i).full_name;
            }
        }
    }
    return "";
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
    const store::Decision& decision = exchange.decision;
    const FaultTraits& fault = traits(exchange.fault);
    const auto took = std::chrono::steady_clock::now() - exchange.began;
    worker.metrics.count_request(exchange.route_index, exchange.status, fault.outcome, took);
    worker.metrics.count_bytes(exchange.bytes_received, exchange.bytes_sent);
    if (!decision.items.empty() && decision.result != Result::pending) {
        worker.metrics.count_decision_time(decision.decided_by, exchange.decision_time);
    }
    if (worker.access_log == nullptr) return;

    std::array<std::string_view, 16> identifiers;
    std::string client;
    if (exchange.client) exchange.client->append_to(client);
    worker.access_log->write(
        worker.thread,
        {.time = exchange.began_at,
         .request_id = exchange.request_id,
         .client = client,
         .method = exchange.request.method,
         .path = exchange.request.path,
         .host = exchange.host,
         .route = exchange.route != nullptr ? std::string_view(exchange.route->name) : "",
         .identifiers = identifiers_of(decision, identifiers),
         .verdict = verdict_of(exchange),
         .limited_by = limited_by(worker, decision),
         .store = store_of(decision),
         .upstream = exchange.upstream_address,
         .error = fault.name,
         .outcome = fault.outcome,
         .status = exchange.status,
         .bytes_received = exchange.bytes_received,
         .bytes_sent = exchange.bytes_sent,
         .duration = took,
         .decision = exchange.decision_time,
         .upstream_time = exchange.upstream_time});
}

}  // namespace tidegate::proxy
