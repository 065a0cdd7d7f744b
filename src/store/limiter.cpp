#include "store/limiter.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <utility>

#include <boost/container_hash/hash.hpp>

#include "store/charge_script.hpp"
#include "store/refund_script.hpp"
#include "store/scripts.hpp"
#include "store/spread.hpp"

namespace tidegate::store {

namespace {

using limit::OnStoreFailure;
using telemetry::StoreFailure;
using telemetry::StoreKind;
using Result = Decision::Result;

// So many different questions do not wait for the end of their turn: Redis may begin meanwhile.
constexpr std::size_t kWaitingMax = 16;
constexpr std::chrono::seconds kMixingPause{5};
// Batches that are compared with a new question: those of the busiest keys are among the latest.
constexpr std::size_t kComparedMax = 32;
// Slots that were taken after nobody waited any more; what is above waits for its lease to end.
constexpr std::size_t kLateReleasesMax = 1'000;

Result result_of(const limit::Verdict& verdict) {
    return verdict.admitted ? Result::admitted : Result::limited;
}

bool same_policy(const limit::ChargeItem& left, const limit::ChargeItem& right) {
    return left.policy == right.policy && left.tier == right.tier;
}

bool same_policies(std::span<const limit::ChargeItem> a, std::span<const limit::ChargeItem> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_policy);
}

bool same_items(std::span<const limit::ChargeItem> a, std::span<const limit::ChargeItem> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const limit::ChargeItem& left, const limit::ChargeItem& right) {
                          return same_policy(left, right) && left.identifier == right.identifier;
                      });
}

// Tells batches apart at a glance; equal ones are compared.
std::size_t hash_of(std::span<const limit::ChargeItem> items) {
    std::size_t hash = items.size();
    for (const limit::ChargeItem& item : items) {
        boost::hash_combine(hash, std::hash<std::string_view>{}(item.identifier));
    }
    return hash;
}

template <class Predicate>
bool any_limit(std::span<const limit::ChargeItem> items, Predicate predicate) {
    return std::any_of(items.begin(), items.end(), [&](const limit::ChargeItem& item) {
        const auto limits = item.limits();
        return std::any_of(limits.begin(), limits.end(), predicate);
    });
}

bool is_concurrency(const limit::Limit& limit) {
    return limit.is_concurrency();
}

LocalReport::Options reporting(const Limiter::RedisParts& redis) {
    LocalReport::Options options = redis.local_report;
    options.key_prefix = redis.key_prefix;
    options.local_clock = redis.local_clock;
    return options;
}

SteadyTime steady_now() {
    return std::chrono::steady_clock::now();
}

}  // namespace

StoreFailure failure_of(redis::Failure failure) {
    switch (failure) {
        case redis::Failure::timeout:
            return StoreFailure::timeout;
        case redis::Failure::disconnected:
            return StoreFailure::disconnected;
        case redis::Failure::unavailable:
            return StoreFailure::unavailable;
        case redis::Failure::overloaded:
            return StoreFailure::overloaded;
        case redis::Failure::refused:
            return StoreFailure::refused;
    }
    return StoreFailure::protocol;
}

// Decisions that travel to Redis as one command: all about equal items, or about different ones
// under the same policies.
class Limiter::Batch final : public redis::Request {
  public:
    explicit Batch(Limiter& limiter) : limiter_(limiter) {}

    void begin(Decision& decision, std::size_t hash) {
        grows_ = true;
        is_mixed_ = false;
        hash_ = hash;
        decisions_.assign(1, &decision);
    }
    // Adds the decision, if it may travel with these.
    bool take(Decision& decision, std::size_t hash) {
        if (!grows_) return false;
        if (!is_mixed_ && hash == hash_ && same_items(decisions_[0]->items, decision.items)) {
            if (decisions_.size() == kBatchMax) return false;
        } else if (mixes_with(decision)) {
            is_mixed_ = true;
            ++limiter_.waiting_;
        } else {
            return false;
        }
        decisions_.push_back(&decision);
        return true;
    }
    // Redis does not take it: nobody may join.
    void refuse() { grows_ = false; }

    void append_command(std::string& out) override {
        grows_ = false;
        limiter_.waiting_ = 0;
        limiter_.open_.clear();  // all of this turn are leaving
        list_charges();
        const auto append = is_mixed_ ? append_mixed_command : append_charge_command;
        append(charges_, limiter_.redis_.key_prefix, limiter_.clock(), out);
    }

    const redis::Script* script() const override {
        return &(is_mixed_ || decisions_.size() == 1 ? charge_script(decisions_[0]->charge())
                                                     : charge_script({}));
    }

