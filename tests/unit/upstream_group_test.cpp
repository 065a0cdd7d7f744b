#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "upstream/resolver_health_checks.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream::group_test {

using namespace std::chrono_literals;
using Texts = std::vector<std::string>;

namespace {

Texts addresses(const Group& group) {
    Texts all;
    for (const auto& server : group.servers()) all.push_back(server->address);
    return all;
}

std::shared_ptr<SharedServer> server_of(const Group& group, const std::string& address) {
    for (const auto& server : group.servers()) {
        if (server->address == address) return server;
    }
    FAIL("no server has the address " << address);
    return nullptr;
}

const ServerStatus& find(const UpstreamStatus& status, const std::string& address) {
    const auto found = std::find_if(status.servers.begin(), status.servers.end(),
                                    [&](const auto& one) { return one.server == address; });
    REQUIRE(found != status.servers.end());
    return *found;
}

}  // namespace

TEST_CASE("group: addresses and sockets are servers at once, names when they are resolved") {
    config::UpstreamServer socket;
    socket.address.unix_path = "/run/app.sock";
    Group group(upstream_of({server_at("192.0.2.1", 81), server_at("::1", 82), socket,
                             server_at("a.test", 83)}),
                1, nullptr);
    CHECK(addresses(group) == Texts{"192.0.2.1:81", "[::1]:82", "unix:/run/app.sock"});
    CHECK_FALSE(group.is_resolved());
    CHECK(group.is_resolved(0));
    CHECK_FALSE(group.is_resolved(3));
    CHECK(group.status().unresolved == Texts{"a.test:83"});
    group.resolved(3, {endpoint_at("192.0.2.3", 83)});
    CHECK(group.is_resolved());
    CHECK(group.status().unresolved.empty());
    CHECK(addresses(group).back() == "192.0.2.3:83");
}

TEST_CASE("group: each address of a name is a server of its own, named as configured") {
    Group group(upstream_of({server_at("a.test", 81, 3)}), 1, nullptr);
    CHECK(group.servers().empty());
    group.resolved(0, {endpoint_at("192.0.2.1", 81), endpoint_at("192.0.2.2", 81)});
    CHECK(addresses(group) == Texts{"192.0.2.1:81", "192.0.2.2:81"});
    for (const auto& server : group.servers()) {
        CHECK(server->name == "a.test:81");
        CHECK(server->authority == "a.test:81");
        CHECK(server->state.weight() == 3);
    }
}

TEST_CASE("group: an address that is gone drains, and the others stay what they were") {
    Group group(upstream_of({server_at("a.test", 81)}), 1, nullptr);
    group.resolved(0, {endpoint_at("192.0.2.1", 81), endpoint_at("192.0.2.2", 81)});
    const auto stays = server_of(group, "192.0.2.1:81");
    const auto goes = server_of(group, "192.0.2.2:81");
    group.resolved(0, {endpoint_at("192.0.2.1", 81), endpoint_at("192.0.2.3", 81)});
    CHECK(addresses(group) == Texts{"192.0.2.1:81", "192.0.2.3:81"});
    CHECK(server_of(group, "192.0.2.1:81") == stays);
    CHECK_FALSE(stays->state.is_draining());
    CHECK(goes->state.is_draining());
    CHECK_FALSE(server_of(group, "192.0.2.3:81")->state.is_draining());

    // An address that comes again begins anew: the one that drains may have requests.
    group.resolved(0, {endpoint_at("192.0.2.2", 81)});
    CHECK(server_of(group, "192.0.2.2:81") != goes);
    CHECK(goes->state.is_draining());
    CHECK_FALSE(server_of(group, "192.0.2.2:81")->state.is_draining());
}

TEST_CASE("group: a look-up that finds nothing keeps what the last one found") {
    Group group(upstream_of({server_at("a.test", 81)}), 1, nullptr);
    group.resolved(0, {endpoint_at("192.0.2.1", 81)});
    const auto server = server_of(group, "192.0.2.1:81");
    const std::uint64_t version = group.version();
    CHECK(group.status().names_failing == 0);
    group.resolved(0, {});
    CHECK(group.is_resolved());
    CHECK(group.status().names_failing == 1);
    CHECK(server_of(group, "192.0.2.1:81") == server);
    CHECK_FALSE(server->state.is_draining());
    CHECK(group.version() == version);
}

