#include "doctor/redis_node.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "doctor/server_errors.hpp"
#include "doctor/shown_error.hpp"
#include "doctor/thresholds.hpp"
#include "redis/sentinel.hpp"
#include "redis/slot.hpp"
#include "store/access_rights.hpp"
#include "store/heartbeat.hpp"

namespace tidegate::doctor {

namespace {

using std::chrono::duration_cast;
using std::chrono::system_clock;
using Kind = RedisNode::Kind;

// The kind of the server. Empty: unknown.
struct Identity {
    std::string version;
    std::string mode;  // `standalone`, `cluster`, `sentinel`
    std::string role;  // `master`, or `slave`, `replica`
    std::optional<RedisInfo> info;
};

// INFO says all, and may not be allowed; HELLO says enough, and every user may send it (since 6.0).
// Nothing: the server answers with an error, which is a finding.
std::optional<Identity> identify(RedisConnection& connection, Findings& findings) {
    Identity found;
    const RespValue info = connection.ask({"INFO"});
    if (report_server_error(info, findings)) return std::nullopt;
    if (info.kind == RespValue::Kind::text) {
        found.info.emplace(info.text);
        found.version = found.info->text("redis_version");
        found.mode = found.info->text("redis_mode");
        found.role = found.info->text("role");
        return found;
    }
    const RespValue hello = connection.ask({"HELLO"});
    found.version = hello.value_of("version");
    found.mode = hello.value_of("mode");
    found.role = hello.value_of("role");
    return found;
}

// False when it is another kind of server than it should be, so that nothing else makes sense.
bool check_kind(const Identity& server, const RedisNode& node, Findings& findings) {
    if (server.mode == "sentinel") {
        findings.fault("redis.mode", "it is a sentinel",
                       "write it in store.redis.sentinel.nodes, or correct store.redis.url");
        return false;
    }
    if (server.mode == "cluster" && node.kind != Kind::cluster_node) {
        findings.fault("redis.mode",
                       "it is a node of a Redis Cluster and serves only some of the keys",
                       node.kind == Kind::single
                           ? "write `cluster: [redis://...]` in store.redis instead of `url`"
                           : "write `cluster: [redis://...]` in store.redis instead of `sentinel`");
        return false;
    }
    if (server.mode == "standalone" && node.kind == Kind::cluster_node) {
        findings.fault("redis.mode", "it is not a node of a cluster (`cluster-enabled no`)",
                       "write `url` in store.redis instead of `cluster`, or make it a node");
        return false;
    }
    if (server.role == "slave" || server.role == "replica") {
        findings.fault("redis.role", "it is a replica: it refuses to count",
                       node.kind == Kind::single
                           ? "name the master in store.redis.url, or write `sentinel` to follow it"
                           : "a failover may be under way: try again; if it stays so, see what "
                             "CLUSTER NODES or SENTINEL MASTERS say");
        return false;
    }
    if (!server.role.empty()) findings.ok("redis.role", "a master");
    return true;
}

void report_version(const Identity& server, const RedisNode& node, Findings& findings) {
    if (auto version = parse_version(server.version)) {
        version->text = without_secret(version->text, node.target.password);
        check_version(*version, findings);
    } else {
        findings.note("redis.version", "its version is not visible",
                      "allow the Redis user INFO: `+info`");
    }
}

limit::Micros longest_window(const config::Config& config) {
    limit::Micros longest{0};
    for (const config::LimitList& list : config.limit_lists) {
        for (const limit::Limit& limit : list.limits()) {
            if (!limit.is_concurrency()) longest = std::max(longest, limit.duration);
        }
    }
    return longest;
}

void check_settings(RedisConnection& connection, const Identity& server, const RedisNode& node,
                    Findings& findings) {
    const std::string user = node.settings.username.empty() ? "default" : node.settings.username;
    if (!server.info) {
        findings.note("redis.settings",
                      "INFO is refused, so memory, eviction and persistence were not checked",
                      fmt::format("to see them: ACL SETUSER {} +info +config|get (Tidegate itself "
                                  "does without)",
                                  user));
        return;
    }
    check_memory(*server.info, findings);
    check_connections(*server.info, findings);
    const RespValue config = connection.ask({"CONFIG", "GET", "save"});
    std::optional<std::string> save;
    if (config.is_list()) save = config.value_of("save");
    check_persistence(*server.info, save, longest_window(node.config), findings);
    if (config.is_error() && !connection.is_lost()) {
        findings.note(
            "redis.settings",
            "CONFIG GET is refused: " + shown_error(config.text, node.target.password),
            fmt::format("to see all of its settings: ACL SETUSER {} +config|get (Tidegate "
                        "itself does without)",
                        user));
    }
}

std::optional<microseconds> time_of(const RespValue& answer) {
    if (!answer.is_list() || answer.items.size() != 2) return std::nullopt;
    const auto seconds = parse_decimal(answer.items[0].text);
    const auto micros = parse_decimal(answer.items[1].text);
    constexpr std::int64_t kSecondsMax = 100'000'000'000;
    if (!seconds || !micros || *seconds > kSecondsMax || *micros >= 1'000'000) return std::nullopt;
    return std::chrono::seconds(*seconds) + microseconds(*micros);
}

// Of several measurements the one with the quickest answer: its error is at most half of that time.
void measure_clock(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    constexpr int kMeasurements = 5;
    std::optional<microseconds> offset;
    microseconds trip = microseconds::max();
    for (int i = 0; i < kMeasurements; ++i) {
        const auto asked = std::chrono::steady_clock::now();
        const auto ours = system_clock::now().time_since_epoch();
        const auto theirs = time_of(connection.ask({"TIME"}));
        const auto took = duration_cast<microseconds>(std::chrono::steady_clock::now() - asked);
        if (!theirs || took >= trip) continue;
        trip = took;
        offset = *theirs - duration_cast<microseconds>(ours) - took / 2;
    }
    // A user that may not send TIME is a finding among the other rights.
    if (offset) check_clock(*offset, trip / 2, node.settings.local_clock, findings);
}

void check_replicas(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    const std::string key = store::heartbeat_key(node.settings.key_prefix);
    if (node.kind == Kind::cluster_node && !node.serves(store::kHeartbeatTag)) return;
    std::int64_t now =
        duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
    if (const auto theirs = time_of(connection.ask({"TIME"}));
        theirs && !node.settings.local_clock) {
        now = duration_cast<std::chrono::seconds>(*theirs).count();
    }
    const std::string since = std::to_string(now - store::kHeartbeatGoodFor.count());
    const RespValue alive = connection.ask({"ZCOUNT", key, since, "+inf"});
    if (alive.kind != RespValue::Kind::integer) return;
    const auto& replicas = node.config.replicas;
    const std::string text = fmt::format("{} Tidegate{} counting there now; `replicas` is {}",
                                         alive.integer, alive.integer == 1 ? " is" : "s are",
                                         replicas ? std::to_string(*replicas) : "auto");
    const bool shares = std::any_of(
        node.config.policies.begin(), node.config.policies.end(), [](const auto& policy) {
            return policy->on_store_failure == limit::OnStoreFailure::local;
        });
    if (!replicas && shares) {
        findings.note("redis.replicas",
                      text +
                          ": Tidegate cannot compute its share of a limit without Redis, and does "
                          "not start when Redis is down",
                      "write the smallest number of proxies: `replicas: 2`");
    } else if (replicas && alive.integer > *replicas) {
        findings.note("redis.replicas", text + ": more than configured",
                      "write the number: a proxy that starts without Redis takes too large a share "
                      "of each limit");
    } else {
        findings.ok("redis.replicas", text);
    }
}

bool select_database(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    if (node.settings.database == 0) return true;
    const std::string database = std::to_string(node.settings.database);
    const RespValue answer = connection.ask({"SELECT", database});
    if (!answer.is_error()) return true;
    if (report_server_error(answer, findings)) return false;
    findings.fault("redis.database",
                   fmt::format("database {} was refused: {}", database,
                               shown_error(answer.text, node.target.password)),
                   answer.is_error("NOPERM")
                       ? node.rights_advice()
                       : "correct the number in store.redis.url, or raise `databases` of Redis");
    return false;
}

}  // namespace

std::string_view RedisNode::more_rights() const {
    switch (kind) {
        case Kind::single:
            return "";
        case Kind::sentinel_master:
            return " +role";
        case Kind::cluster_node:
            return " +cluster|nodes +asking";
    }
    return "";
}

std::string RedisNode::rights_advice() const {
    return fmt::format("ACL SETUSER {} {}{}",
                       settings.username.empty() ? "default" : settings.username,
                       store::access_rights(settings.key_prefix), more_rights());
}

bool RedisNode::serves(std::string_view tag) const {
    const std::uint16_t slot = redis::slot_of_tag(tag);
    return std::any_of(slots.begin(), slots.end(), [&](const redis::SlotRange& range) {
        return range.first <= slot && slot <= range.last;
    });
}

std::string throw_away_name(const RedisNode& node) {
    // Enough to hit the one slot of a node that has no other.
    constexpr int kTriesMax = 1 << 20;
    std::random_device random;
    std::uint64_t number = std::uint64_t{random()} << 32U | random();
    std::string name;
    for (int tries = 0; tries < kTriesMax; ++tries, ++number) {
        name = fmt::format("doctor:{:016x}", number);
        if (node.kind != Kind::cluster_node || node.serves(name)) break;
    }
    return name;
}

Findings check_node(const RedisNode& node) {
    Findings findings(node.target.name());
    RedisConnection connection(node.time_limit);
    if (!connection.open(node.target, findings)) return findings;
    const std::optional<Identity> server = identify(connection, findings);
    if (!server) return findings;
    report_version(*server, node, findings);
    if (!check_kind(*server, node, findings)) return findings;
    if (!select_database(connection, node, findings)) return findings;
    check_settings(connection, *server, node, findings);
    measure_clock(connection, node, findings);
    if (check_rights(connection, node, findings)) check_scripts(connection, node, findings);
    check_replicas(connection, node, findings);
    if (connection.is_lost()) {
        findings.fault("redis.answers", "it stopped answering: " + connection.why_lost(),
                       "try again; see its log and the network between");
    }
    return findings;
}

}  // namespace tidegate::doctor
