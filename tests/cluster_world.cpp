#include "cluster_world.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include <hiredis/hiredis.h>

#include "free_port.hpp"

namespace tidegate::test {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kPatience = 30s;
constexpr int kStartsMax = 5;  // another program may take a port before the server does

void await(const std::string& what, const std::function<bool()>& holds) {
    const auto deadline = SteadyClock::now() + kPatience;
    while (!holds()) {
        if (SteadyClock::now() > deadline) throw std::runtime_error("cluster: " + what);
        std::this_thread::sleep_for(10ms);
    }
}

// Runs a program to its end; what it wrote is part of the message when it fails.
void run(const std::string& command) {
    FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
    std::string output;
    char piece[4096];
    while (const std::size_t size = std::fread(piece, 1, sizeof piece, pipe)) {
        output.append(piece, size);
    }
    if (::pclose(pipe) != 0) throw std::runtime_error(command + ": " + output);
}

void expect_ok(const Reply& reply, const std::string& what) {
    if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(what + ": " + reply->str);
}

bool runs(const RedisServer& server) {
    return server.pid() > 0;
}

bool says_all_served(const RedisServer& server) {
    const std::string info = server.text({"CLUSTER", "INFO"});
    return info.find("cluster_state:ok") != std::string::npos &&
           info.find("cluster_slots_ok:16384") != std::string::npos;
}

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream text(line);
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    return words;
}

// `0-5460`, `7000`; what is in brackets is on its way.
void add_range(const std::string& range, std::vector<std::uint16_t>& slots) {
    if (range.front() == '[') return;
    const auto dash = range.find('-');
    const int first = std::stoi(range);
    const int last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
    for (int slot = first; slot <= last; ++slot) slots.push_back(static_cast<std::uint16_t>(slot));
}

}  // namespace

ClusterWorld::ClusterWorld(const Options& options) : options_(options) {
    const std::size_t count = options.masters * (options.replicas ? 2 : 1);
    for (std::size_t i = 0; i < count; ++i) nodes_.push_back(start_node());
    create();
    await_served();
}

ClusterWorld::~ClusterWorld() = default;

std::unique_ptr<RedisServer> ClusterWorld::start_node() const {
    for (int tries = 1;; ++tries) {
        try {
            return std::make_unique<RedisServer>(std::vector<std::string>{
                "--cluster-enabled", "yes", "--cluster-port", std::to_string(free_port()),
                "--cluster-node-timeout", std::to_string(options_.node_timeout.count()),
                "--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no",
                "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"});
        } catch (const std::runtime_error&) {
            if (tries == kStartsMax) throw;
        }
    }
}

void ClusterWorld::create() {
    std::string command = "redis-cli --cluster create";
    for (std::size_t i = 0; i < size(); ++i) command += " " + place_of(i);
    run(command + " --cluster-replicas " + (options_.replicas ? "1" : "0") + " --cluster-yes");
    if (!options_.replicas) return;
    for (std::size_t i = options_.masters; i < size(); ++i) {
        await("a replica has its master's data", [&] {
            return node(i).text({"INFO", "replication"}).find("master_link_status:up") !=
                   std::string::npos;
        });
    }
}

std::string ClusterWorld::place_of(std::size_t index) const {
    return "127.0.0.1:" + std::to_string(node(index).port());
}

std::string ClusterWorld::id_of(std::size_t index) const {
    return node(index).text({"CLUSTER", "MYID"});
}

std::uint16_t ClusterWorld::slot_of(const std::string& key, std::size_t asked) const {
    return static_cast<std::uint16_t>(std::stoi(node(asked).text({"CLUSTER", "KEYSLOT", key})));
}

std::vector<std::uint16_t> ClusterWorld::slots_of(std::size_t index) const {
    std::vector<std::uint16_t> slots;
    std::istringstream lines(node(index).text({"CLUSTER", "NODES"}));
    for (std::string line; std::getline(lines, line);) {
        const auto words = words_of(line);
        if (words[2].find("myself") == std::string::npos) continue;
        for (std::size_t i = 8; i < words.size(); ++i) add_range(words[i], slots);
    }
    return slots;
}

