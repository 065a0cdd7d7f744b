#include "ask/verdict.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.hpp"

namespace tidegate::ask {

namespace {

using http::RateLimitItem;

std::int64_t seconds_up(limit::Micros time) {
    constexpr std::int64_t kSecond = 1'000'000;
    return time.count() / kSecond + (time.count() % kSecond != 0 ? 1 : 0);
}

// Seconds until the next unit of the limit is free. While nothing is taken no unit comes back: a
// client that spreads what is left over the time gets the length of the window. Nothing where the
// moment is not known, or windows differ in length.
std::optional<std::int64_t> reset_seconds(const limit::Limit& limit, RateLimitItem::Kind kind,
                                          const limit::LimitVerdict& verdict) {
    if (!verdict.tells_next_unit(limit)) return std::nullopt;
    const bool is_unused = verdict.next_unit == limit::Micros{0};
    if (!is_unused || kind != RateLimitItem::Kind::window) return seconds_up(verdict.next_unit);
    if (!limit.has_one_duration()) return std::nullopt;
    return seconds_up(limit.duration);
}

// Inlined where each request passes: the compiler would not, as there are two callers.
[[gnu::always_inline]] inline RateLimitItem item_of(const Ruleset& rules,
                                                    const limit::ChargeItem& item,
                                                    std::size_t position,
                                                    const limit::LimitVerdict& verdict) {
    const limit::Limit& limit = item.limits()[position];
    const auto& texts = rules.policy_texts.of(item, position);
    // A burst may be more than what a window gives back; the fields that the client gets are in
    // terms of the window.
    return {.name = texts.name,
            .quota = limit.quota,
            .window_seconds = texts.window_seconds,
            .remaining = verdict.is_current ? std::min(verdict.remaining, limit.quota) : 0,
            .reset_seconds = reset_seconds(limit, texts.kind, verdict),
            .kind = texts.kind,
            // They have the quota of the configuration.
            .texts = item.tier != nullptr && item.tier->by_claims ? nullptr : &texts.members,
            .is_current = verdict.is_current,
            .unit = texts.unit};
}

// Where it is not known how much is left, it may be nothing.
bool is_tighter(const RateLimitItem& a, const RateLimitItem& b) {
    if (a.remaining != b.remaining) return a.remaining < b.remaining;
    if (a.is_current != b.is_current) return a.is_current;
    return http::waits_longer(a, b);
}

// Lists what the fields of the answer tell of the limits: one entry a limit, of the identifier with
// the least left. Items of one policy and tier are next to each other, so its entries are the last
// ones. Calls `visit(item, position of the limit, verdict)` for each limit.
template <class Visit>
void list_limits(const Ruleset& rules, Decision& decision, Visit visit) {
    auto& entries = decision.ratelimit;
    const limit::Policy* policy = nullptr;
    const limit::ChargeItem* begun = nullptr;
    std::size_t first = 0;
    for_each_limit(decision.charge, [&](const limit::ChargeItem& item, std::size_t i,
                                        const limit::LimitVerdict& one) {
        visit(item, i, one);
        // A client has no reason to wait for a limit that never refuses.
        if (!item.policy->is_enforced()) return;
        if (item.policy != policy || item.tier != begun->tier) {
            policy = item.policy;
            begun = &item;
            first = entries.size();
        }
        const RateLimitItem entry = item_of(rules, item, i, one);
        if (begun == &item) {
            entries.push_back(entry);
        } else if (is_tighter(entry, entries[first + i])) {
            entries[first + i] = entry;
        }
    });
}

// Calls `visit(policy)` for each candidate that was asked.
template <class Visit>
void for_each_candidate(const store::LimitDecision& charge, Visit visit) {
    const limit::Policy* last = nullptr;
    for (const limit::ChargeItem& item : charge.decided()) {
        if (!item.policy->is_candidate() || item.policy == last) continue;
        last = item.policy;
        visit(*last);
    }
}

void count_candidates(const Ruleset& rules, Metrics& metrics, const store::LimitDecision& charge) {
    using enum RequestFate;
    const bool is_admitted = charge.result == store::LimitDecision::Result::admitted;
    for_each_candidate(charge, [&](const limit::Policy& candidate) {
        metrics.count_candidate(rules.slots.decision(candidate.index, 0),
                                is_admitted ? admitted : denied,
                                admits_as_live(charge, candidate) ? admitted : denied);
    });
}

}  // namespace

bool admits_as_live(const store::LimitDecision& charge, const limit::Policy& candidate) {
    bool admits = true;
    for_each_limit(charge,
                   [&](const limit::ChargeItem& item, std::size_t, const limit::LimitVerdict& one) {
                       if (one.denied && item.policy->decides_for(candidate)) admits = false;
                   });
    return admits;
}

bool is_refused_by_candidate(const store::LimitDecision& charge) {
    bool refused = false;
    for_each_candidate(charge, [&](const limit::Policy& candidate) {
        refused = refused || !admits_as_live(charge, candidate);
    });
    return refused;
}

std::int64_t retry_after_seconds(const store::LimitDecision& charge) {
    const limit::Micros retry_after = charge.verdict.retry_after;
    if (retry_after == limit::kNever) return 0;
    std::int64_t seconds = std::max<std::int64_t>(1, seconds_up(retry_after));
    for_each_limit(
        charge, [&](const limit::ChargeItem& item, std::size_t, const limit::LimitVerdict& one) {
            if (one.denied && item.policy->is_enforced() && one.next_unit != limit::kNever) {
                seconds = std::max(seconds, seconds_up(one.next_unit));
            }
        });
    return seconds;
}

UnitsTaken units_taken(const limit::Limit& limit, const limit::LimitVerdict& verdict) {
    const std::int64_t most = limit.most_at_once();
    return {most - std::clamp<std::int64_t>(verdict.remaining, 0, most), most};
}

void apply_verdict(const Ruleset& rules, Metrics& metrics, Decision& decision) {
    using Result = store::LimitDecision::Result;
    if (decision.charge.result == Result::unavailable) {
        return decision.refuse(Fault::store_unavailable);
    }
    if (decision.charge.result == Result::limited) decision.refuse(Fault::limited);
    list_limits(rules, decision,
                [&](const limit::ChargeItem& item, std::size_t i, const limit::LimitVerdict& one) {
                    metrics.count_decision(rules.slots.decision(list_of(item), i), one.denied);
                });
    if (rules.has_candidates) [[unlikely]]
        count_candidates(rules, metrics, decision.charge);
}

void note_given_back(const Ruleset& rules, Decision& decision) {
    std::size_t position = 0;
    const limit::Charge charge = decision.charge.charge();
    for_each_limit(decision.charge,
                   [&](const limit::ChargeItem& item, std::size_t i, const limit::LimitVerdict&) {
                       limit::LimitVerdict& verdict = decision.charge.verdict.limits[position++];
                       limit::add_back(charge.cost_of(item), item.limits()[i], verdict);
                   });
    decision.ratelimit.clear();
    list_limits(rules, decision, [](const auto&, std::size_t, const auto&) {});
}

std::optional<TooLarge> too_large(const limit::ChargeItem& item, std::size_t limit,
                                  std::int64_t cost) {
    const limit::Limit& of = item.limits()[limit];
    const std::int64_t most = of.most_at_once();
    // A slot is a slot, whatever its request costs.
    if (of.traits().has_slots || most == 0 || cost <= most) return std::nullopt;
    return TooLarge{&item, limit, {cost, of.in_money}, {most, of.in_money}};
}

std::optional<TooLarge> refused_as_too_large(const store::LimitDecision& decision) {
    std::optional<TooLarge> first;
    const limit::Charge charge = decision.charge();
    for_each_limit(decision, [&](const limit::ChargeItem& item, std::size_t i,
                                 const limit::LimitVerdict& one) {
        if (first || !one.denied || !item.policy->is_enforced()) return;
        first = too_large(item, i, charge.cost_of(item));
    });
    return first;
}

namespace {

// ` tokens`, as it stands behind an amount of the limit.
std::string_view unit_text(http::RateLimitItem::Unit unit) {
    using Unit = http::RateLimitItem::Unit;
    return unit == Unit::microdollars ? " USD" : unit == Unit::tokens ? " tokens" : " units";
}

}  // namespace

std::string text_of(const Ruleset& rules, const TooLarge& one) {
    const auto& texts = rules.policy_texts.of(*one.item, one.limit);
    std::string text = "This request would use " + shown_amount(one.cost);
    text += unit_text(texts.unit);
    text += " of a quota of " + shown_amount(one.most) + (one.most.in_money ? " USD" : "");
    return text + " (limit " + quote(texts.name) + "): it never passes. Ask for less.";
}

std::string text_of_usage(const Ruleset& rules, const store::LimitDecision& decision) {
    std::string text;
    bool is_first = true;
    const limit::Charge charge = decision.charge();
    for_each_limit(decision, [&](const limit::ChargeItem& item, std::size_t i,
                                 const limit::LimitVerdict& one) {
        if (!one.denied || !item.policy->is_enforced() || !std::exchange(is_first, false)) return;
        if (item.own_cost == limit::ChargeItem::kOfCharge) return;
        const auto& texts = rules.policy_texts.of(item, i);
        const UnitsTaken units = units_taken(item.limits()[i], one);
        const auto shown = [&](std::int64_t amount) {
            return shown_amount({amount, item.limits()[i].in_money});
        };
        text.append(texts.name).append(", ").append(shown(units.of)).append(unit_text(texts.unit));
        std::string_view before = ": ";
        if (one.is_current) {
            text.append(std::exchange(before, ", ")).append(shown(units.count)).append(" used");
        }
        // Of a request whose body is not read yet, one unit is asked for.
        const std::int64_t cost = charge.cost_of(item);
        if (cost > 1) text.append(before).append("this request may take ").append(shown(cost));
    });
    return text;
}

namespace {

// Why a value of the body that a limit counts by does not do.
std::string text_of_body_part(const Facts& facts, const Decision& decision) {
    constexpr std::string_view kCounts = ", and a limit of this route counts by it.";
    const limit::KeyPart& part = *decision.fault_part;
    const InspectedBody* const body = facts.body;
    const bool is_of_form = part.kind == limit::KeyPart::Kind::form;
    const std::string name = quote(part.name);
    std::string text;
    if (decision.fault == Fault::ambiguous_name) {
        // Some servers match names of members without their case.
        text = is_of_form ? "The form's field " + name +
                                " can be read in more than one way: it is there twice, in another "
                                "spelling or in the query as well, or is not UTF-8"
                          : "The body has the member " + name +
                                " more than once, in another case, or as a field of a form as well";
    } else if (body == nullptr || body->bytes == 0) {
        text = "The request has no body, which should have " + name;
    } else if (is_of_form) {
        text = body->is_form ? "The form has no field " + name
                             : "The body is not a form (application/x-www-form-urlencoded), which "
                               "should have the field " +
                                   name;
    } else {
        text = body->json.is_json
                   ? "The body has no text, number, true or false at " + name
                   : "The body is not a JSON object, which should have the member " + name;
    }
    return text.append(kCounts);
}

}  // namespace

std::string_view refusal_text(const Ruleset& rules, const Facts& facts, const Decision& decision,
                              std::string& room) {
    if (!decision.fault_detail.empty()) return decision.fault_detail;
    switch (decision.fault) {
        case Fault::limited:
            if (const auto large = refused_as_too_large(decision.charge)) {
                return room = text_of(rules, *large);
            }
            room = text_of_usage(rules, decision.charge);
            if (!room.empty()) return room = "The request is over the limit " + room + ".";
            break;
        case Fault::no_price:
            if (decision.model.empty()) break;
            room = "There is no price for the model " + quote(decision.model);
            return room += ", and its cost is counted in money.";
        case Fault::ambiguous_name:
        case Fault::no_identifier:
            if (decision.fault_part == nullptr) break;
            return room = text_of_body_part(facts, decision);
        default:
            break;
    }
    return traits(decision.fault).detail;
}

}  // namespace tidegate::ask
