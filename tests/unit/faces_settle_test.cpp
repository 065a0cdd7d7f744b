// Two calls of the check API that settle one reservation at once, on two threads of a process: each
// has a Redis of its own that acts as the same one, and answers when the test says so.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "client/http1_connection.hpp"
#include "faces/faces.hpp"
#include "redis/client.hpp"
#include "store/scripts.hpp"
#include "unit/fake_redis.hpp"
#include "unit/proxy_world.hpp"
#include "unit/script_reply.hpp"

namespace tidegate::faces::settle_test {

using namespace std::chrono_literals;
using client::Http1Connection;
using proxy::has;
using test::FakeRedis;
using test::run_until;
using test::script_reply;
using test::Words;

namespace {

const std::string kConfig =
    "upstreams: {api: {servers: ['http://127.0.0.1:1']}}\n"
    "policies: {p: {key: [ip], limits: [9/h]}}\n"
    "routes: [{name: all, upstream: api, policies: [p]}]\n";

bool settles(const Words& words) {
    return words.at(1) == store::settle_more_script().sha1;
}

// A thread that serves the check API, with one connection of a client.
struct CheckWorker {
    CheckWorker(proxy::World& the_world, ask::PasswordPool& passwords, Reservations& reservations)
        : world(the_world),
          server(world.io),
          redis(make_client()),
          limiter(world.memory,
                  store::Limiter::RedisParts{.store = {redis, "tg:"}, .replicas = &replicas},
                  world.store_metrics),
          worker{.executor = world.io.get_executor(),
                 .generation = world.generation,
                 .thread = 0,
                 .metrics = world.metrics,
                 .engine = {world.io.get_executor(), limiter, passwords, world.ask_metrics},
                 .request_ids = {},
                 .exchanges = {world.io.get_executor(), world.wheel, world.buffers},
                 .date = {}},
          check{worker, listen, reservations} {
        server.evalsha = [](const Words&) { return ""; };  // until the test answers
        context.config = world.generation->config.get();
        spawn(world.io.get_executor(), redis::Client::run(redis),
              [this](const std::exception_ptr&) { has_ended = true; });
        REQUIRE(run_until(world.io, [&] { return redis->is_up(); }));
        connect();
    }
    ~CheckWorker() {
        CHECK_FALSE(failure);
        for (client::ServedConnection& one : connections) one.cut_off();
        redis->stop();
        CHECK(run_until(world.io, [&] { return has_ended && connections.empty(); }));
        ::close(far);
    }
    CheckWorker(const CheckWorker&) = delete;
    CheckWorker& operator=(const CheckWorker&) = delete;

    std::shared_ptr<redis::Client> make_client() {
        redis::ClientOptions options;
        options.host = "127.0.0.1";
        options.port = server.port();
        options.timeout = 10s;  // the tests answer in time, however busy the machine is
        options.scripts = store::all_scripts();
        return std::make_shared<redis::Client>(world.io.get_executor(), options,
                                               redis::Client::OnState{});
    }
    void connect() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        far = ends[1];
        auto made = std::make_unique<Http1Connection>(
            context, ConnectionPtr(new Connection(world.readiness, ends[0])),
            client::Arrival{.local_port = 80});
        spawn(world.io.get_executor(), Http1Connection::run(std::move(made)),
              [this](const std::exception_ptr& thrown) { failure = thrown; });
    }

