// Whether the user may send the commands of Tidegate: each once, on keys that nothing else uses.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "doctor/redis_node.hpp"
#include "doctor/server_errors.hpp"
#include "doctor/shown_error.hpp"
#include "redis/resp.hpp"
#include "store/scripts.hpp"

namespace tidegate::doctor {

namespace {

using Kind = RedisNode::Kind;

using redis::resp;

struct Probe {
    std::string_view right;  // as access lists name it
    std::string command;     // whole RESP
};

// Only SET makes a key, with an expiry in case the doctor cannot remove it: ZADD with XX and
// SETRANGE of nothing need the same rights, and make no key that does not exist.
std::vector<Probe> probes(const std::string& text, const std::string& set) {
    return {
        {"script|load", resp({"SCRIPT", "LOAD", store::give_back_script().text})},
        // Of a script that does not exist: a user that may run scripts gets NOSCRIPT.
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

std::vector<Probe> more_probes(Kind kind) {
    if (kind == Kind::sentinel_master) return {{"role", resp({"ROLE"})}};
    if (kind == Kind::cluster_node) return {{"asking", resp({"ASKING"})}};
    return {};
}

// Without DEL, which Tidegate does not need: an expiry in the past removes.
void remove(RedisConnection& connection, const std::string& text) {
    if (connection.ask({"PEXPIRE", text, "0"}).is_error())
        connection.ask({"SET", text, "x", "PX", "1"});
}

}  // namespace

bool check_rights(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    const std::string text =
        fmt::format("{}{{{}}}", node.settings.key_prefix, throw_away_name(node));
    const std::string set = text + ":set";
    std::vector<Probe> all = probes(text, set);
    for (Probe& probe : more_probes(node.kind)) all.push_back(std::move(probe));
    std::vector<std::string_view> missing;
    std::string refusal;
    for (const Probe& probe : all) {
        const RespValue answer = connection.ask_resp(probe.command);
        if (connection.is_lost()) return false;
        if (!answer.is_error() || answer.is_error("NOSCRIPT")) continue;
        if (report_server_error(answer, findings)) {
            remove(connection, text);
            return false;
        }
        if (probe.right == "time" && node.settings.local_clock) continue;
        missing.push_back(probe.right);
        refusal = answer.text;
    }
    remove(connection, text);
    if (missing.empty()) {
        findings.ok("redis.rights", fmt::format("all {} commands are allowed", all.size()));
        return true;
    }
    findings.fault("redis.rights",
                   fmt::format("refused: {} ({})", fmt::join(missing, ", "),
                               shown_error(refusal, node.target.password)),
                   node.rights_advice());
    return false;
}

}  // namespace tidegate::doctor
