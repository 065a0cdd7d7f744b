// How a pool shares connections in HTTP/2 among requests.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "h2_client_world.hpp"
#include "upstream_pool_world.hpp"

namespace tidegate::upstream::pool_http2_test {

using namespace std::chrono_literals;

namespace {

using h2_client_world::answer;
using h2_client_world::goaway;
using h2_world::data;
using h2_world::headers;
using h2_world::rst_stream;
using h2_world::settings;

// A pool whose one server speaks HTTP/2, byte by byte as the test says.
struct Http2Pooled {
    explicit Http2Pooled(const Pooled::Change& change = {})
        : pooled({1}, [&](config::Upstream& upstream) {
              upstream.servers[0].is_http2 = true;
              upstream.connect_timeout = 5'000ms;
              if (change) change(upstream);
          }) {
        pooled.world.wheel.advance(steady_now());
    }

    Server& server() { return pooled.next(); }
    std::unique_ptr<Stream> make() { return std::make_unique<Stream>(pooled.world.buffers); }
    // With a seat, by whatever way there is.
    std::unique_ptr<Stream> open() {
        auto stream = make();
        if (!pooled.pool->take_idle(server(), *stream)) pooled.connects(server(), *stream);
        return stream;
    }
    asio::ip::tcp::socket accept() {
        asio::ip::tcp::socket socket = pooled.listeners[0].accept();
        socket.non_blocking(true);
        return socket;
    }
    void say(asio::ip::tcp::socket& socket, const std::string& bytes) {
        REQUIRE(socket.send(asio::buffer(bytes)) == bytes.size());
        pooled.settle(true);
    }
    // What the pool's side has sent and was not read yet.
    static std::string heard(asio::ip::tcp::socket& socket) {
        std::string bytes(65'536, '\0');
        boost::system::error_code ec;
        bytes.resize(socket.read_some(asio::buffer(bytes), ec));
        return bytes;
    }
    IoStatus ask(Stream& stream) {
        http::BodyBatch nothing;
        nothing.done = true;
        stream.begin_head("GET", "/", "").append("Host: a\r\n");
        stream.end_head(http::BodyKind::none, std::nullopt);
        const IoStatus status = stream.send(nothing, none);
        pooled.settle();
        return status;
    }
    Stream::Head head(Stream& stream) { return stream.read_head({}, wakeup); }

    const http::Fields none;
    Pooled pooled;
    Wakeup wakeup{pooled.world.io.get_executor()};  // that the streams may wake
};

}  // namespace

TEST_CASE("pool http2: requests share a connection, and each has a seat") {
    Http2Pooled world;
    const auto first = world.open();
    auto socket = world.accept();
    const auto second = world.open();
    CHECK(world.server().http2().size() == 1);
    CHECK(world.pooled.seats_taken() == 2);
    // The server has shown no sign of life: if it breaks both, it was not for a connection that it
    // had closed already.
    CHECK_FALSE(first->is_reused());
    CHECK_FALSE(second->is_reused());
    CHECK(world.ask(*first) == IoStatus::ok);
    CHECK(world.ask(*second) == IoStatus::ok);
    world.say(socket, settings() + headers(1, answer(), false) + data(1, "one", true) +
                          headers(3, answer("404")));
    REQUIRE(world.head(*first) == Stream::Head::complete);
    CHECK(first->head().status == 200);
    CHECK(first->take_body({}).content_bytes == 3);
    REQUIRE(world.head(*second) == Stream::Head::complete);
    CHECK(second->head().status == 404);
    const auto third = world.open();
    CHECK(third->is_reused());
    world.pooled.pool->throw_away(*third);
    world.pooled.pool->give_back(*first);
    CHECK(world.pooled.seats_taken() == 1);
    world.pooled.pool->give_back(*second);
    CHECK(world.pooled.seats_taken() == 0);
    CHECK(world.server().http2().size() == 1);
}

TEST_CASE("pool http2: a full connection is followed by another") {
    Http2Pooled world;
    const auto first = world.open();
    auto socket = world.accept();
    world.say(socket, settings({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2}}));
    const auto second = world.open();
    CHECK(world.server().http2().size() == 1);
    const auto third = world.open();
    CHECK(world.server().http2().size() == 2);
    for (const auto* const stream : {&first, &second, &third}) {
        world.pooled.pool->throw_away(**stream);
    }
    CHECK(world.pooled.seats_taken() == 0);
}

TEST_CASE("pool http2: requests wait for the connection that one of them makes") {
    Http2Pooled world;
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<std::optional<ConnectFault>> outcomes(3);
    std::vector<Seat> seats(3);
    std::vector<std::unique_ptr<Sleeper>> sleepers;
    const auto executor = world.pooled.world.io.get_executor();
    for (std::size_t i = 0; i < 3; ++i) {
        streams.push_back(world.make());
        sleepers.push_back(std::make_unique<Sleeper>(executor, world.pooled.world.wheel));
        seats[i] = world.pooled.pool->take_seat(world.pooled.request);
        spawn_vital(executor,
                    [](Http2Pooled& self, Stream& stream, Sleeper& sleeper, Seat& seat,
                       std::optional<ConnectFault>& outcome) -> Task<> {
                        const std::function<bool()> has_left = [] { return false; };
                        Pool& pool = *self.pooled.pool;
                        outcome = co_await pool.connect(self.server(), sleeper, stream, seat,
                                                        has_left, {1s});
                    }(world, *streams[i], *sleepers[i], seats[i], outcomes[i]));
    }
    CHECK(runs_until(world.pooled.world.io, [&] {
        return outcomes[0].has_value() && outcomes[1].has_value() && outcomes[2].has_value();
    }));
    for (const auto& outcome : outcomes) CHECK(outcome == ConnectFault::none);
    CHECK(world.server().http2().size() == 1);
    CHECK(world.server().attempts().empty());
    CHECK(world.pooled.seats_taken() == 3);
    for (const auto& stream : streams) world.pooled.pool->throw_away(*stream);
    CHECK(world.pooled.seats_taken() == 0);
}

TEST_CASE("pool http2: a pool that stops during two attempts keeps neither connection") {
    Http2Pooled world;
    const auto first = world.open();
    auto socket = world.accept();
    // So each request needs a connection of its own, and makes it.
    world.say(socket, settings({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1}}));
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<std::optional<ConnectFault>> outcomes(2);
    std::vector<Seat> seats(2);
    std::vector<std::unique_ptr<Sleeper>> sleepers;
    const auto executor = world.pooled.world.io.get_executor();
    const ServerPtr server(&world.server());
    for (std::size_t i = 0; i < 2; ++i) {
        streams.push_back(world.make());
        sleepers.push_back(std::make_unique<Sleeper>(executor, world.pooled.world.wheel));
        seats[i] = world.pooled.pool->take_seat(world.pooled.request);
        spawn_vital(executor,
                    [](Http2Pooled& self, Server& of, Stream& stream, Sleeper& sleeper, Seat& seat,
                       std::optional<ConnectFault>& outcome) -> Task<> {
                        const std::function<bool()> has_left = [] { return false; };
                        Pool& pool = *self.pooled.pool;
                        outcome = co_await pool.connect(of, sleeper, stream, seat, has_left, {1s});
                    }(world, *server, *streams[i], *sleepers[i], seats[i], outcomes[i]));
    }
    CHECK(runs_until(world.pooled.world.io, [&] { return server->attempts().size() == 2; }));
    world.pooled.pool->stop();
    CHECK(runs_until(world.pooled.world.io,
                     [&] { return outcomes[0].has_value() && outcomes[1].has_value(); }));
    CHECK(server->attempts().empty());
    for (const auto& outcome : outcomes) CHECK(outcome == ConnectFault::none);
    for (const auto& stream : streams) world.pooled.pool->throw_away(*stream);
    world.pooled.pool->throw_away(*first);
    CHECK(server->http2().empty());
    CHECK(world.pooled.seats_taken() == 0);
}

