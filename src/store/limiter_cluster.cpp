// The limiter's way through Redis Cluster, where the items of a request lie in several slots.
#include <algorithm>
#include <chrono>
#include <utility>

#include "redis/slot.hpp"
#include "store/charge_script.hpp"
#include "store/limiter.hpp"
#include "store/refund_script.hpp"
#include "store/scripts.hpp"
#include "store/spread.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using telemetry::StoreFailure;
using telemetry::StoreKind;
using Result = Decision::Result;

// Identifiers are the hash tags of their keys; see append_state_key().
std::uint16_t slot_of_item(const ChargeItem& item) {
    return redis::slot_of_tag(item.identifier);
}

Result result_of(Joint::Result result) {
    switch (result) {
        case Joint::Result::admitted:
            return Result::admitted;
        case Joint::Result::limited:
            return Result::limited;
        case Joint::Result::unavailable:
            break;
    }
    return Result::unavailable;
}

bool has_slots(const Joint::Part& part) {
    return std::any_of(part.items.begin(), part.items.end(), [](const ChargeItem& item) {
        const auto limits = item.limits();
        return std::any_of(limits.begin(), limits.end(),
                           [](const limit::Limit& limit) { return limit.is_concurrency(); });
    });
}

}  // namespace

bool lie_in_one_slot(std::span<const ChargeItem> items) {
    return std::all_of(items.begin(), items.end(), [&](const ChargeItem& item) {
        return item.identifier == items.front().identifier ||
               slot_of_item(item) == slot_of_item(items.front());
    });
}

// What one slot is asked.
class Spread::Question final : public redis::Request {
  public:
    Question(Spread& spread, std::size_t position) : spread_(spread), position_(position) {}

    void append_command(std::string& out) override {
        const limit::Charge charge = spread_.decision_.charge_of(part());
        const Limiter& limiter = spread_.limiter_;
        append_charge_command({&charge, 1}, limiter.redis_.key_prefix, limiter.clock(), out);
    }
    const redis::Script* script() const override {
        return &charge_script(spread_.decision_.charge_of(part()));
    }
    void on_reply(const redis::Reply& reply) override {
        const limit::Charge charge = spread_.decision_.charge_of(part());
        limit::Verdict* const verdict = &part().verdict;
        const bool understood = reply.kind == redis::Reply::Kind::string &&
                                read_charge_reply(reply.text, {&charge, 1}, {&verdict, 1});
        if (understood) {
            Joint::answered(part());
        } else {
            spread_.fail(part(), StoreFailure::protocol);
        }
        spread_.limiter_.on_slot(spread_.decision_);
    }
    void on_failure(redis::Failure failure) override {
        spread_.fail(part(), failure_of(failure));
        spread_.limiter_.on_slot(spread_.decision_);
    }

  private:
    Joint::Part& part() const { return spread_.joint.parts()[position_]; }

    Spread& spread_;
    std::size_t position_;
};

Spread::Spread(Limiter& limiter, Decision& decision) : limiter_(limiter), decision_(decision) {}
Spread::~Spread() = default;

void Spread::begin() {
    joint.begin(decision_.items, decision_.cost, slot_of_item);
}

redis::Request& Spread::question(std::size_t position) {
    while (questions_.size() <= position) {
        questions_.push_back(std::make_unique<Question>(*this, questions_.size()));
    }
    return *questions_[position];
}

void Spread::fail(Joint::Part& part, StoreFailure why) {
    const auto parts = joint.parts();
    const bool first = std::none_of(parts.begin(), parts.end(), [](const Joint::Part& one) {
        return one.answer == Joint::Answer::failed;
    });
    if (first) failure = why;
    Joint::failed(part);
}

std::uint16_t Limiter::slot_of(std::span<const ChargeItem> items) const {
    return redis_.servers.is_cluster() && !items.empty() ? slot_of_item(items.front())
                                                         : std::uint16_t{0};
}

