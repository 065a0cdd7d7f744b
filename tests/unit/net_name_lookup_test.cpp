#include <netinet/in.h>

#include <cstring>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "net/name_lookup.hpp"

namespace tidegate::net_name_lookup_test {

TEST_CASE("name_lookup: an address is its own answer, with the port asked for") {
    const NameLookup lookup("127.0.0.1", 8080);
    while (!lookup.done()) std::this_thread::yield();
    REQUIRE(lookup.endpoints().size() == 1);
    const auto& endpoint = lookup.endpoints().front();
    REQUIRE(endpoint.protocol().family() == AF_INET);
    sockaddr_in address{};
    REQUIRE(endpoint.size() == sizeof address);
    std::memcpy(&address, endpoint.data(), sizeof address);
    CHECK(ntohs(address.sin_port) == 8080);
    CHECK(ntohl(address.sin_addr.s_addr) == INADDR_LOOPBACK);
    CHECK(lookup.error().empty());
}

TEST_CASE("name_lookup: a malformed name has no endpoints, and a reason") {
    const NameLookup lookup(std::string(70, 'a'), 80);  // a label longer than DNS can ask for
    while (!lookup.done()) std::this_thread::yield();
    CHECK(lookup.endpoints().empty());
    CHECK_FALSE(lookup.error().empty());
}

TEST_CASE("name_lookup: a lookup without a waiter ends by itself") {
    for (int i = 0; i < 20; ++i) const NameLookup lookup("127.0.0.1", 80);
}

}  // namespace tidegate::net_name_lookup_test
