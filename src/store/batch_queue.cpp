#include "store/batch_queue.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/container_hash/hash.hpp>

#include "store/charge_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using Outcome = LentCharge::Outcome;

bool is_same_policy(const ChargeItem& left, const ChargeItem& right) {
    return left.policy == right.policy && left.tier == right.tier;
}

// A mixed command decides charges that all of their items take from.
bool can_be_mixed(const ChargeItem& left, const ChargeItem& right) {
    return is_same_policy(left, right) && right.own_cost != 0;
}

bool is_same(const ChargeItem& left, const ChargeItem& right) {
    return is_same_policy(left, right) && left.identifier == right.identifier;
}

template <class Equal>
bool are_equal(const limit::Charge& a, const limit::Charge& b, Equal equal) {
    return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal);
}

// With so many different charges, none waits for the end of its turn: Redis may begin meanwhile.
constexpr std::size_t kWaitingMax = 16;
// The number of commands that a new charge is compared with: those of the busiest keys are among
// the latest.
constexpr std::size_t kComparedMax = 32;
constexpr std::chrono::seconds kMixingPause{5};
// A charge does not wait longer for a command of another thread.
constexpr std::chrono::milliseconds kLentMax{10};
// Charges whose callers need them at about the same time share a command.
constexpr std::chrono::microseconds kNeededApartMax{500};

bool are_needed_together(SteadyTime a, SteadyTime b) {
    if (a == b) return true;
    if (a == SteadyTime::max() || b == SteadyTime::max()) return false;
    return (a < b ? b - a : a - b) <= kNeededApartMax;
}

}  // namespace

std::size_t hash_of(std::span<const ChargeItem> items) {
    std::size_t hash = items.size();
    for (const ChargeItem& item : items) {
        boost::hash_combine(hash, std::hash<std::string_view>{}(item.identifier));
    }
    return hash;
}

void Batch::begin(const limit::Charge& charge, limit::Verdict& verdict, std::size_t hash) {
    is_mixed_ = false;
    hash_ = hash;
    charges_.assign(1, charge);
    verdicts_.assign(1, &verdict);
}

bool Batch::add(const limit::Charge& charge, limit::Verdict& verdict, std::size_t hash,
                bool may_mix) {
    if (!is_mixed_ && hash == hash_ && are_equal(charges_[0], charge, is_same) &&
        have_same_runs(charges_[0], charge)) {
        if (charges_.size() == kBatchMax) return false;
    } else if (can_be_mixed_with(charge, may_mix)) {
        is_mixed_ = true;
    } else {
        return false;
    }
    charges_.push_back(charge);
    verdicts_.push_back(&verdict);
    return true;
}

bool Batch::can_be_mixed_with(const limit::Charge& charge, bool may_mix) const {
    const bool can_begin = may_mix && charges_.size() == 1;
    if (!is_mixed_ && !(can_begin && can_mix(charges_[0]))) return false;
    return charges_.size() < kMixedMax && charge.cost > 0 &&
           are_equal(charges_[0], charge, can_be_mixed) && have_same_runs(charges_[0], charge);
}

void Batch::append_command(std::string_view prefix, std::optional<limit::Micros> clock,
                           std::string& out) const {
    const auto append = is_mixed_ ? append_mixed_command : append_charge_command;
    append(charges_, prefix, clock, out);
}

const redis::Script& Batch::script() const {
    return is_mixed_ || charges_.size() == 1 ? charge_script(charges_[0]) : charge_script({});
}

std::span<const Mixed> Batch::read_reply(std::string_view reply) {
    answers_.assign(charges_.size(), Mixed::decided);
    const bool is_reply = is_mixed_ ? read_mixed_reply(reply, charges_, verdicts_, answers_)
                                    : read_charge_reply(reply, charges_, verdicts_);
    return is_reply ? answers_ : reject_reply();
}