// One command for each slot, all at once.
void ClusterWorld::set_slots(std::size_t index, const std::vector<std::uint16_t>& slots,
                             const std::string& state, const std::string& id) const {
    RedisConnection connection(node(index).port());
    std::string commands;
    for (const std::uint16_t slot : slots) {
        const std::string number = std::to_string(slot);
        commands += "*5\r\n";
        for (const std::string& word :
             {std::string("CLUSTER"), std::string("SETSLOT"), number, state, id}) {
            commands += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
        }
        connection.send(std::exchange(commands, {}));
    }
    for (std::size_t i = 0; i < slots.size(); ++i) expect_ok(connection.read(), "SETSLOT");
}

void ClusterWorld::move_slots(const std::vector<std::uint16_t>& slots, std::size_t from,
                              std::size_t to, const std::function<void()>& before_key) {
    begin_move(slots, from, to);
    RedisConnection source(node(from).port());
    for (const std::uint16_t slot : slots) {
        while (true) {
            const Reply keys =
                source.command({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "1"});
            if (keys->elements == 0) break;
            if (before_key) before_key();
            const std::string key(keys->element[0]->str, keys->element[0]->len);
            expect_ok(source.command({"MIGRATE", "127.0.0.1", std::to_string(node(to).port()), key,
                                      "0", "5000"}),
                      "MIGRATE");
        }
    }
    end_move(slots, from, to);
}

void ClusterWorld::begin_move(const std::vector<std::uint16_t>& slots, std::size_t from,
                              std::size_t to) const {
    set_slots(to, slots, "IMPORTING", id_of(from));
    set_slots(from, slots, "MIGRATING", id_of(to));
}

void ClusterWorld::end_move(const std::vector<std::uint16_t>& slots, std::size_t from,
                            std::size_t to) const {
    const std::string owner = id_of(to);
    set_slots(to, slots, "NODE", owner);
    if (from != to) set_slots(from, slots, "NODE", owner);
    for (std::size_t i = 0; i < size(); ++i) {
        if (i != from && i != to && runs(node(i)) && is_master(i)) {
            set_slots(i, slots, "NODE", owner);
        }
    }
}

bool ClusterWorld::is_master(std::size_t index) const {
    const Reply role = node(index).command({"ROLE"});
    return role->elements > 0 && std::string(role->element[0]->str) == "master";
}

std::size_t ClusterWorld::add_master() {
    nodes_.push_back(start_node());
    const std::size_t added = size() - 1;
    run("redis-cli --cluster add-node " + place_of(added) + " " + place_of(0));
    await("the new node knows the others", [&] { return says_all_served(node(added)); });
    for (std::size_t i = 0; i < added; ++i) {
        if (!runs(node(i))) continue;
        await("everybody knows the new node", [&] {
            return node(i).text({"CLUSTER", "NODES"}).find(place_of(added) + "@") !=
                   std::string::npos;
        });
    }
    return added;
}

void ClusterWorld::remove(std::size_t index) {
    const std::string id = id_of(index);
    for (std::size_t i = 0; i < size(); ++i) {
        if (i != index && runs(node(i))) node(i).command({"CLUSTER", "FORGET", id});
    }
    node(index).stop();
}

void ClusterWorld::await_served() const {
    for (const auto& server : nodes_) {
        if (!runs(*server)) continue;
        await("all slots are served", [&] { return says_all_served(*server); });
    }
}

void ClusterWorld::command_all(const std::vector<std::string>& words) const {
    for (const auto& server : nodes_) {
        if (runs(*server)) server->command(words);
    }
}

long ClusterWorld::calls(const std::string& command) const {
    const std::string name = "cmdstat_" + command + ":calls=";
    long sum = 0;
    for (const auto& server : nodes_) {
        if (!runs(*server)) continue;
        const std::string statistics = server->text({"INFO", "commandstats"});
        const auto found = statistics.find(name);
        if (found != std::string::npos) sum += std::stol(statistics.substr(found + name.size()));
    }
    return sum;
}

std::size_t ClusterWorld::keys_like(std::size_t index, const std::string& pattern) const {
    return node(index).command({"KEYS", pattern})->elements;
}

std::string ClusterWorld::urls() const {
    std::string urls;
    for (std::size_t i = 0; i < size(); ++i) {
        urls += (i == 0 ? "\"redis://" : ", \"redis://") + place_of(i) + "\"";
    }
    return "[" + urls + "]";
}

}  // namespace tidegate::test
