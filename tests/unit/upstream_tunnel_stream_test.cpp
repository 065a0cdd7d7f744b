#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "upstream/tunnel_stream.hpp"
#include "upstream_pool_world.hpp"

namespace tidegate::upstream::tunnel_stream_test {

namespace {

constexpr http::HeadBounds kBounds{16'384, 100, 16'384};

// A connection of the pool's whose server has accepted a tunnel.
struct Switched {
    explicit Switched(std::string_view behind = "") : pooled({1}, bounds(1, 1)) {
        Server& server = pooled.next();
        REQUIRE(pooled.pool->admit(request));
        REQUIRE(pooled.connects(server, stream, request));
        far = pooled.listeners.front().accept();
        server.begin_request(pooled.pool->is_counted());
        stream.allow_switch();
        stream.begin_head("GET", "/", "");
        stream.end_head(http::BodyKind::none, {});
        REQUIRE(stream.send({}, {}) == IoStatus::ok);
        got();
        send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + std::string(behind));
        while (stream.read_head(kBounds, wakeup) == Stream::Head::nothing) pooled.settle(true);
        tunnel = pooled.pool->open_tunnel(stream, request);
    }

    void send(const std::string& bytes) { REQUIRE(far.send(asio::buffer(bytes)) == bytes.size()); }
    // Blocks until the server has received something.
    std::string got() {
        std::array<char, 1'024> block;
        return {block.data(), far.read_some(asio::buffer(block))};
    }
    TunnelInput read() {
        TunnelInput input = TunnelInput::nothing;
        while ((input = tunnel->read_bytes(wakeup)) == TunnelInput::nothing) pooled.settle(true);
        return input;
    }

    Pooled pooled;
    Wakeup wakeup{pooled.world.io.get_executor()};
    std::optional<IpAddress> client = parse_ip("192.0.2.1");
    ActiveRequest request{client, pooled.prefixes, [](void*) {}, nullptr};
    Stream stream{pooled.world.buffers};
    asio::ip::tcp::socket far{pooled.world.io};
    std::unique_ptr<TunnelStream> tunnel;
};

}  // namespace

TEST_CASE("tunnel_stream: bytes go both ways, first those that came behind the 101") {
    Switched switched("first");
    TunnelStream& tunnel = *switched.tunnel;
    CHECK_FALSE(switched.stream);
    CHECK(tunnel.take_bytes() == "first");
    tunnel.drop_bytes(5);
    CHECK(tunnel.take_bytes().data() == nullptr);
    CHECK(tunnel.read_bytes(switched.wakeup) == TunnelInput::nothing);
    switched.send("second");
    CHECK(switched.read() == TunnelInput::more);
    CHECK(tunnel.take_bytes() == "second");
    CHECK(tunnel.send_bytes("from here", switched.wakeup).bytes == 9);
    CHECK(tunnel.finish_sending(switched.wakeup) == IoStatus::ok);
    CHECK(switched.got() == "from here");
    switched.far.close();
    CHECK(switched.read() == TunnelInput::end);
}

TEST_CASE(
    "tunnel_stream: holds the seat and the count in flight until it is destroyed and closes") {
    Switched switched;
    CHECK(switched.pooled.seats_taken() == 1);
    CHECK_FALSE(switched.request.is_linked());
    CHECK(switched.pooled.pool->count_active() == 1);
    switched.tunnel.reset();
    CHECK(switched.pooled.seats_taken() == 0);
    CHECK(switched.pooled.pool->count_active() == 0);
    std::array<char, 1> block;
    error_code ec;
    switched.far.read_some(asio::buffer(block), ec);
    CHECK(ec == asio::error::eof);
}

}  // namespace tidegate::upstream::tunnel_stream_test