std::span<const Mixed> Batch::reject_reply() {
    answers_.assign(charges_.size(), Mixed::unreadable);
    return answers_;
}

void LentCharge::fill(LimitDecision& asking, std::size_t hash_of_items) {
    decision = &asking;
    items = asking.items;
    identifiers.clear();
    for (const limit::ChargeItem& item : items) identifiers += item.identifier;
    std::string_view rest = identifiers;
    for (limit::ChargeItem& item : items) {
        const std::size_t size = item.identifier.size();
        item.identifier = rest.substr(0, size);
        rest.remove_prefix(size);
    }
    cost = asking.cost;
    hash = hash_of_items;
    asked = asking.store_state.asked;
}

void ChargeInbox::give(LentCharge& lent) {
    bool is_first = false;
    {
        const std::scoped_lock lock(mutex_);
        is_first = mail_.empty();
        mail_.push_back(&lent);
    }
    if (is_first) asio::post(executor_, [this] { on_mail_(); });
}

void ChargeInbox::take(std::vector<LentCharge*>& out) {
    const std::scoped_lock lock(mutex_);
    out.insert(out.end(), mail_.begin(), mail_.end());
    mail_.clear();
}

SharedCharges::Era SharedCharges::begin_command(SteadyTime now) {
    const std::scoped_lock lock(mutex_);
    under_way_.fetch_add(1, std::memory_order_relaxed);
    charges_.fetch_add(1, std::memory_order_relaxed);
    note_progress(now);
    return era_;
}

void SharedCharges::grow_command(Era begun, int charges) {
    const std::scoped_lock lock(mutex_);
    if (begun == era_) charges_.fetch_add(charges, std::memory_order_relaxed);
}

// Counted down under the lock: a charge that is added meanwhile either sees it or is seen here.
void SharedCharges::end_command(Era begun, int charges, SteadyTime now, List& due) {
    const std::scoped_lock lock(mutex_);
    note_progress(now);
    if (begun == era_) {
        under_way_.fetch_sub(1, std::memory_order_relaxed);
        charges_.fetch_sub(charges, std::memory_order_relaxed);
    }
    const bool is_late = !waiting_.empty() && now - waiting_.front()->asked >= kStall;
    if (is_late || !is_busy()) take_all(due);
}

void SharedCharges::add(LentCharge& lent, SteadyTime now, List& due) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(&lent);
    if (is_busy() && now >= stalls_at_) {
        ++era_;
        under_way_.store(0, std::memory_order_relaxed);
        charges_.store(0, std::memory_order_relaxed);
    }
    if (waiting_.size() >= kMixedMax || !is_busy()) take_all(due);
}

void SharedCharges::withdraw(const ChargeInbox& inbox, SteadyTime time, List& out) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(waiting_, [&](LentCharge* lent) {
        const bool is_due = lent->inbox == &inbox && lent->asked < time;
        if (is_due) out.push_back(lent);
        return is_due;
    });
}

// Charges that have waited are older than the progress before them.
void SharedCharges::note_progress(SteadyTime now) {
    stalls_at_ = std::max(stalls_at_, now + kStall);
}

