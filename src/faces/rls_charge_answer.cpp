// The answer to a call: the status of each descriptor, and the fields and body for the client.
#include <algorithm>
#include <chrono>

#include "ask/decided_limits.hpp"
#include "ask/verdict.hpp"
#include "faces/rls_charge.hpp"
#include "http/problem.hpp"
#include "http/ratelimit_fields.hpp"
#include "proxy/activity.hpp"

namespace tidegate::faces {

namespace {

using limit::Micros;

// A window on the grid of the clock ends when the clock says, also while nothing is taken.
Micros until_reset(const limit::Limit& limit, const limit::LimitVerdict& verdict) {
    const bool is_on_grid =
        limit.algorithm == limit::Algorithm::fixed_window && limit.anchor == limit::Anchor::clock;
    if (verdict.next_unit != limit::kNever && (verdict.next_unit > Micros{0} || !is_on_grid)) {
        return verdict.next_unit;
    }
    if (!is_on_grid) return limit.duration;
    const auto now =
        std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
    return limit.duration - now % limit.duration;
}

std::vector<http::RateLimitItem> limits_shown_of(const ask::Decision& decision) {
    std::vector<http::RateLimitItem> items = decision.ratelimit;
    // The texts are those of a policy that represents all limits in calls.
    for (http::RateLimitItem& item : items) {
        if (item.name.starts_with(config::kRlsOverridePolicy)) item.texts = nullptr;
    }
    return items;
}

// The answer names a limit of two descriptors once. Where it is not known how much is left, it may
// be nothing.
void add_tightest(const http::RateLimitItem& item, std::vector<http::RateLimitItem>& items) {
    const auto known = std::find_if(items.begin(), items.end(), [&](const auto& one) {
        return one.name == item.name && one.quota == item.quota;
    });
    if (known == items.end()) {
        items.push_back(item);
    } else if (item.remaining < known->remaining ||
               (item.remaining == known->remaining && !known->is_current)) {
        *known = item;
    }
}

}  // namespace

void RlsCharge::read(const ask::Decision& decision, const Items& items, RlsAnswer& answer) const {
    for (const Counted* one : items) {
        read_limits(*one, decision, answer.statuses[one->position]);
    }
}

void RlsCharge::read_limits(const Counted& counted, const ask::Decision& decision,
                            RlsAnswer::Status& status) const {
    bool has_any = false;
    status.is_over = false;
    ask::for_each_limit(decision.charge, [&](const limit::ChargeItem& item, std::size_t i,
                                             const limit::LimitVerdict& verdict) {
        if (item.policy != counted.item.policy || item.identifier != counted.item.identifier) {
            return;
        }
        const limit::Limit& limit = item.limits()[i];
        const std::int64_t remaining = std::min(verdict.remaining, limit.quota);
        // The store was only asked: it would refuse what is more than there is left.
        const bool lacks_units = decision.charge.cost == 0 && verdict.remaining < counted.cost;
        if ((verdict.denied || lacks_units) && !item.policy->shadow) status.is_over = true;
        // Envoy makes fields of its own of these figures.
        if (!verdict.is_current || (has_any && remaining >= status.remaining)) return;
        has_any = true;
        const bool has_name = counted.rule != nullptr && !counted.rule->name.empty();
        status.limit = {has_name ? std::string_view(counted.rule->name) : std::string_view(),
                        limit.quota, rls::unit_of(limit.duration)};
        status.remaining = remaining;
        status.until_reset = until_reset(limit, verdict);
    });
}

// Of the decisions beside that of the exchange, which is recorded.
void RlsCharge::note_activity() const {
    telemetry::Activity::Names* const names = worker_.activity.names();
    if (names == nullptr) return;
    for (const auto& decision : decisions_) {
        // Without cost, the store only looked.
        if (decision->charge.cost == 0) continue;
        proxy::note_activity(*names, *x_.generation, *decision, x_.facts.request_id,
                             std::chrono::steady_clock::now());
    }
}

// The fields and the body for the client, and the facts that the record of the exchange gets.
void RlsCharge::finish(RlsAnswer& answer) {
    const config::Response& response = x_.config().response;
    std::vector<http::RateLimitItem> items;
    std::int64_t retry_after = 0;
    const auto look = [&](const ask::Decision& decision) {
        for (const http::RateLimitItem& one : limits_shown_of(decision)) add_tightest(one, items);
        if (decision.fault != ask::Fault::limited) return;
        retry_after = std::max(retry_after, ask::retry_after_seconds(decision.charge));
    };
    if (has_charged_) look(x_.decision);
    for (const auto& decision : decisions_) look(*decision);
    note_activity();
    if (response.ratelimit_fields && !items.empty()) {
        std::string policy;
        std::string state;
        http::append_ratelimit_policy(items, policy);
        http::append_ratelimit(items, state);
        answer.fields.emplace_back("RateLimit-Policy", std::move(policy));
        if (!state.empty()) answer.fields.emplace_back("RateLimit", std::move(state));
    }
    x_.decision.fault = answer.is_over ? ask::Fault::limited : ask::Fault::none;
    if (!answer.is_over) return;
    if (response.retry_after_field && retry_after > 0) {
        answer.fields.emplace_back("Retry-After", std::to_string(retry_after));
    }
    http::Problem problem;
    problem.status = response.status;
    problem.type = http::ProblemType::quota_exceeded;
    problem.detail = ask::traits(ask::Fault::limited).detail;
    if (retry_after > 0) problem.retry_after_seconds = retry_after;
    http::append_problem(problem, answer.body);
}

}  // namespace tidegate::faces
