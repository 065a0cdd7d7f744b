#include "store/leases.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "store/charge_script.hpp"
#include "store/cross_slot_charge.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

using limit::ChargeItem;

LimitDecision::LimitDecision() = default;
LimitDecision::~LimitDecision() = default;

const LimitDecision* rest_of(const LimitDecision& decision) {
    const LimitDecision& rest = decision.store_state.leased->rest;
    return rest.items.empty() ? nullptr : &rest;
}

// Takes a batch.
class Leases::Command final : public redis::Request {
  public:
    explicit Command(Leases& owner) : owner_(owner) {}

    void begin(Lease& lease, std::int64_t units) {
        lease_ = &lease;
        units_ = units;
    }

    void append_command(std::string& out) override {
        const limit::Charge charge = this->charge();
        append_charge_command({&charge, 1}, owner_.parts_.redis.key_prefix,
                              owner_.parts_.redis.clock(), out);
    }
    const redis::Script* script() const override { return &charge_script(charge()); }

    void on_reply(const redis::Reply& reply) override {
        const limit::Charge charge = this->charge();
        limit::Verdict* const verdict = &verdict_;
        if (reply.kind != redis::Reply::Kind::string ||
            !read_charge_reply(reply.text, {&charge, 1}, {&verdict, 1})) {
            return fail(StoreFailure::protocol);
        }
        const bool is_taken = verdict_.admitted;
        if (is_taken) owner_.parts_.metrics.lease_units[LeaseUnits::taken].add(taken());
        owner_.table_.answered(*lease_, verdict_, std::chrono::steady_clock::now());
        finish(is_taken ? LeaseResult::taken : LeaseResult::denied);
        owner_.end_waiting(*lease_, [this](LimitDecision& one) { owner_.decide_waiting(one); });
    }
    void on_failure(redis::Failure failure) override { fail(failure_of(failure)); }

  private:
    limit::Charge charge() const { return {{&lease_->item(), 1}, units_}; }
    std::uint64_t taken() const { return static_cast<std::uint64_t>(units_); }

    // Redis may have counted the units: they stay so until they expire.
    void fail(StoreFailure failure) {
        owner_.table_.failed(*lease_, std::chrono::steady_clock::now());
        finish(LeaseResult::failed);
        owner_.end_waiting(*lease_, [&](LimitDecision& one) {
            owner_.parts_.failure_policy.decide(one, failure);
        });
    }
    void finish(LeaseResult result) {
        owner_.parts_.metrics.lease_batches[result].add();
        owner_.idle_.push_back(this);  // a decision that has waited may send it again
    }

    Leases& owner_;
    Lease* lease_ = nullptr;
    std::int64_t units_ = 0;
    limit::Verdict verdict_;
};

Leases::Leases(const Parts& parts, Send send)
    : parts_(parts),
      table_([this](const ChargeItem& item, std::int64_t units, const limit::Receipt& receipt) {
          give_back(item, units, receipt);
      }),
      send_(std::move(send)) {}

Leases::~Leases() = default;

void Leases::use(bool is_used, int threads) {
    end_all();
    is_used_ = is_used && parts_.replicas != nullptr;
    threads_ = threads;
}

LeasedPart& Leases::part_of(LimitDecision& decision) {
    auto& part = decision.store_state.leased;
    if (!part) part = std::make_unique<LeasedPart>();
    return *part;
}

namespace {

void admit_all(LimitDecision& decision, std::vector<limit::LimitVerdict>& limits) {
    limit::Verdict& verdict = decision.verdict;
    verdict.admitted = verdict.shadow_admitted = true;
    verdict.retry_after = verdict.wait = verdict.earliest = limit::Micros{0};
    std::swap(verdict.limits, limits);
    decision.store_state.is_leased = true;
    decision.decided_by = StoreKind::lease;
    decision.result = LimitDecision::Result::admitted;
}

LeasedPart::Spent spent_of(Lease& lease, std::size_t position) {
    const limit::Receipt& receipt = lease.receipt();
    return {&lease, lease.batch(), position, receipt.at, receipt.generations.front()};
}

}  // namespace

