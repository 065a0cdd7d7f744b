#include "app/process.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <variant>

#include "app/blueprint.hpp"
#include "proxy/fault.hpp"
#include "store/scripts.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

std::vector<std::string> fault_names() {
    std::vector<std::string> names;
    for (std::size_t fault = 0; fault < proxy::kFaults; ++fault) {
        names.emplace_back(proxy::traits(static_cast<proxy::Fault>(fault)).name);
    }
    return names;
}

std::optional<redis::ClientOptions> redis_options(const config::Config& config) {
    const auto* settings = std::get_if<config::RedisSettings>(&config.store);
    if (settings == nullptr) return std::nullopt;
    redis::ClientOptions options;
    options.host = settings->address.host;
    options.port = settings->address.port;
    options.unix_path = settings->address.unix_path;
    options.username = settings->username;
    options.password = settings->password;
    options.database = settings->database;
    options.timeout = settings->timeout;
    options.max_in_flight = settings->max_in_flight;
    options.breaker_failures = settings->breaker_failures;
    options.probe_every = settings->probe_every;
    options.scripts = store::all_scripts();
    return options;
}

std::string random_name() {
    std::random_device random;
    return fmt::format("{:08x}{:08x}", random(), random());
}

// cgroup v2: `max 100000`, or quota and period in microseconds.
std::optional<std::size_t> cgroup_cores() {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
    char* end = nullptr;
    const double used = std::strtod(quota.c_str(), &end);
    if (end == quota.c_str() || used <= 0) return std::nullopt;
    return std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(used / period)));
}

}  // namespace

telemetry::MetricNames metric_names(const config::Config& config) {
    telemetry::MetricNames names;
    for (const config::Route& route : config.routes) names.routes.push_back(route.name);
    for (const config::Upstream& upstream : config.upstreams) {
        names.upstreams.push_back(upstream.name);
    }
    for (const config::LimitList& list : config.limit_lists) {
        auto& entry = names.policies.emplace_back();
        entry.policy = list.policy->name;
        entry.shadow = list.policy->shadow;
        for (const limit::Limit& limit : list.limits()) entry.limits.push_back(limit.name);
    }
    return names;
}

store::MemoryStore::Options memory_options(const config::Config& config) {
    store::MemoryStore::Options options;
    if (const auto* memory = std::get_if<config::MemoryStoreSettings>(&config.store)) {
        options.max_keys = memory->max_keys;
        options.on_full = memory->deny_when_full ? store::OnFull::deny : store::OnFull::evict;
    }
    return options;
}

Process::Process(const config::Config& config, std::size_t worker_count, const std::string& version)
    : workers(worker_count),
      name(random_name()),
      metrics(metric_names(config), fault_names(), workers, version),
      memory_store(memory_options(config)),
      redis(redis_options(config)) {}

void Process::store_changed(bool up, std::string_view reason) {
    if (up) {
        if (workers_without_store.fetch_sub(1) == 1) {
            log(Level::info, "Redis is back: {}", redis->address());
        }
    } else if (workers_without_store.fetch_add(1) == 0) {
        log(Level::error, "Redis is down, the failure policy decides: {}", reason);
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
    return std::min(cores, cgroup_cores().value_or(cores));
}

}  // namespace tidegate::app
