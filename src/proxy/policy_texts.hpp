// What of a policy's answer never changes, made once: names for clients, metrics and the log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace tidegate::proxy {

// Immutable; as long-lived as its configuration.
class PolicyTexts {
  public:
    struct LimitTexts {
        std::string label;            // the limit's name, else policy and window: `default-1s`
        std::string full_name;        // `policy/limit`, for the log
        std::int64_t window_seconds;  // 0: below one second
    };

    explicit PolicyTexts(const config::Config& config);

    const LimitTexts& of(const limit::Policy& policy, std::size_t limit) const {
        return policies_[policy.index][limit];
    }

  private:
    std::vector<std::vector<LimitTexts>> policies_;
};

}  // namespace tidegate::proxy
