// Which server of an upstream gets a request, as the whole program chooses.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/server_metric.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::balance_test {

namespace {

std::string weighted(const Upstream& upstream, int weight) {
    return "{url: \"" + upstream.url() + "\", weight: " + std::to_string(weight) + "}";
}

// Keeps each request until the test has seen enough.
class Holding {
  public:
    Upstream::Handler handler() {
        return [this](Conversation& conversation) {
            Message request;
            while (conversation.read(request)) {
                await_quietly([&] { return released_.load(); });
                if (!conversation.send(ok())) return;
            }
        };
    }
    void release() { released_ = true; }

  private:
    std::atomic<bool> released_{false};
};

std::string tenant(int number) {
    return "X-Tenant: " + std::to_string(number) + "\r\n";
}

// A server's requests in flight count when a hash chooses; the client has its answer a moment
// before the request ends.
void await_idle(const Tidegate& tidegate) {
    await_quietly([&] { return tidegate.metric_sum("tidegate_upstream_server_active") == 0; });
}

// Which server answers each of `count` tenants.
std::vector<std::string> servers_of_tenants(const Tidegate& tidegate, int count) {
    std::vector<std::string> servers;
    for (int i = 0; i < count; ++i) {
        await_idle(tidegate);
        const auto answer = tidegate.get("/", tenant(i));
        CHECK(answer.status() == 200);
        servers.push_back(answer.body);
    }
    return servers;
}

}  // namespace

TEST_CASE("balance: servers take turns by weight, evenly spread") {
    std::string order;
    const auto named = [&](char name) {  // one thread, one request at a time
        return Upstream::answering([&order, name](const Message&) {
            order += name;
            return ok();
        });
    };
    const Upstream a(named('a'));
    const Upstream b(named('b'));
    const Upstream c(named('c'));
    const Tidegate tidegate("threads: 1\n" +
                            unlimited({weighted(a, 2), weighted(b, 1), weighted(c, 1)}));
    auto client = tidegate.client();
    for (int i = 0; i < 40; ++i) CHECK(client.get().status() == 200);
    CHECK(a.requests() == 20);
    CHECK(b.requests() == 10);
    CHECK(c.requests() == 10);
    CHECK(order.find("aa") == std::string::npos);
}

TEST_CASE("balance: the weights hold for all threads together") {
    const Upstream large(ok());
    const Upstream small(ok());
    const Tidegate tidegate("threads: 3\n" + unlimited({weighted(large, 3), weighted(small, 1)}));
    for (int i = 0; i < 120; ++i) CHECK(tidegate.get().status() == 200);
    // Each thread may be within a round.
    CHECK(std::abs(large.requests() - 90) <= 6);
    CHECK(large.requests() + small.requests() == 120);
}

TEST_CASE(
    "balance: least connections sends a slow server nothing beside the requests that it has") {
    Holding held;
    const Upstream slow(held.handler());
    const Upstream quick(ok("quick"));
    const Tidegate tidegate(unlimited({slow.url(), quick.url()}, "balance: least_connections"));
    std::list<RawClient> waiting;
    int answered = 0;
    for (int i = 0; i < 60; ++i) {
        const int before = quick.requests();
        auto client = tidegate.client();
        client.send(get_request("/"));
        await_quietly([&] { return slow.requests() + quick.requests() == i + 1; });
        if (quick.requests() > before) {
            if (client.response().body == "quick") ++answered;
        } else {
            waiting.push_back(std::move(client));
        }
    }
    // Round robin would have sent it thirty. An answer may be there before its request has ended.
    CHECK(slow.requests() >= 1);
    CHECK(slow.requests() <= 5);
    CHECK(answered == quick.requests());
    held.release();
    for (RawClient& client : waiting) CHECK(client.response().status() == 200);
}

TEST_CASE("balance: least connections counts the requests of all threads, by weight") {
    Holding held;
    const Upstream large(held.handler());
    const Upstream small(held.handler());
    const Tidegate tidegate("threads: 3\n" + unlimited({weighted(large, 3), weighted(small, 1)},
                                                       "balance: least_connections"));
    std::vector<RawClient> clients;
    for (int i = 0; i < 12; ++i) {
        clients.push_back(tidegate.client());
        clients.back().send(get_request("/"));
        await_quietly([&] { return large.requests() + small.requests() == i + 1; });
    }
    CHECK(large.requests() == 9);
    CHECK(small.requests() == 3);
    CHECK(server_metric(tidegate, "active", large.port()) == 9);
    CHECK(server_metric(tidegate, "active", small.port()) == 3);
    held.release();
    for (RawClient& client : clients) CHECK(client.response().status() == 200);
    CHECK_SOON(tidegate.metric_sum("tidegate_upstream_server_active") == 0);
}

TEST_CASE("balance: a hash sticks to its server, from any thread, and keys spread over all") {
    const Upstream a(ok("a"));
    const Upstream b(ok("b"));
    const Upstream c(ok("c"));
    const Tidegate tidegate(
        unlimited({a.url(), b.url(), c.url()}, "balance: {hash: \"header:x-tenant\"}"));
    constexpr int kTenants = 60;
    const auto first = servers_of_tenants(tidegate, kTenants);
    CHECK(std::set<std::string>(first.begin(), first.end()).size() == 3);
    CHECK(servers_of_tenants(tidegate, kTenants) == first);
    // Without a value, requests take turns.
    const int before = a.requests();
    for (int i = 0; i < 30; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(a.requests() - before >= 8);
    CHECK(a.requests() - before <= 12);
}

TEST_CASE("balance: when a server leaves, the keys of the others stay where they are") {
    const Upstream a(ok("a"));
    const Upstream b(ok("b"));
    std::optional<Upstream> c;
    c.emplace(ok("c"));
    const Tidegate tidegate(
        unlimited({a.url(), b.url(), c->url()}, "balance: {hash: \"header:x-tenant\"}"));
    constexpr int kTenants = 40;
    const auto before = servers_of_tenants(tidegate, kTenants);
    c.reset();
    const auto after = servers_of_tenants(tidegate, kTenants);
    for (std::size_t i = 0; i < kTenants; ++i) {
        CAPTURE(i);
        if (before[i] == "c") {
            CHECK(after[i] != "c");
        } else {
            CHECK(after[i] == before[i]);
        }
    }
}

TEST_CASE("balance: a key with too many requests in flight is passed on to other servers") {
    Holding held;
    std::vector<std::unique_ptr<Upstream>> servers;
    std::vector<std::string> urls;
    for (int i = 0; i < 3; ++i) {
        servers.push_back(std::make_unique<Upstream>(held.handler()));
        urls.push_back(servers.back()->url());
    }
    const Tidegate tidegate(unlimited(urls, "balance: {hash: \"header:x-tenant\"}"));
    const auto total = [&] {
        int sum = 0;
        for (const auto& server : servers) sum += server->requests();
        return sum;
    };
    std::vector<RawClient> clients;
    for (int i = 0; i < 12; ++i) {
        clients.push_back(tidegate.client());
        clients.back().send(get_request("/", tenant(1)));
        await_quietly([&] { return total() == i + 1; });
    }
    CHECK(total() == 12);
    // 1.25 times the mean.
    for (const auto& server : servers) CHECK(server->requests() <= 5);
    held.release();
    for (RawClient& client : clients) CHECK(client.response().status() == 200);
}

}  // namespace tidegate::test::balance_test
