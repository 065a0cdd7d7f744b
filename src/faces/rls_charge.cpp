#include "faces/rls_charge.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "ask/identifiers.hpp"
#include "ask/verdict.hpp"
#include "http/problem.hpp"
#include "http/ratelimit_fields.hpp"
#include "proxy/record.hpp"
#include "proxy/request.hpp"

namespace tidegate::faces {

namespace {

// Envoy's own keys of the address that a request came from.
bool names_client(const RlsCall::Descriptor& descriptor) {
    return std::any_of(descriptor.entries.begin(), descriptor.entries.end(), [](const auto& entry) {
        return entry.first == "remote_address" || entry.first == "masked_remote_address";
    });
}

}  // namespace

const limit::Policy* RlsOverrides::find(const config::Config& config,
                                        const RlsCall::Override& limit) {
    const auto known = policies_.find({limit.unit, limit.requests});
    if (known != policies_.end()) return known->second.get();
    if (policies_.size() == kMax) return nullptr;
    const limit::Policy& standard =
        *config.rls->override_policies[static_cast<std::size_t>(limit.unit)];
    limit::Policy policy = standard;
    policy.limits.front().quota = limit.requests;
    auto owned = std::make_unique<const limit::Policy>(std::move(policy));
    return policies_.emplace(std::pair(limit.unit, limit.requests), std::move(owned))
        .first->second.get();
}

// Finds the rule of each descriptor, and leaves out those whose limits another one replaces.
std::string RlsCharge::list(RlsAnswer& answer) {
    const config::Rls& rls = *x_.config().rls;
    const rls::RuleLevel* const domain = rls.domains.find(call_.domain);
    std::set<std::string_view> replaced;
    std::vector<rls::DescriptorEntry> entries;
    std::vector<std::string_view> values;
    for (std::size_t i = 0; i < call_.descriptors.size(); ++i) {
        const RlsCall::Descriptor& descriptor = call_.descriptors[i];
        entries.clear();
        for (const auto& [key, value] : descriptor.entries) entries.push_back({key, value});
        const rls::Rule* rule = nullptr;
        if (domain != nullptr && descriptor.limit && rls.takes_overrides) {
            values.clear();
            for (const rls::DescriptorEntry& entry : entries) values.push_back(entry.value);
            const limit::Policy* const policy = overrides_->find(x_.config(), *descriptor.limit);
            if (policy == nullptr) return "there are too many different limits in descriptors";
            std::string fault = count(i, nullptr, policy, values);
            if (!fault.empty()) return fault;
            continue;
        }
        if (domain != nullptr) rule = rls::find_rule(*domain, entries, values);
        if (rule == nullptr) {
            answer.statuses[i].is_over = rls.denies_unmatched;
            answer.is_over |= rls.denies_unmatched;
            continue;
        }
        replaced.insert(rule->replaces.begin(), rule->replaces.end());
        if (rule->is_unlimited) {
            answer.statuses[i].remaining = std::numeric_limits<std::uint32_t>::max();
        } else if (rule->policy != nullptr) {
            std::string fault = count(i, rule, rule->policy, values);
            if (!fault.empty()) return fault;
        }
    }
    std::erase_if(counted_, [&](const Counted& one) {
        return one.rule != nullptr && !one.rule->name.empty() && replaced.contains(one.rule->name);
    });
    return {};
}

std::string RlsCharge::count(std::size_t position, const rls::Rule* rule,
                             const limit::Policy* policy,
                             const std::vector<std::string_view>& values) {
    const RlsCall::Descriptor& descriptor = call_.descriptors[position];
    // Here, as most calls of some configurations count nothing.
    if (identifiers_.empty()) {
        identifiers_.reserve(call_.descriptors.size());
        counted_.reserve(call_.descriptors.size());
    }
    std::string& identifier = identifiers_.emplace_back();
    if (rule == nullptr) {
        identifier = ask::override_identifier(call_.domain, descriptor.entries, values);
    } else {
        identifier = ask::descriptor_identifier(descriptor.entries, values);
    }
    counted_.push_back({position,
                        rule,
                        {policy, identifier, nullptr, names_client(descriptor)},
                        descriptor.hits,
                        rule != nullptr && rule->is_quota});
    return {};
}

Task<std::string> RlsCharge::run(RlsAnswer& answer) {
    answer.statuses.resize(call_.descriptors.size());
    std::string fault = list(answer);
    if (!fault.empty()) co_return fault;
    if (x_.config().rls->counts_all) {
        co_await charge_each(answer);
    } else {
        co_await charge_together(answer);
    }
    // Envoy does not wait for a late answer, and the call may have given decisions back.
    if (!is_down() && !is_late()) finish(answer);
    co_return std::string();
}

// Items of one policy are next to each other, as apply_verdict() requires.
ask::Decision& RlsCharge::begin(const Items& items, std::int64_t cost, bool alone) {
    ask::Decision& decision = std::exchange(has_charged_, true)
                                  ? *decisions_.emplace_back(std::make_unique<ask::Decision>())
                                  : x_.decision;
    for (const Counted* one : items) decision.charge.items.push_back(one->item);
    std::stable_sort(decision.charge.items.begin(), decision.charge.items.end(),
                     [](const auto& a, const auto& b) {
                         return std::pair(a.policy->index, a.policy) <
                                std::pair(b.policy->index, b.policy);
                     });
    decision.charge.cost = cost;
    // A remembered denial may be of another limit that a call brought.
    decision.charge.is_alone =
        alone || std::any_of(items.begin(), items.end(),
                             [](const Counted* one) { return one->rule == nullptr; });
    return decision;
}

Task<ask::Decision*> RlsCharge::charge(const Items& items, std::int64_t cost, bool alone) {
    ask::Decision& decision = begin(items, cost, alone);
    const ask::Question made = proxy::question_of(x_);
    const ask::Question question{made.rules,    made.facts,  decision,           made.wakeup,
                                 made.has_left, made.client, deadline_.needed_by};
    if (!worker_.engine.charge(question)) co_await worker_.engine.finish_charge(question);
    if (decision.fault == ask::Fault::store_unavailable) {
        x_.decision.refuse(ask::Fault::store_unavailable);
    }
    co_return &decision;
}

// `count: all`: a request over one limit counts on the others, too.
Task<> RlsCharge::charge_each(RlsAnswer& answer) {
    std::size_t quotas = 0;
    std::size_t quotas_over = 0;
    for (const Counted& one : counted_) {
        const Items items{&one};
        if (is_late()) co_return;
        const ask::Decision* const decision = co_await charge(items, one.cost, false);
        if (is_down()) co_return;
        read(*decision, items, answer);
        const bool is_over = answer.statuses[one.position].is_over;
        if (one.is_quota) {
            ++quotas;
            quotas_over += is_over ? 1 : 0;
        } else if (is_over) {
            answer.is_over = true;
        }
    }
    if (quotas > 0 && quotas == quotas_over) answer.is_over = true;
}

// A descriptor in quota mode refuses only where all such are over, and is charged where it is not.
Task<> RlsCharge::charge_together(RlsAnswer& answer) {
    Items items;
    Items quotas;
    for (const Counted& one : counted_) (one.is_quota ? quotas : items).push_back(&one);
    std::size_t over = 0;
    for (const Counted* one : quotas) {
        const Items alone{one};
        if (is_late()) co_return;
        const ask::Decision* const decision = co_await charge(alone, 0, false);
        if (is_down()) co_return;
        read(*decision, alone, answer);
        if (answer.statuses[one->position].is_over) {
            ++over;
        } else {
            items.push_back(one);
        }
    }
    if (!quotas.empty() && over == quotas.size()) answer.is_over = true;
    co_await charge_all_or_none(std::move(items), answer);
}

// One charge has one cost and each item once: descriptors of other costs, and those that are there
// twice, are charges of their own. When one is refused, those before it are given back.
Task<> RlsCharge::charge_all_or_none(Items items, RlsAnswer& answer) {
    // Limits of one unit that calls bring have one state, whatever their numbers are.
    const auto same_item = [](const Counted* a, const Counted* b) {
        return a->item.policy->index == b->item.policy->index &&
               a->item.identifier == b->item.identifier;
    };
    std::vector<Items> groups;
    for (const Counted* one : items) {
        const auto takes = [&](const Items& group) {
            return group.front()->cost == one->cost &&
                   std::none_of(group.begin(), group.end(),
                                [&](const Counted* other) { return same_item(one, other); });
        };
        const auto group = std::find_if(groups.begin(), groups.end(), takes);
        if (group != groups.end()) {
            group->push_back(one);
        } else {
            groups.push_back({one});
        }
    }
    struct Taken {
        const Items* group;
        ask::Decision* decision;
    };
    std::vector<Taken> taken;
    const auto give_back_all = [&] {
        for (const Taken& one : taken) {
            worker_.engine.limiter().give_back(one.decision->charge);
            ask::note_given_back(*x_.generation, *one.decision);
            read(*one.decision, *one.group, answer);
        }
        taken.clear();
    };
    for (const Items& group : groups) {
        if (is_late()) co_return give_back_all();
        // The call is already refused: the store states what is left of the others, and takes
        // nothing.
        const std::int64_t cost = answer.is_over ? 0 : group.front()->cost;
        ask::Decision* const decision = co_await charge(group, cost, groups.size() > 1);
        if (!is_down()) read(*decision, group, answer);
        if (decision->charge.remembered) co_await ask_what_is_left(*decision, group, answer);
        const bool is_over = std::any_of(group.begin(), group.end(), [&](const Counted* one) {
            return answer.statuses[one->position].is_over;
        });
        if (cost > 0 && !is_over && !is_down()) taken.push_back({&group, decision});
        if (is_over || is_down()) give_back_all();
        if (is_down()) co_return;
        answer.is_over |= is_over;
    }
}

// The call is refused whatever the answer is, and without one: then its status says less.
Task<> RlsCharge::ask_what_is_left(ask::Decision& remembered, const Items& group,
                                   RlsAnswer& answer) {
    const auto is_known = [&](const Counted* one) {
        bool known = true;
        ask::for_each_limit(remembered.charge, [&](const limit::ChargeItem& item, std::size_t,
                                                   const limit::LimitVerdict& verdict) {
            const bool is_its =
                item.policy == one->item.policy && item.identifier == one->item.identifier;
            known = known && (!is_its || verdict.is_current);
        });
        return known;
    };
    Items unknown;
    std::remove_copy_if(group.begin(), group.end(), std::back_inserter(unknown), is_known);
    if (unknown.empty() || is_late()) co_return;
    const ask::Fault fault = x_.decision.fault;
    const ask::Decision* const asked = co_await charge(unknown, 0, false);
    if (is_down()) {
        x_.decision.refuse(fault);
        co_return;
    }
    std::erase_if(remembered.ratelimit, [](const auto& item) { return !item.is_current; });
    read(*asked, unknown, answer);
}

namespace {

using limit::Micros;

// A window on the grid of the clock ends when the clock says, also while nothing is taken.
Micros until_reset(const limit::Limit& limit, const limit::LimitVerdict& verdict) {
    const bool is_on_grid = limit.follows_clock();
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

// Counts the decisions that are not the exchange's own, which proxy::finish() records.
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
    if (!items.empty()) {
        std::string lines;
        response.limit_fields.append(items, x_.facts.began_at, lines);
        add_lines(lines, answer.fields);
    }
    x_.decision.fault = answer.is_over ? ask::Fault::limited : ask::Fault::none;
    if (!answer.is_over) return;
    if (response.limit_fields.has(http::LimitFields::retry_after) && retry_after > 0) {
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
