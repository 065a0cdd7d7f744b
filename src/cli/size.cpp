#include "cli/size.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/result.hpp"
#include "base/shared_enums.hpp"
#include "base/utf8.hpp"
#include "config/value.hpp"
#include "limit/algorithm.hpp"

namespace tidegate::cli {

namespace {

using config::Config;
using limit::Limit;

constexpr double kMicros = 1'000'000;
// Heads of a request and its answer, on one side of Tidegate.
constexpr double kHeadBytes = 700;
// In the scripts' value: its own, of each limit (docs/limits.md). What Redis takes beside the value
// was measured.
constexpr double kValueBytes = 16;
constexpr double kLimitBytes = 33;
constexpr double kMomentBytes = 36;  // of a moment or a slot in a sorted set
// In process (docs/limits.md).
constexpr double kProcessLimitBytes = 48;
constexpr double kProcessMarkBytes = 8;
constexpr double kProcessUnitBytes = 16;  // of a log
constexpr double kProcessWideBytes = 48;  // of money: apart from the record
// Pipes, listeners, files and wakeups of a thread and of the process.
constexpr double kFilesOfThread = 80;
constexpr double kFilesOfProcess = 64;
constexpr std::size_t kPrimariesMin = 3;      // of a cluster
constexpr std::size_t kPrimariesMax = 1'000;  // redis.io: "up to 1000 nodes"
constexpr std::size_t kMixedStatesMax = 4;    // can_mix() of store/charge_script.hpp

double of(const RedisCosts& costs, double commands, std::size_t states, std::size_t limits) {
    return costs.command * commands + costs.state * static_cast<double>(states) +
           costs.limit * static_cast<double>(limits);
}

// What a thread shows as used at `rate` requests a second: a request costs `us` on a thread that is
// never idle, and up to `wake` more on one that sleeps when it comes. Of requests that come at any
// moment, the share that finds a thread asleep is the share of the time in which it sleeps; so
// used = rate * (us + wake * (1 - used)).
double shown_cores(double rate, double us, double wake, double threads) {
    if (threads <= 0) return 0;
    const double each = rate / threads / kMicros;
    return threads * std::min(1.0, each * (us + wake) / (1 + each * wake));
}

// How many whole ones `number` needs; what a sum of fractions is too much does not count.
double whole(double number) {
    constexpr double kRounding = 1e-9;
    return std::ceil(number - kRounding);
}

// ---- policies

bool is_of_all(const limit::Key& key) {
    const auto& parts = key.choices.front();
    return std::all_of(parts.begin(), parts.end(), [](const limit::KeyPart& part) {
        return part.kind == limit::KeyPartKind::constant ||
               part.kind == limit::KeyPartKind::route || part.kind == limit::KeyPartKind::method;
    });
}

// The limits that cost most: the policy's own, or those of a tier.
std::span<const Limit> dearest_limits(const limit::Policy& policy) {
    std::span<const Limit> most = policy.limits;
    for (const limit::Tier& tier : policy.tiers) {
        if (tier.limits.size() > most.size()) most = tier.limits;
    }
    return most;
}

// How many units of an identifier count at a time, at `rate` of it a second.
double units_in(const Limit& limit, double rate) {
    const double seconds = std::chrono::duration<double>(limit.duration).count();
    return std::clamp(rate * seconds, 1.0,
                      std::max(1.0, static_cast<double>(limit.most_at_once())));
}

// Sub-buckets that have units: requests come at random.
double marks_in(const Limit& limit, double rate) {
    const double units = units_in(limit, rate);
    const double blocks = std::max(1.0, static_cast<double>(limit.blocks));
    return std::min(units, blocks * (1 - std::exp(-units / blocks)) + 1);
}

double redis_limit_bytes(const Limit& limit, double rate) {
    const double mark = limit.mark_bytes();
    switch (limit.state()) {
        case limit::StateKind::windows:
        case limit::StateKind::wide_windows:
            return kLimitBytes + mark * (marks_in(limit, rate) - 1);
        case limit::StateKind::log:
            return kLimitBytes + mark * units_in(limit, rate);
        case limit::StateKind::moments:
            return kLimitBytes + kMomentBytes * (2 + units_in(limit, rate));
        case limit::StateKind::slots:
            return kMomentBytes * 2;
        case limit::StateKind::bucket:
        case limit::StateKind::period:
            break;
    }
    return kLimitBytes;
}

double process_limit_bytes(const Limit& limit, double rate) {
    switch (limit.state()) {
        case limit::StateKind::windows:
            return kProcessLimitBytes + kProcessMarkBytes * marks_in(limit, rate);
        case limit::StateKind::wide_windows:
            return kProcessLimitBytes + kProcessWideBytes +
                   2 * kProcessMarkBytes * marks_in(limit, rate);
        case limit::StateKind::log:
            return kProcessLimitBytes + kProcessUnitBytes * units_in(limit, rate);
        case limit::StateKind::moments:
            return kProcessLimitBytes + kProcessMarkBytes * units_in(limit, rate);
        case limit::StateKind::slots:
            return kProcessLimitBytes + 600;  // docs/limits.md: 825 with one
        case limit::StateKind::bucket:
        case limit::StateKind::period:
            break;
    }
    return kProcessLimitBytes;
}

// Redis grows a value in place for which it has got room before: twice its bytes at most.
bool grows_in_place(std::span<const Limit> limits, double bytes) {
    return bytes > 128 && std::any_of(limits.begin(), limits.end(), [](const Limit& limit) {
               return limit.state() == limit::StateKind::windows &&
                      limit.precision < std::chrono::seconds{1};
           });
}

double state_bytes(std::span<const Limit> limits, double rate, SizeStore store,
                   const SizeCosts& costs) {
    if (store == SizeStore::memory) {
        double bytes = costs.memory_state_bytes;
        for (const Limit& one : limits) bytes += process_limit_bytes(one, rate);
        return bytes;
    }
    double value = kValueBytes;
    for (const Limit& one : limits) value += redis_limit_bytes(one, rate);
    return costs.redis_key_bytes + value * (grows_in_place(limits, value) ? 2 : 1);
}

std::string algorithms_of(std::span<const Limit> limits) {
    std::string text;
    for (const Limit& one : limits) {
        const std::string name(one.traits().name);
        if (text.find(name) == text.npos) text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

// ---- decisions of a route

// What decides how Redis is asked about a route.
struct Charges {
    std::size_t states = 0;
    std::size_t limits = 0;
    std::vector<limit::Key> keys{};  // each once: in a cluster, a slot each
    std::size_t states_of_all = 0;   // under keys that all requests share
    std::size_t limits_of_all = 0;
    std::string policy_of_all{};  // the first of these
    std::string key_of_all{};
    bool gives_back = false;
    bool is_shared = true;  // a command may decide several requests of the same identifiers
    std::string alone{};    // why a command decides one request; empty: it decides several

    double slots() const { return static_cast<double>(keys.size()); }
    bool has_others() const { return states > states_of_all; }
    bool shares() const { return alone.empty() || (is_shared && !has_others()); }
};

// Those of a route, and their candidates.
std::vector<const config::PolicySettings*> policies_of(const config::Route& route) {
    std::vector<const config::PolicySettings*> policies;
    for (const config::PolicySettings* const policy : route.policies) {
        policies.push_back(policy);
        if (policy->candidate != nullptr) policies.push_back(policy->candidate);
    }
    return policies;
}

void note_alone(Charges& charges, const limit::Policy& policy, std::span<const Limit> limits) {
    const auto say = [&](bool applies, bool is_shared, const std::string& why) {
        if (!applies) return;
        charges.is_shared = charges.is_shared && is_shared;
        if (charges.alone.empty()) charges.alone = why;
    };
    say(policy.shadow, false,
        fmt::format("{} is {}", quote(policy.name),
                    policy.is_candidate() ? "a candidate" : "in shadow"));
    for (const Limit& one : limits) {
        if (one.has_fast_path()) continue;
        const bool is_window = one.traits().has_fast_path;
        say(true, one.only_time_frees(),
            is_window ? fmt::format("{} has a limit with `{}`", quote(policy.name),
                                    one.count == limit::Count::admitted ? "anchor" : "count")
                      : fmt::format("{} has {}", quote(policy.name), quote(one.traits().name)));
    }
}

std::string part_text(const limit::KeyPart& part) {
    const std::string kind(to_string(part.kind));
    return part.name.empty() ? kind : kind + ":" + part.name;
}

std::string key_text(const limit::Key& key) {
    std::string text;
    for (const limit::KeyPart& part : key.choices.front()) {
        text += (text.empty() ? "" : "+") + part_text(part);
    }
    return text;
}

// `asks_of_all`: each request asks about keys that all requests share.
void add_policy(Charges& charges, const limit::Policy& policy, bool asks_of_all = true) {
    const std::span<const Limit> limits = dearest_limits(policy);
    if (limits.empty()) return;
    for (const limit::Key& key : policy.key) {
        if (!asks_of_all && is_of_all(key)) continue;
        ++charges.states;
        charges.limits += limits.size();
        if (std::find(charges.keys.begin(), charges.keys.end(), key) == charges.keys.end()) {
            charges.keys.push_back(key);
        }
        if (!is_of_all(key)) continue;
        ++charges.states_of_all;
        charges.limits_of_all += limits.size();
        if (charges.policy_of_all.empty()) {
            charges.policy_of_all = policy.name;
            charges.key_of_all = key_text(key);
        }
    }
    charges.gives_back =
        charges.gives_back ||
        std::any_of(limits.begin(), limits.end(), [](const Limit& one) { return one.settles(); });
    note_alone(charges, policy, limits);
}

// Keys of all requests that a policy has in leases.
struct LeasedKeys {
    const limit::Policy* policy;
    std::size_t states, limits;
    double each;             // requests of one thread in one sub-bucket
    double most;             // units of a batch
    double commands, share;  // commands of a batch; commands a request
};

Charges charges_of(const config::Route& route, std::span<const LeasedKeys> leased = {}) {
    Charges charges;
    for (const config::PolicySettings* const policy : policies_of(route)) {
        const bool has_leases =
            std::any_of(leased.begin(), leased.end(),
                        [&](const LeasedKeys& keys) { return keys.policy == policy; });
        add_policy(charges, *policy, !has_leases);
    }
    if (charges.states > kMixedStatesMax && charges.alone.empty()) {
        charges.alone = fmt::format("a request has more than {} identifiers", kMixedStatesMax);
    }
    return charges;
}

double given_back(const Charges& charges, const SizeCosts& costs) {
    return charges.gives_back ? costs.second_command : 0;
}

double one_redis_us(const Charges& charges, const SizeCosts& costs) {
    if (charges.states == 0) return 0;
    const RedisCosts& each = charges.shares() ? costs.shared : costs.alone;
    return of(each, 1, charges.states, charges.limits) + given_back(charges, costs);
}

double cluster_us(const Charges& charges, const SizeCosts& costs) {
    if (charges.states == 0) return 0;
    return of(costs.cluster, charges.slots(), charges.states, charges.limits) +
           given_back(charges, costs);
}

// Of the one primary that has the key of all requests.
double hot_us(const Charges& charges, const SizeCosts& costs) {
    if (charges.states_of_all == 0) return 0;
    const RedisCosts& each =
        charges.shares() && !charges.has_others() ? costs.shared : costs.cluster;
    return of(each, 1, charges.states_of_all, charges.limits_of_all) + given_back(charges, costs);
}

// A batch, and as often another one in the same sub-bucket, what is given back or charged by
// itself. In long windows two batches, one of them in its last thousandth, and the rest of both.
constexpr double kCommandsOfBatch = 2;
constexpr double kCommandsOfLongBatch = 4;
// As store/leases.hpp: a thread that meets a key less often takes no batch, nor a smaller one.
constexpr double kLeaseMetMin = 4;
constexpr double kLeaseMin = 2;
constexpr double kLeaseBriefMax = 10;  // seconds of a window in which what is left expires

// Where `threads` share `rate` requests a second evenly.
std::vector<LeasedKeys> leased_of(const config::Route& route, double rate, double threads) {
    std::vector<LeasedKeys> found;
    for (const config::PolicySettings* const policy : policies_of(route)) {
        const std::span<const Limit> limits = dearest_limits(*policy);
        Charges own;
        add_policy(own, *policy);
        if (policy->lease_slack == 0 || own.states_of_all == 0) continue;
        double most = static_cast<double>(limit::kQuotaMax);
        double interval = 1, longest = 0;
        for (const Limit& one : limits) {
            most = std::min(most, static_cast<double>(one.quota) / kMicros *
                                      static_cast<double>(policy->lease_slack) / threads);
            interval = std::min(interval, std::chrono::duration<double>(one.precision).count());
            longest = std::max(longest, std::chrono::duration<double>(one.duration).count());
        }
        const double each = rate / threads * interval;
        // Of several small batches in a sub-bucket, most are spent and leave nothing.
        const bool leaves_none = longest <= kLeaseBriefMax || 2 * std::floor(most) <= each;
        const double commands = leaves_none ? kCommandsOfBatch : kCommandsOfLongBatch;
        if (each < kLeaseMetMin || most < kLeaseMin) continue;
        found.push_back({policy, own.states_of_all, own.limits_of_all, each, std::floor(most),
                         commands, std::min(1.0, commands / std::min(each, std::floor(most)))});
    }
    return found;
}

// What the batches cost that requests take of these keys.
double of_batches(std::span<const LeasedKeys> leased, const RedisCosts& costs) {
    double sum = 0;
    for (const LeasedKeys& keys : leased) {
        sum += keys.share * of(costs, 1, keys.states, keys.limits);
    }
    return sum;
}

double decision_us(const Charges& charges, SizeStore store, const SizeCosts& costs) {
    if (charges.states == 0) return 0;
    switch (store) {
        case SizeStore::memory:
            return of(costs.in_process, 1, charges.states, charges.limits);
        case SizeStore::redis:
            return of(charges.shares() ? costs.asks : costs.asks_alone, 1, charges.states,
                      charges.limits) +
                   (charges.gives_back ? costs.asks_alone.command : 0);
        case SizeStore::cluster:
            break;
    }
    return of(costs.asks_cluster, charges.slots(), charges.states, charges.limits) +
           (charges.gives_back ? costs.asks_cluster.command : 0);
}

// ---- the estimate, part by part

struct Sizing {
    const Config& config;
    const SizeQuestion& question;
    const SizeCosts& costs;
    const config::Route* route = nullptr;
    Charges charges{};
    std::vector<LeasedKeys> leased{};
    Charges asked{};  // of what batches do not admit by themselves: without the leased keys
    Estimate made{};

    void note(bool is_fault, std::string what, std::string where, std::string text) {
        made.notes.push_back({is_fault, std::move(what), std::move(where), std::move(text)});
    }
};

SizeStore store_of(const Config& config) {
    const auto* const redis = std::get_if<config::RedisSettings>(&config.store);
    if (redis == nullptr) return SizeStore::memory;
    return redis->cluster.empty() ? SizeStore::redis : SizeStore::cluster;
}

Result<const config::Route*, std::string> choose_route(const Config& config,
                                                       const SizeQuestion& question,
                                                       const SizeCosts& costs) {
    if (config.routes.empty()) {
        const bool is_rls = config.rls != nullptr;
        return ErrorMessage{fmt::format(
            "{} has no `routes`: {}. Write a route with the policies that such a call meets, for "
            "this command alone",
            config.source.file,
            is_rls ? "which limits a call of Envoy's rate limit service meets, its descriptors say"
                   : "which policies a call of the check API meets, the call says")};
    }
    const config::Route* dearest = nullptr;
    double most = -1;
    std::vector<std::string_view> names;
    const SizeStore store = store_of(config);
    for (const config::Route& route : config.routes) {
        names.push_back(route.name);
        if (route.name == question.route) return &route;
        const Charges charges = charges_of(route);
        double us = decision_us(charges, store, costs);
        if (store != SizeStore::memory) us += one_redis_us(charges, costs);
        if (us <= most) continue;
        most = us;
        dearest = &route;
    }
    if (question.route.empty()) return dearest;
    const std::string_view meant = config::nearest(question.route, names);
    return ErrorMessage{fmt::format("{} has no route {}; {}", config.source.file,
                                    quote(question.route),
                                    meant.empty() ? "its routes are " + config::one_of(names)
                                                  : "did you mean " + quote(meant) + "?")};
}

void size_listeners(Sizing& sizing) {
    const Config& config = sizing.config;
    Estimate& made = sizing.made;
    if (!config.has_face(Face::proxy) && !config.listen.empty()) {
        made.face = config.listen.front().face;
    }
    for (const config::Listen& listen : config.listen) {
        if (listen.face != made.face || listen.redirects) continue;
        made.is_tls = made.is_tls || listen.tls.has_value();
        made.is_http2 = made.is_http2 || listen.takes_http2;
    }
    if (sizing.question.tls) made.is_tls = *sizing.question.tls;
}

void size_policies(Sizing& sizing) {
    const double rate = sizing.question.requests / sizing.question.identifiers;
    for (const config::PolicySettings* const policy : policies_of(*sizing.route)) {
        const std::span<const Limit> limits = dearest_limits(*policy);
        Charges own;
        add_policy(own, *policy);
        PolicySize one{.name = policy->name,
                       .identifiers = own.states,
                       .limits = limits.size(),
                       .algorithms = algorithms_of(limits),
                       .is_shadow = policy->shadow,
                       .keys_of_all = own.states_of_all};
        // The part of the route's command is in the decision, not in a policy.
        const SizeStore store = sizing.made.store;
        const bool shares = sizing.charges.shares();
        const RedisCosts& asks = store == SizeStore::memory ? sizing.costs.in_process
                                 : store == SizeStore::redis
                                     ? shares ? sizing.costs.asks : sizing.costs.asks_alone
                                     : sizing.costs.asks_cluster;
        const RedisCosts& redis = store == SizeStore::cluster ? sizing.costs.cluster
                                  : shares                    ? sizing.costs.shared
                                                              : sizing.costs.alone;
        one.proxy_us = of(asks, 0, own.states, own.limits);
        if (store != SizeStore::memory) one.redis_us = of(redis, 0, own.states, own.limits);
        one.state_bytes = limits.empty() ? 0 : state_bytes(limits, rate, store, sizing.costs);
        sizing.made.policies.push_back(std::move(one));
    }
    sizing.made.states = sizing.charges.states;
    sizing.made.limits = sizing.charges.limits;
}

void size_processor(Sizing& sizing) {
    const SizeQuestion& asked = sizing.question;
    const SizeCosts& costs = sizing.costs;
    Estimate& made = sizing.made;
    const bool forwards = made.face == Face::proxy;
    made.transport_us =
        forwards ? costs.proxied + costs.body_kib * asked.body_bytes / 1024 : costs.asked;
    made.connection_us = costs.connection / asked.requests_a_connection;
    if (made.is_tls) {
        made.tls_us = costs.tls_request +
                      (asked.resumed * costs.resumption + (1 - asked.resumed) * costs.handshake) /
                          asked.requests_a_connection;
    }
    made.decision_us = decision_us(sizing.charges, made.store, costs);
    const config::LogSettings& log = sizing.config.log;
    if (!log.access_path.empty()) made.log_us = costs.log_line * log.sample;

    made.cores = asked.requests * made.proxy_us() / kMicros / kPlannedShare;
    const double all = std::max(1.0, whole(made.cores));
    const unsigned configured = sizing.config.threads;
    const double most = configured == 0 ? asked.threads : std::min(configured, asked.threads);
    made.instances = static_cast<std::size_t>(whole(all / most));
    made.threads = static_cast<std::size_t>(whole(all / static_cast<double>(made.instances)));
    const bool asks = made.store != SizeStore::memory && made.states > 0;
    made.shown = shown_cores(asked.requests, made.proxy_us(), asks ? costs.wake_redis : costs.wake,
                             static_cast<double>(made.instances * made.threads));
}

const config::Upstream* upstream_of(const Sizing& sizing) {
    if (sizing.made.face != Face::proxy || sizing.config.upstreams.empty()) return nullptr;
    return &sizing.config.upstreams[sizing.route->upstream];
}

void size_connections(Sizing& sizing) {
    const SizeQuestion& asked = sizing.question;
    Estimate& made = sizing.made;
    const double instances = static_cast<double>(made.instances);
    const double threads = static_cast<double>(made.threads);
    made.connections = asked.connections > 0 ? asked.connections : std::ceil(asked.requests);
    const double seconds = std::chrono::duration<double>(asked.response).count();
    const config::Upstream* const upstream = upstream_of(sizing);
    made.in_flight = upstream == nullptr ? 0 : std::ceil(asked.requests * seconds);

    const double clients = std::ceil(made.connections / instances);
    const double in_flight = std::ceil(made.in_flight / instances);
    double servers = 0;
    if (upstream != nullptr) {
        const double most = static_cast<double>(upstream->max_connections);
        servers = std::min(in_flight, most) + static_cast<double>(upstream->idle_connections);
        if (in_flight > most && upstream->has_http1()) {
            sizing.note(false, "upstream", fmt::format("upstreams: {}", upstream->name),
                        fmt::format("{:.0f} requests are in flight in each instance, and "
                                    "`max_connections` is {}: the others wait in the queue, then "
                                    "get 503. Raise it, or answer faster (--response)",
                                    in_flight, upstream->max_connections));
        }
    }
    const double most = static_cast<double>(sizing.config.connections.max);
    if (clients > most) {
        sizing.note(false, "connections", "connections",
                    fmt::format("{:.0f} clients are connected to each instance, and `max` is {}: "
                                "raise it, or run more instances",
                                clients, sizing.config.connections.max));
    }
    const double each = made.is_http2 && made.is_tls ? sizing.costs.http2_connection_bytes
                        : made.is_tls                ? sizing.costs.tls_connection_bytes
                                                     : sizing.costs.connection_bytes;
    made.memory_bytes = sizing.costs.process_bytes + sizing.costs.thread_bytes * threads +
                        each * clients + sizing.costs.request_bytes * in_flight;
    const double redis = made.store == SizeStore::memory ? 0
                         : made.redis
                             ? std::max<double>(1, static_cast<double>(made.redis->primaries))
                             : 1;
    made.open_files = clients + servers + threads * (redis + kFilesOfThread) + kFilesOfProcess;
}

// Bytes of all states: of keys that all requests share there is one.
double all_states_bytes(const Sizing& sizing) {
    double bytes = 0;
    for (const PolicySize& policy : sizing.made.policies) {
        const double own = static_cast<double>(policy.identifiers - policy.keys_of_all);
        bytes += policy.state_bytes *
                 (own * sizing.question.identifiers + static_cast<double>(policy.keys_of_all));
    }
    return bytes;
}

void size_memory_store(Sizing& sizing) {
    Estimate& made = sizing.made;
    made.memory_store_bytes = all_states_bytes(sizing);
    const auto& settings = std::get<config::MemoryStoreSettings>(sizing.config.store);
    const double states = sizing.question.identifiers * static_cast<double>(made.states);
    const double kept = std::min(states, static_cast<double>(settings.max_keys));
    if (states > kept) {
        made.memory_store_bytes *= kept / states;
        sizing.note(false, "store", "store: memory",
                    fmt::format("{:.0f} states are counted and `max_keys` is {}: {}. Raise it",
                                states, settings.max_keys,
                                settings.deny_when_full ? "new identifiers are denied"
                                                        : "Tidegate forgets the oldest"));
    }
    made.memory_bytes += made.memory_store_bytes;
    if (made.instances > 1 && made.states > 0) {
        sizing.note(false, "store", "store: memory",
                    fmt::format("each of {} instances counts by itself: a client that reaches all "
                                "of them has each quota {} times. With `store: redis` they share "
                                "one count",
                                made.instances, made.instances));
    }
}

void size_leases(Sizing& sizing) {
    Estimate& made = sizing.made;
    const auto threads = static_cast<double>(made.instances * made.threads);
    sizing.leased = leased_of(*sizing.route, sizing.question.requests, threads);
    sizing.asked = charges_of(*sizing.route, sizing.leased);
    for (const LeasedKeys& keys : sizing.leased) {
        const auto own =
            std::find_if(made.policies.begin(), made.policies.end(),
                         [&](const PolicySize& one) { return one.name == keys.policy->name; });
        own->redis_us *= 1 - (1 - keys.share) * static_cast<double>(own->keys_of_all) /
                                 static_cast<double>(own->identifiers);
        sizing.note(false, "leases", fmt::format("policies: {}", keys.policy->name),
                    fmt::format("{:.3f} commands a request of its key of all requests, where {} "
                                "threads have {:.0f} requests each in a sub-bucket, with batches "
                                "of up to {:.0f} units and {} commands for each. Fewer requests "
                                "a thread, or uneven ones, cost Redis more",
                                keys.share, threads, keys.each, keys.most, keys.commands));
    }
}

// One primary has the key of all requests, whatever their number.
void judge_hot_key(Sizing& sizing, RedisSize& redis) {
    if (sizing.charges.states_of_all == 0) return;
    const bool is_cluster = sizing.made.store == SizeStore::cluster;
    const double hot =
        hot_us(sizing.asked, sizing.costs) + of_batches(sizing.leased, sizing.costs.cluster);
    const double each = kPlannedShare * kMicros / hot;
    redis.hot_requests_max = is_cluster ? each : std::max(each, redis.one_serves);
    if (sizing.question.requests <= redis.hot_requests_max) return;
    const bool has_leases = sizing.asked.states_of_all == 0;
    const Charges& of_all = has_leases ? sizing.charges : sizing.asked;
    sizing.note(
        true, "redis", fmt::format("policies: {}", of_all.policy_of_all),
        fmt::format("no answer above {:.0f} requests a second: its key `{}` is one key for all "
                    "requests, one primary has it and decides on one core, and more primaries "
                    "do not help. {}; or split the key, such as `{}+header:x-region` with a part "
                    "of the quota each; or count it in process (`store: memory` of a proxy in "
                    "front), the quota divided by the instances",
                    redis.hot_requests_max, of_all.key_of_all,
                    has_leases ? "Let its batches last longer (`precision`)"
                               : "Give the policy leases (`lease: auto`)",
                    of_all.key_of_all));
}

void size_redis(Sizing& sizing) {
    Estimate& made = sizing.made;
    const double rate = sizing.question.requests;
    RedisSize redis;
    const bool is_cluster = made.store == SizeStore::cluster;
    size_leases(sizing);
    const double one_us =
        one_redis_us(sizing.asked, sizing.costs) + of_batches(sizing.leased, sizing.costs.alone);
    redis.cluster_us =
        cluster_us(sizing.asked, sizing.costs) + of_batches(sizing.leased, sizing.costs.cluster);
    redis.us = is_cluster ? redis.cluster_us : one_us;
    redis.load = rate * redis.us / kMicros;
    redis.one_serves = kPlannedShare * kMicros / one_us;
    if (!sizing.asked.shares()) redis.alone = sizing.asked.alone;
    if (is_cluster || rate > redis.one_serves) {
        const double all = rate * redis.cluster_us / kMicros / kPlannedShare;
        redis.primaries = std::max(kPrimariesMin, static_cast<std::size_t>(whole(all)));
    }
    const double servers = redis.primaries == 0 ? 1 : static_cast<double>(redis.primaries);
    // In a cluster each command of a request may find its primary asleep.
    redis.shown = redis.primaries == 0
                      ? shown_cores(rate, one_us, sizing.costs.redis_wake, servers)
                      : shown_cores(rate, redis.cluster_us,
                                    sizing.costs.redis_wake * sizing.asked.slots(), servers);
    redis.memory_bytes = all_states_bytes(sizing);
    judge_hot_key(sizing, redis);
    const std::string where = is_cluster ? "store: redis: cluster" : "store: redis: url";
    if (redis.primaries > kPrimariesMax) {
        sizing.note(true, "redis", where,
                    fmt::format("no answer: {} primaries are more than the {} that Redis Cluster "
                                "is made for. Use several clusters, each with clients of its own, "
                                "or fewer limits a request",
                                redis.primaries, kPrimariesMax));
    } else if (!is_cluster && redis.primaries > 0) {
        sizing.note(false, "redis", where,
                    fmt::format("one Redis executes commands on one core, which is planned full at "
                                "{:.0f} requests a second: write `cluster` with {} primaries",
                                redis.one_serves, redis.primaries));
    }
    made.redis = std::move(redis);
}

void size_network(Sizing& sizing) {
    const SizeQuestion& asked = sizing.question;
    Estimate& made = sizing.made;
    const bool forwards = made.face == Face::proxy;
    made.client_bytes = asked.requests * (kHeadBytes + (forwards ? asked.body_bytes : 0));
    made.upstream_bytes = forwards ? made.client_bytes : 0;
    if (!made.redis) return;
    const Charges& asking = sizing.asked;
    const double commands = made.redis->primaries > 0 ? asking.slots() : asking.states > 0 ? 1 : 0;
    made.redis_bytes =
        asked.requests * (of(sizing.costs.redis_bytes, commands, asking.states, asking.limits) +
                          of_batches(sizing.leased, sizing.costs.redis_bytes));
}

}  // namespace

bool Estimate::has_answer() const {
    return std::none_of(notes.begin(), notes.end(),
                        [](const SizeNote& note) { return note.is_fault; });
}

Result<Estimate, std::string> estimate_size(const Config& config, const SizeQuestion& question,
                                            const SizeCosts& costs) {
    const auto route = choose_route(config, question, costs);
    if (!route) return ErrorMessage{route.error()};
    Sizing sizing{config, question, costs, *route, charges_of(**route)};
    sizing.made.route = (*route)->name;
    sizing.made.routes = config.routes.size();
    sizing.made.store = store_of(config);
    size_listeners(sizing);
    size_policies(sizing);
    size_processor(sizing);
    if (sizing.made.store != SizeStore::memory && sizing.made.states > 0) size_redis(sizing);
    size_connections(sizing);
    if (sizing.made.store == SizeStore::memory) size_memory_store(sizing);
    size_network(sizing);
    return std::move(sizing.made);
}

}  // namespace tidegate::cli
