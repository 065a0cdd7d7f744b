#include <doctest/doctest.h>

#include "proxy/exchange.hpp"

namespace tidegate::proxy::held_bodies_test {
namespace {

IpAddress address(const char* text) {
    return *parse_ip(text);
}

}  // namespace

TEST_CASE("held bodies: one client may fill half of the room, and others still get theirs") {
    HeldBodies bodies;
    bodies.set_room(1600);
    HeldBodies::Share greedy;
    CHECK(greedy.take(bodies, address("192.0.2.1"), 800));
    CHECK_FALSE(greedy.take(bodies, address("192.0.2.1"), 1));
    HeldBodies::Share other;
    CHECK(other.take(bodies, address("192.0.2.2"), 100));
    CHECK_FALSE(other.take(bodies, address("192.0.2.2"), 1));
    HeldBodies::Share third;
    CHECK(third.take(bodies, address("192.0.2.3"), 60));
    CHECK(third.take(bodies, address("192.0.2.3"), 40));
    CHECK(bodies.held() == 1000);
}

TEST_CASE("held bodies: never more than the room, and what is given back is free again") {
    HeldBodies bodies;
    bodies.set_room(160);
    {
        HeldBodies::Share share;
        CHECK(share.take(bodies, address("192.0.2.1"), 80));
        HeldBodies::Share refused;
        CHECK_FALSE(refused.take(bodies, address("192.0.2.2"), 81));
        share.give_back();
        CHECK(bodies.held() == 0);
        share.give_back();
        CHECK(share.take(bodies, address("192.0.2.1"), 80));
    }
    CHECK(bodies.held() == 0);
    HeldBodies::Share none;
    bodies.set_room(0);
    CHECK(none.take(bodies, address("192.0.2.1"), 0));
    CHECK_FALSE(none.take(bodies, address("192.0.2.1"), 1));
}

TEST_CASE(
    "held bodies: a client that sends nothing holds nothing, whatever becomes of its others") {
    HeldBodies bodies;
    bodies.set_room(160);
    HeldBodies::Share empty;
    CHECK(empty.take(bodies, address("192.0.2.1"), 0));
    CHECK(bodies.clients() == 0);
    SUBCASE("another request of the client that ends") {
        HeldBodies::Share other;
        CHECK(other.take(bodies, address("192.0.2.1"), 0));
        CHECK(other.take(bodies, address("192.0.2.1"), 10));
        other.give_back();
    }
    SUBCASE("another request of the client that finds no room") {
        HeldBodies::Share other;
        CHECK_FALSE(other.take(bodies, address("192.0.2.1"), 161));
    }
    CHECK(bodies.clients() == 0);
    empty.give_back();
    CHECK(bodies.held() == 0);
    CHECK(empty.take(bodies, address("192.0.2.2"), 20));
    CHECK(bodies.clients() == 1);
}

}  // namespace tidegate::proxy::held_bodies_test
