#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "upstream/server.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream::chooser_test {

namespace {

const SteadyTime kNow = steady_now();

// Servers 192.0.2.1, .2, ..., of these weights, and what all threads know of them.
struct Servers {
    explicit Servers(const std::vector<int>& weights, config::Balance balance = {}) {
        std::vector<config::UpstreamServer> configured;
        for (const int weight : weights) {
            configured.push_back(
                server_at("192.0.2." + std::to_string(configured.size() + 1), 80, weight));
        }
        config::Upstream settings = upstream_of(configured);
        settings.balance = balance;
        settings.health_check.emplace();
        group = group_of(settings);
        for (const auto& shared : group->servers()) list.emplace_back(new Server(shared, 0));
    }
    Chooser chooser(std::size_t worker = 0) const {
        Chooser made(group->settings(), worker);
        made.reset(list);
        return made;
    }
    void fail(std::size_t index) { group->note_check(list[index]->shared(), "it answers 500"); }

    GroupPtr group;
    std::vector<ServerPtr> list;
};

}  // namespace

TEST_CASE("chooser: round robin gives each server as many requests as it has weight") {
    const Servers servers({3, 1});
    Chooser chooser = servers.chooser();
    std::map<std::size_t, int> times;
    for (int i = 0; i < 400; ++i) ++times[chooser.choose({}, kNow, {}).value()];
    CHECK(times[0] == 300);
    CHECK(times[1] == 100);
}

TEST_CASE("chooser: the workers begin with different servers") {
    const Servers servers({1, 1, 1, 1});
    std::set<std::size_t> first;
    for (std::size_t worker = 0; worker < 4; ++worker) {
        first.insert(servers.chooser(worker).choose({}, kNow, {}).value());
    }
    CHECK(first.size() == 4);
}

TEST_CASE("chooser: least connections looks at the requests of all workers") {
    const Servers servers({1, 1, 1}, config::Balance::least_connections);
    Chooser chooser = servers.chooser();
    for (const std::size_t busy : {0U, 1U}) servers.list[busy]->shared().state.begin_request();
    CHECK(chooser.choose({}, kNow, {}) == 2);
    for (int i = 0; i < 2; ++i) servers.list[2]->shared().state.begin_request();
    servers.list[1]->shared().state.end_request();
    CHECK(chooser.choose({}, kNow, {}) == 1);
}

TEST_CASE("chooser: a hash chooses the same server in all workers and after a reload") {
    const Servers servers({1, 1, 1, 1, 1}, config::Balance::hash);
    Chooser one = servers.chooser(0);
    Chooser other = servers.chooser(1);
    const Servers again({1, 1, 1, 1, 1}, config::Balance::hash);
    Chooser later = again.chooser(2);
    std::set<std::size_t> used;
    for (std::uint64_t key = 0; key < 200; ++key) {
        const auto chosen = one.choose(key, kNow, {});
        CHECK(other.choose(key, kNow, {}) == chosen);
        CHECK(later.choose(key, kNow, {}) == chosen);
        used.insert(chosen.value());
    }
    CHECK(used.size() == 5);
}

TEST_CASE("chooser: a request without a value of the key is balanced by round robin") {
    const Servers servers({1, 1, 1}, config::Balance::hash);
    Chooser chooser = servers.chooser();
    std::map<std::size_t, int> times;
    for (int i = 0; i < 30; ++i) ++times[chooser.choose({}, kNow, {}).value()];
    CHECK(times.size() == 3);
    for (const auto& [server, count] : times) CHECK(count == 10);
}

TEST_CASE("chooser: unhealthy servers are passed over, and none is chosen if all are") {
    for (const auto balance : {config::Balance::round_robin, config::Balance::least_connections,
                               config::Balance::hash}) {
        CAPTURE(static_cast<int>(balance));
        Servers servers({1, 1}, balance);
        Chooser chooser = servers.chooser();
        servers.fail(0);
        for (std::uint64_t key = 0; key < 10; ++key) {
            CHECK(chooser.choose(key, kNow, {}) == 1);
            CHECK(chooser.choose({}, kNow, {}) == 1);
        }
        servers.fail(1);
        CHECK_FALSE(chooser.choose(7, kNow, {}));
        CHECK_FALSE(chooser.choose({}, kNow, {}));
    }
}

TEST_CASE("chooser: the server that just failed is chosen only where there is no other") {
    for (const auto balance : {config::Balance::round_robin, config::Balance::least_connections,
                               config::Balance::hash}) {
        CAPTURE(static_cast<int>(balance));
        Servers servers({1, 1}, balance);
        Chooser chooser = servers.chooser();
        for (std::uint64_t key = 0; key < 10; ++key) {
            CHECK(chooser.choose(key, kNow, &servers.list[0]->shared().state) == 1);
            CHECK(chooser.choose({}, kNow, &servers.list[1]->shared().state) == 0);
        }
        servers.fail(1);
        CHECK(chooser.choose(7, kNow, &servers.list[0]->shared().state) == 0);
    }
}

TEST_CASE("chooser: a request that has tried some servers gets one of the others") {
    for (const auto balance : {config::Balance::round_robin, config::Balance::least_connections,
                               config::Balance::hash}) {
        // Of more than sixteen, least connections looks at two.
        for (const std::size_t count : {4U, 20U}) {
            CAPTURE(static_cast<int>(balance));
            CAPTURE(count);
            Servers servers(std::vector<int>(count, 1), balance);
            Chooser chooser = servers.chooser();
            for (std::uint64_t key = 0; key < 10; ++key) {
                balance::Tried tried;
                for (std::size_t i = 0; i < std::min<std::size_t>(count, 10); ++i) {
                    const auto chosen = chooser.choose(key, kNow, tried);
                    REQUIRE(chosen);
                    const balance::ServerState& state = servers.list[*chosen]->shared().state;
                    CHECK_FALSE(tried.has(state));
                    tried.add(state);
                }
            }
        }
    }
}

TEST_CASE("chooser: reset() forgets servers that are gone") {
    for (const auto balance : {config::Balance::round_robin, config::Balance::least_connections,
                               config::Balance::hash}) {
        CAPTURE(static_cast<int>(balance));
        const Servers servers({1, 1, 1}, balance);
        Chooser chooser = servers.chooser();
        chooser.reset({servers.list[2]});
        for (std::uint64_t key = 0; key < 10; ++key) {
            CHECK(chooser.choose(key, kNow, {}) == 0);
            CHECK(chooser.choose({}, kNow, {}) == 0);
        }
        chooser.reset({});
        CHECK_FALSE(chooser.choose(7, kNow, {}));
        CHECK_FALSE(chooser.choose({}, kNow, {}));
    }
}

}  // namespace tidegate::upstream::chooser_test