TEST_CASE("group: two names with one address are one server, as long as one leads there") {
    Group group(upstream_of({server_at("a.test", 81, 2), server_at("b.test", 81, 5)}), 1, nullptr);
    group.resolved(0, {endpoint_at("192.0.2.1", 81)});
    const std::uint64_t version = group.version();
    group.resolved(1, {endpoint_at("192.0.2.1", 81)});
    CHECK(addresses(group) == Texts{"192.0.2.1:81"});
    CHECK(group.version() == version);
    const auto server = server_of(group, "192.0.2.1:81");
    CHECK(server->state.weight() == 2);

    group.resolved(0, {endpoint_at("192.0.2.2", 81)});
    CHECK(addresses(group) == Texts{"192.0.2.2:81", "192.0.2.1:81"});
    CHECK(server_of(group, "192.0.2.1:81") == server);
    CHECK_FALSE(server->state.is_draining());
    group.resolved(1, {endpoint_at("192.0.2.2", 81)});
    CHECK(addresses(group) == Texts{"192.0.2.2:81"});
    CHECK(server->state.is_draining());
    // The port is a part of the address.
    group.resolved(1, {endpoint_at("192.0.2.2", 82)});
    CHECK(addresses(group) == Texts{"192.0.2.2:81", "192.0.2.2:82"});
}

TEST_CASE("group: the version changes when the servers do, and only then") {
    Group group(upstream_of({server_at("a.test", 81), server_at("192.0.2.9", 81)}), 1, nullptr);
    std::uint64_t version = group.version();
    const auto has_changed = [&] { return std::exchange(version, group.version()) != version; };
    group.resolved(0, {endpoint_at("192.0.2.1", 81), endpoint_at("192.0.2.2", 81)});
    CHECK(has_changed());
    group.resolved(0, {endpoint_at("192.0.2.1", 81), endpoint_at("192.0.2.2", 81)});
    CHECK_FALSE(has_changed());
    // Name servers rotate the order.
    group.resolved(0, {endpoint_at("192.0.2.2", 81), endpoint_at("192.0.2.1", 81)});
    CHECK_FALSE(has_changed());
    group.note_check(*group.servers()[0], "it answers 500");
    CHECK_FALSE(has_changed());
    group.resolved(0, {endpoint_at("192.0.2.2", 81)});
    CHECK(has_changed());
}

TEST_CASE("group: a group begins with the addresses that the one before it knew") {
    Group former(upstream_of({server_at("a.test", 81), server_at("b.test", 82)}), 1, nullptr);
    former.resolved(0, {endpoint_at("192.0.2.1", 81), endpoint_at("192.0.2.2", 81)});
    former.resolved(1, {endpoint_at("192.0.2.3", 82)});
    // In another place, beside a name that is new, and beside a port that is.
    Group next(upstream_of({server_at("c.test", 83), server_at("a.test", 81, 7),
                            server_at("b.test", 92), server_at("192.0.2.8", 81)}),
               1, &former);
    CHECK(addresses(next) == Texts{"192.0.2.1:81", "192.0.2.2:81", "192.0.2.8:81"});
    CHECK(next.status().unresolved == Texts{"c.test:83", "b.test:92"});
    CHECK(server_of(next, "192.0.2.1:81")->state.weight() == 7);
    CHECK(server_of(next, "192.0.2.1:81") != server_of(former, "192.0.2.1:81"));

    // It goes on by itself, and so does the former while requests have it.
    next.resolved(1, {endpoint_at("192.0.2.2", 81)});
    CHECK(addresses(next) == Texts{"192.0.2.2:81", "192.0.2.8:81"});
    CHECK(addresses(former).size() == 3);
    CHECK_FALSE(server_of(former, "192.0.2.1:81")->state.is_draining());
}