    void on_reply(const redis::Reply& reply) override {
        list_charges();
        verdicts_.clear();
        for (Decision* decision : decisions_) verdicts_.push_back(&decision->verdict);
        if (reply.kind != redis::Reply::Kind::string || !read(reply.text)) {
            answers_.assign(decisions_.size(), Mixed::unreadable);
        }
        const auto alone = std::count(answers_.begin(), answers_.end(), Mixed::ask_alone);
        if (2 * static_cast<std::size_t>(alone) >= decisions_.size()) limiter_.mix_later();
        for (std::size_t i = 0; i < decisions_.size(); ++i) tell(*decisions_[i], answers_[i]);
        end();
    }

    void on_failure(redis::Failure failure) override {
        for (Decision* decision : decisions_) {
            limiter_.release_late(*decision);
            limiter_.fall_back(*decision, failure_of(failure));
        }
        end();
    }

  private:
    bool mixes_with(const Decision& decision) const {
        if (!is_mixed_ && (decisions_.size() > 1 || !limiter_.may_mix(decision.asked_) ||
                           !can_mix(decisions_[0]->charge()))) {
            return false;
        }
        return decisions_.size() < kMixedMax && decision.cost > 0 &&
               same_policies(decisions_[0]->items, decision.items);
    }

    bool read(std::string_view reply) {
        if (is_mixed_) return read_mixed_reply(reply, charges_, verdicts_, answers_);
        answers_.assign(decisions_.size(), Mixed::decided);
        return read_charge_reply(reply, charges_, verdicts_);
    }

    void tell(Decision& decision, Mixed answer) {
        if (answer == Mixed::decided) {
            limiter_.decided_by_redis(decision);
        } else if (answer == Mixed::ask_alone) {
            limiter_.send_batch(decision, 0);
        } else {
            limiter_.release_late(decision);
            limiter_.fall_back(decision, StoreFailure::protocol);
        }
    }

    void list_charges() {
        charges_.clear();
        for (const Decision* decision : decisions_) charges_.push_back(decision->charge());
    }

    void end() {
        if (std::exchange(grows_, false)) std::erase(limiter_.open_, this);
        for (Decision* decision : decisions_) {
            if (decision->result != Result::pending) decision->sleeper_->wake_later();
        }
        limiter_.idle_.push_back(this);
    }

    Limiter& limiter_;
    bool grows_ = false;     // has not left yet
    bool is_mixed_ = false;  // about different items
    std::size_t hash_ = 0;   // of the first one's
    std::vector<Decision*> decisions_;
    std::vector<limit::Charge> charges_;  // scratch
    std::vector<limit::Verdict*> verdicts_;
    std::vector<Mixed> answers_;
};

// A command whose answer nobody waits for. Ends itself.
class Limiter::Errand final : public redis::Request {
  public:
    Errand(std::string command, const redis::Script* script)
        : command_(std::move(command)), script_(script) {}

    void append_command(std::string& out) override { out += command_; }
    const redis::Script* script() const override { return script_; }
    void on_reply(const redis::Reply&) override { delete this; }
    void on_failure(redis::Failure) override { delete this; }

  private:
    std::string command_;
    const redis::Script* script_;
};

Decision::Decision() = default;
Decision::~Decision() = default;

Limiter::Limiter(MemoryStore& memory, telemetry::MetricsShard& metrics)
    : Limiter(memory, RedisParts{}, metrics) {}

Limiter::Limiter(MemoryStore& memory, RedisParts redis, telemetry::MetricsShard& metrics)
    : memory_(&memory),
      redis_(std::move(redis)),
      metrics_(&metrics),
      denials_(redis_.deny_cache),
      local_report_(redis_.servers, reporting(redis_), metrics) {
    if (redis_.servers) inspector_.emplace(redis_.servers, redis_.key_prefix, redis_.local_clock);
    std::random_device device;
    lease_holder_ = std::uint64_t{device()} << 32 | device();
}

Limiter::~Limiter() = default;

void Limiter::decide(Decision& decision, Wakeup& sleeper, SteadyTime now) {
    decision.sleeper_ = &sleeper;
    decision.asked_ = now;
    decision.store_failed = decision.remembered = false;
    decision.result = Result::pending;
    decision.lease_ = {lease_holder_, ++last_lease_};
    decision.is_settled_ = !decision.needs_settling;
    decision.is_spread_ = false;
    if (!redis_.servers) {
        decision.decided_by = StoreKind::memory;
        decide_in(decision, decision.items);
        return;
    }
    decision.decided_by = StoreKind::redis;
    if (denials_.recall(decision.charge(), now, decision.verdict)) {
        metrics_->count_deny_cache_hit();
        decision.remembered = true;
        decision.result = Result::limited;
        return;
    }
    if (redis_.servers.is_cluster() && !lie_in_one_slot(decision.items)) {
        ask_slots(decision);
    } else {
        ask_redis(decision);
    }
}

