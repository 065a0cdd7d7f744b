#include "app/shared_state.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/file_work.hpp"
#include "base/process.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/files.hpp"
#include "config/policy_cost.hpp"
#include "limit/charge.hpp"
#include "net/descriptor.hpp"
#include "store/redis_store.hpp"
#include "store/replica_heartbeat.hpp"
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

const ListenerTls* find_listener_tls(const std::vector<ListenerTls>& all,
                                     const config::Address& address) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const ListenerTls& one) { return one.address == address; });
    return found == all.end() ? nullptr : &*found;
}

Result<std::vector<ListenerTls>, std::string> make_listener_tls(
    const config::Config& config, const std::vector<ListenerTls>& before, SteadyTime now) {
    std::vector<ListenerTls> all;
    for (const config::Listen& listen : config.listen) {
        if (!listen.tls) continue;
        const ListenerTls* const former = find_listener_tls(before, listen.address);
        if (former != nullptr && former->settings == *listen.tls) {
            all.push_back(*former);
            continue;
        }
        auto credentials = parse_credentials(*listen.tls);
        if (!credentials) {
            return "the listener on " + listen.address.to_string() + ": " + credentials.error();
        }
        all.push_back({listen.address, *listen.tls, std::move(*credentials),
                       former != nullptr
                           ? former->tickets
                           : std::make_shared<TicketKeys>(listen.tls->ticket_keys, now)});
    }
    return all;
}

void use_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now) {
    for (const ListenerTls& one : all) one.tickets->use(one.settings.ticket_keys, now);
}

void rotate_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now) {
    for (const ListenerTls& one : all) one.tickets->rotate(now);
}

void Disposer::Queue::run(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    for (;;) {
        news.wait(lock, stop, [this] { return !configs.empty(); });
        if (configs.empty()) return;  // it is to stop
        std::vector<ConfigPtr> ended = std::exchange(configs, {});
        lock.unlock();
        ended.clear();
        lock.lock();
    }
}

// Without memory for the queue, the caller destroys it.
void Disposer::Queue::put(ConfigPtr&& config) {
    {
        const std::lock_guard lock(mutex);
        if (has_ended) return;
        configs.push_back(std::move(config));
    }
    news.notify_one();
}

Disposer::Disposer()
    : thread_([queue = queue_](const std::stop_token& stop) {
          block_all_signals();
          queue->run(stop);
      }) {}

Disposer::~Disposer() {
    {
        const std::lock_guard lock(queue_->mutex);
        queue_->has_ended = true;
    }
    thread_.request_stop();
    thread_.join();
}

Disposer::ConfigPtr Disposer::adopt(ConfigPtr config) {
    if (!config) return config;
    const config::Config* const address = config.get();
    return {address, [queue = queue_, owner = std::move(config)](const config::Config*) mutable {
                queue->put(std::move(owner));
            }};
}

namespace {

std::string system_error_text() {
    return std::generic_category().message(errno);
}

// The number in the text of the file; 0: there is none.
int number_in(std::string_view text) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    const auto number = parse_decimal(text);
    const bool is_good = number && *number >= 1 && *number <= store::kReplicasSeenMax;
    return is_good ? static_cast<int>(*number) : 0;
}

bool write_whole(int descriptor, std::string_view text) {
    const auto size = static_cast<ssize_t>(text.size());
    return ::write(descriptor, text.data(), text.size()) == size && ::fdatasync(descriptor) == 0;
}

}  // namespace

store::ReplicaSettings replica_settings(const config::Config& config) {
    return {.configured = config.replicas.value_or(0),
            .assumed = config.replicas_assumed.value_or(1)};
}

ReplicasFile ReplicasFile::of(config::Environment environment) {
    const std::string folders = environment("STATE_DIRECTORY").value_or("");
    const std::string first = folders.substr(0, folders.find(':'));
    return ReplicasFile(first.starts_with('/') ? first + "/replicas" : std::string());
}

int ReplicasFile::read() const {
    if (path_.empty()) return 0;
    const auto read_it = [path = path_] {
        std::error_code ec;
        const FileWait wait(path);
        const bool is_there = std::filesystem::symlink_status(path, ec).type() !=
                              std::filesystem::file_type::not_found;
        auto text = config::read_file_text(path, kBytesMax, config::FileKind::no_device);
        return std::pair(is_there, std::move(text));
    };
    try {
        const auto [is_there, file] = with_file_patience(read_it);
        if (!is_there) return 0;
        const int number = file && !file->is_larger ? number_in(file->text) : 0;
        if (number == 0) {
            log(Level::warn, "ignores {}, the last number of proxies: {}", displayable(path_),
                !file ? file.error() : "it holds no number from 1 to 1048576");
        }
        return number;
    } catch (const NoAnswerFromFile& silent) {
        log(Level::warn, "ignores the last number of proxies: {}", silent.what());
        return 0;
    }
}

std::string ReplicasFile::write(int number) const {
    const std::string next = path_ + ".new";
    const FileWait wait(next);
    {
        const Descriptor file(
            ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                   0644));
        if (!file || !write_whole(file.get(), std::to_string(number) + "\n")) {
            return system_error_text();
        }
    }
    return std::rename(next.c_str(), path_.c_str()) == 0 ? std::string() : system_error_text();
}

}  // namespace tidegate::app