TEST_CASE("group: status() adds up what the workers count, and which servers get no requests") {
    config::Upstream settings = upstream_of(
        {server_at("192.0.2.1", 81), server_at("192.0.2.2", 81, 4), server_at("a.test", 81)});
    settings.health_check.emplace();
    settings.eject = config::Ejection{.failures = 2, .duration = 1h, .at_most_percent = 50};
    settings.max_connections = 3;
    Group group(settings, 2, nullptr);
    const auto first = server_of(group, "192.0.2.1:81");
    const auto second = server_of(group, "192.0.2.2:81");
    for (int i = 0; i < 5; ++i) first->counts[0].requests.add();
    first->counts[1].requests.add();
    first->counts[0].ended.add(2);
    first->counts[1].failures.add();
    REQUIRE(group.seats().try_take());
    UpstreamStatus status = group.status();
    CHECK(status.upstream == "api");
    CHECK(status.connections == 1);
    CHECK(status.connections_max == 3);
    CHECK(status.queued == 0);
    CHECK(status.unresolved == Texts{"a.test:81"});
    CHECK(find(status, "192.0.2.1:81").requests == 6);
    CHECK(find(status, "192.0.2.1:81").active == 4);
    CHECK(find(status, "192.0.2.1:81").failures == 1);
    CHECK_FALSE(find(status, "192.0.2.1:81").is_checked);
    CHECK(find(status, "192.0.2.2:81").configured == "192.0.2.2:81");
    CHECK(find(status, "192.0.2.2:81").weight == 4);
    CHECK(find(status, "192.0.2.2:81").requests == 0);
    for (const ServerStatus& server : status.servers) CHECK(server.health == ServerHealth::up);

    group.note_check(*first, "it answers 500");
    group.note_failure(*second, balance::ServerFailure::timeout);
    CHECK(find(group.status(), "192.0.2.2:81").health == ServerHealth::up);
    group.note_failure(*second, balance::ServerFailure::timeout);
    status = group.status();
    CHECK(find(status, "192.0.2.1:81").health == ServerHealth::unhealthy);
    CHECK(find(status, "192.0.2.1:81").is_checked);
    CHECK(find(status, "192.0.2.1:81").ejections == 0);
    CHECK(find(status, "192.0.2.2:81").health == ServerHealth::ejected);
    CHECK_FALSE(find(status, "192.0.2.2:81").is_checked);
    CHECK(find(status, "192.0.2.2:81").ejections == 1);
    group.seats().give_back();
    CHECK(group.status().connections == 0);
}

TEST_CASE("group: an answer ends a row of failures") {
    config::Upstream settings =
        upstream_of({server_at("192.0.2.1", 81), server_at("192.0.2.2", 81)});
    settings.eject = config::Ejection{.failures = 2, .duration = 1h, .at_most_percent = 50};
    Group group(settings, 1, nullptr);
    const auto server = group.servers()[0];
    for (int i = 0; i < 5; ++i) {
        group.note_failure(*server, balance::ServerFailure::broken);
        group.note_success(*server);
    }
    CHECK(group.status().servers[0].health == ServerHealth::up);
}

TEST_CASE("group: that this machine has no descriptor left is no fault of the server") {
    config::Upstream settings =
        upstream_of({server_at("192.0.2.1", 81), server_at("192.0.2.2", 81)});
    settings.eject = config::Ejection{.failures = 2, .duration = 1h, .at_most_percent = 50};
    Group group(settings, 1, nullptr);
    const auto server = group.servers()[0];
    for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
        group.note_failure(*server, balance::ServerFailure::connect, error);
        CHECK(server->state.rank(steady_now()) == balance::Rank::usable);
        CHECK(server->state.failures() == 0);
    }
    for (int i = 0; i < 2; ++i) {
        group.note_failure(*server, balance::ServerFailure::connect, ECONNREFUSED);
    }
    CHECK(group.status().servers[0].health == ServerHealth::ejected);
}

// Other threads read while the main thread resolves: what they hold stays valid.
TEST_CASE("group: any thread may take the servers while they change") {
    Group group(upstream_of({server_at("a.test", 81)}), 1, nullptr);
    group.resolved(0, {endpoint_at("192.0.2.1", 81)});
    std::atomic<bool> is_over{false};
    std::size_t wrong = 0;
    std::thread other([&] {
        std::uint64_t version = 0;
        while (!is_over) {
            wrong += group.version() < version ? 1 : 0;
            version = group.version();
            const Group::Servers servers = group.servers();
            wrong += servers.size() == 1 ? 0 : 1;
            for (const auto& server : servers) group.note_success(*server);
        }
    });
    for (int i = 0; i < 500; ++i) {
        group.resolved(0, {endpoint_at(i % 2 == 0 ? "192.0.2.2" : "192.0.2.1", 81)});
    }
    is_over = true;
    other.join();
    CHECK(wrong == 0);
}

