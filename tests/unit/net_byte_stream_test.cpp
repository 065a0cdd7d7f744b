#include <chrono>
#include <memory>

#include <boost/asio/local/connect_pair.hpp>
#include <doctest/doctest.h>

#include "net/byte_stream.hpp"

namespace tidegate::net_byte_stream_test {

namespace {

using namespace std::chrono_literals;

struct Pair {
    Pair() {
        asio::basic_stream_socket<asio::local::stream_protocol, Executor> one(io.get_executor());
        asio::basic_stream_socket<asio::local::stream_protocol, Executor> other(io.get_executor());
        asio::local::connect_pair(one, other);
        timed = std::make_shared<TimedSocket>(StreamSocket(std::move(one)));
        peer = std::make_unique<StreamSocket>(std::move(other));
    }
    asio::io_context io;
    std::shared_ptr<TimedSocket> timed;
    std::unique_ptr<StreamSocket> peer;
};

TEST_CASE("timed_socket: a peer that takes too long is closed") {
    Pair pair;
    pair.timed->expect_within(1ms);
    pair.io.run();
    CHECK_FALSE(pair.timed->socket().is_open());
}

TEST_CASE("timed_socket: a timer set anew, even after it ran out, starts from now") {
    Pair pair;
    pair.timed->expect_within(0ms);  // its completion is queued, but has not come
    pair.timed->expect_within(1h);
    pair.io.poll();
    CHECK(pair.timed->socket().is_open());
    pair.timed->close();
    pair.io.run();  // and a socket that is closed keeps no timer alive
    CHECK_FALSE(pair.timed->socket().is_open());
}

TEST_CASE("timed_socket: closing gently reads what the peer still sends, but not for ever") {
    Pair pair;
    bool closed = false;
    spawn(pair.io.get_executor(), pair.timed->close_gently(5ms),
          [&](const std::exception_ptr&) { closed = true; });
    pair.io.poll();
    CHECK_FALSE(closed);
    char byte = 0;
    error_code ec;
    CHECK(pair.peer->read_some(asio::buffer(&byte, 1), ec) == 0);
    CHECK(ec == asio::error::eof);
    CHECK(pair.peer->write_some(asio::buffer("late"), ec) == 5);
    pair.io.run();  // the peer never closes
    CHECK(closed);
    CHECK_FALSE(pair.timed->socket().is_open());
}

}  // namespace

}  // namespace tidegate::net_byte_stream_test
