#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "proxy/exchange.hpp"
#include "unit/proxy_world.hpp"

namespace tidegate::proxy::exchange_test {

namespace {

std::string limited_to(const std::string& rate) {
    return "upstream: http://127.0.0.1:3000\nlimits: [" + rate + "]\n";
}

}  // namespace

TEST_CASE("exchange: the next request finds nothing of the last one") {
    World world(
        "upstream: http://127.0.0.1:3000\nlimits: [1/h]\n"
        "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]},"
        " user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n");
    Request request(world, get("X-User-Id: alice\r\nContent-Length: 5\r\n"), true);
    request.charge();
    Exchange& exchange = request.exchange;
    CHECK(exchange.decision.user == "alice");
    exchange.relay.status = 200;
    exchange.relay.bytes_sent = 9;
    exchange.reset();
    CHECK(exchange.facts.head.fields.empty());
    CHECK(exchange.facts.head.method.empty());
    CHECK(exchange.decision.charge.items.empty());
    CHECK(exchange.decision.charge.result == store::LimitDecision::Result::pending);
    CHECK(exchange.decision.ratelimit.empty());
    CHECK(exchange.decision.route == nullptr);
    CHECK_FALSE(exchange.decision.user);
    CHECK_FALSE(exchange.decision.client);
    CHECK(exchange.client == nullptr);
    CHECK(exchange.relay.status == 0);
    CHECK(exchange.relay.bytes_sent == 0);
}

// It forwards the next request, though the face of this one has no upstream to forget.
TEST_CASE("exchange: after a request of another face comes one of the proxy") {
    World world("upstream: http://127.0.0.1:3000\nlimits: [1/h]\n");
    Request request(world, get("User-Agent: probe/2\r\n"), true);
    Exchange& exchange = request.exchange;
    exchange.face = Face::forward_auth;
    exchange.relay.status = 429;
    exchange.reset();
    CHECK(exchange.face == Face::proxy);
    CHECK(exchange.facts.head.fields.empty());
    CHECK(exchange.relay.status == 0);
}

TEST_CASE("exchange: a tunnel keeps what the access log names, and not the head") {
    World world("upstream: http://127.0.0.1:3000\nlimits: [1/h]\n");
    Request request(world, get("User-Agent: probe/2\r\n"), true);
    Exchange& exchange = request.exchange;
    exchange.keep_for_record();
    CHECK(exchange.facts.head.fields.empty());
    CHECK(exchange.relay.user_agent == "probe/2");
    CHECK(exchange.upstream == nullptr);
}

TEST_CASE("exchange_pool: the next request gets the exchange of the last one") {
    World world;
    ExchangePool pool{world.io.get_executor(), world.wheel, world.buffers};
    std::unique_ptr<Exchange> exchange = pool.take();
    exchange->upstream->held_body = "body";
    exchange->upstream->websocket_key = "key";
    const Exchange* const kept = exchange.get();
    pool.give(std::move(exchange));
    exchange = pool.take();
    CHECK(exchange.get() == kept);
    CHECK(exchange->upstream->held_body.empty());
    CHECK(exchange->upstream->websocket_key.empty());
}

TEST_CASE("exchange_pool: what was a tunnel is not kept, as parts of it are gone") {
    World world;
    ExchangePool pool{world.io.get_executor(), world.wheel, world.buffers};
    std::unique_ptr<Exchange> tunnel = pool.take();
    tunnel->keep_for_record();
    pool.give(std::move(tunnel));
    const std::unique_ptr<Exchange> next = pool.take();
    CHECK(next->upstream != nullptr);
    CHECK(next->decision.authentication != nullptr);
}

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

}  // namespace tidegate::proxy::exchange_test
