#include "app/shared_state.hpp"

#include <algorithm>
#include <random>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "app/config_snapshot.hpp"
#include "config/policy_cost.hpp"
#include "limit/charge.hpp"
#include "store/charge_script.hpp"
#include "store/redis_store.hpp"
#include "store/scripts.hpp"
#include "telemetry/error_log.hpp"

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
    return std::any_of(
        config.limit_lists.begin(), config.limit_lists.end(),
        [](const config::LimitList& list) { return list.settles || list.policy->lease_slack > 0; });
}

bool may_cost_more(const config::Config& config) {
    return std::any_of(config.routes.begin(), config.routes.end(),
                       [](const config::Route& route) { return route.settles_costs; });
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
    if (may_cost_more(config)) scripts.add(store::report_once_script());
    return scripts.take();
}

namespace {

using telemetry::Level;
using telemetry::log;

// A secret that no other process has.
std::string random_secret() {
    std::random_device device;
    std::string secret;
    for (int i = 0; i < 8; ++i) secret += std::to_string(device());
    return secret;
}

std::shared_ptr<redis::MasterWatch> make_master_watch(const config::RedisSettings& redis,
                                                      std::shared_ptr<const TlsClient> tls) {
    if (!redis.sentinel) return nullptr;
    const config::SentinelSettings& settings = *redis.sentinel;
    redis::SentinelOptions options;
    options.master = settings.master;
    for (const config::Address& node : settings.nodes) {
        options.nodes.push_back({node.host, node.port});
    }
    options.username = settings.username;
    options.password = settings.password;
    options.tls = std::move(tls);
    return std::make_shared<redis::MasterWatch>(std::move(options));
}

std::optional<redis::ClientOptions> redis_options(const config::Config& config,
                                                  std::shared_ptr<const TlsClient> tls,
                                                  std::shared_ptr<const TlsClient> sentinel_tls) {
    const auto* settings = std::get_if<config::RedisSettings>(&config.store);
    if (settings == nullptr) return std::nullopt;
    redis::ClientOptions options;
    options.host = settings->address.host;
    options.port = settings->address.port;
    options.unix_path = settings->address.unix_path;
    options.master_watch = make_master_watch(*settings, std::move(sentinel_tls));
    options.tls = std::move(tls);
    options.username = settings->username;
    options.password = settings->password;
    options.database = settings->database;
    options.timeout = settings->timeout;
    options.max_in_flight = settings->max_in_flight;
    options.breaker_failures = settings->breaker_failures;
    options.probe_every = settings->probe_every;
    options.scripts = preloaded_scripts(config);
    options.rights = store::access_rights(settings->key_prefix);
    options.absent_key = settings->key_prefix + "{absent}";
    return options;
}

std::optional<redis::ClusterOptions> cluster_options(
    const config::Config& config, const std::optional<redis::ClientOptions>& node) {
    const auto* settings = std::get_if<config::RedisSettings>(&config.store);
    if (settings == nullptr || settings->cluster.empty()) return std::nullopt;
    redis::ClusterOptions options;
    for (const config::Address& seed : settings->cluster) {
        options.seeds.push_back({seed.host, seed.port});
    }
    options.node = *node;
    return options;
}

std::string random_name() {
    std::random_device random;
    return fmt::format("{:08x}{:08x}", random(), random());
}

// Nothing: no cost of the policy is settled.
std::optional<telemetry::CostUnit> cost_unit_of(const config::PolicyCost* cost) {
    using telemetry::CostUnit;
    if (cost == nullptr || !cost->settles()) return std::nullopt;
    if (cost->in_money) return CostUnit::usd;
    return cost->settle == config::PolicyCost::Settle::usage ? CostUnit::tokens : CostUnit::units;
}

}  // namespace