Leases::Served Leases::serve(LimitDecision& decision, SteadyTime now) {
    unserved_.clear();
    may_wait_ = nullptr;
    const auto has_lease = [](const ChargeItem& item) { return item.policy->lease_slack > 0; };
    if (decision.is_alone || decision.owner == nullptr ||
        std::none_of(decision.items.begin(), decision.items.end(), has_lease)) {
        return Served::none;
    }
    LeasedPart& part = part_of(decision);
    part.spent.clear();
    part.limits.clear();
    const limit::Charge charge{decision.items, decision.cost};
    for (std::size_t i = 0; i < decision.items.size(); ++i) {
        const ChargeItem& item = decision.items[i];
        if (!has_lease(item)) continue;
        const std::int64_t cost = charge.cost_of(item);
        Lease* const lease = table_.meet(item, cost, *decision.owner, now);
        if (lease == nullptr) continue;
        if (lease->spend(cost, now)) {
            part.spent.push_back(spent_of(*lease, i));
            lease->append_verdict(now, part.limits);
        } else {
            unserved_.push_back({lease, cost, i});
        }
    }
    if (part.spent.empty()) {
        const bool is_about_it_alone = decision.items.size() == 1 && unserved_.size() == 1;
        if (is_about_it_alone && decision.needed_by == SteadyTime::max()) may_wait_ = &decision;
        return Served::none;
    }
    append_rest(decision, part);
    if (!part.rest.items.empty()) return Served::some;
    admit_all(decision, part.limits);
    return Served::all;
}

void Leases::append_rest(const LimitDecision& decision, LeasedPart& part) const {
    LimitDecision& rest = part.rest;
    rest.items.clear();
    auto spent = part.spent.begin();
    for (std::size_t i = 0; i < decision.items.size(); ++i) {
        if (spent != part.spent.end() && spent->position == i) {
            ++spent;
        } else {
            rest.items.push_back(decision.items[i]);
        }
    }
    if (rest.items.empty()) return;
    rest.cost = decision.cost;
    rest.moment = decision.moment;
    rest.needs_settling = decision.needs_settling;
    rest.needed_by = decision.needed_by;
    rest.owner = decision.owner;
}

bool Leases::wait(LimitDecision& decision, SteadyTime now) {
    if (std::exchange(may_wait_, nullptr) != &decision) return false;
    if (!wait_for(unserved_.front(), decision, now)) return false;
    unserved_.clear();
    return true;
}

bool Leases::wait_for(const Unserved& one, LimitDecision& decision, SteadyTime now) {
    if (!LeaseTable::promise(*one.lease, one.cost)) {
        const std::int64_t units = table_.wanted(*one.lease, one.cost, threads(), now);
        if (units == 0 || !ask(*one.lease, units, decision, now)) return false;
        if (!LeaseTable::promise(*one.lease, one.cost)) return false;
    }
    waiting_.push_back({one.lease, &decision});
    return true;
}

// What `decide` does may end the wait of others.
template <class Decide>
void Leases::end_waiting(const Lease& lease, Decide decide) {
    const auto is_others = [&](const Waiting& one) { return one.lease != &lease; };
    const auto ready = std::stable_partition(waiting_.begin(), waiting_.end(), is_others);
    std::vector<Waiting> of_lease = std::exchange(ready_, {});
    of_lease.assign(ready, waiting_.end());
    waiting_.erase(ready, waiting_.end());
    for (const Waiting& one : of_lease) {
        decide(*one.decision);
        if (one.decision->result == LimitDecision::Result::pending) continue;
        one.decision->store_state.sleeper->wake_later();
    }
    ready_ = std::move(of_lease);
}

void Leases::decide_waiting(LimitDecision& decision) {
    const ChargeItem& item = decision.items.front();
    const auto now = std::chrono::steady_clock::now();
    Lease* const lease = table_.find(item, *decision.owner);
    const std::int64_t cost = limit::Charge{decision.items, decision.cost}.cost_of(item);
    if (lease == nullptr || !lease->spend(cost, now)) {
        // The timeout of the request begins anew with each command. So that this ends, the request
        // waits for two batches at most.
        const bool may_wait =
            lease != nullptr && !std::exchange(decision.store_state.has_waited, true);
        if (may_wait && wait_for({lease, cost, 0}, decision, now)) return;
        decision.store_state.asked = now;
        send_(decision);
        return;
    }
    LeasedPart& part = part_of(decision);
    part.rest.items.clear();
    part.spent.assign(1, spent_of(*lease, 0));
    part.limits.clear();
    lease->append_verdict(now, part.limits);
    admit_all(decision, part.limits);
}

void Leases::refill(const LimitDecision& decision, SteadyTime now) {
    for (const Unserved& one : unserved_) {
        // An item of the request that was met later may have its place.
        if (!one.lease->is_of(decision.items[one.position], *decision.owner)) continue;
        const std::int64_t units = table_.wanted(*one.lease, one.cost, threads(), now);
        if (units > 0) ask(*one.lease, units, decision, now);
    }
    unserved_.clear();
}

