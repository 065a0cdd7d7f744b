#include "store/batch_queue.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "store/batch.hpp"
#include "store/charge_script.hpp"

namespace tidegate::store {

namespace {

// So many different questions do not wait for the end of their turn: Redis may begin meanwhile.
constexpr std::size_t kWaitingMax = 16;
// Commands that a new question is compared with: those of the busiest keys are among the latest.
constexpr std::size_t kComparedMax = 32;
constexpr std::chrono::seconds kMixingPause{5};

}  // namespace

// A batch on its way.
class BatchQueue::Command final : public redis::Request {
  public:
    explicit Command(BatchQueue& queue) : queue_(queue) {}

    void begin(LimitDecision& decision, std::size_t hash) {
        is_open_ = true;
        batch_.begin(decision, hash);
    }
    bool join(LimitDecision& decision, std::size_t hash, bool may_mix) {
        if (!is_open_ || !batch_.add(decision, hash, may_mix)) return false;
        if (batch_.is_mixed()) ++queue_.waiting_;
        return true;
    }
    // Redis does not take it.
    void close() { is_open_ = false; }

    void append_command(std::string& out) override {
        is_open_ = false;
        queue_.waiting_ = 0;
        queue_.open_.clear();  // all of this turn are leaving
        batch_.append_command(queue_.redis_.key_prefix, queue_.redis_.clock(), out);
    }

    const redis::Script* script() const override { return &batch_.script(); }

    void on_reply(const redis::Reply& reply) override {
        const auto decisions = batch_.decisions();
        const auto answers = reply.kind == redis::Reply::Kind::string
                                 ? batch_.read_reply(reply.text)
                                 : batch_.reject_reply();
        const auto alone = std::count(answers.begin(), answers.end(), Mixed::ask_alone);
        // The short scripts do not understand these states, as after a change of limits: for a
        // while a mixed command would mostly be sent in vain.
        if (2 * static_cast<std::size_t>(alone) >= decisions.size()) {
            queue_.mixes_from_ = std::chrono::steady_clock::now() + kMixingPause;
        }
        for (std::size_t i = 0; i < decisions.size(); ++i) finish(*decisions[i], answers[i]);
        end();
    }

    void on_failure(redis::Failure failure) override {
        for (LimitDecision* decision : batch_.decisions())
            queue_.fail(*decision, failure_of(failure));
        end();
    }

  private:
    void finish(LimitDecision& decision, Mixed answer) {
        if (answer == Mixed::decided) {
            queue_.admit_or_limit(decision);
        } else if (answer == Mixed::ask_alone) {
            queue_.send(decision, 0);
        } else {
            queue_.fail(decision, StoreFailure::protocol);
        }
    }

    void end() {
        if (std::exchange(is_open_, false)) std::erase(queue_.open_, this);
        for (LimitDecision* decision : batch_.decisions()) {
            if (decision->result != LimitDecision::Result::pending)
                decision->store_state.sleeper->wake_later();
        }
        queue_.idle_.push_back(this);
    }

    BatchQueue& queue_;
    Batch batch_;
    bool is_open_ = false;  // has not left yet
};

BatchQueue::BatchQueue(const RedisStore& redis, DenyCache& denials, LeaseRenewal& leases,
                       const FailurePolicy& failure_policy)
    : redis_(redis), denials_(denials), leases_(leases), failure_policy_(failure_policy) {}

BatchQueue::~BatchQueue() = default;

void BatchQueue::charge(LimitDecision& decision) {
    const bool may_share = !decision.is_alone && can_share_command(decision.charge());
    const std::size_t hash = may_share ? hash_of(decision.items) : 0;
    if (!may_share || !join_open_command(decision, hash)) {
        Command* const command = send(decision, hash);
        if (may_share && command != nullptr) open_.push_back(command);
    }
    if (waiting_ >= kWaitingMax) redis_.servers.flush();
}

bool BatchQueue::join_open_command(LimitDecision& decision, std::size_t hash) {
    // In a cluster different identifiers are in different slots.
    const bool may_mix = decision.store_state.asked >= mixes_from_ && !redis_.servers.is_cluster();
    const std::size_t compared = std::min(open_.size(), kComparedMax);
    for (std::size_t i = open_.size(); i > open_.size() - compared; --i) {
        if (open_[i - 1]->join(decision, hash, may_mix)) return true;
    }
    return false;
}

// Null if Redis took no command; then the failure policy has decided.
BatchQueue::Command* BatchQueue::send(LimitDecision& decision, std::size_t hash) {
    if (idle_.empty()) {
        commands_.push_back(std::make_unique<Command>(*this));
        idle_.push_back(commands_.back().get());
    }
    Command& command = *idle_.back();
    idle_.pop_back();
    command.begin(decision, hash);
    if (const auto failure = redis_.servers.send(command, redis_.slot_of(decision.items),
                                                 decision.store_state.asked)) {
        command.close();
        idle_.push_back(&command);
        failure_policy_.decide(decision, failure_of(*failure));
        return nullptr;
    }
    ++waiting_;
    return &command;
}

void BatchQueue::admit_or_limit(LimitDecision& decision) {
    decision.result = result_of(decision.verdict);
    if (decision.result == LimitDecision::Result::limited) {
        denials_.remember(decision.charge(), decision.verdict, decision.store_state.asked);
    } else {
        leases_.add(decision);
    }
}

// Redis may have carried the command out.
void BatchQueue::fail(LimitDecision& decision, StoreFailure failure) {
    leases_.release_later(decision, decision.charge());
    failure_policy_.decide(decision, failure);
}

}  // namespace tidegate::store