TEST_CASE("pool http2: a request that is thrown away is cancelled, and the connection stays") {
    Http2Pooled world;
    const auto first = world.open();
    auto socket = world.accept();
    CHECK(world.ask(*first) == IoStatus::ok);
    world.say(socket, settings());
    Http2Pooled::heard(socket);
    world.pooled.pool->throw_away(*first);
    world.pooled.settle();
    CHECK(Http2Pooled::heard(socket).ends_with(rst_stream(1, NGHTTP2_CANCEL)));
    CHECK(world.server().http2().size() == 1);
    CHECK(world.server().find_http2() != nullptr);
}

TEST_CASE("pool http2: a connection that the server ends takes its requests with it") {
    Http2Pooled world;
    const auto first = world.open();
    auto socket = world.accept();
    CHECK(world.ask(*first) == IoStatus::ok);
    socket.close();
    world.pooled.settle(true);
    CHECK(world.head(*first) == Stream::Head::broken);
    CHECK_FALSE(first->is_unprocessed());
    CHECK(world.server().http2().empty());
    world.pooled.pool->throw_away(*first);
    CHECK(world.pooled.seats_taken() == 0);
}

TEST_CASE("pool http2: after GOAWAY requests go elsewhere") {
    Http2Pooled world;
    const auto kept = world.open();
    auto socket = world.accept();
    const auto refused = world.open();
    CHECK(world.ask(*kept) == IoStatus::ok);
    CHECK(world.ask(*refused) == IoStatus::ok);
    world.say(socket, settings() + goaway(1));
    CHECK(world.head(*refused) == Stream::Head::broken);
    CHECK(refused->is_unprocessed());
    CHECK(world.head(*kept) == Stream::Head::nothing);
    CHECK(world.server().find_http2() == nullptr);
    // The seat stays with the request.
    Seat seat = world.pooled.pool->keep_seat(*refused);
    CHECK(seat);
    CHECK(world.pooled.seats_taken() == 2);
    world.say(socket, headers(1, answer()));
    CHECK(world.head(*kept) == Stream::Head::complete);
    world.pooled.pool->give_back(*kept);
    CHECK(world.server().http2().empty());
    seat = Seat();
    CHECK(world.pooled.seats_taken() == 0);
}

