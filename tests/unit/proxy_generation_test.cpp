#include <memory>

#include <doctest/doctest.h>

#include "unit/proxy_world.hpp"

using namespace tidegate;
using namespace tidegate::proxy;

namespace {

std::string limited_to(const std::string& rate) {
    return "upstream: http://127.0.0.1:3000\nlimits: [" + rate + "]\n";
}

// What a reload does to a worker, but for its pools.
void reload(World& world, const std::string& yaml) {
    world.config = load(yaml);
    world.worker.generation = world.generation();
}

}  // namespace

TEST_CASE("generation: a request keeps the one it began with, the next has the new one") {
    World world(limited_to("5/min"));
    Request running(world, get());
    REQUIRE(running.walk() == Fault::none);
    reload(world, limited_to("7/min"));
    Request next(world, get());
    REQUIRE(next.walk() == Fault::none);
    CHECK(running.exchange.decision.items.at(0).limits()[0].quota == 5);
    CHECK(next.exchange.decision.items.at(0).limits()[0].quota == 7);
}

TEST_CASE("generation: a configuration goes with the last request that began with it") {
    World world(limited_to("5/min"));
    const std::weak_ptr<const config::Config> first = world.config;
    {
        Request running(world, get());
        REQUIRE(running.walk() == Fault::none);
        reload(world, limited_to("7/min"));
        CHECK_FALSE(first.expired());
    }
    CHECK(first.expired());
}

TEST_CASE("generation: an exchange that waits for its next request holds none") {
    World world(limited_to("5/min"));
    const std::weak_ptr<const config::Config> first = world.config;
    auto exchange = world.worker.exchanges.take();
    exchange->generation = world.worker.generation;
    world.worker.exchanges.give(std::move(exchange));
    reload(world, limited_to("7/min"));
    CHECK(first.expired());
}

TEST_CASE("generation: what was counted stays counted, against the new quota") {
    World world(limited_to("2/min"));
    const auto admitted = [&] {
        Request request(world, get());
        REQUIRE(request.walk() == Fault::none);
        Wakeup sleeper(world.io.get_executor());
        world.limiter.decide(request.exchange.decision, sleeper);
        return request.exchange.decision.result == store::Decision::Result::admitted;
    };
    CHECK(admitted());
    CHECK(admitted());
    CHECK_FALSE(admitted());
    reload(world, limited_to("2/min"));
    CHECK_FALSE(admitted());
    reload(world, limited_to("3/min"));
    CHECK(admitted());
    CHECK_FALSE(admitted());
    reload(world, limited_to("1/min"));
    CHECK_FALSE(admitted());
}
