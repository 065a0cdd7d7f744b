#include "fault_proxy.hpp"

#include <fcntl.h>

#include <array>
#include <deque>
#include <exception>
#include <future>
#include <list>
#include <string>
#include <utility>

#include <boost/asio/write.hpp>

namespace tidegate::test {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;
using Socket = asio::basic_stream_socket<asio::ip::tcp, Executor>;
using Listener = asio::basic_socket_acceptor<asio::ip::tcp, Executor>;

constexpr std::size_t kPieceBytes = 16 * 1024;
constexpr std::size_t kUnderWayMax = 64;  // pieces, in one direction of a connection

struct Piece {
    SteadyClock::time_point due;
    std::string bytes;  // empty: the end
};

// One direction of a connection: what was read and is still to be written.
struct Direction {
    Direction(Executor executor, Socket& source, Socket& sink)
        : from(source), to(sink), wake(executor) {}

    Socket& from;
    Socket& to;
    std::deque<Piece> under_way;
    Timer wake;  // of the half that writes
};

asio::ip::tcp::endpoint on_loopback(std::uint16_t port) {
    return {asio::ip::address_v4::loopback(), port};
}

// Servers that a test starts must not keep what is closed here open.
template <class AnySocket>
void keep_from_children(AnySocket& socket) {
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

void reset(Socket& socket) {
    error_code ignored;
    socket.set_option(asio::socket_base::linger(true, 0), ignored);
    socket.close(ignored);
}

}  // namespace

// The state of the thread: the listener, the connections, and the fault in force.
struct FaultProxy::Network : std::enable_shared_from_this<Network> {
    struct Connection {
        explicit Connection(Socket client)
            : near(std::move(client)),
              far(near.get_executor()),
              there(near.get_executor(), near, far),
              back(near.get_executor(), far, near) {}

        Socket near;
        Socket far;
        Direction there;
        Direction back;
    };
    using ConnectionPtr = std::shared_ptr<Connection>;

    Network(Executor executor, std::uint16_t to) : listener(executor), target(to) {}

    void bind(std::uint16_t port);
    void listen();
    void wake_all();
    static Task<> accept_all(std::shared_ptr<Network> self);
    static Task<> serve(std::shared_ptr<Network> self, ConnectionPtr connection);
    static Task<> read(std::shared_ptr<Network> self, ConnectionPtr connection, Direction& way);
    static Task<> write(std::shared_ptr<Network> self, ConnectionPtr connection, Direction& way);

