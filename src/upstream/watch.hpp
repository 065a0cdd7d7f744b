// What the main thread does for one upstream as long as a configuration has it: it resolves the
// names of its servers and checks their health.
#pragma once

#include <memory>
#include <utility>

#include "upstream/health_checks.hpp"
#include "upstream/resolver.hpp"

namespace tidegate::upstream {

class Watch {
  public:
    Watch(const Executor& executor, GroupPtr group)
        : group_(std::move(group)),
          resolver_(std::make_shared<Resolver>(executor, group_)),
          checks_(std::make_shared<HealthChecks>(executor, group_)) {
        spawn_vital(executor, Resolver::run(resolver_));
        spawn_vital(executor, HealthChecks::run(checks_));
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch() {
        resolver_->stop();
        checks_->stop();
    }

    const GroupPtr& group() const { return group_; }

  private:
    GroupPtr group_;
    std::shared_ptr<Resolver> resolver_;
    std::shared_ptr<HealthChecks> checks_;
};

}  // namespace tidegate::upstream
