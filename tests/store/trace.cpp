#include "store/trace.hpp"

#include <algorithm>
#include <utility>

#include "store/calendar.hpp"

namespace tidegate::test {

using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;
using limit::Policy;

namespace {

// Choices of limits that are written out here, and how many algorithms they are.
constexpr std::int64_t kListed = 9;
constexpr std::size_t kAlgorithmsListed = 7;

}  // namespace

Trace::Trace(std::uint64_t seed, Limits limits, Holds holds)
    : random_(seed), tag_(std::to_string(seed)), limits_(limits), holds_(holds) {
    clock_ = one_in(2) ? Clock::steady : Clock::stepping;
    plain_ = limits_ == Limits::all && one_in(3);
    const auto policies = between(1, 3);
    for (std::int64_t i = 0; i < policies; ++i) add_policy(i);
    for (int i = 0; i < 3; ++i) identifiers_.push_back("user:" + tag_ + "-" + std::to_string(i));
    now_ = kStart + Micros{between(0, 10'000'000'000)};
    const auto steps = between(10, 60);
    for (std::int64_t i = 0; i < steps; ++i) {
        pass_time();
        if (limits_ == Limits::all && !charges_.empty() && one_in(5)) {
            add_refund_or_release();
        } else {
            add_charge();
        }
    }
}

std::int64_t Trace::between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>{low, high}(random_);
}

Micros Trace::duration() {
    switch (between(0, 4)) {
        case 0:
            return Micros{between(1'000, 20'000)};
        case 1:
            return Micros{between(20'000, 1'000'000)};
        case 2:
            return std::chrono::seconds{between(1, 10)};
        case 3:
            return std::chrono::minutes{between(1, 60)};
        default:
            return std::chrono::hours{between(1, 24 * 30)};
    }
}

std::int64_t Trace::quota() {
    if (one_in(12)) return 0;
    if (one_in(8)) return between(1, std::int64_t{1} << 31);
    return between(1, one_in(3) ? 100 : 8);
}

LimitSpec Trace::window() {
    LimitSpec spec;
    spec.quota = quota();
    spec.in_money = limits_ == Limits::all && !plain_ && one_in(5);
    if (spec.in_money && one_in(2)) spec.quota = between(1, limit::kMoneyMax);
    spec.duration = duration();
    if (one_in(4)) {
        spec.algorithm = Algorithm::fixed_window;
        if (!plain_ && one_in(2)) spec.anchor = limit::Anchor::first_request;
        if (one_in(3)) spec.anchor = period();
        if (limit::has_period(spec.anchor)) spec.duration = Micros{0};
        return spec;
    }
    spec.strict = one_in(3);
    if (one_in(3)) return spec;
    const std::int64_t blocks = one_in(10) ? between(1, 900) : between(1, 7);
    // Seldom divides: the last sub-bucket reaches over the edge.
    const Micros precision = (spec.duration - Micros{1}) / blocks + Micros{between(1, 3)};
    spec.precision = std::clamp(precision, Micros{1}, spec.duration);
    return spec;
}

// Plain traces have none that the fast path of the scripts does not decide.
limit::Anchor Trace::period() {
    const std::int64_t choice = plain_ ? 0 : between(0, 2);
    if (choice == 0) return limit::Anchor::utc_day;
    return choice == 1 ? limit::Anchor::utc_week : limit::Anchor::utc_month;
}

LimitSpec Trace::bucket() {
    LimitSpec spec;
    spec.quota = std::max<std::int64_t>(1, quota());
    spec.duration = duration();
    if (one_in(2)) {
        spec.burst = one_in(5) ? between(1, std::int64_t{1} << 31) : between(1, 12);
    }
    spec.algorithm = one_in(3) ? Algorithm::leaky_bucket : Algorithm::gcra;
    if (spec.algorithm == Algorithm::leaky_bucket && one_in(2)) {
        spec.max_delay = std::min<Micros>(limit::kDelayMax, duration());
    }
    return spec;
}

LimitSpec Trace::schedule() {
    LimitSpec spec;
    spec.algorithm = Algorithm::schedule;
    spec.quota = one_in(12) ? 0 : between(1, one_in(4) ? 20 : 5);
    spec.utc_day = one_in(4);
    spec.duration = spec.utc_day ? Micros{std::chrono::hours{24}} : duration();
    spec.horizon = std::min(limit::kDurationMax, 4 * spec.duration);
    spec.forward_past = one_in(4);
    return spec;
}

// Of an algorithm without choices of its own here, by its row.
LimitSpec Trace::other(std::size_t position) {
    LimitSpec spec;
    spec.algorithm = static_cast<Algorithm>(kAlgorithmsListed + position);
    const limit::AlgorithmTraits& traits = limit::traits_of(spec.algorithm);
    spec.quota = std::clamp(quota(), traits.quota_min, traits.quota_max);
    if (traits.has(limit::kPer)) spec.duration = duration();
    return spec;
}

LimitSpec Trace::spec(std::int64_t choice) {
    if (choice <= 3) return window();
    if (choice > 4 && choice <= 7) return bucket();
    if (choice == 8) return schedule();
    if (choice > kListed) return other(static_cast<std::size_t>(choice - kListed - 1));
    LimitSpec spec;
    if (choice == 4) {
        spec.algorithm = Algorithm::sliding_log;
        spec.quota = std::min(limit::kLogQuotaMax, quota());
        spec.duration = duration();
    } else {
        spec.algorithm = Algorithm::concurrency;
        spec.quota = between(0, 4);
    }
    return spec;
}

Limit Trace::limit() {
    const bool all = limits_ == Limits::all && !plain_;
    const auto others = static_cast<std::int64_t>(limit::kAlgorithms.size() - kAlgorithmsListed);
    const std::int64_t choice = all ? between(0, kListed + others) : 0;
    LimitSpec one = spec(choice);
    const bool counts = limit::traits_of(one.algorithm).has(limit::kCount);
    if (counts && all) {
        if (one_in(4)) {
            one.count = limit::Count::all;
        } else if (one_in(3)) {
            one.count = limit::Count::by_status;
            one.statuses = {401, 403};
        }
    }
    const auto made = limit::make_limit(one);
    return made ? *made : limit();  // a burst that would never come back
}

// Equal ids in a policy are refused by the configuration.
std::vector<Limit> Trace::list_of_limits() {
    std::vector<Limit> limits;
    const auto count = plain_ && one_in(4) ? between(5, 20) : between(1, 4);
    for (std::int64_t i = 0; i < count; ++i) {
        Limit one = limit();
        const bool known = std::any_of(limits.begin(), limits.end(),
                                       [&](const Limit& other) { return other.id == one.id; });
        if (!known) limits.push_back(std::move(one));
    }
    return limits;
}

// Other quotas for the same limits, or limits of its own, or none. Those of its own make the other
// tiers' records go once they have expired; with a clock that then steps back, that shows.
void Trace::add_tier(Policy& policy) {
    limit::Tier tier;
    tier.name = "tier" + std::to_string(policy.tiers.size());
    tier.index = lists_++;
    if (clock_ == Clock::steady && one_in(3)) {
        tier.limits = list_of_limits();
    } else if (!one_in(4)) {
        tier.limits = policy.limits;
        for (Limit& one : tier.limits) {
            if (one_in(2)) one.quota = std::max<std::int64_t>(1, one.quota / between(1, 3));
        }
        std::shuffle(tier.limits.begin(), tier.limits.end(), random_);
    }
    policy.tiers.push_back(std::move(tier));
}

void Trace::add_policy(std::int64_t index) {
    auto one = std::make_unique<Policy>(policy("p" + std::to_string(index), list_of_limits()));
    one->index = lists_++;
    if (limits_ == Limits::all) {
        one->shadow = one_in(4);
        while (one_in(3)) add_tier(*one);
        // The configuration refuses soft policies that give slots, places in a line or moments.
        const auto only_counts = [](const std::vector<Limit>& limits) {
            return std::none_of(limits.begin(), limits.end(), [](const Limit& limit) {
                const auto& traits = limit.traits();
                return traits.has_slots || traits.queues || traits.has_moments;
            });
        };
        const bool may_be_soft =
            only_counts(one->limits) &&
            std::all_of(one->tiers.begin(), one->tiers.end(),
                        [&](const limit::Tier& tier) { return only_counts(tier.limits); });
        one->soft = !one->shadow && may_be_soft && one_in(2);
        if (!plain_ && one->is_enforced()) {
            if (one_in(4)) add_candidate(*one);
            if (one_in(4)) add_twin(*one);
        }
    }
    policies_.push_back(std::move(one));
}

// The policy in shadow: some identifiers are counted by it, the others by the policy itself.
void Trace::add_twin(Policy& policy) {
    auto twin = std::make_unique<Policy>(policy);
    twin->shadow = true;
    twin->twin_of = &policy;
    twin->index = lists_++;
    for (limit::Tier& tier : twin->tiers) tier.index = lists_++;
    twins_[&policy] = std::move(twin);
}

// Of the limits that the configuration takes.
void Trace::add_candidate(Policy& policy) {
    std::vector<Limit> limits = list_of_limits();
    std::erase_if(limits, [](const Limit& limit) { return limit.traits().has_slots; });
    if (limits.empty()) return;
    auto candidate = std::make_unique<Policy>(test::policy(policy.name + "@candidate", limits));
    candidate->shadow = true;
    candidate->candidate_of = &policy;
    candidate->index = lists_++;
    policy.has_candidate = true;
    candidates_[&policy] = std::move(candidate);
}

const Limit& Trace::some_limit() {
    const Policy& some = *policies_[static_cast<std::size_t>(
        between(0, static_cast<std::int64_t>(policies_.size()) - 1))];
    return some.limits[static_cast<std::size_t>(
        between(0, static_cast<std::int64_t>(some.limits.size()) - 1))];
}

// Mostly near the scale of some limit, so that windows fill, slide and empty.
void Trace::pass_time() {
    const Micros next = next_time(some_limit());
    now_ = clock_ == Clock::steady ? std::max(now_, next) : std::max(Micros{1'000'000}, next);
}

Micros Trace::next_time(const Limit& near) {
    if (near.follows_calendar() && one_in(3)) {
        return Micros{period_end(near.anchor, now_.count()) + between(-1, 1)};
    }
    // An event that makes a unit come back.
    Micros step = near.precision;
    if (near.algorithm != Algorithm::sliding_window && near.algorithm != Algorithm::fixed_window) {
        step = std::max(Micros{1}, near.duration / std::clamp<std::int64_t>(near.quota, 1, 1'000));
    }
    switch (between(0, 9)) {
        case 0:
            return now_;
        case 1:
            return now_ + near.duration * between(1, 3);
        case 2:
            return now_ + Micros{between(0, 2)};
        case 3:
            return now_ - now_ % step + step;
        case 4:
            return now_ - Micros{between(0, step.count())};
        case 5:
            return one_in(3) ? now_ - Micros{between(0, 3 * near.duration.count())} : now_;
        default:
            return now_ + Micros{between(0, 2 * step.count())};
    }
}

void Trace::add_items(Step& step, const Policy& policy) {
    const auto twin = twins_.find(&policy);
    std::vector<limit::ChargeItem> of_candidate;
    for (const std::string& identifier : identifiers_) {
        if (!one_in(3)) continue;
        const bool is_in_share = twin == twins_.end() || &identifier != &identifiers_[1];
        const Policy& counts = is_in_share ? policy : *twin->second;
        const auto tier = between(0, static_cast<std::int64_t>(counts.tiers.size()));
        const limit::ChargeItem item{
            &counts, identifier,
            tier == 0 ? nullptr : &counts.tiers[static_cast<std::size_t>(tier - 1)]};
        // Unlimited clients are not charged.
        if (!item.limits().empty()) step.items.push_back(item);
        const auto candidate = candidates_.find(&policy);
        if (candidate != candidates_.end()) {
            of_candidate.push_back({candidate->second.get(), identifier});
        }
    }
    step.items.insert(step.items.end(), of_candidate.begin(), of_candidate.end());
}

void Trace::add_charge() {
    Step step;
    step.now = now_;
    while (step.items.empty()) {
        for (const auto& one : policies_) add_items(step, *one);
    }
    if (one_in(8)) step.cost = 0;
    if (one_in(5)) step.cost = between(1, one_in(4) ? 5'000'000'000 : 10);
    step.slot_hold = {1, steps_.size()};
    if (holds_ == Holds::some_shared && one_in(6)) {
        step.slot_hold.request = static_cast<std::uint64_t>(between(0, 9));
    }
    const Micros scale = some_limit().duration;
    step.moment = now_ + Micros{between(-scale.count(), 3 * scale.count())};
    if (one_in(3)) step.moment -= step.moment % scale;
    if (one_in(3)) step.moment = now_ + scale * between(-1, 3);
    if (limits_ == Limits::all && one_in(3)) set_own_costs(step);
    charges_.push_back(steps_.size());
    steps_.push_back(std::move(step));
}

// Mostly one for each policy.
void Trace::set_own_costs(Step& step) {
    const limit::Policy* policy = nullptr;
    std::int64_t cost = limit::ChargeItem::kOfCharge;
    for (limit::ChargeItem& item : step.items) {
        // The items of a candidate are one group.
        if (item.policy != policy || (!item.policy->is_candidate() && one_in(6))) {
            cost = one_in(4) ? limit::ChargeItem::kOfCharge : between(0, one_in(3) ? 50 : 5);
            const limit::Limit& first = item.limits()[0];
            if (first.in_money && one_in(2)) cost = between(0, first.quota / between(1, 9) + 1);
            if (first.in_money && one_in(9)) cost = limit::kMoneyMax;
        }
        policy = item.policy;
        item.own_cost = cost;
    }
}

void Trace::add_refund_or_release() {
    const auto choice = between(0, static_cast<std::int64_t>(charges_.size()) - 1);
    // Mostly of recent steps: older ones have stopped counting long ago.
    const auto position = one_in(3) ? static_cast<std::size_t>(choice) : charges_.size() - 1;
    Step step;
    step.now = now_;
    step.of_step = charges_[position];
    if (one_in(3)) {
        step.kind = Step::Kind::release;
    } else {
        using Of = limit::Refund::Of;
        step.kind = Step::Kind::refund;
        step.of = one_in(2) ? Of::status : one_in(2) ? Of::place : Of::all;
        step.status = one_in(3) ? 401 : 200;
        const Step& of = steps_[step.of_step];
        for (std::size_t i = 0; step.of == Of::all && one_in(2) && i < of.items.size(); ++i) {
            step.costs.resize(of.items.size());
            step.costs[i] = between(0, of.charge().cost_of(of.items[i]));
        }
        charges_.erase(charges_.begin() + static_cast<std::ptrdiff_t>(position));
    }
    steps_.push_back(std::move(step));
}

std::vector<limit::Verdict> play(const Trace& trace, Subject& subject) {
    std::vector<limit::Verdict> verdicts;
    for (const Step& step : trace.steps()) {
        const Step& of_step = trace.steps()[step.of_step];
        switch (step.kind) {
            case Step::Kind::charge:
                verdicts.push_back(subject.charge(step.charge(), step.now));
                continue;
            case Step::Kind::release:
                subject.release(of_step.charge(), step.now);
                break;
            case Step::Kind::refund:
                if (verdicts[step.of_step].admitted) {
                    std::vector<limit::ChargeItem> items = of_step.items;
                    for (std::size_t i = 0; i < items.size() && !step.costs.empty(); ++i) {
                        items[i].own_cost = step.costs[i];
                    }
                    limit::Charge given = of_step.charge();
                    given.items = items;
                    subject.give_back(
                        {given, &verdicts[step.of_step].receipt, step.of, step.status}, step.now);
                }
                break;
        }
        verdicts.emplace_back();
    }
    return verdicts;
}

bool may_have_lost_keys(std::chrono::steady_clock::time_point since) {
    return std::chrono::steady_clock::now() - since > std::chrono::milliseconds{900};
}

}  // namespace tidegate::test
