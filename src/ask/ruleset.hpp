// One configuration as one worker decides by it: the value itself and what is made of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "http/ratelimit_fields.hpp"
#include "identity/authenticator.hpp"
#include "limit/charge.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::ask {

// The list of limits that holds for an item, as a position in Config::limit_lists.
inline std::size_t list_of(const limit::ChargeItem& item) {
    return item.tier != nullptr ? item.tier->index : item.policy->index;
}

// The texts of each limit, made once: its name for clients, the log and people, and what fields
// say. Immutable; as long-lived as its configuration.
class PolicyTexts {
  public:
    struct LimitTexts {
        std::string name;             // `POLICY-LIMIT`, of no other limit: `default-1s`
        std::int64_t window_seconds;  // 0: below one second, there is none, or it is a month
        http::RateLimitItem::Kind kind;
        http::RateLimitItem::Unit unit;
        http::RateLimitTexts members;  // of the fields that tell clients of it
        // The check API describes a limit by a JSON object: its text before the identifier and
        // behind it, `{"policy":"default","limit":"default-1s","identifier":"` and
        // `","quota":10,"left":`
        std::string json_begin;
        std::string json_quota;
    };

    explicit PolicyTexts(const config::Config& config);

    // The texts of a limit, by its position among item.limits().
    const LimitTexts& of(const limit::ChargeItem& item, std::size_t limit) const {
        return lists_[list_of(item)][limit];
    }

  private:
    std::vector<std::vector<LimitTexts>> lists_;
};

// Immutable, but for the credentials that the authenticator remembers. One thread.
struct Ruleset {
    explicit Ruleset(std::shared_ptr<const config::Config> of,
                     std::shared_ptr<identity::SharedCredentialCache> remembered = nullptr)
        : config(std::move(of)),
          policy_texts(*config),
          has_candidates(
              std::any_of(config->policies.begin(), config->policies.end(),
                          [](const auto& policy) { return policy->candidate != nullptr; })),
          authenticator(std::make_unique<identity::Authenticator>(config->user_methods,
                                                                  std::move(remembered))) {}

    std::shared_ptr<const config::Config> config;
    PolicyTexts policy_texts;
    bool has_candidates;  // of any policy: without them decisions need not be searched for theirs
    std::unique_ptr<identity::Authenticator> authenticator;
    telemetry::MetricSlots slots;
};

}  // namespace tidegate::ask
