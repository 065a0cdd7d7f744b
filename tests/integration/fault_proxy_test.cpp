// The network that the fault matrix breaks: each fault does to connections what it states.
#include "fault_proxy.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "integration/socket.hpp"

namespace tidegate::test::fault_proxy_test {

namespace {

// Both ends of a connection through the proxy.
struct Through {
    explicit Through(const FaultProxy& proxy, const Socket& listener)
        : near(Socket::connect(proxy.port())) {
        auto accepted = listener.accept(kPatience);
        REQUIRE(accepted.has_value());
        far = std::move(*accepted);
    }

    Socket near;
    Socket far;
};

std::string received(Socket& socket, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
        const std::string piece = socket.receive();
        if (piece.empty()) break;
        text += piece;
    }
    return text;
}

bool is_silent(Socket& socket) {
    try {
        socket.receive(Clock::now() + milliseconds{50});
        return false;
    } catch (const std::exception&) {
        return true;
    }
}

}  // namespace

TEST_CASE("fault proxy: bytes pass both ways, and so does the end") {
    const Socket listener = Socket::listen();
    const FaultProxy proxy(listener.port());
    Through through(proxy, listener);
    const std::string many(3'000'000, 'x');
    std::thread sender([&] { CHECK(through.near.send(many)); });
    CHECK(received(through.far, many.size()) == many);
    sender.join();
    CHECK(through.far.send("back"));
    CHECK(received(through.near, 4) == "back");
    through.far.close();
    CHECK(through.near.receive().empty());
}

TEST_CASE("fault proxy: cut resets and refuses, until it is healed") {
    const Socket listener = Socket::listen();
    FaultProxy proxy(listener.port());
    Through through(proxy, listener);
    proxy.cut();
    CHECK(through.near.receive().empty());
    CHECK(through.near.was_reset());
    CHECK(through.far.receive().empty());
    CHECK_FALSE(Socket::try_connect(proxy.port()).has_value());
    proxy.heal();
    Through again(proxy, listener);
    CHECK(again.near.send("a"));
    CHECK(received(again.far, 1) == "a");
}

TEST_CASE("fault proxy: swallowed bytes arrive in order when it is healed") {
    const Socket listener = Socket::listen();
    FaultProxy proxy(listener.port());
    Through through(proxy, listener);
    proxy.swallow();
    CHECK(through.near.send("a"));
    CHECK(through.far.send("x"));
    CHECK(is_silent(through.far));
    CHECK(is_silent(through.near));
    CHECK(through.near.send("b"));
    auto late = Socket::try_connect(proxy.port());
    REQUIRE(late.has_value());
    proxy.heal();
    CHECK(received(through.far, 2) == "ab");
    CHECK(received(through.near, 1) == "x");
}

TEST_CASE(
    "fault proxy: delayed bytes arrive later, both ways, and later bytes do not overtake them") {
    const Socket listener = Socket::listen();
    FaultProxy proxy(listener.port());
    Through through(proxy, listener);
    proxy.delay(milliseconds{80});
    const auto begun = Clock::now();
    CHECK(through.near.send("a"));
    CHECK(received(through.far, 1) == "a");
    CHECK(through.far.send("b"));
    proxy.heal();
    CHECK(through.far.send("c"));
    CHECK(received(through.near, 2) == "bc");
    CHECK(Clock::now() - begun >= milliseconds{80});
}

TEST_CASE("fault proxy: an address may lead elsewhere") {
    const Socket one = Socket::listen();
    const Socket other = Socket::listen();
    FaultProxy proxy(one.port());
    Through through(proxy, one);
    proxy.lead_to(other.port());
    Through next(proxy, other);
    CHECK(next.near.send("new"));
    CHECK(through.near.send("old"));
    CHECK(received(next.far, 3) == "new");
    CHECK(received(through.far, 3) == "old");
}

}  // namespace tidegate::test::fault_proxy_test
