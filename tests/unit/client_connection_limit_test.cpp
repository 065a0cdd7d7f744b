#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "client/connection_limit.hpp"
#include "failing_memory.hpp"

namespace tidegate::client_connection_limit_test {

using namespace std::chrono_literals;
using client::ConnectionLimit;
using client::ConnectionRate;
using client::ConnectionRefusal;
using Slots = std::vector<ConnectionLimit::Slot>;

namespace {

std::optional<IpAddress> ip(const std::string& text) {
    const auto parsed = parse_ip(text);
    REQUIRE(parsed);
    return parsed;
}

config::Connections bounds(std::size_t max, std::size_t per_ip) {
    return {.max = max, .per_ip = per_ip};
}

// The address that connections of `peer` are counted for; "-": none.
std::string counted(const std::string& peer, const identity::ClientIpSettings& settings = {}) {
    const auto address = ip(peer);
    const auto found = client::counted_address({address, settings.trusts(*address)}, settings);
    return found ? found->to_string() : "-";
}

IpAddress numbered(std::uint32_t number) {
    IpAddress address;
    address.bytes = {10, static_cast<std::uint8_t>(number >> 16),
                     static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)};
    return address;
}

// How many of `tries` connections at once are admitted.
int admitted(ConnectionRate& rate, const IpAddress& address, std::uint32_t per_second,
             SteadyTime now, int tries = 100) {
    int sum = 0;
    for (int i = 0; i < tries; ++i) sum += rate.admit(address, per_second, now) ? 1 : 0;
    return sum;
}

const SteadyTime kStart{1h};

}  // namespace

TEST_CASE("connection_limit: an address at its bound is refused, others are not") {
    ConnectionLimit all;
    Slots taken;
    for (int i = 0; i < 3; ++i) {
        auto slot = all.take(ip("203.0.113.1"), bounds(100, 3));
        REQUIRE(slot.has_value());
        taken.push_back(std::move(*slot));
    }
    const auto refused = all.take(ip("203.0.113.1"), bounds(100, 3));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error() == ConnectionRefusal::per_ip);
    CHECK(all.take(ip("203.0.113.2"), bounds(100, 3)).has_value());
    CHECK(all.taken() == 3);
}

TEST_CASE("connection_limit: one more than the bound in all is refused, of any address") {
    ConnectionLimit all;
    const auto first = all.take(ip("203.0.113.1"), bounds(2, 2));
    const auto second = all.take(std::nullopt, bounds(2, 2));
    REQUIRE(first.has_value());
    REQUIRE(second.has_value());
    for (const auto& address : {ip("203.0.113.1"), ip("203.0.113.9"), std::optional<IpAddress>{}}) {
        const auto refused = all.take(address, bounds(2, 2));
        REQUIRE_FALSE(refused.has_value());
        CHECK(refused.error() == ConnectionRefusal::max);
    }
}

TEST_CASE("connection_limit: the bound of the process comes before that of the configuration") {
    ConnectionLimit all(1);
    const auto first = all.take(std::nullopt, bounds(2, 2));
    REQUIRE(first.has_value());
    CHECK(all.take(std::nullopt, bounds(2, 2)).error() == ConnectionRefusal::max);
}

TEST_CASE("connection_limit: a slot comes back once, however often it was moved") {
    ConnectionLimit all;
    const auto address = ip("203.0.113.1");
    {
        auto slot = all.take(address, bounds(10, 1));
        REQUIRE(slot.has_value());
        const ConnectionLimit::Slot moved(std::move(*slot));
        CHECK_FALSE(all.take(address, bounds(10, 1)).has_value());
        CHECK(all.taken() == 1);
    }
    CHECK(all.taken() == 0);
    CHECK(all.take(address, bounds(10, 1)).has_value());
}

TEST_CASE("connection_limit: a connection for which there is no memory counts nowhere") {
    ConnectionLimit all;
    const auto address = ip("203.0.113.1");
    const auto check = [&] {
        CHECK(all.taken() == 0);
        CHECK(all.addresses() == 0);
    };
    const int failed = test::fail_each_allocation(
        [&] { static_cast<void>(all.take(address, bounds(10, 1))); }, check);
    CHECK(failed > 0);
    check();
}

TEST_CASE("connection_limit: a refusal takes nothing") {
    ConnectionLimit all;
    const auto address = ip("203.0.113.1");
    const auto slot = all.take(address, bounds(2, 1));
    for (int i = 0; i < 10; ++i) CHECK_FALSE(all.take(address, bounds(2, 1)).has_value());
    CHECK(all.taken() == 1);
    CHECK(all.take(ip("203.0.113.2"), bounds(2, 1)).has_value());
}

