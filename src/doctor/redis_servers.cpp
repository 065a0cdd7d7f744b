#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/shared_state.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/config.hpp"
#include "doctor/doctor.hpp"
#include "doctor/examinations.hpp"
#include "doctor/trial.hpp"
#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"
#include "redis/sentinels.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

namespace {

struct ServerError {
    std::string_view code;
    std::string_view what;
    std::string_view advice;
    std::string_view check = "redis.writes";
};
constexpr ServerError kServerErrors[] = {
    {"OOM", "its memory is full: it refuses to count",
     "raise maxmemory, or remove keys of other programs; an evicting policy would lose counts"},
    {"MISCONF", "it refuses writes, because it cannot save its data to disk",
     "see its log, and the space and permissions of its folder, or `stop-writes-on-bgsave-error "
     "no`"},
    {"NOREPLICAS", "it refuses writes, because too few replicas follow it",
     "start them, or lower `min-replicas-to-write`"},
    {"READONLY", "it is a replica: it refuses to count", "name the master in store.redis"},
    {"CLUSTERDOWN", "its cluster is down, and it refuses all commands",
     "see CLUSTER INFO; `cluster-require-full-coverage no` keeps what is covered served"},
    {"MOVED", "its slots have moved to another node", "look again"},
    {"ASK", "its slots are moving to another node", "try again when they have moved"},
    {"TRYAGAIN", "its slots are moving to another node", "try again when they have moved"},
    {"LOADING", "it is loading its data and cannot decide until it has",
     "wait; if it takes long, see its log and the size of its data", "redis.answers"},
    {"BUSY", "another script keeps it busy, so it answers no commands",
     "run SCRIPT KILL (or FUNCTION KILL), and find the program that sent the script",
     "redis.answers"},
};

}  // namespace

bool report_server_error(const redis::RespValue& reply, Findings& findings) {
    const auto* const found =
        std::find_if(std::begin(kServerErrors), std::end(kServerErrors),
                     [&](const ServerError& error) { return reply.is_error(error.code); });
    if (found == std::end(kServerErrors)) return false;
    findings.fault(found->check, std::string(found->what), std::string(found->advice));
    return true;
}

std::string without_secret(std::string_view text, std::string_view secret) {
    std::string shown;
    while (!secret.empty()) {
        const std::size_t at = text.find(secret);
        if (at == text.npos) break;
        shown.append(text.substr(0, at)).append("***");
        text.remove_prefix(at + secret.size());
    }
    return shown.append(text);
}

std::string shown_error(std::string_view error, std::string_view password) {
    return quote(without_secret(redis::without_arguments(error), password));
}

