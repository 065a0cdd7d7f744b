#include "cli/echo.hpp"

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <fmt/format.h>

#include "base/block_signals.hpp"
#include "cli/echo_listener.hpp"
#include "cli/echo_session.hpp"
#include "net/asio.hpp"
#include "net/timed_socket.hpp"
#include "telemetry/log.hpp"

namespace tidegate::cli {

namespace {

constexpr std::size_t kConnectionsMax = 1024;
constexpr std::chrono::milliseconds kAcceptPause{100};

// Counts one connection for as long as it lives.
class Seat {
  public:
    explicit Seat(std::size_t& taken) : taken_(&taken) { ++taken; }
    ~Seat() {
        if (taken_ != nullptr) --*taken_;
    }
    Seat(Seat&& other) noexcept : taken_(std::exchange(other.taken_, nullptr)) {}
    Seat& operator=(Seat&&) = delete;

  private:
    std::size_t* taken_;
};

Task<> serve_seated(Seat, std::shared_ptr<TimedSocket> socket) {
    co_await serve_echo(std::move(socket));
}

}  // namespace

struct EchoServer::Impl {
    explicit Impl(const config::Address& wanted)
        : listener(io.get_executor(), wanted), pause(io.get_executor()) {}
    ~Impl() {
        io.stop();
        thread.join();
    }

    Task<> accept_all() {
        for (;;) {
            auto [ec, socket] = co_await listener.acceptor().async_accept(as_values);
            if (ec) {
                telemetry::log(telemetry::Level::warn, "echo: cannot accept: {}", ec.message());
                pause.expires_after(kAcceptPause);
                co_await pause.async_wait(as_values);
                continue;
            }
            if (connections == kConnectionsMax) continue;
            // A body in portions must not wait for the acknowledgement of the last one.
            if (!listener.address().is_unix()) {
                error_code ignored;
                socket.set_option(asio::ip::tcp::no_delay(true), ignored);
            }
            spawn_vital(
                io.get_executor(),
                serve_seated(Seat(connections), std::make_shared<TimedSocket>(std::move(socket))));
        }
    }

    // Before `io`, whose end is the end of the sessions that count themselves here.
    std::size_t connections = 0;
    asio::io_context io{1};
    EchoListener listener;
    Timer pause;
    std::thread thread;
};

EchoServer::EchoServer(const config::Address& address) : impl_(std::make_unique<Impl>(address)) {
    spawn_vital(impl_->io.get_executor(), impl_->accept_all());
    impl_->thread = std::thread([&io = impl_->io] {
        block_all_signals();
        io.run();
    });
}

EchoServer::~EchoServer() = default;

const config::Address& EchoServer::address() const {
    return impl_->listener.address();
}

int run_echo(const config::Address& address) {
    // Blocked before the server's thread is made, which inherits it: the signal waits for us.
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, nullptr);

    const EchoServer server(address);
    fmt::print(stderr, "echo upstream listening on {}\n", server.address().to_string());
    int signal = 0;
    sigwait(&stop, &signal);
    return 0;
}

}  // namespace tidegate::cli
