#include "doctor/sentinels.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "doctor/parallel.hpp"
#include "doctor/redis_connection.hpp"
#include "doctor/shown_error.hpp"
#include "redis/sentinel.hpp"

namespace tidegate::doctor {

namespace {

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

// Whether they could have another master elected.
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

}  // namespace

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

}  // namespace tidegate::doctor