    Listener listener;
    std::uint16_t target;
    bool is_cut = false;
    bool swallows = false;
    milliseconds delay{0};
    std::list<ConnectionPtr> connections;
};

// A socket that is bound and does not listen refuses, and no other program can take the port.
void FaultProxy::Network::bind(std::uint16_t port) {
    listener.open(asio::ip::tcp::v4());
    keep_from_children(listener);
    listener.set_option(asio::socket_base::reuse_address(true));
    listener.bind(on_loopback(port));
}

void FaultProxy::Network::listen() {
    listener.listen();
    spawn_vital(listener.get_executor(), accept_all(shared_from_this()));
}

void FaultProxy::Network::wake_all() {
    for (const ConnectionPtr& connection : connections) {
        connection->there.wake.cancel();
        connection->back.wake.cancel();
    }
}

Task<> FaultProxy::Network::accept_all(std::shared_ptr<Network> self) {
    while (true) {
        auto [ec, client] = co_await self->listener.async_accept(as_values);
        if (ec) co_return;
        keep_from_children(client);
        auto connection = std::make_shared<Connection>(std::move(client));
        self->connections.push_back(connection);
        spawn_vital(self->listener.get_executor(), serve(self, connection));
    }
}

Task<> FaultProxy::Network::serve(std::shared_ptr<Network> self, ConnectionPtr connection) {
    error_code ignored;
    connection->far.open(asio::ip::tcp::v4(), ignored);
    keep_from_children(connection->far);
    const auto [ec] = co_await connection->far.async_connect(on_loopback(self->target), as_values);
    if (ec || !connection->near.is_open()) {
        reset(connection->near);
        reset(connection->far);
        self->connections.remove(connection);
        co_return;
    }
    const auto executor = self->listener.get_executor();
    connection->near.set_option(asio::ip::tcp::no_delay(true), ignored);
    connection->far.set_option(asio::ip::tcp::no_delay(true), ignored);
    for (Direction* way : {&connection->there, &connection->back}) {
        spawn_vital(executor, read(self, connection, *way));
        spawn_vital(executor, write(self, connection, *way));
    }
}

Task<> FaultProxy::Network::read(std::shared_ptr<Network> self, ConnectionPtr connection,
                                 Direction& way) {
    std::array<char, kPieceBytes> piece;
    Timer pause(self->listener.get_executor());
    while (connection->near.is_open()) {
        if (way.under_way.size() >= kUnderWayMax) {
            pause.expires_after(milliseconds{1});
            co_await pause.async_wait(as_values);
            continue;
        }
        const auto room = asio::buffer(piece);
        const auto [ec, size] = co_await way.from.async_read_some(room, as_values);
        way.under_way.push_back(
            {SteadyClock::now() + self->delay, std::string(piece.data(), ec ? 0 : size)});
        way.wake.cancel();
        if (ec) co_return;
    }
}

Task<> FaultProxy::Network::write(std::shared_ptr<Network> self, ConnectionPtr connection,
                                  Direction& way) {
    while (connection->near.is_open()) {
        const bool is_stuck = self->swallows || way.under_way.empty();
        if (is_stuck || way.under_way.front().due > SteadyClock::now()) {
            way.wake.expires_at(is_stuck ? SteadyClock::time_point::max()
                                         : way.under_way.front().due);
            co_await way.wake.async_wait(as_values);
            continue;
        }
        const std::string bytes = std::move(way.under_way.front().bytes);
        way.under_way.pop_front();
        const auto [ec, size] = co_await asio::async_write(way.to, asio::buffer(bytes), as_values);
        // Ends and resets alike end both directions.
        if (ec || bytes.empty()) break;
    }
    error_code ignored;
    connection->near.close(ignored);
    connection->far.close(ignored);
    connection->there.wake.cancel();
    connection->back.wake.cancel();
    self->connections.remove(connection);
}

FaultProxy::FaultProxy(std::uint16_t target)
    : network_(std::make_shared<Network>(io_.get_executor(), target)) {
    network_->bind(0);
    port_ = network_->listener.local_endpoint().port();
    network_->listen();
    thread_ = std::thread([this] {
        const auto work = asio::make_work_guard(io_);
        io_.run();
    });
}

FaultProxy::~FaultProxy() {
    change([](Network& network) {
        network.listener.close();
        for (const auto& connection : network.connections) reset(connection->near);
    });
    io_.stop();
    thread_.join();
}

void FaultProxy::cut() {
    change([port = port_](Network& network) {
        if (std::exchange(network.is_cut, true)) return;
        network.listener.close();
        for (const auto& connection : network.connections) {
            reset(connection->near);
            reset(connection->far);
        }
        network.wake_all();
        network.bind(port);
    });
}

void FaultProxy::swallow() {
    change([](Network& network) { network.swallows = true; });
}

void FaultProxy::delay(milliseconds time) {
    change([time](Network& network) { network.delay = time; });
}

void FaultProxy::heal() {
    change([](Network& network) {
        network.swallows = false;
        network.delay = milliseconds{0};
        network.wake_all();
        if (std::exchange(network.is_cut, false)) network.listen();
    });
}

void FaultProxy::lead_to(std::uint16_t target) {
    change([target](Network& network) { network.target = target; });
}

void FaultProxy::change(const Change& what) {
    std::promise<void> done;
    asio::post(io_, [&] {
        try {
            what(*network_);
            done.set_value();
        } catch (...) {
            done.set_exception(std::current_exception());
        }
    });
    done.get_future().get();
}

}  // namespace tidegate::test
