#include "matrix/cluster.hpp"

#include <algorithm>
#include <stdexcept>

#include <hiredis/hiredis.h>

namespace tidegate::test {
namespace {

constexpr std::size_t kMasters = 3;
constexpr std::size_t kUsersOfEach = 2;
constexpr int kRounds = 6;

}  // namespace

ClusterWay::ClusterWay(bool is_fronted) : world_({.masters = kMasters, .replicas = true}) {
    find_users();
    find_heir();
    if (is_fronted) put_network();
}

void ClusterWay::find_users() {
    for (std::size_t master = 0; master < kMasters; ++master) {
        const auto slots = world_.slots_of(master);
        for (int i = 0; users_.size() < (master + 1) * kUsersOfEach; ++i) {
            const std::string user = "u" + std::to_string(i);
            const auto slot = world_.slot_of("{user:" + user + "}");
            if (!std::binary_search(slots.begin(), slots.end(), slot)) continue;
            users_.push_back(user);
            if (master == 0) slots_.push_back(slot);
        }
    }
    std::sort(slots_.begin(), slots_.end());
}

void ClusterWay::find_heir() {
    const int port = world_.node(0).port();
    for (std::size_t i = kMasters; i < world_.size(); ++i) {
        const Reply role = world_.node(i).command({"ROLE"});
        if (role->elements > 2 && role->element[2]->integer == port) heir_ = i;
    }
    if (heir_ == 0) throw std::runtime_error("cluster: the first master has no replica");
}

// The node announces that address, and all others accept it.
void ClusterWay::put_network() {
    network_ = std::make_unique<FaultProxy>(victim().port());
    const std::string port = std::to_string(network_->port());
    const std::string bus = victim().command({"CONFIG", "GET", "cluster-port"})->element[1]->str;
    victim().command({"CONFIG", "SET", "cluster-announce-bus-port", bus});
    victim().command({"CONFIG", "SET", "cluster-announce-port", port});
    const std::string place = "127.0.0.1:" + port + "@" + bus;
    for (std::size_t i = 0; i < world_.size(); ++i) {
        await("all to know where the first master is", [&] {
            return world_.node(i).text({"CLUSTER", "NODES"}).find(place) != std::string::npos;
        });
    }
}

int ClusterWay::losses(Fault) {
    return heir_rules() ? 1 : 0;
}

bool ClusterWay::heir_rules() const {
    const Reply role = world_.node(heir_).command({"ROLE"});
    return role->elements > 0 && std::string(role->element[0]->str) == "master";
}

void ClusterWay::fail_over() {
    const std::string answer = world_.node(heir_).text({"CLUSTER", "FAILOVER"});
    if (answer != "OK") throw std::runtime_error("CLUSTER FAILOVER: " + answer);
    await_heir();
}

void ClusterWay::reshard() {
    for (int round = 0; round < kRounds; ++round) {
        for (std::size_t from = 0; from < kMasters; ++from) {
            world_.move_slots(slots_, from, (from + 1) % kMasters, [] { pass(milliseconds{20}); });
        }
    }
}

bool ClusterWay::has_heir(Fault fault) const {
    return fault == Fault::killed || fault == Fault::paused;
}

void ClusterWay::await_heir() {
    await("the heir", [&] { return heir_rules(); });
}

}  // namespace tidegate::test
