// One configuration as one worker decides by it: the value itself and what is made of it.
#pragma once

#include <memory>
#include <utility>

#include "ask/policy_texts.hpp"
#include "config/config.hpp"
#include "identity/authenticator.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::ask {

// Immutable, but for the credentials that the authenticator remembers. One thread.
struct Ruleset {
    explicit Ruleset(std::shared_ptr<const config::Config> of,
                     std::shared_ptr<identity::SharedCredentialCache> remembered = nullptr)
        : config(std::move(of)),
          policy_texts(*config),
          authenticator(std::make_unique<identity::Authenticator>(config->user_methods,
                                                                  std::move(remembered))) {}

    std::shared_ptr<const config::Config> config;
    PolicyTexts policy_texts;
    std::unique_ptr<identity::Authenticator> authenticator;
    telemetry::MetricSlots slots;
};

}  // namespace tidegate::ask