void SharedCharges::take_all(List& due) {
    due.insert(due.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
}

// One question in a command: a decision of this thread, or a charge that another thread has lent.
struct BatchQueue::Entry {
    Entry(LimitDecision& of, std::size_t hash_of_items)
        : charge(of.charge()),
          verdict(&of.verdict),
          hash(hash_of_items),
          asked(of.store_state.asked),
          needed_by(of.needed_by),
          decision(&of) {}
    explicit Entry(LentCharge& of)
        : charge(of.charge()), verdict(&of.verdict), hash(of.hash), asked(of.asked), lent(&of) {}

    limit::Charge charge;
    limit::Verdict* verdict;
    std::size_t hash;
    SteadyTime asked;
    SteadyTime needed_by = SteadyTime::max();
    LimitDecision* decision = nullptr;
    LentCharge* lent = nullptr;
};

// A batch on its way.
class BatchQueue::Command final : public redis::Request {
  public:
    explicit Command(BatchQueue& queue) : queue_(queue) {}

    void begin(const Entry& entry) {
        is_open_ = true;
        needed_by_ = entry.needed_by;
        batch_.begin(entry.charge, *entry.verdict, entry.hash);
        askers_.assign(1, {entry.decision, entry.lent});
    }
    bool join(const Entry& entry, bool may_mix) {
        if (!is_open_ || !are_needed_together(entry.needed_by, needed_by_) ||
            !batch_.add(entry.charge, *entry.verdict, entry.hash, may_mix)) {
            return false;
        }
        askers_.push_back({entry.decision, entry.lent});
        if (batch_.is_mixed()) ++queue_.waiting_;
        return true;
    }
    // Redis does not take it.
    void close() { is_open_ = false; }
    // Others wait for its end.
    void count_since(SharedCharges::Era era) {
        era_ = era;
        counted_ = 1;
    }

    void append_command(std::string& out) override {
        is_open_ = false;
        queue_.waiting_ = 0;
        queue_.open_.clear();  // all of this turn are leaving
        const int size = static_cast<int>(askers_.size());
        if (era_ && size > counted_) {
            queue_.shared_->grow_command(*era_, size - std::exchange(counted_, size));
        }
        batch_.append_command(queue_.redis_.key_prefix, queue_.redis_.clock(), out);
    }

    const redis::Script* script() const override { return &batch_.script(); }

    void on_reply(const redis::Reply& reply) override {
        const auto answers = reply.kind == redis::Reply::Kind::string
                                 ? batch_.read_reply(reply.text)
                                 : batch_.reject_reply();
        const auto alone = std::count(answers.begin(), answers.end(), Mixed::ask_alone);
        // The short scripts do not understand these states, as after a change of limits: for a
        // while a mixed command would mostly be sent in vain.
        if (2 * static_cast<std::size_t>(alone) >= askers_.size()) {
            queue_.mixes_from_ = std::chrono::steady_clock::now() + kMixingPause;
        }
        for (std::size_t i = 0; i < askers_.size(); ++i) finish(askers_[i], answers[i]);
        end();
        queue_.send_due();
    }

    void on_failure(redis::Failure failure) override {
        for (const Asker& asker : askers_) fail(asker, failure_of(failure));
        end();
        // Their own threads may have better connections.
        queue_.return_due();
    }

  private:
    // One of the two.
    struct Asker {
        LimitDecision* decision;
        LentCharge* lent;
    };

    void finish(const Asker& asker, Mixed answer) {
        if (answer == Mixed::unreadable) {
            fail(asker, StoreFailure::protocol);
        } else if (asker.lent != nullptr) {
            asker.lent->outcome = answer == Mixed::decided ? Outcome::decided : Outcome::ask_alone;
        } else if (answer == Mixed::decided) {
            queue_.admit_or_limit(*asker.decision);
        } else {
            queue_.send_alone(*asker.decision);
        }
    }

    void fail(const Asker& asker, StoreFailure failure) {
        if (asker.lent == nullptr) {
            queue_.fail(*asker.decision, failure);
            return;
        }
        asker.lent->outcome = Outcome::failed;
        asker.lent->failure = failure;
    }

    // The command may be used again when this returns.
    void end() {
        if (std::exchange(is_open_, false)) std::erase(queue_.open_, this);
        for (const Asker& asker : askers_) {
            if (asker.lent != nullptr && asker.lent->inbox == queue_.inbox_.get()) {
                queue_.finish(*asker.lent);
            } else if (asker.lent != nullptr) {
                asker.lent->inbox->give(*asker.lent);
            } else if (asker.decision->result != LimitDecision::Result::pending) {
                asker.decision->store_state.sleeper->wake_later();
            }
        }
        queue_.idle_.push_back(this);
        if (const auto era = std::exchange(era_, std::nullopt)) {
            queue_.shared_->end_command(*era, counted_, std::chrono::steady_clock::now(),
                                        queue_.due_);
        }
    }

    BatchQueue& queue_;
    Batch batch_;
    std::vector<Asker> askers_;  // in the order of the batch
    SteadyTime needed_by_;       // by the first of them
    bool is_open_ = false;       // has not left yet
    std::optional<SharedCharges::Era> era_;
    int counted_ = 0;  // charges, since then
};

BatchQueue::BatchQueue(const RedisStore& redis, DenyCache& denials, SlotRenewal& slot_renewal,
                       const FailurePolicy& failure_policy, const std::optional<Sharing>& sharing)
    : redis_(redis),
      denials_(denials),
      slot_renewal_(slot_renewal),
      failure_policy_(failure_policy) {
    // In a cluster different identifiers are in different slots.
    if (!sharing || redis.servers.is_cluster()) return;
    shared_ = sharing->charges;
    turn_ = &Turn::of(sharing->executor);
    timeout_ = sharing->timeout;
    inbox_ = std::make_unique<ChargeInbox>(sharing->executor, [this] { read_inbox(); });
    lent_timer_.emplace(sharing->executor);
}

BatchQueue::~BatchQueue() = default;

// A flush may lose the connection, which the reply that is being read still needs.
void BatchQueue::charge(LimitDecision& decision) {
    charge_later(decision);
    if (waiting_ >= kWaitingMax) redis_.servers.flush();
}

void BatchQueue::charge_later(LimitDecision& decision) {
    const bool may_share = !decision.is_alone && can_share_command(decision.charge());
    const Entry entry(decision, may_share ? hash_of(decision.items) : 0);
    if (may_share && join_open_command(entry)) {
        // It leaves at the end of the turn.
    } else if (may_share && may_lend(decision)) {
        lend(decision, entry.hash);
    } else if (const auto failure = send(entry, may_share)) {
        failure_policy_.decide(decision, failure_of(*failure));
    }
}

bool BatchQueue::is_idle() const {
    return idle_.size() == commands_.size() && idle_lent_.size() == lent_.size();
}

// Another thread knows the store's timeout, and no caller's. A thread that lends may have to send
// charges of others: not while its own would wait for a connection here. While Redis is away the
// failure policy decides at once.
bool BatchQueue::may_lend(const LimitDecision& decision) const {
    return shared_ != nullptr && decision.owner != nullptr &&
           decision.needed_by == SteadyTime::max() && shared_->is_busy() &&
           redis_.servers.is_connected();
}

void BatchQueue::lend(LimitDecision& decision, std::size_t hash) {
    if (idle_lent_.empty()) {
        lent_.push_back(std::make_unique<LentCharge>());
        lent_.back()->inbox = inbox_.get();
        idle_lent_.push_back(lent_.back().get());
    }
    LentCharge& lent = *idle_lent_.back();
    idle_lent_.pop_back();
    lent.fill(decision, hash);
    shared_->add(lent, decision.store_state.asked, due_);
    send_due();
    watch_lent();
}

// The tick is too coarse: a charge that waits has no command yet that would keep its deadline.
void BatchQueue::watch_lent() {
    if (is_watching_) return;
    is_watching_ = true;
    lent_timer_->expires_after(std::min(kLentMax, timeout_));
    lent_timer_->async_wait([this](const error_code& ec) {
        if (ec) return;
        is_watching_ = false;
        tend(std::chrono::steady_clock::now());
        if (idle_lent_.size() != lent_.size()) watch_lent();
    });
}

// Charges that Redis does not get over this connection return to their threads.
void BatchQueue::send_due() {
    std::erase_if(due_, [this](LentCharge* lent) {
        const Entry entry(*lent);
        return join_open_command(entry) || !send(entry, true);
    });
    return_due();
}

void BatchQueue::return_due() {
    for (LentCharge* lent : due_) {
        lent->outcome = Outcome::ask_alone;
        lent->inbox->give(*lent);
    }
    due_.clear();
}

void BatchQueue::read_inbox() {
    turn_->run([this] {
        inbox_->take(returned_);
        for (LentCharge* lent : returned_) finish(*lent);
        returned_.clear();
    });
}

void BatchQueue::finish(LentCharge& lent) {
    LimitDecision* const decision = std::exchange(lent.decision, nullptr);
    lent.keeps.reset();
    idle_lent_.push_back(&lent);
    if (decision == nullptr) return;
    switch (lent.outcome) {
        case Outcome::decided:
            std::swap(decision->verdict, lent.verdict);
            admit_or_limit(*decision);
            break;
        case Outcome::ask_alone:
            send_alone(*decision);
            break;
        case Outcome::failed:
            fail(*decision, lent.failure);
            break;
    }
    if (decision->result != LimitDecision::Result::pending) {
        decision->store_state.sleeper->wake_later();
    }
}

void BatchQueue::tend(SteadyTime now) {
    if (idle_lent_.size() == lent_.size()) return;
    shared_->withdraw(*inbox_, now - std::min(kLentMax, timeout_), due_);
    return_due();
    for (const auto& lent : lent_) {
        // The thread that sends it fails it in time, unless that thread is stuck.
        if (lent->decision == nullptr || now - lent->asked < timeout_) continue;
        LimitDecision& decision = *std::exchange(lent->decision, nullptr);
        lent->keeps = *decision.owner;
        fail(decision, StoreFailure::timeout);
        decision.store_state.sleeper->wake_later();
    }
}

bool BatchQueue::join_open_command(const Entry& entry) {
    const bool may_mix = entry.asked >= mixes_from_ && !redis_.servers.is_cluster();
    const std::size_t compared = std::min(open_.size(), kComparedMax);
    for (std::size_t i = open_.size(); i > open_.size() - compared; --i) {
        if (open_[i - 1]->join(entry, may_mix)) return true;
    }
    return false;
}

// Nothing if Redis takes the command. It leaves at the end of the turn; until then others may join
// it if it stays open.
std::optional<redis::Failure> BatchQueue::send(const Entry& entry, bool stays_open) {
    if (idle_.empty()) {
        commands_.push_back(std::make_unique<Command>(*this));
        idle_.push_back(commands_.back().get());
    }
    Command& command = *idle_.back();
    idle_.pop_back();
    command.begin(entry);
    const std::uint16_t slot = redis_.slot_of(entry.charge.items);
    if (const auto failure = redis_.servers.send(command, slot, entry.asked, entry.needed_by)) {
        command.close();
        idle_.push_back(&command);
        return failure;
    }
    ++waiting_;
    if (stays_open) open_.push_back(&command);
    // A command that no other charge may join does not make others wait either.
    if (shared_ != nullptr && stays_open) command.count_since(shared_->begin_command(entry.asked));
    return std::nullopt;
}

void BatchQueue::send_alone(LimitDecision& decision) {
    if (const auto failure = send(Entry(decision, 0), false)) {
        failure_policy_.decide(decision, failure_of(*failure));
    }
}

void BatchQueue::admit_or_limit(LimitDecision& decision) {
    decision.result = result_of(decision.verdict);
    if (decision.result == LimitDecision::Result::limited) {
        denials_.remember(decision.charge(), decision.verdict, decision.store_state.asked);
    } else {
        slot_renewal_.add(decision);
    }
}

// Redis may have carried the command out.
void BatchQueue::fail(LimitDecision& decision, StoreFailure failure) {
    slot_renewal_.release_later(decision, decision.charge());
    failure_policy_.decide(decision, failure);
}

}  // namespace tidegate::store