TEST_CASE("pool http2: an evicted request leaves its seat to another") {
    Http2Pooled world;
    const auto first = world.open();
    CHECK(world.ask(*first) == IoStatus::ok);
    world.pooled.pool->evict(*first);
    CHECK(world.pooled.seats_taken() == 0);
    CHECK(first->is_evicted());
    CHECK(world.head(*first) == Stream::Head::broken);
    world.pooled.pool->throw_away(*first);
    CHECK(world.pooled.seats_taken() == 0);
}

TEST_CASE("pool http2: idle connections beyond the bound, or for too long, are closed") {
    Http2Pooled world([](config::Upstream& upstream) {
        upstream.max_connections = 4;
        upstream.idle_connections = 1;
        upstream.idle_timeout = 10s;
    });
    const auto first = world.open();
    auto socket = world.accept();
    world.say(socket, settings({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1}}));
    const auto second = world.open();
    CHECK(world.server().http2().size() == 2);
    world.pooled.pool->give_back(*first);
    CHECK(world.server().http2().size() == 2);
    world.pooled.pool->give_back(*second);
    CHECK(world.server().http2().size() == 1);
    world.pooled.pool->sweep(steady_now());
    CHECK(world.server().http2().size() == 1);
    world.pooled.pool->sweep(steady_now() + 11s);
    CHECK(world.server().http2().empty());
}

TEST_CASE("pool http2: a body waits for the server's window, and goes on") {
    Http2Pooled world;
    const auto stream = world.open();
    auto socket = world.accept();
    world.say(socket, settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 4}}));
    const std::string content = "0123456789";
    http::BodyBatch batch;
    batch.pieces[0] = content;
    batch.count = 1;
    batch.content_bytes = content.size();
    batch.done = true;
    stream->begin_head("POST", "/", "").append("Host: a\r\n");
    stream->end_head(http::BodyKind::length, content.size());
    CHECK(stream->send(batch, world.none) == IoStatus::would_block);
    std::optional<IoStatus> outcome;
    spawn_vital(world.pooled.world.io.get_executor(),
                [](Stream& of, Sleeper& sleeper, std::optional<IoStatus>& end) -> Task<> {
                    end = co_await of.send_rest(sleeper, 5'000ms);
                }(*stream, world.pooled.sleeper, outcome));
    world.pooled.settle();
    CHECK_FALSE(outcome.has_value());
    world.say(socket, h2_world::window_update(1, 100));
    CHECK(outcome == IoStatus::ok);
    CHECK(Http2Pooled::heard(socket).find("456789") != std::string::npos);
    world.pooled.pool->throw_away(*stream);
}

TEST_CASE("pool http2: the head of a request goes before its body has begun") {
    Http2Pooled world;
    const auto first = world.open();
    auto socket = world.accept();
    world.say(socket, settings());
    world.pooled.pool->give_back(*first);
    world.pooled.settle();
    Http2Pooled::heard(socket);
    const auto stream = world.open();
    stream->begin_head("POST", "/", "").append("Host: a\r\n");
    stream->end_head(http::BodyKind::chunked, std::nullopt);
    CHECK(stream->send({}, world.none) == IoStatus::ok);
    world.pooled.settle();
    CHECK_FALSE(Http2Pooled::heard(socket).empty());
    world.pooled.pool->throw_away(*stream);
}

TEST_CASE("pool http2: a pool may go while its connections are open") {
    Http2Pooled world;
    const auto stream = world.open();
    auto socket = world.accept();
    world.pooled.pool->give_back(*stream);
    world.pooled.pools.clear();
    world.pooled.settle();
    std::string last = Http2Pooled::heard(socket);
    CHECK(last.ends_with(goaway(0)));
}

}  // namespace tidegate::upstream::pool_http2_test
