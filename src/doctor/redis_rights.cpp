// Whether Redis lets us do what Tidegate does: each command once, on keys nobody else has.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "doctor/redis_node.hpp"
#include "doctor/trouble.hpp"
#include "redis/client.hpp"
#include "store/scripts.hpp"

namespace tidegate::doctor {

namespace {

using As = NodeVisit::As;

struct Probe {
    std::string_view right;  // as access lists name it
    std::string command;     // whole RESP
};

std::string resp(std::initializer_list<std::string_view> words) {
    std::string command;
    redis::append_resp(words, command);
    return command;
}

// Only SET leaves anything, with an expiry of its own, should we not come to remove it: ZADD with
// XX and SETRANGE of nothing are commands like others, and make no key that is not there.
std::vector<Probe> probes(const std::string& text, const std::string& set) {
    return {
        {"script|load", resp({"SCRIPT", "LOAD", store::give_back_script().text})},
        // Of a script that nobody has: whoever may run scripts is told so.
        {"evalsha", resp({"EVALSHA", std::string(40, '0'), "1", text})},
        {"time", resp({"TIME"})},
        {"set", resp({"SET", text, "x", "PX", "10000"})},
        {"setrange", resp({"SETRANGE", text, "0", ""})},
        {"mget", resp({"MGET", text})},
        {"pttl", resp({"PTTL", text})},
        {"pexpire", resp({"PEXPIRE", text, "10000"})},
        {"zadd", resp({"ZADD", set, "XX", "1", "x"})},
        {"expire", resp({"EXPIRE", set, "10"})},
        {"zcount", resp({"ZCOUNT", set, "-inf", "+inf"})},
        {"zcard", resp({"ZCARD", set})},
        {"zscore", resp({"ZSCORE", set, "x"})},
        {"zrange", resp({"ZRANGE", set, "-1", "-1"})},
        {"zrangebyscore", resp({"ZRANGEBYSCORE", set, "-inf", "+inf"})},
        {"zremrangebyscore", resp({"ZREMRANGEBYSCORE", set, "-inf", "0"})},
        {"zrem", resp({"ZREM", set, "x"})},
    };
}

std::vector<Probe> more_probes(As as) {
    if (as == As::named_by_sentinels) return {{"role", resp({"ROLE"})}};
    if (as == As::in_cluster) return {{"asking", resp({"ASKING"})}};
    return {};
}

// Without DEL, which Tidegate does not need: an expiry in the past removes.
void remove(RedisTalk& talk, const std::string& text) {
    if (talk.ask({"PEXPIRE", text, "0"}).is_error()) talk.ask({"SET", text, "x", "PX", "1"});
}

}  // namespace

bool check_rights(RedisTalk& talk, const NodeVisit& visit, Findings& findings) {
    const std::string text =
        fmt::format("{}{{{}}}", visit.settings.key_prefix, throw_away_name(visit));
    const std::string set = text + ":set";
    std::vector<Probe> all = probes(text, set);
    for (Probe& probe : more_probes(visit.as)) all.push_back(std::move(probe));
    std::vector<std::string_view> missing;
    std::string refusal;
    for (const Probe& probe : all) {
        const Answer answer = talk.ask_resp(probe.command);
        if (talk.is_lost()) return false;
        if (!answer.is_error() || answer.is_error("NOSCRIPT")) continue;
        if (found_trouble(answer, findings)) {
            remove(talk, text);
            return false;
        }
        if (probe.right == "time" && visit.settings.local_clock) continue;
        missing.push_back(probe.right);
        refusal = answer.text;
    }
    remove(talk, text);
    if (missing.empty()) {
        findings.ok("redis.rights", fmt::format("all {} commands are allowed", all.size()));
        return true;
    }
    findings.fault("redis.rights",
                   fmt::format("refused: {} ({})", fmt::join(missing, ", "),
                               shown_error(refusal, visit.station.password)),
                   visit.rights_advice());
    return false;
}

}  // namespace tidegate::doctor