std::int64_t Leases::threads() const {
    return std::int64_t{parts_.replicas->load(std::memory_order_relaxed)} * threads_;
}

// False: Redis takes no command.
bool Leases::ask(Lease& lease, std::int64_t units, const LimitDecision& decision, SteadyTime now) {
    if (idle_.empty()) {
        commands_.push_back(std::make_unique<Command>(*this));
        idle_.push_back(commands_.back().get());
    }
    Command& command = *idle_.back();
    idle_.pop_back();
    command.begin(lease, units);
    table_.asked(lease, units, *decision.owner, now);
    const std::uint16_t slot = parts_.redis.slot_of({&lease.item(), 1});
    if (!parts_.redis.servers.send(command, slot, now)) return true;
    table_.failed(lease, now);
    idle_.push_back(&command);
    return false;
}

void Leases::give_back(const ChargeItem& item, std::int64_t units, const limit::Receipt& receipt) {
    parts_.metrics.lease_units[LeaseUnits::given_back].add(static_cast<std::uint64_t>(units));
    const Admission from{{{&item, 1}, units}, receipt, true};
    if (parts_.refunds.give_back_all(from, [this] { --giving_back_; })) ++giving_back_;
}

namespace {

bool is_the_same(const ChargeItem& a, const ChargeItem& b) {
    return a.policy == b.policy && a.identifier == b.identifier;
}

}  // namespace

void Leases::join(LimitDecision& decision, SteadyTime now) {
    LeasedPart& part = *decision.store_state.leased;
    const LimitDecision& rest = part.rest;
    decision.result = rest.result;
    decision.decided_by = rest.decided_by;
    decision.store_failed = rest.store_failed;
    decision.remembered = rest.remembered;
    decision.is_partial = rest.is_partial;
    if (rest.result != LimitDecision::Result::admitted) {
        const limit::Charge charge{decision.items, decision.cost};
        for (const LeasedPart::Spent& spent : part.spent) {
            const ChargeItem& item = decision.items[spent.position];
            table_.unspend(*spent.lease, spent.batch, charge.cost_of(item), item,
                           {spent.at, {spent.generation}}, now);
        }
    }
    join_verdicts(decision);
}

// Both lists are in the order of the request; the rest may have decided some of its items only.
void Leases::join_verdicts(LimitDecision& decision) {
    const LeasedPart& part = *decision.store_state.leased;
    const LimitDecision& rest = part.rest;
    auto& decided = decision.store_state.decided;
    decided.clear();
    limit::Verdict& verdict = decision.verdict;
    verdict.admitted = rest.verdict.admitted;
    verdict.shadow_admitted = rest.verdict.shadow_admitted;
    verdict.retry_after = rest.verdict.retry_after;
    verdict.wait = rest.verdict.wait;
    verdict.earliest = rest.verdict.earliest;
    verdict.limits.clear();
    if (rest.result == LimitDecision::Result::unavailable) return;
    const auto of_rest = rest.decided();
    auto spent = part.spent.begin();
    auto spent_limits = part.limits.begin();
    std::size_t next = 0;
    auto limits = rest.verdict.limits.begin();
    for (std::size_t i = 0; i < decision.items.size(); ++i) {
        const ChargeItem& item = decision.items[i];
        const auto count = static_cast<std::ptrdiff_t>(item.limits().size());
        if (spent != part.spent.end() && spent->position == i) {
            verdict.limits.insert(verdict.limits.end(), spent_limits, spent_limits + count);
            spent_limits += count;
            ++spent;
        } else if (next < of_rest.size() && is_the_same(of_rest[next], item)) {
            verdict.limits.insert(verdict.limits.end(), limits, limits + count);
            limits += count;
            ++next;
        } else {
            continue;
        }
        decided.push_back(item);
    }
}

void Leases::tend(SteadyTime now) {
    if (!is_used_) return;
    table_.use_threads(threads(), now);
    table_.end_batches(now);
    parts_.metrics.lease_units[LeaseUnits::kept].add(
        static_cast<std::uint64_t>(table_.take_expired()));
    parts_.metrics.lease_held.set(table_.units());
}

void Leases::end_all() {
    table_.drop_all();
    parts_.metrics.lease_held.set(0);
}

void Leases::end_of(std::string_view identifier) {
    if (is_used_) table_.drop(identifier);
}

}  // namespace tidegate::store