TEST_CASE("connection_limit: an address that is known later counts from then on") {
    ConnectionLimit all;
    const auto address = ip("203.0.113.1");
    auto early = all.take(std::nullopt, bounds(100, 2));
    auto second = all.take(std::nullopt, bounds(100, 2));
    auto third = all.take(std::nullopt, bounds(100, 2));
    REQUIRE(early.has_value());
    REQUIRE(second.has_value());
    REQUIRE(third.has_value());
    {
        const auto slot = std::move(*early);
        REQUIRE(all.addresses() == 0);
    }
    CHECK(all.taken() == 2);
    CHECK(all.add_address(*second, address, bounds(100, 2)));
    CHECK(all.add_address(*third, address, bounds(100, 2)));
    CHECK(all.addresses() == 1);
    auto one_more = all.take(std::nullopt, bounds(100, 2));
    REQUIRE(one_more.has_value());
    CHECK_FALSE(all.add_address(*one_more, address, bounds(100, 2)));
    CHECK(all.take(address, bounds(100, 2)).error() == ConnectionRefusal::per_ip);
    // A refused connection counts for the whole until it goes, and never for its address.
    CHECK(all.taken() == 3);
    { const auto gone = std::move(*third); }
    CHECK(all.add_address(*one_more, address, bounds(100, 2)));
}

