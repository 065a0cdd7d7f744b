#include "doctor/redis_servers.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/shared_state.hpp"
#include "doctor/parallel.hpp"
#include "doctor/redis_connection.hpp"
#include "doctor/redis_node.hpp"
#include "doctor/sentinels.hpp"
#include "doctor/server_errors.hpp"
#include "doctor/shown_error.hpp"
#include "redis/cluster_map.hpp"
#include "redis/slot.hpp"

namespace tidegate::doctor {

namespace {

using Kind = RedisNode::Kind;
using redis::ClusterNode;
using Masters = std::vector<ClusterNode>;

RedisTarget target_of(const config::RedisSettings& settings, config::Address address,
                      std::shared_ptr<const TlsClient> tls, std::string_view section) {
    return {std::move(address), settings.username, settings.password,
            std::move(tls),     section,           "redis"};
}

config::Address address_of(const redis::NodeAddress& node) {
    return {.host = node.host, .port = node.port, .unix_path = {}};
}

// The list of masters that one of the configured nodes has.
std::optional<Masters> ask_seed(const RedisNode& node, Findings& findings) {
    RedisConnection connection(node.time_limit);
    if (!connection.open(node.target, findings)) return std::nullopt;
    const RespValue answer = connection.ask({"CLUSTER", "NODES"});
    if (report_server_error(answer, findings)) return std::nullopt;
    if (answer.is_error("NOPERM")) {
        findings.fault(
            "redis.rights",
            "refused: cluster|nodes (" + shown_error(answer.text, node.target.password) + ")",
            node.rights_advice());
    } else if (answer.is_error()) {
        const bool disabled = answer.text.find("cluster support disabled") != std::string::npos;
        findings.fault(
            "redis.mode",
            "CLUSTER NODES was refused: " + shown_error(answer.text, node.target.password),
            disabled ? "write `url` in store.redis instead of `cluster`, or make it a "
                       "node (`cluster-enabled yes`)"
                     : "see its log");
    }
    if (answer.is_error()) return std::nullopt;
    auto masters = redis::parse_cluster_nodes(answer.text, node.target.address.host);
    if (masters) return std::move(*masters);
    findings.fault("cluster.slots",
                   "its list of cluster nodes cannot be used: " +
                       without_secret(masters.error(), node.target.password),
                   "see CLUSTER INFO; redis-cli --cluster fix");
    return std::nullopt;
}

std::size_t slots_served(const Masters& masters) {
    std::vector<bool> served(redis::kSlots);
    for (const ClusterNode& node : masters) {
        for (const redis::SlotRange& range : node.slots) {
            for (std::size_t slot = range.first; slot <= range.last && slot < served.size();
                 ++slot) {
                served[slot] = true;
            }
        }
    }
    return static_cast<std::size_t>(std::count(served.begin(), served.end(), true));
}

void report_slots(const Masters& masters, std::size_t answered, std::size_t asked,
                  Findings& findings) {
    const std::size_t served = slots_served(masters);
    const std::string text =
        fmt::format("{} of {} configured nodes answer; {} masters serve {} of {} slots", answered,
                    asked, masters.size(), served, redis::kSlots);
    if (served < redis::kSlots) {
        findings.fault("cluster.slots",
                       text + ": identifiers in the others follow on_store_failure",
                       "redis-cli --cluster check, then --cluster fix; start the missing nodes");
    } else {
        findings.ok("cluster.slots", text);
    }
}

Findings examine_cluster(const config::Config& config, const config::RedisSettings& settings,
                         const std::shared_ptr<const TlsClient>& tls, const TimeLimit& time_limit) {
    const auto& seeds = settings.cluster;
    std::vector<std::optional<Masters>> known(seeds.size());
    const auto node_at = [&](config::Address address) {
        return RedisNode{config, settings,
                         target_of(settings, std::move(address), tls, "store.redis.cluster"),
                         time_limit, Kind::cluster_node};
    };
    Findings of_seeds = in_parallel(seeds.size(), [&](std::size_t index) {
        const RedisNode node = node_at(seeds[index]);
        Findings findings(node.target.name());
        known[index] = ask_seed(node, findings);
        return findings;
    });
    const auto first =
        std::find_if(known.begin(), known.end(), [](const auto& one) { return one; });
    if (first == known.end()) return of_seeds;
    const Masters& masters = **first;
    // The findings about the masters report good news.
    Findings all = std::move(of_seeds).at_most(Severity::warning).only_wrong();
    Findings cluster("cluster");
    report_slots(masters,
                 static_cast<std::size_t>(std::count_if(known.begin(), known.end(),
                                                        [](const auto& one) { return one; })),
                 seeds.size(), cluster);
    all.append(std::move(cluster));
    all.append(in_parallel(masters.size(), [&](std::size_t index) {
        RedisNode node = node_at(address_of(masters[index].address));
        node.slots = masters[index].slots;
        if (!node.slots.empty()) return check_node(node);
        Findings none(node.target.name());
        none.note("cluster.slots", "it serves no slots; not checked", {});
        return none;
    }));
    return all;
}

Findings examine_master(const config::Config& config, const config::RedisSettings& settings,
                        const std::shared_ptr<const TlsClient>& tls, const TimeLimit& time_limit) {
    SentinelsFound found =
        examine_sentinels(*settings.sentinel, app::make_sentinel_tls(config), time_limit);
    if (!found.master) return std::move(found.findings);
    found.findings.append(
        check_node({config, settings,
                    target_of(settings, address_of(*found.master), tls, "store.redis.sentinel"),
                    time_limit, Kind::sentinel_master}));
    return std::move(found.findings);
}

}  // namespace

Findings examine_redis(const config::Config& config, const config::RedisSettings& settings,
                       const TimeLimit& time_limit) {
    const std::shared_ptr<const TlsClient> tls = app::make_redis_tls(config);
    if (settings.sentinel) return examine_master(config, settings, tls, time_limit);
    if (!settings.cluster.empty()) return examine_cluster(config, settings, tls, time_limit);
    return check_node({config, settings,
                       target_of(settings, settings.address, tls, "store.redis.url"), time_limit});
}

}  // namespace tidegate::doctor
