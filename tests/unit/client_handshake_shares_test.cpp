#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "client/handshake_shares.hpp"

namespace tidegate::client_handshake_shares_test {

using client::HandshakeShares;

namespace {

std::optional<IpAddress> ip(int last) {
    return parse_ip("192.0.2." + std::to_string(last));
}

struct World {
    HandshakeShares::Place* begin(const std::optional<IpAddress>& address) {
        places.push_back(std::make_unique<HandshakeShares::Place>(shares, address));
        return places.back().get();
    }
    void begin(const std::optional<IpAddress>& address, int count) {
        for (int i = 0; i < count; ++i) begin(address);
    }

    HandshakeShares shares;
    std::vector<std::unique_ptr<HandshakeShares::Place>> places;
};

}  // namespace

TEST_CASE("handshake_shares: the address with most gives up its oldest for one that has fewer") {
    World world;
    world.begin(ip(2), 3);
    HandshakeShares::Place* const oldest = world.begin(ip(1));
    HandshakeShares::Place* const second = world.begin(ip(1));
    world.begin(ip(1), 3);
    CHECK(world.shares.find_for(ip(3)) == oldest);
    CHECK(world.shares.find_for(ip(2)) == oldest);
    CHECK(world.shares.find_for(std::nullopt) == oldest);
    oldest->leave();
    CHECK(world.shares.find_for(ip(3)) == second);
}

TEST_CASE("handshake_shares: addresses with as many, or one more, do not give way by turns") {
    World world;
    world.begin(ip(1), 3);
    world.begin(ip(2), 2);
    CHECK(world.shares.find_for(ip(1)) == nullptr);
    CHECK(world.shares.find_for(ip(2)) == nullptr);
    // An address does not lose its only one either.
    World many;
    for (int i = 1; i <= 9; ++i) many.begin(ip(i));
    CHECK(many.shares.find_for(ip(10)) == nullptr);
    CHECK(HandshakeShares().find_for(ip(1)) == nullptr);
}

TEST_CASE("handshake_shares: a newcomer gets room again and again, until all have as much") {
    World world;
    world.begin(ip(1), 100);
    int given = 0;
    while (HandshakeShares::Place* const place = world.shares.find_for(ip(2))) {
        place->leave();
        world.begin(ip(2));
        REQUIRE(++given <= 100);
    }
    CHECK(given == 50);
}

TEST_CASE("handshake_shares: what counts for no address is never given up") {
    World world;
    world.begin(std::nullopt, 10);
    CHECK(world.shares.find_for(ip(1)) == nullptr);
    world.begin(ip(2), 2);
    world.places.resize(11);  // the second of it is gone
    CHECK(world.shares.find_for(ip(1)) == nullptr);
}

TEST_CASE("handshake_shares: only addresses with handshakes take memory") {
    World world;
    for (int i = 0; i < 200; ++i) world.begin(ip(i), 2);
    CHECK(world.shares.addresses() == 200);
    world.places.clear();
    CHECK(world.shares.addresses() == 0);
}

}  // namespace tidegate::client_handshake_shares_test
