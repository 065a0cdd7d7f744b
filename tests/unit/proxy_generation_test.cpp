#include <memory>

#include <doctest/doctest.h>

#include "proxy/exchange_pool.hpp"
#include "unit/proxy_world.hpp"

namespace tidegate::proxy::generation_test {

namespace {

std::string limited_to(const std::string& rate) {
    return "upstream: http://127.0.0.1:3000\nlimits: [" + rate + "]\n";
}

}  // namespace

TEST_CASE("generation: a request keeps the one it began with, the next has the new one") {
    World world(limited_to("5/min"));
    Request running(world, get());
    REQUIRE(running.decide() == Fault::none);
    world.reload(limited_to("7/min"));
    Request next(world, get());
    REQUIRE(next.decide() == Fault::none);
    CHECK(running.exchange.decision.charge.items.at(0).limits()[0].quota == 5);
    CHECK(next.exchange.decision.charge.items.at(0).limits()[0].quota == 7);
}

TEST_CASE("generation: a configuration goes with the last request that began with it") {
    World world(limited_to("5/min"));
    const std::weak_ptr<const config::Config> first = world.generation->config;
    {
        Request running(world, get());
        REQUIRE(running.decide() == Fault::none);
        world.reload(limited_to("7/min"));
        CHECK_FALSE(first.expired());
    }
    CHECK(first.expired());
}

TEST_CASE("generation: an exchange that waits for its next request holds none") {
    World world(limited_to("5/min"));
    const std::weak_ptr<const config::Config> first = world.generation->config;
    ExchangePool exchanges(world.io.get_executor(), world.wheel, world.buffers);
    auto exchange = exchanges.take();
    exchange->generation = world.generation;
    exchanges.give(std::move(exchange));
    world.reload(limited_to("7/min"));
    CHECK(first.expired());
}

TEST_CASE("generation: what was counted stays counted, against the new quota") {
    World world(limited_to("2/min"));
    const auto admitted = [&] {
        Request request(world, get());
        request.charge();
        return request.exchange.decision.charge.result == store::LimitDecision::Result::admitted;
    };
    CHECK(admitted());
    CHECK(admitted());
    CHECK_FALSE(admitted());
    world.reload(limited_to("2/min"));
    CHECK_FALSE(admitted());
    world.reload(limited_to("3/min"));
    CHECK(admitted());
    CHECK_FALSE(admitted());
    world.reload(limited_to("1/min"));
    CHECK_FALSE(admitted());
}

}  // namespace tidegate::proxy::generation_test