void Limiter::ask_redis(Decision& decision) {
    const bool may_share = can_share_command(decision.charge());
    const std::size_t hash = may_share ? hash_of(decision.items) : 0;
    if (!may_share || !join_open_batch(decision, hash)) {
        Batch* const batch = send_batch(decision, hash);
        if (may_share && batch != nullptr) open_.push_back(batch);
    }
    if (waiting_ >= kWaitingMax) redis_.servers.flush();
}

// Null if the decision has fallen back already.
Limiter::Batch* Limiter::send_batch(Decision& decision, std::size_t hash) {
    if (idle_.empty()) {
        batches_.push_back(std::make_unique<Batch>(*this));
        idle_.push_back(batches_.back().get());
    }
    Batch& batch = *idle_.back();
    idle_.pop_back();
    batch.begin(decision, hash);
    if (const auto failure = redis_.servers.send(batch, slot_of(decision.items), decision.asked_)) {
        batch.refuse();
        idle_.push_back(&batch);
        fall_back(decision, failure_of(*failure));
        return nullptr;
    }
    ++waiting_;
    return &batch;
}

// In a cluster different names lie in different slots.
bool Limiter::may_mix(SteadyTime now) const {
    return now >= mixes_from_ && !redis_.servers.is_cluster();
}

// The fast path left half of a command alone, as it does after a change of limits: for some seconds
// each decision is sent by itself.
void Limiter::mix_later() {
    mixes_from_ = steady_now() + kMixingPause;
}

bool Limiter::join_open_batch(Decision& decision, std::size_t hash) {
    const std::size_t compared = std::min(open_.size(), kComparedMax);
    for (std::size_t i = open_.size(); i > open_.size() - compared; --i) {
        if (open_[i - 1]->take(decision, hash)) return true;
    }
    return false;
}

std::optional<limit::Micros> Limiter::clock() const {
    if (!redis_.local_clock) return std::nullopt;
    return std::chrono::duration_cast<limit::Micros>(
        std::chrono::system_clock::now().time_since_epoch());
}

void Limiter::decide_in(Decision& decision, std::span<const limit::ChargeItem> items) {
    const limit::Charge charge{items, decision.cost, decision.lease_, decision.moment};
    const auto outcome = memory_->charge(charge, process_now(), decision.verdict);
    if (outcome == MemoryStore::Outcome::full) {
        metrics_->count_store_failure(StoreFailure::full);
        decision.result = Result::unavailable;
        return;
    }
    decision.result = result_of(decision.verdict);
}

void Limiter::decided_by_redis(Decision& decision) {
    decision.result = result_of(decision.verdict);
    if (decision.result == Result::limited) {
        denials_.remember(decision.charge(), decision.verdict, decision.asked_);
    } else if (decision.needs_settling && decision.cost > 0 &&
               any_limit(decision.items, is_concurrency)) {
        decision.renewed_ = decision.asked_;
        holders_.push_back(decision);
    }
}

// Policies that say deny are looked at first: then nothing is taken anywhere. Those in shadow
// refuse nobody.
void Limiter::fall_back(Decision& decision, StoreFailure failure) {
    metrics_->count_store_failure(failure);
    decision.store_failed = true;
    decision.decided_by = StoreKind::local;
    decision.decided_items_.clear();
    const int sharing = replicas();
    bool denied = false;
    for (const limit::ChargeItem& item : decision.items) {
        switch (item.policy->on_store_failure) {
            case OnStoreFailure::deny:
                denied = denied || !item.policy->shadow;
                break;
            case OnStoreFailure::local:
                denied = denied || (sharing == 0 && !item.policy->shadow);
                if (sharing > 0) decision.decided_items_.push_back(item);
                break;
            case OnStoreFailure::local_or_alone:
                decision.decided_items_.push_back(item);
                break;
            case OnStoreFailure::allow:
                break;
        }
    }
    if (denied) {
        decision.decided_items_.clear();
        decision.result = Result::unavailable;
    } else if (decision.decided_items_.empty()) {
        decision.verdict = {};
        decision.result = Result::admitted;
    } else {
        memory_->set_divisor(std::max(sharing, 1));
        decide_in(decision, decision.decided_items_);
        if (decision.result != Result::unavailable) {
            local_report_.took(decision.charge(), decision.verdict);
        }
    }
}

