// A connection of a client, and a server that does what the test says. A test moves the clock on
// and runs what is ready; nothing waits.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "client/connection.hpp"
#include "config/config.hpp"
#include "http/framing.hpp"
#include "net/connection.hpp"

namespace tidegate::test {

// A derived class opens the connection in its constructor, and calls cut_off() first in its
// destructor.
struct ConnectionWorld {
    using Stream = client::Stream;

    explicit ConnectionWorld(const std::string& yaml = "")
        : config(
              config::load_text("upstream: http://127.0.0.1:3000\n" + yaml, "test.yaml").config) {}
    virtual ~ConnectionWorld() = default;
    ConnectionWorld(const ConnectionWorld&) = delete;
    ConnectionWorld& operator=(const ConnectionWorld&) = delete;

    // Runs the coroutine of the connection.
    void serve_connection(Task<> run) {
        spawn(io.get_executor(), std::move(run), [this](const std::exception_ptr& thrown) {
            failure = thrown;
            has_ended = true;
        });
        settle();
    }
    void cut_off() {
        for (client::ServedConnection& one : connections) one.cut_off();
        settle();
    }
    // How many handlers ran.
    std::size_t settle() {
        io.restart();
        return io.poll();
    }
    std::size_t pass(std::chrono::milliseconds time) {
        wheel.advance(start += time);
        return settle();
    }

    // The server's answer to a request, unless there is `on_request`; its first look at it; and its
    // answer to a head that is not complete.
    virtual void answer(Stream& stream) { answer_ok(stream); }
    virtual void look_at(Stream&) {}
    virtual void answer_bad_head(Stream&) {}
    // Keeps the connection if the client wants that.
    static void answer_ok(Stream& stream) {
        stream.keep_alive_if(true);
        stream.begin_head(200, "OK") += "Content-Length: 2\r\n";
        stream.end_head(http::BodyKind::none, {});
        CHECK(stream.send_all("ok") == IoStatus::ok);
    }

    static Task<> serve(void* self, Stream& stream) {
        ConnectionWorld& world = *static_cast<ConnectionWorld*>(self);
        world.heads.push_back(stream.head_state());
        if (stream.head_state() != Stream::Head::complete) {
            world.answer_bad_head(stream);
            co_return;
        }
        world.methods.emplace_back(stream.head().method);
        REQUIRE(http::request_framing(stream.head(), stream.framing()) == http::FramingFault::none);
        stream.begin_body();
        world.look_at(stream);
        world.was_evictable = world.connections.front().is_evictable();
        if (world.on_request) {
            co_await world.on_request(stream);
            co_return;
        }
        world.answer(stream);
    }

    std::shared_ptr<const config::Config> config;
    asio::io_context io{1};
    Readiness readiness{io};
    SteadyTime start{};
    DeadlineWheel wheel{start};
    BufferPool buffers;
    client::Metrics metrics;
    client::ServedConnectionList connections;
    client::Http2Resources http2{io.get_executor(), wheel, buffers};
    client::ConnectionContext context{
        .executor = io.get_executor(),
        .deadlines = wheel,
        .buffers = buffers,
        .metrics = metrics,
        .connections = connections,
        .http2 = http2,
        .serve = &ConnectionWorld::serve,
        .server = this,
        .tell_failure = [this](const std::exception_ptr& thrown) { request_failure = thrown; },
        .config = config.get()};
    std::function<Task<>(Stream&)> on_request;
    std::vector<Stream::Head> heads;
    std::vector<std::string> methods;
    std::exception_ptr failure;          // that ended the connection's coroutine
    std::exception_ptr request_failure;  // that ended a request's, of a connection that goes on
    bool has_ended = false;              // the connection's coroutine
    bool was_evictable = true;           // the connection, when the last request began
};

// The same over a pair of sockets: `near` is for the connection, `far` the client's.
struct SocketWorld : ConnectionWorld {
    explicit SocketWorld(const std::string& yaml = "") : ConnectionWorld(yaml) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        near = ends[0];
        far = ends[1];
    }
    ~SocketWorld() override { ::close(far); }

    void send(std::string_view bytes) {
        REQUIRE(::send(far, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
        settle();
    }

    int near = -1;
    int far = -1;
    bool is_closed = false;  // the client has seen the end
};

}  // namespace tidegate::test