TEST_CASE("connection_limit: a quarter of the room is for those that cannot speak HTTP yet") {
    ConnectionLimit all(1'000);
    std::vector<ConnectionLimit::Unfinished> waiting;
    for (int i = 0; i < 4; ++i) {
        auto one = all.take_unfinished(bounds(16, 0));
        REQUIRE(one.has_value());
        waiting.push_back(std::move(*one));
    }
    CHECK_FALSE(all.take_unfinished(bounds(16, 0)).has_value());
    CHECK(all.unfinished() == 4);
    waiting.pop_back();
    CHECK(all.take_unfinished(bounds(16, 0)).has_value());
    CHECK(all.unfinished() == 3);
    waiting.clear();
    CHECK(all.unfinished() == 0);
    // However little room there is, one may ask.
    CHECK(all.take_unfinished(bounds(1, 0)).has_value());
    ConnectionLimit few(8);
    const auto first = few.take_unfinished(bounds(100, 0));
    const auto second = few.take_unfinished(bounds(100, 0));
    CHECK(second.has_value());
    CHECK_FALSE(few.take_unfinished(bounds(100, 0)).has_value());
}

TEST_CASE("connection_limit: the table holds only addresses that are connected") {
    ConnectionLimit all;
    const auto limits = bounds(100'000, 4);
    Slots taken;
    for (std::uint32_t i = 0; i < 10'000; ++i) {
        IpAddress address;
        address.bytes = {10, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)};
        auto slot = all.take(address, limits);
        REQUIRE(slot.has_value());
        taken.push_back(std::move(*slot));
    }
    CHECK(all.addresses() == 10'000);
    taken.clear();
    CHECK(all.addresses() == 0);
    CHECK(all.taken() == 0);
}

TEST_CASE("connection_limit: without a bound for each address the table stays empty") {
    ConnectionLimit all;
    Slots taken;
    for (int i = 0; i < 50; ++i) {
        auto slot = all.take(ip("203.0.113.1"), bounds(50, 0));
        REQUIRE(slot.has_value());
        taken.push_back(std::move(*slot));
    }
    CHECK(all.addresses() == 0);
    CHECK(all.take(ip("203.0.113.1"), bounds(50, 0)).error() == ConnectionRefusal::max);
}

TEST_CASE("connection_limit: a lowered bound admits no connection until enough are closed") {
    ConnectionLimit all;
    const auto address = ip("203.0.113.1");
    Slots taken;
    for (int i = 0; i < 4; ++i) taken.push_back(std::move(*all.take(address, bounds(10, 4))));
    while (taken.size() > 2) {
        CHECK_FALSE(all.take(address, bounds(10, 2)).has_value());
        taken.pop_back();
    }
    CHECK_FALSE(all.take(address, bounds(10, 2)).has_value());
    taken.pop_back();
    CHECK(all.take(address, bounds(10, 2)).has_value());
}

TEST_CASE("connection_limit: threads that take and give back at once never exceed the bound") {
    ConnectionLimit all;
    constexpr std::size_t kMost = 3;
    std::atomic<std::size_t> held{0};
    std::atomic<std::size_t> most{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            IpAddress address;
            address.bytes = {203, 0, 113, 1};
            for (int i = 0; i < 20'000; ++i) {
                const auto slot = all.take(address, bounds(1'000, kMost));
                if (!slot) continue;
                const std::size_t now = ++held;
                for (std::size_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);)
                    ;
                --held;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(most >= 1);
    CHECK(most <= kMost);
    CHECK(all.taken() == 0);
    CHECK(all.addresses() == 0);
}

TEST_CASE("connection_limit: IPv6 is counted by prefix, IPv4 as it is, mapped IPv4 as IPv4") {
    CHECK(counted("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::");
    CHECK(counted("203.0.113.7") == "203.0.113.7");
    CHECK(counted("::ffff:203.0.113.7") == "203.0.113.7");
    identity::ClientIpSettings settings;
    settings.prefixes.ipv6 = {128};
    CHECK(counted("2001:db8::6", settings) == "2001:db8::6");
}

TEST_CASE(
    "connection_limit: of several prefixes the widest counts, as its bound is reached first") {
    identity::ClientIpSettings settings;
    settings.prefixes.ipv4 = {32, 24};
    CHECK(counted("203.0.113.7", settings) == "203.0.113.0");
    CHECK(counted("::ffff:203.0.113.7", settings) == "203.0.113.0");
    settings.prefixes.ipv6 = {64, 48, 56};
    CHECK(counted("2001:db8:1:2:3:4:5:6", settings) == "2001:db8:1::");
}

TEST_CASE("connection_limit: the connections of a trusted proxy are counted for no address") {
    identity::ClientIpSettings settings;
    settings.trusted_proxies = {*parse_network("10.0.0.0/8")};
    CHECK(counted("10.1.2.3", settings) == "-");
    CHECK(counted("11.1.2.3", settings) == "11.1.2.3");
    CHECK_FALSE(client::counted_address({std::nullopt, false}, settings));  // a Unix socket's
    CHECK_FALSE(client::counted_address({std::nullopt, true}, settings));
}

TEST_CASE("connection_rate: an address opens those of one second at once, then at the rate") {
    ConnectionRate rate;
    CHECK(admitted(rate, numbered(1), 20, kStart) == 20);
    CHECK(admitted(rate, numbered(1), 20, kStart + 49ms) == 0);
    CHECK(admitted(rate, numbered(1), 20, kStart + 50ms) == 1);
    CHECK(admitted(rate, numbered(1), 20, kStart + 550ms) == 10);
    CHECK(admitted(rate, numbered(1), 20, kStart + 1h) == 20);
}

TEST_CASE("connection_rate: a refused connection takes nothing, however many are tried") {
    ConnectionRate rate;
    CHECK(admitted(rate, numbered(1), 1, kStart, 10'000) == 1);
    CHECK(admitted(rate, numbered(1), 1, kStart + 999ms, 10'000) == 0);
    CHECK(admitted(rate, numbered(1), 1, kStart + 1s) == 1);
}

TEST_CASE("connection_rate: addresses do not share a bucket") {
    ConnectionRate rate;
    CHECK(admitted(rate, numbered(1), 5, kStart) == 5);
    CHECK(admitted(rate, numbered(2), 5, kStart) == 5);
    IpAddress v6 = numbered(1);
    v6.v4 = false;
    v6.bytes[15] = 1;
    CHECK(admitted(rate, v6, 5, kStart) == 5);
}

TEST_CASE("connection_rate: another rate holds from the next connection on") {
    ConnectionRate rate;
    CHECK(admitted(rate, numbered(1), 10, kStart) == 10);
    CHECK(admitted(rate, numbered(1), 1'000, kStart + 10ms) == 10);
    CHECK(admitted(rate, numbered(1), 1, kStart + 1s) == 0);
    CHECK(admitted(rate, numbered(1), 1, kStart + 1'010ms) == 1);
    CHECK(admitted(rate, numbered(2), UINT32_MAX, kStart, 1'000) == 1'000);
}

TEST_CASE("connection_rate: a flood of addresses that pays no second visit frees no heavy one") {
    ConnectionRate rate;
    const IpAddress heavy = numbered(0xFFFFFF);
    REQUIRE(admitted(rate, heavy, 20, kStart) == 20);
    // Ten times what there is room for, one connection each: the emptiest bucket stays.
    for (std::uint32_t i = 0; i < 10 * ConnectionRate::kAddresses; ++i) {
        rate.admit(numbered(i), 20, kStart);
    }
    CHECK(admitted(rate, heavy, 20, kStart) == 0);
}

}  // namespace tidegate::client_connection_limit_test