namespace {

std::string addresses_text(const Endpoints& endpoints) {
    std::vector<std::string> texts;
    for (const auto& endpoint : endpoints) texts.push_back(endpoint_text(endpoint));
    return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string RedisTarget::name() const {
    return fmt::format("{} {}", kind, address.to_string());
}

std::string RedisTarget::certificate_advice() const {
    // `tls` is the neighbour of `url`, `nodes` and `cluster`.
    return fmt::format("write `certificate` and `key` in {}.tls",
                       section.substr(0, section.rfind('.')));
}

bool RedisConnection::open(const RedisTarget& target, Findings& findings) {
    const auto endpoints = find_endpoints(target.address, time_limit_.for_step());
    if (!endpoints) {
        findings.fault("redis.name", endpoints.error(),
                       fmt::format("correct {}, or the name server", target.section));
        return false;
    }
    const Endpoints reached = connect(target, *endpoints, findings);
    if (reached.empty()) return false;
    findings.ok("redis.reachable",
                target.address.is_unix() ? "reached" : "reached at " + addresses_text(reached));
    if (const auto validity = connection_->certificate_validity()) {
        check_certificate("redis.certificate", "its certificate", *validity,
                          std::chrono::system_clock::now(), findings);
    }
    return authenticate(target, findings) && ping(target, findings);
}

Endpoints RedisConnection::connect(const RedisTarget& target, const Endpoints& endpoints,
                                   Findings& findings) {
    std::string change = fmt::format("correct {}, or start it", target.section);
    std::vector<std::string> faults;
    Endpoints reached;
    for (const auto& endpoint : endpoints) {
        auto connection = std::make_shared<redis::ServerConnection>(
            io_.get_executor(), target.address.is_unix() ? nullptr : target.tls,
            target.address.host);
        const Fault fault = connect_to(endpoint, *connection);
        if (fault.wants_certificate) change = target.certificate_advice();
        if (!fault.message.empty()) {
            faults.push_back(endpoints.size() == 1
                                 ? fault.message
                                 : fmt::format("{}: {}", endpoint_text(endpoint), fault.message));
        } else {
            reached.push_back(endpoint);
            if (connection_ == nullptr) connection_ = std::move(connection);
        }
    }
    for (std::string& fault : faults) {
        if (reached.empty()) {
            findings.fault("redis.reachable", std::move(fault), change);
        } else {
            findings.warning("redis.reachable", std::move(fault),
                             "remove this address from the name, or start the server there: a "
                             "thread that tries it first waits for a timeout");
        }
    }
    return reached;
}

RedisConnection::Fault RedisConnection::connect_to(const StreamProtocol::endpoint& endpoint,
                                                   redis::ServerConnection& connection) {
    connection.expect_within(time_limit_.for_step());
    Fault fault = wait_for(io_, connection.connect(endpoint));
    if (!fault.message.empty()) {
        fault.message = "cannot connect to it: " + fault.message;
        return fault;
    }
    connection.expect_within(time_limit_.for_step());
    return wait_for(io_, connection.encrypt());
}

bool RedisConnection::authenticate(const RedisTarget& target, Findings& findings) {
    if (target.password.empty()) return true;
    const RespValue reply = ask_resp(redis::auth_command(target.username, target.password));
    if (is_lost()) {
        findings.fault("redis.answers", "no answer to the password: " + why_lost_,
                       wants_certificate_
                           ? target.certificate_advice()
                           : "check whether it hangs, or whether another program listens there");
    } else if (reply.is_error() && redis::has_no_password(reply.text)) {
        // Tidegate itself treats that as a mistake, too.
        findings.fault("redis.password", "it has no password, but the configuration has one",
                       fmt::format("set a password there, or remove it from {}", target.section));
    } else if (reply.is_error()) {
        findings.fault("redis.password",
                       "the password was refused: " + shown_error(reply.text, target.password),
                       fmt::format("correct `username` and `password` in {}", target.section));
    }
    return !reply.is_error();
}

// Says whether it answers, and the reason if it does not.
bool RedisConnection::ping(const RedisTarget& target, Findings& findings) {
    const RespValue reply = ask({"PING"});
    if (is_lost()) {
        findings.fault("redis.answers", "no answer: " + why_lost_,
                       target.tls == nullptr ? "check whether it hangs, or needs TLS (`rediss://`)"
                       : wants_certificate_  ? target.certificate_advice()
                                             : "check whether it hangs");
        return false;
    }
    if (reply.is_error() && redis::wants_password(reply.text)) {
        findings.fault("redis.password", "it wants a password, and the configuration has none",
                       fmt::format("write `username` and `password` in {}", target.section));
        return false;
    }
    if (report_server_error(reply, findings)) return false;
    if (reply.is_error("MASTERDOWN")) {
        findings.fault("redis.role", "it is a replica that has lost its master",
                       fmt::format("name the master in {}, or write `sentinel`", target.section));
        return false;
    }
    if (reply.is_error("DENIED") || reply.is_error("ERR max number of clients")) {
        findings.fault("redis.answers",
                       "it refuses the connection: " + shown_error(reply.text, target.password),
                       reply.is_error("DENIED") ? "set a password, or `protected-mode no`"
                                                : "raise its `maxclients`");
        return false;
    }
    if (reply.kind == RespValue::Kind::text || reply.is_error("NOPERM")) return true;
    // Tidegate asks with it whether the server is well again.
    if (reply.is_error() && redis::lacks_command(reply.text)) {
        findings.fault("redis.commands",
                       "it does not have: ping (" + shown_error(reply.text, target.password) + ")",
                       std::string(kCommandAdvice));
        return false;
    }
    findings.fault("redis.answers",
                   "it does not answer like Redis: " + shown_error(reply.text, target.password),
                   fmt::format("correct the address in {}", target.section));
    return false;
}

RespValue RedisConnection::ask(std::initializer_list<std::string_view> words) {
    return ask_resp(redis::resp(words));
}

RespValue RedisConnection::ask_resp(std::string command) {
    if (!is_lost()) {
        connection_->expect_within(time_limit_.for_step());
        auto reply = wait_for(io_, connection_->ask(std::move(command)));
        if (reply) return std::move(*reply);
        why_lost_ = reply.error().message;
        wants_certificate_ = reply.error().wants_certificate;
    }
    return {.kind = RespValue::Kind::error, .text = "(" + why_lost_ + ")"};
}

namespace {

// What the sentinels say.
struct SentinelsFound {
    std::optional<redis::NodeAddress> master;  // none of them knows it, or none answers
    Findings findings;
};

constexpr std::string_view kSection = "store.redis.sentinel";
constexpr const char* kRights =
    "of the sentinel: ACL SETUSER {} +auth +ping +subscribe +sentinel|get-master-addr-by-name "
    "+sentinel|masters &+switch-master";

// What one sentinel knows.
struct SentinelView {
    std::optional<redis::NodeAddress> master;
    std::int64_t quorum = 0;
    std::int64_t sentinels = 0;  // that it knows, itself included; 0: it does not say
    std::int64_t replicas = 0;
    std::string flags;
};

const RespValue* entry_of(const RespValue& masters, std::string_view name) {
    const auto found =
        std::find_if(masters.items.begin(), masters.items.end(),
                     [&](const RespValue& entry) { return entry.value_of("name") == name; });
    return found == masters.items.end() ? nullptr : &*found;
}

SentinelView read_entry(const RespValue& entry, SentinelView view) {
    const auto number = [&](std::string_view name) {
        return parse_decimal(entry.value_of(name)).value_or(0);
    };
    view.quorum = number("quorum");
    view.sentinels = number("num-other-sentinels") + 1;
    view.replicas = number("num-slaves");
    view.flags = entry.value_of("flags");
    return view;
}

void report_refusal(const RespValue& answer, const config::SentinelSettings& settings,
                    Findings& findings) {
    findings.fault("sentinel.rights",
                   "it refuses the question: " + shown_error(answer.text, settings.password),
                   fmt::format(fmt::runtime(kRights),
                               settings.username.empty() ? "default" : settings.username));
}

SentinelView ask_sentinel(const config::SentinelSettings& settings, const RedisTarget& target,
                          const TimeLimit& time_limit, Findings& findings) {
    SentinelView view;
    RedisConnection connection(time_limit);
    if (!connection.open(target, findings)) return view;
    const RespValue address =
        connection.ask({"SENTINEL", "get-master-addr-by-name", settings.master});
    const RespValue masters = connection.ask({"SENTINEL", "MASTERS"});
    if (connection.is_lost()) {
        findings.fault("redis.answers", "it stopped answering: " + connection.why_lost(),
                       "see its log");
        return view;
    }
    if (address.is_error("ERR unknown command")) {
        findings.fault("sentinel.mode", "it is not a sentinel",
                       fmt::format("correct {}.nodes; sentinels listen on port 26379", kSection));
        return view;
    }
    if (address.is_error() || masters.is_error()) {
        report_refusal(address.is_error() ? address : masters, settings, findings);
    }
    view.master = redis::master_of(address);
    if (const RespValue* const entry = entry_of(masters, settings.master)) {
        return read_entry(*entry, std::move(view));
    }
    if (!view.master && !address.is_error()) {
        std::vector<std::string> names;
        for (const RespValue& one : masters.items)
            names.push_back(quote(without_secret(one.value_of("name"), settings.password)));
        findings.fault(
            "sentinel.master",
            fmt::format("it knows no master {}; it watches {}", quote(settings.master),
                        names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
            fmt::format("correct {}.master, or make it watch that master (SENTINEL MONITOR)",
                        kSection));
    }
    return view;
}

// The address that most sentinels name.
std::optional<redis::NodeAddress> most_named(const std::vector<SentinelView>& views,
                                             Findings& findings) {
    std::map<std::string, std::pair<int, redis::NodeAddress>> votes;
    for (const SentinelView& view : views) {
        if (!view.master) continue;
        auto& [count, address] = votes[view.master->to_string()];
        ++count;
        address = *view.master;
    }
    if (votes.empty()) return std::nullopt;
    const auto most = std::max_element(
        votes.begin(), votes.end(),
        [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    if (votes.size() > 1) {
        std::vector<std::string> names;
        names.reserve(votes.size());
        for (const auto& [name, vote] : votes) {
            names.push_back(fmt::format("{} ({})", name, vote.first));
        }
        findings.warning("sentinel.master",
                         fmt::format("they name different masters: {}", fmt::join(names, ", ")),
                         "a failover may be under way: try again; if it stays so, see whether the "
                         "sentinels reach each other");
    }
    return most->second.second;
}

// Says whether they could have another master elected.
void report_quorum(const std::vector<SentinelView>& views, std::size_t nodes, Findings& findings) {
    SentinelView most;
    std::int64_t answered = 0;
    for (const SentinelView& view : views) {
        if (view.sentinels == 0) continue;
        ++answered;
        if (view.sentinels > most.sentinels) most = view;
    }
    if (answered == 0) return;
    const std::int64_t majority = most.sentinels / 2 + 1;
    const std::int64_t needed = std::max(most.quorum, majority);
    const std::string text = fmt::format("{} of {} configured answer; they know of {}, quorum {}",
                                         answered, nodes, most.sentinels, most.quorum);
    if (most.quorum > most.sentinels) {
        findings.fault("sentinel.quorum", text + ": more than there are, so no failover can happen",
                       "SENTINEL SET <master> quorum <number>, or start more sentinels");
    } else if (most.sentinels < 3) {
        findings.warning("sentinel.quorum", text + ": when one is lost, no failover can happen",
                         "run three or more, on machines of their own");
    } else if (answered < std::min(needed, static_cast<std::int64_t>(nodes))) {
        findings.warning("sentinel.quorum", fmt::format("{}: a failover needs {}", text, needed),
                         "start the others, or check why they cannot be reached from here");
    } else {
        findings.ok("sentinel.quorum", text);
    }
    if (most.flags.find("o_down") != most.flags.npos ||
        most.flags.find("s_down") != most.flags.npos) {
        findings.fault("sentinel.master", "they say that the master is down",
                       "a failover may be under way: try again");
    }
    if (most.replicas == 0) {
        findings.warning("sentinel.replicas",
                         "the master has no replica, so no failover can happen",
                         "start one: `replicaof` the master");
    }
}

// `tls` is null where it is not encrypted.
SentinelsFound examine_sentinels(const config::SentinelSettings& settings,
                                 std::shared_ptr<const TlsClient> tls,
                                 const TimeLimit& time_limit) {
    std::vector<SentinelView> views(settings.nodes.size());
    SentinelsFound found;
    Findings each = in_parallel(settings.nodes.size(), [&](std::size_t index) {
        const RedisTarget target{
            settings.nodes[index],        settings.username, settings.password, tls,
            "store.redis.sentinel.nodes", "sentinel"};
        Findings findings(target.name());
        views[index] = ask_sentinel(settings, target, time_limit, findings);
        return findings;
    });
    Findings all("sentinels");
    found.master = most_named(views, all);
    if (found.master) all.ok("sentinel.master", "the master is at " + found.master->to_string());
    report_quorum(views, settings.nodes.size(), all);
    // The other sentinels make up for one that is away.
    found.findings.append(found.master ? std::move(each).at_most(Severity::warning)
                                       : std::move(each));
    found.findings.append(std::move(all));
    return found;
}

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
            : redis::lacks_command(answer.text) ? std::string(kCommandAdvice)
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