    // Sends the call, and waits until Redis has so many commands in all.
    void settle(const std::string& id, int cost, std::size_t commands) {
        const std::string body = R"({"id":")" + id + R"(","cost":)" + std::to_string(cost) + "}";
        const std::string call = "POST /v1/settle HTTP/1.1\r\nHost: check\r\nContent-Length: " +
                                 std::to_string(body.size()) + "\r\n\r\n" + body;
        REQUIRE(::send(far, call.data(), call.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(call.size()));
        CHECK(run_until(world.io, [&] { return server.count("EVALSHA") == commands; }));
    }
    // Redis answers with a cost; `+`: this call has claimed the reservation.
    void claimed(const std::string& cost) {
        server.say("$" + std::to_string(cost.size()) + "\r\n" + cost + "\r\n");
    }
    // The answer that the client gets.
    std::string answer() {
        std::string text;
        CHECK(run_until(world.io, [&] {
            std::array<char, 65'536> block;
            const ssize_t got = ::recv(far, block.data(), block.size(), 0);
            if (got > 0) text.append(block.data(), static_cast<std::size_t>(got));
            return text.ends_with("}\n") || text.ends_with("}");
        }));
        return text;
    }

    proxy::World& world;
    FakeRedis server;
    std::shared_ptr<redis::Client> redis;
    store::Replicas replicas{1};
    store::Limiter limiter;
    proxy::WorkerContext worker;
    config::Listen listen;
    CheckFace check;
    client::ServedConnectionList connections;
    client::Http2Resources http2{world.io.get_executor(), world.wheel, world.buffers};
    client::ConnectionContext context{.executor = world.io.get_executor(),
                                      .deadlines = world.wheel,
                                      .buffers = world.buffers,
                                      .metrics = world.client_metrics,
                                      .connections = connections,
                                      .http2 = http2,
                                      .serve = &serve_check,
                                      .server = &check};
    std::exception_ptr failure;  // that ended the connection's coroutine
    bool has_ended = false;      // the client of Redis
    int far = -1;
};

struct TwoWorkers {
    // A reservation of 4 units of two addresses: one was counted in Redis, and one in process, as
    // Redis was away for it.
    std::string reserve() {
        const limit::Limit& limit = world.generation->config->policies.front()->limits.front();
        SealedReservation content;
        content.process = reservations.process;
        content.expires = std::chrono::system_clock::now() + 60s;
        content.reservation.costs = {{4}};
        for (const bool in_redis : {true, false}) {
            const std::string identifier = in_redis ? "ip:192.0.2.1" : "ip:192.0.2.2";
            content.reservation.parts.push_back(
                {in_redis, limit::Micros{1s}, {{"p", "", identifier, 7, {{limit.id, 9}}}}});
        }
        return reservations.seal.seal(content);
    }
    std::string counted(const std::string& metric) const {
        return test::sample(test::text_of(world.ask_metrics, world.names), metric);
    }

    proxy::World world{kConfig};
    ask::PasswordPool passwords{
        {.threads = 1}, [](const auto&, std::string_view, std::string_view) { return false; }};
    Reservations reservations{IdSeal("0123456789abcdef"), "one"};
    CheckWorker first{world, passwords, reservations};
    CheckWorker second{world, passwords, reservations};
};

}  // namespace

TEST_CASE("settle: of two calls at once one settles in Redis first, the other one in process") {
    TwoWorkers both;
    const std::string id = both.reserve();
    // Redis has claimed the reservation for the first call, whose answer is on its way.
    both.first.settle(id, 6, 1);
    REQUIRE(settles(both.first.server.seen.back()));
    // The second call learns that, and is first to correct the part in process: Redis is asked to
    // count what was spent there, and has not answered.
    both.second.settle(id, 6, 1);
    REQUIRE(settles(both.second.server.seen.back()));
    both.second.claimed("6");
    REQUIRE(run_until(both.world.io, [&] { return both.second.server.count("EVALSHA") == 2; }));
    REQUIRE_FALSE(settles(both.second.server.seen.back()));

    both.first.claimed("+6");
    const std::string later = both.first.answer();
    CHECK(later.starts_with("HTTP/1.1 503 "));
    CHECK(has(later, "Another call is settling the reservation."));
    CHECK(has(later, "\r\nRetry-After: 1\r\n"));

    both.second.server.say(script_reply(true, 0, {0}));
    const std::string settled = both.second.answer();
    CHECK(settled.starts_with("HTTP/1.1 200 "));
    CHECK(has(settled, R"({"settled":true,"cost":6})"));

    // The call that claimed it in Redis has counted it, once.
    CHECK(both.counted(R"(tidegate_usage_cost_total{policy="p"})") == "6");
    CHECK(both.counted(R"(tidegate_usage_reserved_total{policy="p"})") == "4");
    both.first.settle(id, 6, 2);
    both.first.claimed("6");
    CHECK(both.first.answer().starts_with("HTTP/1.1 200 "));
    CHECK(both.counted(R"(tidegate_usage_cost_total{policy="p"})") == "6");
}

TEST_CASE("settle: a call with another cost, while one is settling, settles with the first cost") {
    TwoWorkers both;
    const std::string id = both.reserve();
    both.first.settle(id, 6, 1);
    both.second.settle(id, 5, 1);
    both.second.claimed("6");
    REQUIRE(run_until(both.world.io, [&] { return both.second.server.count("EVALSHA") == 2; }));
    both.second.server.say(script_reply(true, 0, {0}));
    const std::string other = both.second.answer();
    CHECK(other.starts_with("HTTP/1.1 409 "));
    CHECK(has(other, R"("cost":6)"));
    both.first.claimed("+6");
    CHECK(both.first.answer().starts_with("HTTP/1.1 200 "));
    CHECK(both.counted(R"(tidegate_usage_cost_total{policy="p"})") == "6");
}

}  // namespace tidegate::faces::settle_test
