#include "proxy/policy_texts.hpp"

namespace tidegate::proxy {

PolicyTexts::PolicyTexts(const config::Config& config) {
    constexpr std::int64_t kSecond = 1'000'000;
    for (const auto& policy : config.policies) {
        auto& texts = policies_.emplace_back();
        for (const limit::Limit& limit : policy->limits) {
            const std::int64_t micros = limit.duration.count();
            texts.push_back({limit.named ? limit.name : policy->name + "-" + limit.name,
                             policy->name + "/" + limit.name,
                             micros < kSecond ? 0 : (micros + kSecond - 1) / kSecond});
        }
    }
}

}  // namespace tidegate::proxy
