#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "app/connection_limit.hpp"

using namespace tidegate;
using app::ConnectionLimit;
using telemetry::ConnectionRefusal;

namespace {

using Seats = std::vector<ConnectionLimit::Seat>;

std::optional<IpAddress> ip(const std::string& text) {
    const auto parsed = parse_ip(text);
    REQUIRE(parsed);
    return parsed;
}

config::Connections bounds(std::size_t max, std::size_t per_ip) {
    return {.max = max, .per_ip = per_ip};
}

// The text of whose connections those of `peer` are counted with; "-": nobody's.
std::string holder(const std::string& peer, const identity::ClientIpSettings& settings = {}) {
    const auto address = ip(peer);
    const auto found = app::seat_holder({address, settings.trusts(*address)}, settings);
    return found ? found->to_string() : "-";
}

}  // namespace

TEST_CASE("connection_limit: one more than there are for an address is refused, others are not") {
    ConnectionLimit all;
    Seats taken;
    for (int i = 0; i < 3; ++i) {
        auto seat = all.take(ip("203.0.113.1"), bounds(100, 3));
        REQUIRE(seat.has_value());
        taken.push_back(std::move(*seat));
    }
    const auto refused = all.take(ip("203.0.113.1"), bounds(100, 3));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error() == ConnectionRefusal::per_ip);
    CHECK(all.take(ip("203.0.113.2"), bounds(100, 3)).has_value());
    CHECK(all.taken() == 3);
}

TEST_CASE("connection_limit: one more than there are in all is refused, whoever comes") {
    ConnectionLimit all;
    const auto first = all.take(ip("203.0.113.1"), bounds(2, 2));
    const auto second = all.take(std::nullopt, bounds(2, 2));
    REQUIRE(first.has_value());
    REQUIRE(second.has_value());
    for (const auto& who : {ip("203.0.113.1"), ip("203.0.113.9"), std::optional<IpAddress>{}}) {
        const auto refused = all.take(who, bounds(2, 2));
        REQUIRE_FALSE(refused.has_value());
        CHECK(refused.error() == ConnectionRefusal::max);
    }
}

TEST_CASE("connection_limit: what the process can hold is a bound above all others") {
    ConnectionLimit all(1);
    const auto first = all.take(std::nullopt, bounds(2, 2));
    REQUIRE(first.has_value());
    CHECK(all.take(std::nullopt, bounds(2, 2)).error() == ConnectionRefusal::max);
}

TEST_CASE("connection_limit: a seat comes back once, however often it was moved") {
    ConnectionLimit all;
    const auto who = ip("203.0.113.1");
    {
        auto seat = all.take(who, bounds(10, 1));
        REQUIRE(seat.has_value());
        const ConnectionLimit::Seat moved(std::move(*seat));
        CHECK_FALSE(all.take(who, bounds(10, 1)).has_value());
        CHECK(all.taken() == 1);
    }
    CHECK(all.taken() == 0);
    CHECK(all.take(who, bounds(10, 1)).has_value());
}

TEST_CASE("connection_limit: a refusal takes nothing") {
    ConnectionLimit all;
    const auto who = ip("203.0.113.1");
    const auto seat = all.take(who, bounds(2, 1));
    for (int i = 0; i < 10; ++i) CHECK_FALSE(all.take(who, bounds(2, 1)).has_value());
    CHECK(all.taken() == 1);
    CHECK(all.take(ip("203.0.113.2"), bounds(2, 1)).has_value());
}

TEST_CASE("connection_limit: only addresses that are connected are remembered") {
    ConnectionLimit all;
    const auto limits = bounds(100'000, 4);
    Seats taken;
    for (std::uint32_t i = 0; i < 10'000; ++i) {
        IpAddress who;
        who.bytes = {10, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)};
        auto seat = all.take(who, limits);
        REQUIRE(seat.has_value());
        taken.push_back(std::move(*seat));
    }
    CHECK(all.holders() == 10'000);
    taken.clear();
    CHECK(all.holders() == 0);
    CHECK(all.taken() == 0);
}

TEST_CASE("connection_limit: without a bound for an address none is remembered") {
    ConnectionLimit all;
    Seats taken;
    for (int i = 0; i < 50; ++i) {
        auto seat = all.take(ip("203.0.113.1"), bounds(50, 0));
        REQUIRE(seat.has_value());
        taken.push_back(std::move(*seat));
    }
    CHECK(all.holders() == 0);
    CHECK(all.take(ip("203.0.113.1"), bounds(50, 0)).error() == ConnectionRefusal::max);
}

TEST_CASE("connection_limit: a bound that is lowered lets nobody in until enough have left") {
    ConnectionLimit all;
    const auto who = ip("203.0.113.1");
    Seats taken;
    for (int i = 0; i < 4; ++i) taken.push_back(std::move(*all.take(who, bounds(10, 4))));
    while (taken.size() > 2) {
        CHECK_FALSE(all.take(who, bounds(10, 2)).has_value());
        taken.pop_back();
    }
    CHECK_FALSE(all.take(who, bounds(10, 2)).has_value());
    taken.pop_back();
    CHECK(all.take(who, bounds(10, 2)).has_value());
}

TEST_CASE("connection_limit: threads that take and leave at once never hold more, and lose none") {
    ConnectionLimit all;
    constexpr std::size_t kMost = 3;
    std::atomic<std::size_t> held{0};
    std::atomic<std::size_t> most{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            IpAddress who;
            who.bytes = {203, 0, 113, 1};
            for (int i = 0; i < 20'000; ++i) {
                const auto seat = all.take(who, bounds(1'000, kMost));
                if (!seat) continue;
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
    CHECK(all.holders() == 0);
}

TEST_CASE("connection_limit: IPv6 is counted by prefix, IPv4 as it is, mapped IPv4 as IPv4") {
    CHECK(holder("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::");
    CHECK(holder("203.0.113.7") == "203.0.113.7");
    CHECK(holder("::ffff:203.0.113.7") == "203.0.113.7");
    identity::ClientIpSettings settings;
    settings.ipv6_prefixes = {128};
    CHECK(holder("2001:db8::6", settings) == "2001:db8::6");
}

TEST_CASE(
    "connection_limit: of several prefixes the widest counts, as its bound is reached first") {
    identity::ClientIpSettings settings;
    settings.ipv6_prefixes = {64, 48, 56};
    CHECK(holder("2001:db8:1:2:3:4:5:6", settings) == "2001:db8:1::");
}

TEST_CASE("connection_limit: who speaks for others is counted with nobody") {
    identity::ClientIpSettings settings;
    settings.trusted_proxies = {*parse_network("10.0.0.0/8")};
    CHECK(holder("10.1.2.3", settings) == "-");
    CHECK(holder("11.1.2.3", settings) == "11.1.2.3");
    CHECK_FALSE(app::seat_holder({std::nullopt, false}, settings));  // a Unix socket's
    CHECK_FALSE(app::seat_holder({std::nullopt, true}, settings));
}
