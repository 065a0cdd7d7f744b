#include "store/correction.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

#include "limit/limit.hpp"
#include "store/charge_script.hpp"
#include "store/process_clock.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Micros;

// A refund of one state that Redis answers with an error was not carried out: it is sent again, a
// few times.
constexpr int kRefundRefusalsMax = 3;
constexpr std::chrono::seconds kQuietAfterFailure{1};

// What items[i] of the admission truly cost; -1: that is not known.
std::int64_t used_by(const ChargeItem& item, std::size_t i, const Admission& admission,
                     const LimitDecision& decision, std::span<const std::int64_t> used) {
    if (admission.charge.items.data() == decision.items.data()) return used[i];
    for (std::size_t k = 0; k < decision.items.size(); ++k) {
        const ChargeItem& asked = decision.items[k];
        if (asked.policy == item.policy && asked.identifier == item.identifier) return used[k];
    }
    return -1;
}

}  // namespace

Difference difference_of(const Admission& admission, const LimitDecision& decision,
                         std::span<const std::int64_t> used) {
    Difference made;
    made.receipt.at = admission.receipt.at;
    const auto& generations = admission.receipt.generations;
    for (std::size_t i = 0; i < admission.charge.items.size(); ++i) {
        ChargeItem item = admission.charge.items[i];
        const std::int64_t truly =
            std::min(used_by(item, i, admission, decision, used), limit::kMoneyMax);
        // A shadow group that denied has taken nothing, nor has a candidate that did.
        const bool has_taken = item.policy->is_candidate()
                                   ? i < generations.size() && generations[i] != 0
                                   : !item.policy->shadow || decision.verdict.shadow_admitted;
        if (truly < 0 || !has_taken) continue;
        const std::int64_t taken = admission.charge.cost_of(item);
        item.own_cost = truly < taken ? taken - truly : truly - taken;
        if (truly > taken) {
            made.more.push_back(item);
        } else if (truly < taken && i < generations.size() && generations[i] != 0) {
            made.less.push_back(item);
            made.receipt.generations.push_back(generations[i]);
        }
    }
    return made;
}

// Refunds of one turn in one slot. Deletes itself.
class Corrections::Command final : public redis::Request {
  public:
    explicit Command(Corrections& owner) : owner_(owner) {}

    // False: it is full, or about another slot.
    bool add(StateRefund& refund) {
        if (refunds_.size() == kStatesMax) return false;
        if (!refunds_.empty() && refunds_.front().slot != refund.slot) return false;
        refunds_.push_back(std::move(refund));
        return true;
    }

    void append_command(std::string& out) override {
        if (!std::exchange(has_left_, true)) std::erase(owner_.open_, this);
        append_state_refunds(refunds_, owner_.redis_.clock(), out);
    }
    const redis::Script* script() const override { return &give_back_script(); }

    void on_reply(const redis::Reply&) override { delete this; }

    void on_failure(redis::Failure failure) override {
        owner_.failed_ = true;
        if (!has_left_) std::erase(owner_.open_, this);
        // A script that Redis stops half-way has given back some of several states.
        const bool is_not_done =
            !has_left_ || (failure == redis::Failure::refused && refunds_.size() == 1);
        for (StateRefund& refund : refunds_) {
            if (has_left_) ++refund.refusals;
            if (is_not_done && refund.refusals < kRefundRefusalsMax) owner_.keep(std::move(refund));
        }
        delete this;
    }

    // Redis does not take the command.
    StateRefund unsent() { return std::move(refunds_.front()); }

  private:
    Corrections& owner_;
    std::vector<StateRefund> refunds_;
    bool has_left_ = false;  // it may have been carried out
};

bool Corrections::correct(const Admission& admission, const LimitDecision& decision,
                          std::span<const std::int64_t> used) {
    const Difference difference = difference_of(admission, decision, used);
    if (!difference.more.empty()) {
        limit::Charge more = admission.charge;
        more.items = difference.more;
        if (!admission.in_redis) memory_.take(more, process_now());
        if (redis_.servers) local_report_.took_more(more, admission.in_redis);
    }
    if (difference.less.empty()) return false;
    limit::Charge less = admission.charge;
    less.items = difference.less;
    if (!admission.in_redis) {
        refunds_.give_back({less, difference.receipt, false}, limit::Refund::Of::all);
        return false;
    }
    give_back({less, &difference.receipt});
    return true;
}

// In Redis: each state for itself, as the commands of a turn may join them.
void Corrections::give_back(const limit::Refund& refund) {
    const std::uint16_t slot = redis_.slot_of(refund.charge.items);
    for (std::size_t i = 0; i < refund.charge.items.size(); ++i) {
        limit::Receipt receipt{refund.receipt->at, {refund.receipt->generations[i]}};
        limit::Refund of_item = refund;
        of_item.charge.items = refund.charge.items.subspan(i, 1);
        of_item.receipt = &receipt;
        StateRefund made;
        if (!make_state_refund(of_item, redis_.key_prefix, made)) continue;
        made.slot = slot;
        send_one(std::move(made));
    }
}

void Corrections::send_one(StateRefund refund) {
    for (Command* const command : open_) {
        if (command->add(refund)) return;
    }
    const std::uint16_t slot = refund.slot;
    auto command = std::make_unique<Command>(*this);
    command->add(refund);
    open_.push_back(command.get());
    if (redis_.servers.send(*command, slot)) {
        failed_ = true;
        std::erase(open_, command.get());
        keep(command->unsent());
        return;
    }
    static_cast<void>(command.release());  // deletes itself
}

// The oldest has expired sooner than the others.
void Corrections::keep(StateRefund refund) {
    if (waiting_.size() == kWaitingMax) waiting_.pop_front();
    waiting_.push_back(std::move(refund));
}

void Corrections::send(SteadyTime now) {
    if (std::exchange(failed_, false)) quiet_until_ = now + kQuietAfterFailure;
    if (waiting_.empty() || now < quiet_until_) return;
    const std::size_t looked_at = std::min(waiting_.size(), 2 * kStatesMax);
    for (std::size_t i = 0; i < looked_at; ++i) {
        StateRefund refund = std::move(waiting_.front());
        waiting_.pop_front();
        if (redis_.servers.is_away(refund.slot)) {
            waiting_.push_back(std::move(refund));
        } else {
            send_one(std::move(refund));
        }
    }
}

}  // namespace tidegate::store
