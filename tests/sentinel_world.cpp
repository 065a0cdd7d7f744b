#include "sentinel_world.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

#include <hiredis/hiredis.h>

namespace tidegate::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;
// So that a test need not wait: a master is given up after half a second of silence.
constexpr const char* kDownAfter = "500";
constexpr const char* kFailoverTimeout = "3000";

void await(const std::string& what, const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
        if (std::chrono::steady_clock::now() > deadline) {
            throw std::runtime_error("sentinels: in vain waited for " + what);
        }
        std::this_thread::sleep_for(20ms);
    }
}

std::string text_of(const redisReply& reply) {
    if (reply.type == REDIS_REPLY_INTEGER) return std::to_string(reply.integer);
    if (reply.str == nullptr) return {};
    return {reply.str, reply.len};
}

// The value of a field in a list of fields and values.
std::string value_of(const std::vector<std::string>& fields, const std::string& name) {
    const auto found = std::find(fields.begin(), fields.end(), name);
    if (found == fields.end() || found + 1 == fields.end()) return {};
    return *(found + 1);
}

}  // namespace

SentinelWorld::SentinelWorld(SentinelWorldShape shape) : shape_(std::move(shape)) {
    start_servers();
    start_sentinels();
    for (const auto& sentinel : sentinels_) {
        await("a sentinel that knows everybody", [&] { return is_settled(*sentinel); });
    }
}

void SentinelWorld::start_servers() {
    std::vector<std::string> arguments{"--repl-diskless-sync-delay", "0"};
    if (!shape_.password.empty()) {
        arguments.insert(arguments.end(),
                         {"--requirepass", shape_.password, "--masterauth", shape_.password});
    }
    servers_.push_back(std::make_unique<RedisServer>(arguments));
    if (!shape_.fronted) {
        arguments.insert(arguments.end(),
                         {"--replicaof", "127.0.0.1", std::to_string(servers_[0]->port())});
    }
    for (std::size_t i = 0; i < shape_.replicas; ++i) {
        servers_.push_back(std::make_unique<RedisServer>(arguments));
    }
    if (shape_.fronted) put_networks();
}

// Before any server knows another by its own port.
void SentinelWorld::put_networks() {
    for (const auto& server : servers_) {
        networks_.push_back(std::make_unique<FaultProxy>(server->port()));
        ask(*server, shape_.password,
            {"CONFIG", "SET", "replica-announce-port", std::to_string(networks_.back()->port())});
    }
    for (std::size_t i = 1; i < servers_.size(); ++i) {
        ask(*servers_[i], shape_.password, {"REPLICAOF", "127.0.0.1", std::to_string(port_of(0))});
    }
}

std::uint16_t SentinelWorld::port_of(std::size_t server) const {
    return shape_.fronted ? networks_[server]->port() : servers_[server]->port();
}

void SentinelWorld::start_sentinels() {
    std::vector<std::string> arguments;
    if (!shape_.sentinel_password.empty()) {
        arguments = {"--requirepass", shape_.sentinel_password};
    }
    const std::string port = std::to_string(port_of(0));
    const std::string quorum = std::to_string(shape_.sentinels / 2 + 1);
    for (std::size_t i = 0; i < shape_.sentinels; ++i) {
        sentinels_.push_back(std::make_unique<RedisServer>(arguments, true));
        const auto tell = [&](const std::vector<std::string>& words) {
            const auto answer = ask(*sentinels_.back(), shape_.sentinel_password, words);
            if (answer != std::vector<std::string>{"OK"}) {
                throw std::runtime_error("sentinels: " + words[1] + ": " +
                                         (answer.empty() ? "no answer" : answer[0]));
            }
        };
        tell({"SENTINEL", "MONITOR", kMaster, "127.0.0.1", port, quorum});
        tell({"SENTINEL", "SET", kMaster, "down-after-milliseconds", kDownAfter});
        tell({"SENTINEL", "SET", kMaster, "failover-timeout", kFailoverTimeout});
        if (!shape_.password.empty()) {
            tell({"SENTINEL", "SET", kMaster, "auth-pass", shape_.password});
        }
    }
}

bool SentinelWorld::is_settled(const RedisServer& sentinel) const {
    const auto fields = ask(sentinel, shape_.sentinel_password, {"SENTINEL", "MASTER", kMaster});
    return value_of(fields, "flags") == "master" &&
           value_of(fields, "num-slaves") == std::to_string(shape_.replicas) &&
           value_of(fields, "num-other-sentinels") == std::to_string(shape_.sentinels - 1) &&
           std::all_of(servers_.begin() + 1, servers_.end(), [&](const auto& server) {
               const auto role = ask(*server, shape_.password, {"ROLE"});
               return role.size() > 3 && role[3] == "connected";
           });
}

std::vector<std::string> SentinelWorld::ask(const RedisServer& server, const std::string& password,
                                            const std::vector<std::string>& words) const {
    RedisConnection connection(server.port());
    if (!password.empty()) connection.command({"AUTH", password});
    const Reply reply = connection.command(words);
    if (reply->type != REDIS_REPLY_ARRAY) return {text_of(*reply)};
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < reply->elements; ++i) texts.push_back(text_of(*reply->element[i]));
    return texts;
}

std::size_t SentinelWorld::master(std::size_t asked) const {
    const auto address = ask(*sentinels_[asked], shape_.sentinel_password,
                             {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", kMaster});
    for (std::size_t i = 0; i < servers_.size(); ++i) {
        if (address.size() == 2 && address[1] == std::to_string(port_of(i))) return i;
    }
    throw std::runtime_error("sentinels: the master is none of the servers");
}

std::size_t SentinelWorld::next_master(std::size_t old, std::size_t asked) const {
    await("another master", [&] { return master(asked) != old; });
    return master(asked);
}

void SentinelWorld::await_replica(std::size_t server) const {
    await("a replica", [&] {
        try {
            const auto role = ask(*servers_[server], shape_.password, {"ROLE"});
            return !role.empty() && role[0] == "slave";
        } catch (const std::runtime_error&) {
            return false;  // cut off by a sentinel
        }
    });
}

std::string SentinelWorld::yaml(const std::string& more) const {
    std::string nodes;
    for (const auto& sentinel : sentinels_) {
        nodes += (nodes.empty() ? "" : ", ") + std::string("\"redis://127.0.0.1:") +
                 std::to_string(sentinel->port()) + "\"";
    }
    return "{master: " + kMaster + ", nodes: [" + nodes + "]" + more + "}";
}

}  // namespace tidegate::test
