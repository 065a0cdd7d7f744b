#include "store/cross_slot_charge.hpp"

#include <algorithm>

#include "store/charge_script.hpp"
#include "store/limit_decision.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::LimitVerdict;
using limit::Micros;
using limit::OnStoreFailure;
using GiveBack = CrossSlotVerdict::GiveBack;
using Next = CrossSlotVerdict::Next;

void clear(CrossSlotVerdict::Part& part) {
    part.items.clear();
    part.positions.clear();
    part.verdict.limits.clear();
    part.answer = CrossSlotVerdict::Answer::none;
}

bool takes(const CrossSlotVerdict::Part& part, std::int64_t cost) {
    return limit::Charge{part.items, cost}.takes();
}

bool is_in_shadow(const ChargeItem& item) {
    return item.policy->shadow && !item.policy->is_candidate();
}

bool has_shadow(const CrossSlotVerdict::Part& part) {
    return std::any_of(part.items.begin(), part.items.end(), is_in_shadow);
}

// Whether a limit of the item at `position` of the part denied.
bool denies(const CrossSlotVerdict::Part& part, std::size_t position) {
    auto one = part.verdict.limits.begin();
    for (std::size_t i = 0; i < position; ++i) {
        one += static_cast<std::ptrdiff_t>(part.items[i].limits().size());
    }
    return std::any_of(one, one + static_cast<std::ptrdiff_t>(part.items[position].limits().size()),
                       [](const LimitVerdict& verdict) { return verdict.denied; });
}

bool counts_denied(const ChargeItem& item) {
    const auto limits = item.limits();
    return std::any_of(limits.begin(), limits.end(),
                       [](const Limit& limit) { return limit.count == limit::Count::all; });
}