// Slots whose nodes are known to be away are not asked; where their policies deny, nobody is.
void Limiter::ask_slots(Decision& decision) {
    if (!decision.spread_) decision.spread_ = std::make_unique<Spread>(*this, decision);
    Spread& spread = *decision.spread_;
    decision.is_spread_ = true;
    spread.begin();
    const auto parts = spread.joint.parts();
    for (Joint::Part& part : parts) {
        if (redis_.servers.is_away(part.slot)) spread.fail(part, StoreFailure::unavailable);
    }
    spread.is_asking = true;
    const bool in_vain = spread.joint.must_deny(replicas() > 0);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].answer != Joint::Answer::none) continue;
        if (in_vain) {
            spread.fail(parts[i], StoreFailure::unavailable);
        } else if (const auto failed =
                       redis_.servers.send(spread.question(i), parts[i].slot, decision.asked_)) {
            spread.fail(parts[i], failure_of(*failed));
        }
    }
    spread.is_asking = false;
    on_slot(decision);
}

void Limiter::on_slot(Decision& decision) {
    Spread& spread = *decision.spread_;
    if (spread.is_asking) return;
    const bool can_be_local = replicas() > 0;
    Joint::Next next = spread.joint.next(can_be_local);
    if (next == Joint::Next::ask_local) {
        decide_part_here(decision, spread.joint.local());
        next = spread.joint.next(can_be_local);
    }
    if (next == Joint::Next::end) end_spread(decision);
}

void Limiter::decide_part_here(const Decision& decision, Joint::Part& part) {
    memory_->set_divisor(std::max(replicas(), 1));
    const auto outcome = memory_->charge(decision.charge_of(part), process_now(), part.verdict);
    if (outcome == MemoryStore::Outcome::full) {
        metrics_->count_store_failure(StoreFailure::full);
        Joint::failed(part);
    } else {
        Joint::answered(part);
        local_report_.took(decision.charge_of(part), part.verdict);
    }
}

void Limiter::end_spread(Decision& decision) {
    Spread& spread = *decision.spread_;
    const Joint& joint = spread.joint;
    decision.result = result_of(joint.result());
    decision.store_failed = joint.has_failed();
    if (joint.has_failed()) {
        metrics_->count_store_failure(spread.failure);
        decision.decided_by = StoreKind::local;
    }
    joint.join(decision.verdict, decision.decided_items_);
    give_back_parts(decision);
    bool holds = false;
    for (const Joint::Part& part : joint.parts()) {
        if (part.answer == Joint::Answer::failed && decision.needs_settling) {
            release_late(decision.charge_of(part), part.slot);
        }
        holds = holds || (part.answer == Joint::Answer::admitted && has_slots(part));
    }
    if (decision.result == Result::admitted && decision.needs_settling && decision.cost > 0 &&
        holds) {
        decision.renewed_ = decision.asked_;
        holders_.push_back(decision);
    }
    decision.sleeper_->wake_later();
}

void Limiter::give_back_parts(Decision& decision) {
    Joint& joint = decision.spread_->joint;
    bool any = false;
    const auto give_back_part = [&](Joint::Part& part) {
        const Joint::Back back = joint.back_of(part);
        if (back == Joint::Back::nothing) return;
        give_back(decision, part, back);
        any = true;
    };
    for (Joint::Part& part : joint.parts()) give_back_part(part);
    give_back_part(joint.local());
    if (any) metrics_->count_given_back();
}

// What is given back leaves the receipt, so that it is not given back again at the end.
void Limiter::give_back(const Decision& decision, Joint::Part& part, Joint::Back back) {
    limit::Receipt& receipt = part.verdict.receipt;
    limit::Receipt given = receipt;
    std::vector<ChargeItem> items;
    for (std::size_t i = 0; i < part.items.size(); ++i) {
        if (back == Joint::Back::shadow && !part.items[i].policy->shadow) {
            given.generations[i] = 0;
        } else {
            receipt.generations[i] = 0;
            items.push_back(part.items[i]);
        }
    }
    const limit::Refund refund{decision.charge_of(part), &given, limit::Refund::Of::all, 0};
    if (&part == &decision.spread_->joint.local()) {
        give_back_here(refund);
        return;
    }
    give_back_in_redis(refund, part.slot);
    const limit::Charge charge{items, decision.cost, decision.lease_, decision.moment};
    for (std::string& release : release_commands(charge, redis_.key_prefix)) {
        run_errand(std::move(release), nullptr, part.slot);
    }
}

}  // namespace tidegate::store
