// What the tests of health checks share: servers that are fakes, and the checks of them.
#pragma once

#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/error_log.hpp"
#include "upstream/resolver_health_checks.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream {

using namespace std::chrono_literals;

using Texts = std::vector<std::string>;

// A server in the tests' own loop: reads a head, sends `answer`, and closes unless it `keeps`.
class Fake {
  public:
    explicit Fake(asio::io_context& io) : executor_(io.get_executor()), acceptor_(executor_) {
        const StreamProtocol::endpoint any = endpoint_at("127.0.0.1", 0);
        acceptor_.open(any.protocol());
        acceptor_.bind(any);
        acceptor_.listen();
        const StreamProtocol::endpoint bound = acceptor_.local_endpoint();
        asio::ip::tcp::endpoint tcp;
        std::memcpy(tcp.data(), bound.data(), bound.size());
        port = tcp.port();
        spawn_vital(executor_, accept(*this));
    }
    void close() { acceptor_.close(); }

    std::uint16_t port = 0;
    // The pieces that the fake sends; none: it stays silent, until the other side closes.
    Texts answer{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"};
    bool stays_open = false;  // after the answer
    bool keeps = false;       // the connection, for another request
    // What `answer` is from the second request of a connection on; none: it closes.
    std::optional<Texts> later;
    Texts requests;
    int connections = 0;
    int open = 0;

  private:
    static Task<> accept(Fake& self) {
        for (;;) {
            auto [ec, socket] = co_await self.acceptor_.async_accept(as_values);
            if (ec) co_return;
            ++self.connections;
            spawn_vital(self.executor_, talk(self, StreamSocket(std::move(socket))));
        }
    }
    static Task<> talk(Fake& self, StreamSocket socket) {
        ++self.open;
        bool goes_on = co_await serve(self, socket, false);
        while (goes_on && self.keeps) goes_on = co_await serve(self, socket, true);
        --self.open;
    }
    static Task<bool> serve(Fake& self, StreamSocket& socket, bool is_later) {
        std::string request;
        char bytes[4'096];
        error_code ec;
        std::size_t count = 0;
        while (!ec && !request.ends_with("\r\n\r\n")) {
            std::tie(ec, count) = co_await socket.async_read_some(asio::buffer(bytes), as_values);
            request.append(bytes, count);
        }
        if (ec && is_later) co_return false;
        self.requests.push_back(request);
        if (is_later && self.later && self.later->empty()) co_return false;
        for (const std::string& piece : Texts(is_later && self.later ? *self.later : self.answer)) {
            std::size_t sent = 0;
            while (!ec && sent < piece.size()) {
                std::tie(ec, count) =
                    co_await socket.async_write_some(asio::buffer(piece) + sent, as_values);
                sent += count;
            }
        }
        while (!ec && (self.stays_open || self.answer.empty())) {
            std::tie(ec, count) = co_await socket.async_read_some(asio::buffer(bytes), as_values);
        }
        co_return !ec;
    }

    Executor executor_;
    Acceptor acceptor_;
};

// The checks of one upstream, of servers that are fakes.
struct Checked {
    using Change = std::function<void(config::HealthCheck&)>;

    explicit Checked(std::size_t servers = 1, const Change& change = {}) {
        std::vector<config::UpstreamServer> configured;
        for (std::size_t i = 0; i < servers; ++i) {
            fakes.push_back(std::make_unique<Fake>(io));
            configured.push_back(server_at("127.0.0.1", fakes.back()->port));
        }
        use(upstream_of(configured), change);
    }
    ~Checked() { stop(); }

    void use(config::Upstream settings, const Change& change) {
        config::HealthCheck check;
        check.path = "/healthz";
        check.every = 20ms;
        check.timeout = 10s;
        if (change) change(check);
        settings.health_check = check;
        group = group_of(settings);
        checks = std::make_shared<HealthChecks>(io.get_executor(), group);
    }
    Fake& fake() { return *fakes.front(); }
    void start() { spawn_vital(io.get_executor(), HealthChecks::run(checks)); }
    // Nothing may be left that keeps the loop going.
    void stop() {
        checks->stop();
        for (const auto& fake : fakes) fake->close();
        io.restart();
        CHECK(runs_until_idle());
    }
    bool runs_until_idle() {
        io.run_for(5s);
        return io.stopped();
    }
    ServerStatus status(std::size_t server = 0) const { return group->status().servers[server]; }
    bool is_checked() const { return status().is_checked; }
    // The result of the first check, as the log has it; empty: healthy.
    std::string finds() {
        int pipe_ends[2];
        REQUIRE(::pipe(pipe_ends) == 0);
        telemetry::flush_log();
        const int saved = ::dup(STDERR_FILENO);
        ::dup2(pipe_ends[1], STDERR_FILENO);
        ::close(pipe_ends[1]);
        start();
        const bool is_done = runs_until(io, [&] { return is_checked(); });
        telemetry::flush_log();
        ::dup2(saved, STDERR_FILENO);
        ::close(saved);
        std::string line(4'096, '\0');
        const ssize_t bytes = ::read(pipe_ends[0], line.data(), line.size());
        ::close(pipe_ends[0]);
        line.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
        REQUIRE(is_done);
        CHECK(line.empty() == (status().health == ServerHealth::up));
        const std::string before = "is unhealthy and gets no requests: ";
        const std::size_t found = line.find(before);
        if (found == std::string::npos) return line;
        return line.substr(found + before.size(), line.find('\n') - found - before.size());
    }

    asio::io_context io;
    std::vector<std::unique_ptr<Fake>> fakes;
    GroupPtr group;
    std::shared_ptr<HealthChecks> checks;
};

inline std::string status_line(int status) {
    return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: 0\r\n\r\n";
}

}  // namespace tidegate::upstream
