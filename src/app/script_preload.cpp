#include "app/script_preload.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "limit/charge.hpp"
#include "store/charge_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::app {
namespace {

class Scripts {
  public:
    void add(const redis::Script& script) {
        if (std::find(list_.begin(), list_.end(), &script) == list_.end()) {
            list_.push_back(&script);
        }
    }
    void add_charge(std::span<const limit::ChargeItem> items) {
        if (!items.empty()) add(store::charge_script({items, 1}));
    }
    std::vector<const redis::Script*> take() { return std::move(list_); }

  private:
    std::vector<const redis::Script*> list_;
};

bool is_cluster(const config::Config& config) {
    const auto* redis = std::get_if<config::RedisSettings>(&config.store);
    return redis != nullptr && !redis->cluster.empty();
}

bool may_give_back(const config::Config& config) {
    return std::any_of(config.limit_lists.begin(), config.limit_lists.end(),
                       [](const config::LimitList& list) { return list.settles; });
}

}  // namespace

std::vector<const redis::Script*> preloaded_scripts(const config::Config& config) {
    Scripts scripts;
    // Every charge may need it; so a start fails early when the Redis user may not load scripts.
    scripts.add(store::charge_script({}));
    for (const config::Route& route : config.routes) {
        std::vector<limit::ChargeItem> items;
        for (const limit::Policy* policy : route.policies) {
            items.insert(items.end(), policy->key.size(), {policy, {}});
            if (!is_cluster(config)) continue;
            // Identifiers mostly lie in different slots there, and each slot gets a command of its
            // own.
            scripts.add_charge({&items.back(), 1});
            items.clear();
        }
        scripts.add_charge(items);
    }
    if (may_give_back(config)) scripts.add(store::give_back_script());
    return scripts.take();
}

}  // namespace tidegate::app
