#include "proxy/policy_texts.hpp"

namespace tidegate::proxy {

namespace {

std::int64_t window_seconds(const limit::Limit& limit) {
    constexpr std::int64_t kSecond = 1'000'000;
    // Slots have no window, and a schedule's lies around the moment, not before now.
    if (limit.algorithm == limit::Algorithm::concurrency ||
        limit.algorithm == limit::Algorithm::schedule) {
        return 0;
    }
    const std::int64_t micros = limit.duration.count();
    return micros < kSecond ? 0 : (micros + kSecond - 1) / kSecond;
}

}  // namespace

PolicyTexts::PolicyTexts(const config::Config& config) {
    for (const config::LimitList& list : config.limit_lists) {
        const std::string& policy = list.policy->name;
        auto& texts = lists_.emplace_back();
        for (const limit::Limit& limit : list.limits()) {
            texts.push_back({limit.named ? limit.name : policy + "-" + limit.name,
                             policy + "/" + limit.name, window_seconds(limit)});
        }
    }
}

}  // namespace tidegate::proxy
