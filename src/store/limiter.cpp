#include "store/limiter.hpp"

#include <chrono>
#include <utility>

#include "store/charge_script.hpp"
#include "store/lua_scripts.hpp"

namespace tidegate::store {

namespace {

using limit::OnStoreFailure;
using telemetry::StoreFailure;
using telemetry::StoreKind;
using Result = Decision::Result;

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

Result result_of(const limit::Verdict& verdict) {
    return verdict.admitted ? Result::admitted : Result::limited;
}

limit::Micros wall_clock() {
    return std::chrono::duration_cast<limit::Micros>(
        std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

void Decision::append_command(std::string& out) {
    const auto& redis = limiter_->redis_;
    append_charge_command({items, cost}, redis.key_prefix,
                          redis.local_clock ? std::optional(wall_clock()) : std::nullopt, out);
}

const redis::Script* Decision::script() const {
    return &kchargeScript;
}

void Decision::on_reply(const redis::Reply& reply) {
    limiter_->read_reply(*this, reply);
    sleeper_->wake_later();
}

void Decision::on_failure(redis::Failure failure) {
    limiter_->fall_back(*this, failure_of(failure));
    sleeper_->wake_later();
}

Limiter::Limiter(MemoryStore& memory, telemetry::MetricsShard& metrics)
    : memory_(&memory), metrics_(&metrics) {}

Limiter::Limiter(MemoryStore& memory, RedisParts redis, telemetry::MetricsShard& metrics)
    : memory_(&memory), redis_(std::move(redis)), metrics_(&metrics) {}

void Limiter::decide(Decision& decision, Wakeup& sleeper) {
    decision.limiter_ = this;
    decision.sleeper_ = &sleeper;
    decision.store_failed = false;
    decision.result = Result::pending;
    if (!redis_.client) {
        decision.decided_by = StoreKind::memory;
        decide_in(decision, decision.items);
        return;
    }
    decision.decided_by = StoreKind::redis;
    if (const auto failure = redis_.client->send(decision)) {
        fall_back(decision, failure_of(*failure));
    }
}

void Limiter::decide_in(Decision& decision, std::span<const limit::ChargeItem> items) {
    const auto outcome = memory_->charge({items, decision.cost}, process_now(), decision.verdict);
    if (outcome == MemoryStore::Outcome::full) {
        metrics_->count_store_failure(StoreFailure::full);
        decision.result = Result::unavailable;
        return;
    }
    decision.result = result_of(decision.verdict);
}

void Limiter::read_reply(Decision& decision, const redis::Reply& reply) {
    if (reply.kind == redis::Reply::Kind::string &&
        read_charge_reply(reply.text, {decision.items, decision.cost}, decision.verdict)) {
        decision.result = result_of(decision.verdict);
    } else {
        fall_back(decision, StoreFailure::protocol);
    }
}

// Policies that say deny are looked at first: then nothing is taken anywhere.
void Limiter::fall_back(Decision& decision, StoreFailure failure) {
    metrics_->count_store_failure(failure);
    decision.store_failed = true;
    decision.decided_by = StoreKind::local;
    decision.local_items_.clear();
    bool denied = false;
    for (const limit::ChargeItem& item : decision.items) {
        switch (item.policy->on_store_failure) {
            case OnStoreFailure::deny:
                denied = true;
                break;
            case OnStoreFailure::local:
                decision.local_items_.push_back(item);
                break;
            case OnStoreFailure::allow:
                break;
        }
    }
    const int replicas = redis_.replicas != nullptr ? redis_.replicas->load() : 0;
    if (denied || (!decision.local_items_.empty() && replicas == 0)) {
        decision.local_items_.clear();
        decision.result = Result::unavailable;
    } else if (decision.local_items_.empty()) {
        decision.verdict.admitted = true;
        decision.verdict.limits.clear();
        decision.result = Result::admitted;
    } else {
        memory_->set_divisor(replicas);
        decide_in(decision, decision.local_items_);
    }
}

}  // namespace tidegate::store