// Whether a schedule is among the limits that denied.
bool schedule_denied(const CrossSlotVerdict::Part& part) {
    std::size_t next = 0;
    for (const ChargeItem& item : part.items) {
        for (const Limit& limit : item.limits()) {
            const bool denied = part.verdict.limits[next++].denied;
            if (denied && limit.traits().has_moments && item.policy->is_enforced()) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace

void CrossSlotVerdict::begin(std::span<const ChargeItem> items, std::int64_t cost,
                             const SlotOf& slot_of) {
    used_ = turn_ = 0;
    turns_ = 1;
    for (Part& local : locals_) {
        clear(local);
        local.in_process = true;
    }
    items_.assign(items.begin(), items.end());
    cost_ = cost;
    result_ = Result::admitted;
    shadow_admitted_ = true;
    has_failed_ = false;
    const bool any_of_client =
        std::any_of(items.begin(), items.end(), [](const auto& item) { return item.of_client; });
    // A candidate is asked whatever the live limits of its policy say.
    const bool has_candidates = std::any_of(
        items.begin(), items.end(), [](const auto& item) { return item.policy->is_candidate(); });
    for (std::size_t i = 0; i < items.size(); ++i) {
        const bool is_second =
            any_of_client && !has_candidates && !items[i].of_client && !counts_denied(items[i]);
        if (is_second) turns_ = 2;
        CrossSlotVerdict::Part& part = part_of(slot_of(items[i]), is_second ? 1 : 0);
        part.items.push_back(items[i]);
        part.positions.push_back(i);
    }
}

CrossSlotVerdict::Part& CrossSlotVerdict::part_of(std::uint16_t slot, std::size_t turn) {
    for (CrossSlotVerdict::Part& part : parts()) {
        if (part.slot == slot && part.turn == turn) return part;
    }
    if (used_ == parts_.size()) parts_.emplace_back();
    CrossSlotVerdict::Part& part = parts_[used_++];
    clear(part);
    part.slot = slot;
    part.turn = turn;
    return part;
}

// Policies that are not enforced deny nothing, whatever fails.
bool CrossSlotVerdict::must_deny(bool can_be_local) const {
    const auto denies = [&](const ChargeItem& item) {
        if (!item.policy->is_enforced()) return false;
        const OnStoreFailure decides = item.policy->on_store_failure;
        return decides == OnStoreFailure::deny ||
               (decides == OnStoreFailure::local && !can_be_local);
    };
    return std::any_of(parts().begin(), parts().end(), [&](const CrossSlotVerdict::Part& part) {
        return part.answer == Answer::failed &&
               std::any_of(part.items.begin(), part.items.end(), denies);
    });
}

template <class Visit>
void CrossSlotVerdict::for_each_part(Visit visit) const {
    for (const CrossSlotVerdict::Part& part : parts()) visit(part);
    for (const CrossSlotVerdict::Part& local : locals_) visit(local);
}

CrossSlotVerdict::Next CrossSlotVerdict::next(bool can_be_local) {
    bool denied = false;
    for (const CrossSlotVerdict::Part& part : parts()) {
        if (is_due(part)) return Next::wait;
        if (part.turn != turn_) continue;
        has_failed_ = has_failed_ || part.answer == Answer::failed;
        denied = denied || part.answer == Answer::denied;
    }
    if (must_deny(can_be_local)) return end(Result::unavailable);
    if (denied) return end(Result::limited);
    // Last of the turn: not needed where Redis denies.
    if (local().answer == Answer::none && begin_local(can_be_local)) return Next::ask_local;
    if (local().answer == Answer::failed) return end(Result::unavailable);
    if (local().answer == Answer::denied) return end(Result::limited);
    if (turn_ + 1 == turns_) return end(Result::admitted);
    ++turn_;
    return Next::ask_slots;
}

CrossSlotVerdict::Next CrossSlotVerdict::end(Result result) {
    result_ = result;
    shadow_admitted_ = true;
    for_each_part([&](const CrossSlotVerdict::Part& part) {
        const bool is_known = part.answer == Answer::admitted || part.answer == Answer::denied;
        if (is_known && !part.verdict.shadow_admitted) shadow_admitted_ = false;
    });
    for (Part& local : locals_) {
        if (local.answer == Answer::none) clear(local);
    }
    return Next::end;
}

bool CrossSlotVerdict::begin_local(bool can_be_local) {
    for (std::size_t position = 0; position < items_.size(); ++position) {
        const OnStoreFailure decides = items_[position].policy->on_store_failure;
        const bool is_local = decides == OnStoreFailure::local_or_alone ||
                              (decides == OnStoreFailure::local && can_be_local);
        if (!is_local) continue;
        for (const CrossSlotVerdict::Part& part : parts()) {
            if (part.turn != turn_ || part.answer != Answer::failed) continue;
            if (std::find(part.positions.begin(), part.positions.end(), position) ==
                part.positions.end()) {
                continue;
            }
            local().items.push_back(items_[position]);
            local().positions.push_back(position);
        }
    }
    return !local().items.empty();
}

CrossSlotVerdict::GiveBack CrossSlotVerdict::to_give_back(
    const CrossSlotVerdict::Part& part) const {
    if (part.answer != Answer::admitted || !takes(part, cost_)) return GiveBack::nothing;
    if (result_ != Result::admitted) return GiveBack::all;
    // A group that denied has taken nothing.
    const bool took_shadow = part.verdict.shadow_admitted && has_shadow(part);
    return !shadow_admitted_ && took_shadow ? GiveBack::shadow : GiveBack::nothing;
}

bool CrossSlotVerdict::admits_as_live(const limit::Policy& candidate) const {
    if (result_ == Result::unavailable) return false;
    bool admits = true;
    for_each_part([&](const Part& part) {
        if (part.answer != Answer::admitted && part.answer != Answer::denied) return;
        for (std::size_t i = 0; i < part.items.size(); ++i) {
            if (part.items[i].policy->decides_for(candidate) && denies(part, i)) admits = false;
        }
    });
    return admits;
}

bool CrossSlotVerdict::gives_back(const Part& part, std::size_t item) const {
    const ChargeItem& one = part.items[item];
    if (part.answer != Answer::admitted && part.answer != Answer::denied) return false;
    if (one.policy->is_candidate()) {
        return part.verdict.receipt.generations[item] != 0 && !admits_as_live(*one.policy);
    }
    const GiveBack back = to_give_back(part);
    if (!is_in_shadow(one)) return back == GiveBack::all;
    return part.verdict.shadow_admitted && back != GiveBack::nothing;
}

void CrossSlotVerdict::merge(limit::Verdict& verdict, std::vector<ChargeItem>& decided) const {
    decided.clear();
    verdict.limits.clear();
    verdict.receipt.generations.clear();
    verdict.admitted = result_ == Result::admitted;
    verdict.shadow_admitted = shadow_admitted_;
    verdict.retry_after = verdict.wait = verdict.earliest = Micros{0};
    if (result_ == Result::unavailable) return;
    bool earliest_known = true;
    for_each_part([&](const CrossSlotVerdict::Part& part) {
        if (part.answer == Answer::admitted && verdict.admitted) {
            verdict.wait = std::max(verdict.wait, part.verdict.wait);
        } else if (part.answer == Answer::denied) {
            verdict.retry_after = std::max(verdict.retry_after, part.verdict.retry_after);
            verdict.earliest = std::max(verdict.earliest, part.verdict.earliest);
            if (part.verdict.earliest == Micros{0} && schedule_denied(part)) earliest_known = false;
        }
    });
    if (!earliest_known) verdict.earliest = Micros{0};
    for (std::size_t position = 0; position < items_.size(); ++position) {
        for_each_part([&](const CrossSlotVerdict::Part& part) {
            if (part.answer != Answer::admitted && part.answer != Answer::denied) return;
            std::size_t first = 0;
            for (std::size_t i = 0; i < part.items.size(); ++i) {
                if (part.positions[i] == position) {
                    decided.push_back(part.items[i]);
                    append_limits(part, i, first, verdict);
                }
                first += part.items[i].limits().size();
            }
        });
    }
}

// Appends the verdicts on the limits of an item, the first of which is at `first` in that of the
// part.
void CrossSlotVerdict::append_limits(const CrossSlotVerdict::Part& part, std::size_t item,
                                     std::size_t first, limit::Verdict& verdict) const {
    const bool given_back = gives_back(part, item);
    const std::int64_t cost = limit::Charge{part.items, cost_}.cost_of(part.items[item]);
    for (const Limit& limit : part.items[item].limits()) {
        LimitVerdict& one = verdict.limits.emplace_back(part.verdict.limits[first++]);
        if (given_back) limit::add_back(cost, limit, one);
    }
}

// Charges the items of one slot.
class CrossSlotCharge::Command final : public redis::Request {
  public:
    Command(CrossSlotCharge& owner, std::size_t part) : owner_(owner), part_(part) {}

    void append_command(std::string& out) override {
        const limit::Charge charge = owner_.charge_of(part());
        const RedisStore& redis = owner_.services_.redis;
        append_charge_command({&charge, 1}, redis.key_prefix, redis.clock(), out);
    }
    const redis::Script* script() const override {
        return &charge_script(owner_.charge_of(part()));
    }
    void on_reply(const redis::Reply& reply) override {
        const limit::Charge charge = owner_.charge_of(part());
        limit::Verdict* const verdict = &part().verdict;
        if (reply.kind == redis::Reply::Kind::string &&
            read_charge_reply(reply.text, {&charge, 1}, {&verdict, 1})) {
            CrossSlotVerdict::answered(part());
        } else {
            owner_.fail(part(), StoreFailure::protocol);
        }
        owner_.go_on();
    }
    void on_failure(redis::Failure failure) override {
        owner_.fail(part(), failure_of(failure));
        owner_.go_on();
    }

  private:
    Part& part() const { return owner_.verdict_.parts()[part_]; }

    CrossSlotCharge& owner_;
    std::size_t part_;
};

CrossSlotCharge::CrossSlotCharge(const Services& services, LimitDecision& decision)
    : services_(services), decision_(decision) {}

CrossSlotCharge::~CrossSlotCharge() = default;

// Sends nothing to slots whose nodes are known to be away; where their policies deny, to no slot.
void CrossSlotCharge::begin() {
    decision_.store_state.crosses_slots = true;
    verdict_.begin(decision_.items, decision_.cost, slot_of);
    for (Part& part : verdict_.parts()) {
        if (services_.redis.servers.is_away(part.slot)) fail(part, StoreFailure::unavailable);
    }
    if (verdict_.must_deny(services_.failure_policy.knows_share())) {
        for (Part& part : verdict_.parts()) {
            if (verdict_.is_due(part)) fail(part, StoreFailure::unavailable);
        }
    }
    send();
    go_on();
}

bool CrossSlotCharge::recall() {
    if (counts_denied()) return false;
    verdict_.begin(decision_.items, decision_.cost, slot_of);
    for (const Part& part : verdict_.parts()) {
        if (!is_of_client(part) ||
            !services_.denials.recall(charge_of(part), decision_.store_state.asked,
                                      decision_.verdict)) {
            continue;
        }
        decision_.store_state.decided = part.items;
        decision_.is_partial = part.items.size() != decision_.items.size();
        return true;
    }
    return false;
}

// Sends to the slots whose turn it is.
void CrossSlotCharge::send() {
    const auto parts = verdict_.parts();
    is_sending_ = true;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!verdict_.is_due(parts[i])) continue;
        if (const auto failure = services_.redis.servers.send(
                command_for(i), parts[i].slot, decision_.store_state.asked, decision_.needed_by)) {
            fail(parts[i], failure_of(*failure));
        }
    }
    is_sending_ = false;
}

CrossSlotCharge::Command& CrossSlotCharge::command_for(std::size_t part) {
    while (commands_.size() <= part) {
        commands_.push_back(std::make_unique<Command>(*this, commands_.size()));
    }
    return *commands_[part];
}

void CrossSlotCharge::fail(Part& part, StoreFailure failure) {
    const auto parts = verdict_.parts();
    const auto has_failed = [](const Part& one) {
        return one.answer == CrossSlotVerdict::Answer::failed;
    };
    if (std::none_of(parts.begin(), parts.end(), has_failed)) failure_ = failure;
    CrossSlotVerdict::failed(part);
}

void CrossSlotCharge::go_on() {
    if (is_sending_) return;
    const bool can_be_local = services_.failure_policy.knows_share();
    for (;;) {
        switch (verdict_.next(can_be_local)) {
            case Next::wait:
                return;
            case Next::ask_local:
                charge_in_process(verdict_.local());
                break;
            case Next::ask_slots:
                send();
                break;
            case Next::end:
                return end();
        }
    }
}

void CrossSlotCharge::charge_in_process(Part& part) const {
    const LimitDecision::Result result =
        services_.failure_policy.charge(charge_of(part), part.verdict);
    if (result == LimitDecision::Result::unavailable) {
        CrossSlotVerdict::failed(part);
    } else {
        CrossSlotVerdict::answered(part);
    }
}

void CrossSlotCharge::end() {
    decision_.result = verdict_.result();
    decision_.store_failed = verdict_.has_failed();
    if (decision_.store_failed) {
        services_.metrics.failures[failure_].add();
        decision_.decided_by = StoreKind::local;
    }
    verdict_.merge(decision_.verdict, decision_.store_state.decided);
    decision_.is_partial = decision_.store_state.decided.size() != decision_.items.size();
    remember_denials();
    give_back_parts();
    for (const Part& part : verdict_.parts()) {
        if (part.answer == CrossSlotVerdict::Answer::failed) {
            services_.slot_renewal.release_later(decision_, charge_of(part));
        }
    }
    if (decision_.result == LimitDecision::Result::admitted) services_.slot_renewal.add(decision_);
    decision_.store_state.sleeper->wake_later();
}

// A part that is the client's alone denies every request that has it, as long as only time changes
// that. Others are held by requests for moments that they are given back after.
bool CrossSlotCharge::is_of_client(const Part& part) {
    return std::all_of(part.items.begin(), part.items.end(),
                       [](const ChargeItem& item) { return item.of_client; });
}

// What counts denied requests has to learn of each, but for policies that are not enforced, which
// change no answer.
bool CrossSlotCharge::counts_denied() const {
    return std::any_of(decision_.items.begin(), decision_.items.end(), [](const auto& item) {
        const auto limits = item.limits();
        return item.policy->is_enforced() &&
               std::any_of(limits.begin(), limits.end(), [](const limit::Limit& limit) {
                   return limit.count == limit::Count::all;
               });
    });
}

void CrossSlotCharge::remember_denials() const {
    if (counts_denied()) return;
    for (const Part& part : verdict_.parts()) {
        if (part.answer != CrossSlotVerdict::Answer::denied || !is_of_client(part)) continue;
        services_.denials.remember(charge_of(part), part.verdict, decision_.store_state.asked);
    }
}

void CrossSlotCharge::give_back_parts() {
    bool any = false;
    const auto give_back_part = [&](Part& part) { any = give_back(part) || any; };
    for (Part& part : verdict_.parts()) give_back_part(part);
    for (Part& local : verdict_.locals()) give_back_part(local);
    if (any) services_.metrics.given_back.add();
}

// False: nothing is given back. Units that are leave the receipt, so that they are not given back
// again at the end.
bool CrossSlotCharge::give_back(Part& part) {
    std::vector<ChargeItem> items;
    for (std::size_t i = 0; i < part.items.size(); ++i) {
        if (verdict_.gives_back(part, i)) items.push_back(part.items[i]);
    }
    if (items.empty()) return false;
    limit::Receipt& receipt = part.verdict.receipt;
    limit::Receipt given = receipt;
    for (std::size_t i = 0; i < part.items.size(); ++i) {
        (verdict_.gives_back(part, i) ? receipt : given).generations[i] = 0;
    }
    const bool in_redis = !part.in_process;
    services_.refunds.give_back_all({charge_of(part), given, in_redis});
    if (in_redis) services_.refunds.release(decision_.charge_of(items), true);
    return true;
}

}  // namespace tidegate::store
