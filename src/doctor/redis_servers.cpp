#include "doctor/redis_servers.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/process.hpp"
#include "doctor/parallel.hpp"
#include "doctor/redis_node.hpp"
#include "doctor/redis_talk.hpp"
#include "doctor/sentinels.hpp"
#include "doctor/trouble.hpp"
#include "redis/cluster_map.hpp"
#include "redis/slot.hpp"

namespace tidegate::doctor {

namespace {

using As = NodeVisit::As;
using redis::ClusterNode;
using Masters = std::vector<ClusterNode>;

Station station_of(const config::RedisSettings& settings, config::Address address,
                   std::shared_ptr<const TlsClient> tls, std::string_view section) {
    return {std::move(address), settings.username, settings.password,
            std::move(tls),     section,           "redis"};
}

config::Address address_of(const std::string& host, std::uint16_t port) {
    return {.host = host, .port = port, .unix_path = {}};
}

// What one of the configured nodes says of the cluster.
std::optional<Masters> ask_seed(const NodeVisit& visit, Findings& findings) {
    RedisTalk talk(visit.patience);
    if (!talk.open(visit.station, findings)) return std::nullopt;
    const Answer answer = talk.ask({"CLUSTER", "NODES"});
    if (found_trouble(answer, findings)) return std::nullopt;
    if (answer.is_error("NOPERM")) {
        findings.fault(
            "redis.rights",
            "refused: cluster|nodes (" + shown_error(answer.text, visit.station.password) + ")",
            visit.rights_advice());
    } else if (answer.is_error()) {
        const bool disabled = answer.text.find("cluster support disabled") != std::string::npos;
        findings.fault(
            "redis.mode",
            "CLUSTER NODES was refused: " + shown_error(answer.text, visit.station.password),
            disabled ? "write `url` in store.redis instead of `cluster`, or make it a "
                       "node (`cluster-enabled yes`)"
                     : "see its log");
    }
    if (answer.is_error()) return std::nullopt;
    auto masters = redis::parse_cluster_nodes(answer.text, visit.station.address.host);
    if (masters) return std::move(*masters);
    findings.fault("cluster.slots",
                   "what it says of the cluster is of no use: " +
                       without_secret(masters.error(), visit.station.password),
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

void judge_slots(const Masters& masters, std::size_t answered, std::size_t asked,
                 Findings& findings) {
    const std::size_t served = slots_served(masters);
    const std::string text =
        fmt::format("{} of {} configured nodes answer; {} masters serve {} of {} slots", answered,
                    asked, masters.size(), served, redis::kSlots);
    if (served < redis::kSlots) {
        findings.fault("cluster.slots",
                       text + ": identifiers in the others follow on_store_failure",
                       "redis-cli --cluster check, then --cluster fix; start the nodes that are "
                       "missing");
    } else {
        findings.ok("cluster.slots", text);
    }
}

Findings examine_cluster(const config::Config& config, const config::RedisSettings& settings,
                         const std::shared_ptr<const TlsClient>& tls, const Patience& patience) {
    const auto& seeds = settings.cluster;
    std::vector<std::optional<Masters>> told(seeds.size());
    const auto visit_to = [&](config::Address address) {
        return NodeVisit{config, settings,
                         station_of(settings, std::move(address), tls, "store.redis.cluster"),
                         patience, As::in_cluster};
    };
    Findings of_seeds = in_parallel(seeds.size(), [&](std::size_t index) {
        const NodeVisit visit = visit_to(seeds[index]);
        Findings findings(visit.station.name());
        told[index] = ask_seed(visit, findings);
        return findings;
    });
    const auto knows = std::find_if(told.begin(), told.end(), [](const auto& one) { return one; });
    if (knows == told.end()) return of_seeds;
    const Masters& masters = **knows;
    // All that is well with them is said of the masters.
    Findings all = std::move(of_seeds).at_most(Severity::warning).only_wrong();
    Findings cluster("cluster");
    judge_slots(masters,
                static_cast<std::size_t>(
                    std::count_if(told.begin(), told.end(), [](const auto& one) { return one; })),
                seeds.size(), cluster);
    all.append(std::move(cluster));
    all.append(in_parallel(masters.size(), [&](std::size_t index) {
        NodeVisit visit =
            visit_to(address_of(masters[index].address.host, masters[index].address.port));
        visit.slots = masters[index].slots;
        if (!visit.slots.empty()) return visit_node(visit);
        Findings none(visit.station.name());
        none.note("cluster.slots", "it serves no slots, and was not visited", {});
        return none;
    }));
    return all;
}

Findings examine_master(const config::Config& config, const config::RedisSettings& settings,
                        const std::shared_ptr<const TlsClient>& tls, const Patience& patience) {
    SentinelsFound found =
        examine_sentinels(*settings.sentinel, app::make_sentinel_tls(config), patience);
    if (!found.master) return std::move(found.findings);
    const auto address =
        address_of(found.master->host, static_cast<std::uint16_t>(found.master->port));
    found.findings.append(
        visit_node({config, settings, station_of(settings, address, tls, "store.redis.sentinel"),
                    patience, As::named_by_sentinels}));
    return std::move(found.findings);
}

}  // namespace

Findings examine_redis(const config::Config& config, const config::RedisSettings& settings,
                       const Patience& patience) {
    const std::shared_ptr<const TlsClient> tls = app::make_redis_tls(config);
    if (settings.sentinel) return examine_master(config, settings, tls, patience);
    if (!settings.cluster.empty()) return examine_cluster(config, settings, tls, patience);
    return visit_node({config, settings,
                       station_of(settings, settings.address, tls, "store.redis.url"), patience});
}

}  // namespace tidegate::doctor