telemetry::MetricNames metric_names(const config::Config& config) {
    telemetry::MetricNames names;
    for (const config::Route& route : config.routes) names.routes.push_back(route.name);
    for (const config::Upstream& upstream : config.upstreams) {
        names.upstreams.push_back(upstream.name);
    }
    // Rules of Envoy's rate limit service that have figures of their own, in the order of the
    // files. There may be 100,000, and each name is a few lines of the metrics.
    constexpr std::size_t kRuleNamesMax = 5'000;
    constexpr std::string_view kOtherRules = "rls:other";  // a rule's name has a dot
    std::size_t rules = 0;
    for (const config::LimitList& list : config.limit_lists) {
        auto& entry = names.policies.emplace_back();
        entry.policy = list.policy->name;
        const bool is_rule = list.policy->name.starts_with(config::kRlsPolicy);
        if (is_rule && ++rules > kRuleNamesMax) entry.policy = kOtherRules;
        entry.shadow = list.policy->shadow;
        entry.soft = list.policy->soft;
        if (!list.policy->is_candidate()) entry.cost_unit = cost_unit_of(list.policy->cost.get());
        for (const limit::Limit& limit : list.limits()) entry.limits.push_back(limit.name);
    }
    const std::size_t models = config.prices ? config.prices->size() : 0;
    for (std::size_t row = 0; row < std::min(models, telemetry::kModelNamesMax); ++row) {
        names.models.push_back(config.prices->pattern(row));
    }
    return names;
}

std::shared_ptr<TlsClient> make_redis_tls(const config::Config& config) {
    const auto* settings = std::get_if<config::RedisSettings>(&config.store);
    if (settings == nullptr || !settings->tls) return nullptr;
    auto made = TlsClient::make(*settings->tls);
    if (!made) throw std::runtime_error("store.redis.tls: " + made.error());
    return std::move(*made);
}

std::shared_ptr<TlsClient> make_sentinel_tls(const config::Config& config) {
    const auto* settings = std::get_if<config::RedisSettings>(&config.store);
    if (settings == nullptr || !settings->sentinel || !settings->sentinel->tls) return nullptr;
    auto made = TlsClient::make(*settings->sentinel->tls);
    if (!made) throw std::runtime_error("store.redis.sentinel.tls: " + made.error());
    return std::move(*made);
}

store::MemoryStore::Options memory_options(const config::Config& config) {
    store::MemoryStore::Options options;
    options.stands_in = std::holds_alternative<config::RedisSettings>(config.store);
    if (const auto* memory = std::get_if<config::MemoryStoreSettings>(&config.store)) {
        options.max_keys = memory->max_keys;
        options.on_full = memory->deny_when_full ? store::OnFull::deny : store::OnFull::evict;
    }
    return options;
}

std::vector<std::string_view> policy_names(const config::Config& config) {
    std::vector<std::string_view> names;
    for (const auto& policy : config.policies) names.push_back(policy->name);
    return names;
}

SharedState::SharedState(const config::Config& config, std::size_t worker_count,
                         const std::string& version)
    : workers(worker_count),
      name(random_name()),
      metrics(metric_names(config), workers, version),
      memory_store(memory_options(config)),
      redis_tls(make_redis_tls(config)),
      sentinel_tls(make_sentinel_tls(config)),
      redis(redis_options(config, redis_tls, sentinel_tls)),
      redis_cluster(cluster_options(config, redis)),
      connection_limit(client_connections_max(workers, config)),
      reservations{
          faces::IdSeal(config.check_secret.empty() ? random_secret() : config.check_secret),
          name} {
    memory_store.set_policies(policy_names(config));
}

void SharedState::store_changed(bool up, std::string_view reason) {
    if (up) {
        was_back = true;
        if (workers_without_store.fetch_sub(1) == 1) {
            log(Level::info, "Redis is back: {}", reason);
        }
    } else if (workers_without_store.fetch_add(1) == 0) {
        log(Level::error, "Redis is down, on_store_failure decides: {}", reason);
    }
}

}  // namespace tidegate::app
