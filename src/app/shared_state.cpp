#include "app/shared_state.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "app/config_snapshot.hpp"
#include "client/unserved_connections.hpp"
#include "config/policy_cost.hpp"
#include "limit/charge.hpp"
#include "net/transfer.hpp"
#include "store/charge_script.hpp"
#include "store/redis_store.hpp"
#include "store/scripts.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

enum class CgroupVersion : bool { v1, v2 };

// A mount of cgroup v2, or of the hierarchy of v1 that has the controller `cpu`.
struct Mount {
    CgroupVersion version = CgroupVersion::v2;
    std::string root;  // the group that is seen at `point`; `/`: the top
    std::string point;
};

// Whether `name` is in a list such as `rw,cpu,cpuacct`.
bool lists(std::string_view list, std::string_view name) {
    for (;;) {
        const std::size_t end = std::min(list.find(','), list.size());
        if (list.substr(0, end) == name) return true;
        if (end == list.size()) return false;
        list.remove_prefix(end + 1);
    }
}

// proc(5): a space, a tab, a line's end and a backslash of a path are three octal digits.
std::string unescaped(std::string_view text) {
    std::string path;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = [&](std::size_t at) {
            return i + at < text.size() && text[i + at] >= '0' && text[i + at] <= '7'
                       ? text[i + at] - '0'
                       : -1;
        };
        if (text[i] != '\\' || digit(1) < 0 || digit(2) < 0 || digit(3) < 0) {
            path += text[i];
            continue;
        }
        path += static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3));
        i += 3;
    }
    return path;
}

// A line of /proc/self/mountinfo: `36 35 0:33 ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS`.
std::optional<Mount> parse_mount(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    std::string root;
    std::string point;
    for (int i = 0; i < 3; ++i) words >> word;
    words >> root >> point;
    while (words >> word && word != "-") {
    }
    std::string type;
    std::string source;
    std::string options;
    if (!(words >> type >> source >> options)) return std::nullopt;
    const bool has_cpu = type == "cgroup" && lists(options, "cpu");
    if (type != "cgroup2" && !has_cpu) return std::nullopt;
    return Mount{has_cpu ? CgroupVersion::v1 : CgroupVersion::v2, unescaped(root),
                 unescaped(point)};
}

std::vector<Mount> mounts(const std::string& root) {
    std::vector<Mount> found;
    std::ifstream file(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
        if (auto mount = parse_mount(line)) found.push_back(std::move(*mount));
    }
    return found;
}

// The path of this process's group, by a line of /proc/self/cgroup: `4:cpu,cpuacct:/a/b` in v1,
// `0::/a/b` in v2. Nothing: it is in no such hierarchy.
std::optional<std::string> group_path(const std::string& root, CgroupVersion version) {
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        const std::size_t first = line.find(':');
        if (first == line.npos) continue;
        const std::size_t second = line.find(':', first + 1);
        if (second == line.npos) continue;
        const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
        const bool is_it = version == CgroupVersion::v1
                               ? lists(controllers, "cpu")
                               : controllers.empty() && line.starts_with("0:");
        if (is_it) return line.substr(second + 1);
    }
    return std::nullopt;
}

// `path` below the group that is mounted. Empty: it is that group, or it is not seen there: in a
// container whose mount shows its own group alone, the path may still be the machine's.
std::string below(const std::string& mounted, const std::string& path) {
    const std::string top = mounted == "/" ? "" : mounted;
    const bool is_outside = path.find("/..") != std::string::npos || !path.starts_with(top + "/");
    return is_outside || path == "/" ? "" : path.substr(top.size());
}

std::optional<double> ratio(double quota_us, double period_us) {
    if (!(quota_us > 0) || !(period_us > 0)) return std::nullopt;
    return quota_us / period_us;
}

// The quota of one group in cgroup v2: `max 100000`, or quota and period in microseconds.
std::optional<double> quota_v2(const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");
    double quota_us = 0;
    double period_us = 0;
    if (!(file >> quota_us >> period_us)) return std::nullopt;
    return ratio(quota_us, period_us);
}

// The same in cgroup v1, where a quota of -1 means none.
std::optional<double> quota_v1(const std::string& folder) {
    std::ifstream quota(folder + "/cpu.cfs_quota_us");
    std::ifstream period(folder + "/cpu.cfs_period_us");
    double quota_us = 0;
    double period_us = 0;
    if (!(quota >> quota_us) || !(period >> period_us)) return std::nullopt;
    return ratio(quota_us, period_us);
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
    std::optional<double> least;
    for (const Mount& mount : mounts(root)) {
        const auto path = group_path(root, mount.version);
        if (!path) continue;
        // From the group itself up to the one that is mounted.
        for (std::string rest = below(mount.root, *path);;) {
            std::string folder = root;
            folder.append(mount.point).append(rest);
            const auto quota =
                mount.version == CgroupVersion::v1 ? quota_v1(folder) : quota_v2(folder);
            if (quota) least = std::min(least.value_or(*quota), *quota);
            if (rest.empty()) break;
            rest.erase(rest.rfind('/'));
        }
    }
    return least;
}

namespace {

// Connections of the admin listener; files.
constexpr std::size_t kOwnDescriptors = 64 + 64;
// Connections that the workers are refusing; pipes; listeners, the event loop and Redis.
constexpr std::size_t kDescriptorsOfWorker =
    client::RefusedConnections::kKeptMax + 2 * SplicePipe::kPipesMax + 16;

}  // namespace

std::size_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
    return limit.rlim_cur;
}

std::size_t descriptors_for_clients(std::size_t descriptors, std::size_t workers,
                                    const config::Config& config) {
    std::size_t others = kOwnDescriptors + workers * kDescriptorsOfWorker;
    for (const config::Upstream& upstream : config.upstreams) others += upstream.max_connections;
    return descriptors - std::min(others, descriptors / 2);
}

std::size_t client_connections_max(std::size_t workers, const config::Config& config) {
    const std::size_t descriptors = raise_descriptor_limit();
    const std::size_t most = descriptors_for_clients(descriptors, workers, config);
    if (most < config.connections.max) {
        // Many systems have a little less than the default; the operator need not change that.
        const bool matters = most < config.connections.max / 2;
        telemetry::log(
            matters ? telemetry::Level::warn : telemetry::Level::debug,
            "connections.max is {}, but the limit of open files is {}: Tidegate takes at "
            "most {} connections from clients. Raise the limit (`LimitNOFILE` of systemd, "
            "`ulimit -n`), or lower connections.max or upstreams.NAME.max_connections",
            config.connections.max, descriptors, most);
    }
    return most;
}

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

std::size_t worker_count(const config::Config& config) {
    if (config.threads != 0) return config.threads;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    std::size_t cores = 1;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        cores = static_cast<std::size_t>(std::max(1, CPU_COUNT(&allowed)));
    }
    const std::optional<double> quota = cpu_quota();
    if (!quota) return cores;
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(*quota)), 1, cores);
}

}  // namespace tidegate::app
