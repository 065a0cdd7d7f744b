#include "faces/rls_charge.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ask/decided_limits.hpp"
#include "ask/verdict.hpp"
#include "proxy/request.hpp"

namespace tidegate::faces {

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
    const auto take_back_all = [&] {
        for (const Taken& one : taken) {
            worker_.engine.limiter().take_back(one.decision->charge);
            ask::note_given_back(*x_.generation, *one.decision);
            read(*one.decision, *one.group, answer);
        }
        taken.clear();
    };
    for (const Items& group : groups) {
        if (is_late()) co_return take_back_all();
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
        if (is_over || is_down()) take_back_all();
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

}  // namespace tidegate::faces