TEST_CASE("group: a name is failing from a look-up without addresses to one with some") {
    Group group(upstream_of({server_at("a.test", 81), server_at("b.test", 82)}), 1, nullptr);
    CHECK(group.status().names_failing == 0);  // none has been looked up
    group.resolved(0, {});
    group.resolved(1, {});
    CHECK(group.status().names_failing == 2);
    group.resolved(1, {endpoint_at("192.0.2.1", 82)});
    CHECK(group.status().names_failing == 1);
    CHECK(group.status().unresolved == Texts{"a.test:81"});
}

TEST_CASE("group: names are tried once a look-up of each has ended, with addresses or in vain") {
    Group group(
        upstream_of({server_at("a.test", 81), server_at("192.0.2.9", 81), server_at("b.test", 81)}),
        1, nullptr);
    CHECK_FALSE(group.are_names_tried());
    group.resolved(0, {endpoint_at("192.0.2.1", 81)});
    CHECK_FALSE(group.are_names_tried());
    group.resolved(2, {});
    CHECK(group.are_names_tried());
    CHECK_FALSE(group.is_resolved());
    // What the configuration before knew needs no look-up.
    const Group next(upstream_of({server_at("a.test", 81)}), 1, &group);
    CHECK(next.are_names_tried());
    CHECK(Group(upstream_of({server_at("192.0.2.9", 81)}), 1, nullptr).are_names_tried());
}

TEST_CASE("group: addresses of one name know that they share it") {
    Group group(upstream_of({server_at("a.test", 81), server_at("192.0.2.9", 81)}), 1, nullptr);
    group.resolved(0, {endpoint_at("192.0.2.1", 81), endpoint_at("192.0.2.2", 81)});
    CHECK(server_of(group, "192.0.2.1:81")->state.shares_name());
    CHECK(server_of(group, "192.0.2.2:81")->state.shares_name());
    CHECK_FALSE(server_of(group, "192.0.2.9:81")->state.shares_name());
    group.resolved(0, {endpoint_at("192.0.2.1", 81)});
    CHECK_FALSE(server_of(group, "192.0.2.1:81")->state.shares_name());
}

TEST_CASE("resolver: looks names up, and leaves addresses alone") {
    asio::io_context io;
    const GroupPtr named =
        group_of(upstream_of({server_at("192.0.2.9", 81), server_at("localhost", 82)}));
    const auto resolver = std::make_shared<Resolver>(io.get_executor(), named);
    spawn_vital(io.get_executor(), Resolver::run(resolver));
    REQUIRE(runs_until(io, [&] { return named->is_resolved(); }));
    CHECK(named->servers().size() >= 2);
    CHECK(named->servers().back()->name == "localhost:82");
    resolver->stop();
    io.restart();
    io.run_for(5s);
    CHECK(io.stopped());  // nothing waits for the next look-up

    const GroupPtr unnamed = group_of(upstream_of({server_at("192.0.2.9", 81)}));
    const auto idle = std::make_shared<Resolver>(io.get_executor(), unnamed);
    spawn_vital(io.get_executor(), Resolver::run(idle));
    io.restart();
    io.run_for(5s);
    CHECK(io.stopped());  // it ends by itself
    CHECK(addresses(*unnamed) == Texts{"192.0.2.9:81"});
}

TEST_CASE("resolver: stop() does not wait for a look-up") {
    asio::io_context io;
    const GroupPtr group = group_of(upstream_of({server_at("localhost", 82)}));
    const auto resolver = std::make_shared<Resolver>(io.get_executor(), group);
    spawn_vital(io.get_executor(), Resolver::run(resolver));
    io.poll_one();
    resolver->stop();
    io.restart();
    io.run_for(5s);
    CHECK(io.stopped());
}

}  // namespace tidegate::upstream::group_test