// Units that were counted in process, of which Redis may be told one day.
void Limiter::give_back_here(const limit::Refund& refund) {
    const limit::Micros now = process_now();
    memory_->give_back(refund, now);
    local_report_.gave_back(refund, now);
}

template <class Visit>
void Limiter::for_each_admission(const Decision& decision, Visit visit) {
    if (!decision.is_spread_) {
        visit({decision.charge(), decision.verdict.receipt, decision.decided_by == StoreKind::redis,
               slot_of(decision.items)});
        return;
    }
    const Joint& joint = decision.spread_->joint;
    const auto visit_part = [&](const Joint::Part& part, bool in_redis) {
        if (part.answer != Joint::Answer::admitted) return;
        visit({decision.charge_of(part), part.verdict.receipt, in_redis, part.slot});
    };
    for (const Joint::Part& part : joint.parts()) visit_part(part, true);
    visit_part(joint.local(), false);
}

void Limiter::settle(Decision& decision, int status, std::chrono::milliseconds hold) {
    if (decision.is_linked()) decision.unlink();
    if (decision.result != Result::admitted || std::exchange(decision.is_settled_, true)) return;
    for_each_admission(decision, [&](const Admission& admission) {
        const limit::Refund refund{admission.charge, &admission.receipt, limit::Refund::Of::status,
                                   status};
        if (admission.in_redis) {
            give_back_in_redis(refund, admission.slot);
        } else {
            give_back_here(refund);
        }
        give_up_slots(admission, hold);
    });
}

void Limiter::give_up_slots(const Admission& admission, limit::Micros hold) {
    if (!admission.in_redis) {
        memory_->release(admission.charge,
                         hold > limit::Micros{0} ? process_now() + hold : limit::Micros{0});
    } else if (hold > limit::Micros{0}) {
        std::string command;
        if (append_hold_command(admission.charge, redis_.key_prefix, hold, clock(), command)) {
            run_errand(std::move(command), &hold_script(), admission.slot);
        }
    } else {
        for (std::string& release : release_commands(admission.charge, redis_.key_prefix)) {
            run_errand(std::move(release), nullptr, admission.slot);
        }
    }
}

void Limiter::leave_line(Decision& decision) {
    if (decision.result != Result::admitted) return;
    for_each_admission(decision, [&](const Admission& admission) {
        const limit::Refund refund{admission.charge, &admission.receipt, limit::Refund::Of::place,
                                   0};
        if (admission.in_redis) {
            give_back_in_redis(refund, admission.slot);
        } else {
            give_back_here(refund);
        }
    });
}

void Limiter::give_back_in_redis(const limit::Refund& refund, std::uint16_t slot) {
    std::string command;
    if (append_refund_command(refund, redis_.key_prefix, clock(), command)) {
        run_errand(std::move(command), &give_back_script(), slot);
    }
}

// A charge whose answer came too late may have taken slots all the same.
void Limiter::release_late(const Decision& decision) {
    if (!decision.needs_settling) return;
    release_late(decision.charge(), slot_of(decision.items));
}

void Limiter::release_late(const limit::Charge& charge, std::uint16_t slot) {
    if (late_releases_.size() >= kLateReleasesMax) return;
    for (std::string& release : release_commands(charge, redis_.key_prefix)) {
        late_releases_.push_back({slot, std::move(release)});
    }
}

void Limiter::renew_slots(SteadyTime now) {
    for (LateRelease& release : std::exchange(late_releases_, {})) {
        run_errand(std::move(release.command), nullptr, release.slot);
    }
    for (Decision& decision : holders_) {
        if (now - decision.renewed_ < limit::kLease / 3) continue;
        decision.renewed_ = now;
        for_each_admission(decision, [&](const Admission& admission) {
            std::string command;
            if (!admission.in_redis ||
                !append_renew_command(admission.charge, redis_.key_prefix, clock(), command)) {
                return;
            }
            run_errand(std::move(command), &renew_script(), admission.slot);
        });
    }
}

void Limiter::forget(std::span<const limit::ChargeItem> items) {
    denials_.clear(steady_now());
    local_report_.forget(items);
}

void Limiter::run_errand(std::string command, const redis::Script* script, std::uint16_t slot) {
    auto errand = std::make_unique<Errand>(std::move(command), script);
    // Sent, it ends itself. Else units stay counted until they expire, slots until their lease
    // ends.
    if (!redis_.servers.send(*errand, slot)) static_cast<void>(errand.release());
}

}  // namespace tidegate::store
