#include "store/correction.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "limit/limit.hpp"
#include "store/process_clock.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Micros;

// A refund of one state that Redis refuses was not carried out: it is sent again, a few times.
constexpr int kRefundRefusalsMax = 3;
constexpr std::chrono::seconds kQuietAfterFailure{1};
// Windows of most limits have ended by then.
constexpr std::chrono::hours kWaitsAtMost{24};

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

// Items of which nothing is known to be taken are left out.
void find_difference(const Admission& admission, const LimitDecision& decision,
                     std::span<const std::int64_t> used, Difference& made) {
    made.less.clear();
    made.more.clear();
    made.receipt.generations.clear();
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
}

}  // namespace

// Refunds in one slot. Used again once it was answered.
class Corrections::Command final : public redis::Request {
  public:
    explicit Command(Corrections& owner) : owner_(owner) {}

    void begin(std::uint16_t slot) {
        slot_ = slot;
        has_left_ = false;
        refunds_.clear();
        origins_.clear();
    }
    bool has_room(std::uint16_t slot) const {
        return slot == slot_ && refunds_.size() < StateRefunds::kMost;
    }
    void add(const limit::Refund& refund, std::size_t item, const Origin& origin) {
        refunds_.add(refund, item, owner_.redis_.key_prefix);
        origins_.push_back(origin);
    }
    void add(const Waiting& waiting) {
        refunds_.add(waiting.refund);
        origins_.push_back(waiting.origin);
    }

    void append_command(std::string& out) override {
        if (!std::exchange(has_left_, true)) std::erase(owner_.open_, this);
        refunds_.append_command(owner_.redis_.clock(), out);
    }
    const redis::Script* script() const override { return &give_back_script(); }

    void on_reply(const redis::Reply&) override { end(); }

    void on_failure(redis::Failure failure) override {
        owner_.failed_ = true;
        if (!has_left_) std::erase(owner_.open_, this);
        for (std::size_t i = 0; is_not_done(failure) && i < refunds_.size(); ++i) {
            Waiting waiting{refunds_.at(i), slot_, origins_[i]};
            if (failure == redis::Failure::refused) ++waiting.refund.refusals;
            if (waiting.refund.refusals < kRefundRefusalsMax) owner_.keep(std::move(waiting));
        }
        end();
    }

  private:
    bool is_not_done(redis::Failure failure) const {
        switch (failure) {
            case redis::Failure::timeout:
            case redis::Failure::disconnected:
                return !has_left_;
            case redis::Failure::unavailable:
            case redis::Failure::overloaded:
            case redis::Failure::not_ready:
                return true;
            case redis::Failure::refused:
                // A script that Redis stops half-way has given back some of several states.
                return refunds_.size() == 1;
        }
        return false;
    }

    // It may be destroyed when this returns.
    void end() {
        const SteadyTime now = std::chrono::steady_clock::now();
        for (std::size_t i = 0; i < origins_.size(); ++i) {
            const FreedIdentifiers::Place freed = origins_[i].freed;
            if (i == 0 || freed != origins_[i - 1].freed) owner_.note_freed(freed, now);
        }
        --owner_.under_way_;
        std::unique_ptr<Command> self(this);
        if (owner_.idle_.size() < kIdleMax) owner_.idle_.push_back(std::move(self));
    }

    Corrections& owner_;
    std::uint16_t slot_ = 0;
    StateRefunds refunds_;
    std::vector<Origin> origins_;  // of the refunds
    bool has_left_ = false;        // it may have been carried out, unless Redis says otherwise
};

Corrections::Corrections(const RedisStore& redis, MemoryStore& memory, const Refunds& refunds,
                         LocalReport& local_report, FreedIdentifiers* freed)
    : redis_(redis),
      memory_(memory),
      refunds_(refunds),
      local_report_(local_report),
      freed_(freed) {}

Corrections::~Corrections() = default;

void Corrections::correct(const Admission& admission, const LimitDecision& decision,
                          std::span<const std::int64_t> used) {
    find_difference(admission, decision, used, difference_);
    if (!difference_.more.empty()) {
        limit::Charge more = admission.charge;
        more.items = difference_.more;
        if (!admission.in_redis) memory_.take(more, process_now());
        if (redis_.servers) local_report_.took_more(more, admission.in_redis);
    }
    if (difference_.less.empty()) return;
    limit::Charge less = admission.charge;
    less.items = difference_.less;
    if (admission.in_redis) {
        give_back({less, &difference_.receipt});
    } else {
        refunds_.give_back({less, difference_.receipt, false}, limit::Refund::Of::all);
    }
}

// In Redis: each state for itself, as a command may have those of several requests.
void Corrections::give_back(const limit::Refund& refund) {
    const auto items = refund.charge.items;
    const std::uint16_t slot = redis_.slot_of(items);
    const SteadyTime now = std::chrono::steady_clock::now();
    FreedIdentifiers::Place freed = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
        // Mostly all policies count the same user.
        if (freed_ != nullptr && (i == 0 || items[i].identifier != items[i - 1].identifier)) {
            freed = FreedIdentifiers::place_of(items[i].identifier);
            note_freed(freed, now);
        }
        if (!StateRefunds::concerns(refund, i)) continue;
        if (Command* const command = command_for(slot)) {
            command->add(refund, i, {freed, now});
        } else {
            StateRefunds one;
            one.add(refund, i, redis_.key_prefix);
            keep({one.at(0), slot, {freed, now}});
        }
    }
}

// A command that has not left and has room, for one refund at least. Null: Redis takes none.
Corrections::Command* Corrections::command_for(std::uint16_t slot) {
    for (Command* const command : open_) {
        if (command->has_room(slot)) return command;
    }
    if (idle_.empty()) idle_.push_back(std::make_unique<Command>(*this));
    std::unique_ptr<Command> command = std::move(idle_.back());
    idle_.pop_back();
    command->begin(slot);
    if (redis_.servers.send_with_next(*command, slot)) {
        failed_ = true;
        idle_.push_back(std::move(command));
        return nullptr;
    }
    ++under_way_;
    return open_.emplace_back(command.release());  // returns to idle_ by itself
}

void Corrections::send_again(Waiting refund) {
    if (Command* const command = command_for(refund.slot)) {
        command->add(refund);
    } else {
        keep(std::move(refund));
    }
}

// The oldest has expired sooner than the others.
void Corrections::keep(Waiting refund) {
    if (waiting_.size() == kWaitingMax) waiting_.pop_front();
    waiting_.push_back(std::move(refund));
}

void Corrections::send(SteadyTime now) {
    if (std::exchange(failed_, false)) quiet_until_ = now + kQuietAfterFailure;
    if (waiting_.empty() || now < quiet_until_) return;
    const std::size_t looked_at = std::min(waiting_.size(), 2 * StateRefunds::kMost);
    for (std::size_t i = 0; i < looked_at; ++i) {
        Waiting refund = std::move(waiting_.front());
        waiting_.pop_front();
        if (now - refund.origin.since > kWaitsAtMost) continue;
        if (redis_.servers.is_away(refund.slot)) {
            waiting_.push_back(std::move(refund));
        } else {
            send_again(std::move(refund));
        }
    }
}

bool Corrections::has_unsent() const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const Waiting& refund) { return !redis_.servers.is_away(refund.slot); });
}

}  // namespace tidegate::store
