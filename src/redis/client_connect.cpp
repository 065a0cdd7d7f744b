// How a client connects: the addresses of its server, TLS, the handshake.
#include <algorithm>
#include <cstring>
#include <utility>

#include "net/name_lookup.hpp"
#include "redis/awaited_command.hpp"
#include "redis/client.hpp"

namespace tidegate::redis {

namespace {

// The interval between two looks whether a name was looked up.
constexpr milliseconds kConnectLookupPause{10};

}  // namespace

Client::Connected Client::connect() {
    auto fault = co_await find_master();
    if (fault) co_return fault;
    fault = co_await open_connection();
    if (!fault) fault = co_await shake_hands();
    // The last answer and the end may arrive together.
    if (!fault && !is_connected_) fault = ConnectFault{false, closed_because_};
    if (fault && connection_ && connection_->tls_was_refused()) fault->refused = true;
    if (fault) fault->message = "Redis at " + place() + ": " + fault->message;
    co_return fault;
}

Client::Connected Client::open_connection() {
    if (!options_.unix_path.empty() && !options_.master_watch) {
        co_return co_await await_connection(begin_connection({}));
    }
    ConnectFault fault;
    // A name may have addresses where nothing listens: `localhost` is ::1 before 127.0.0.1.
    for (const Endpoint& endpoint : co_await resolve(fault.message)) {
        if (stopped_ || moved_to_) break;
        auto failed = co_await await_connection(begin_connection(endpoint));
        if (!failed) co_return std::nullopt;
        fault = std::move(*failed);
    }
    co_return fault;
}

bool Client::begin_connection(const Endpoint& endpoint) {
    drop_connection(Failure::disconnected);
    closed_because_.clear();
    pipeline_.begin_connection(options_.scripts);
    HiredisConnection::Listener& listener = *this;
    connection_ = std::make_shared<HiredisConnection>(executor_, listener);
    if (!options_.unix_path.empty() && !options_.master_watch) {
        return connection_->connect_unix(options_.unix_path, closed_because_);
    }
    const std::string address = endpoint.address().to_string();
    if (!options_.tls) return connection_->connect_tcp(address, endpoint.port(), closed_because_);
    TlsPtr tls = options_.tls->connection_to(options_.master_watch ? master_.host : options_.host);
    if (tls != nullptr) {
        return connection_->connect_tls(address, endpoint.port(), std::move(tls), closed_because_);
    }
    closed_because_ = "its host name is not valid in TLS";
    return false;
}

// The addresses of the host; none, with `reason`, when it has none. The look-up may take as long as
// the system's resolver likes: a stop does not wait for it.
Task<std::vector<Client::Endpoint>> Client::resolve(std::string& reason) {
    const std::string& host = options_.master_watch ? master_.host : options_.host;
    const auto port =
        options_.master_watch ? master_.port : static_cast<std::uint16_t>(options_.port);
    std::vector<Endpoint> endpoints;
    error_code not_numeric;
    const auto address = asio::ip::make_address(host, not_numeric);
    if (!not_numeric) {
        endpoints.emplace_back(address, port);
        co_return endpoints;
    }
    const NameLookup lookup(host, port);
    while (!lookup.done() && !stopped_) co_await pause(kConnectLookupPause);
    if (stopped_) co_return endpoints;
    for (const auto& found : lookup.endpoints()) {
        Endpoint& endpoint = endpoints.emplace_back();
        endpoint.resize(found.size());
        std::memcpy(endpoint.data(), found.data(), found.size());
    }
    if (endpoints.empty()) reason = "cannot resolve the name: " + lookup.error();
    co_return endpoints;
}

// Until the connection, when it could be begun at all, is made.
Client::Connected Client::await_connection(bool begun) {
    if (!begun) co_return ConnectFault{false, closed_because_};
    const SteadyTime deadline = steady_now() + std::max(options_.timeout, kHandshakeTime);
    pause_timer_.expires_at(deadline);
    pause_timer_.async_wait([weak = weak_from_this()](const error_code&) {
        if (const auto self = weak.lock()) self->wakeup_.wake_later();
    });
    while (!is_connected_ && closed_because_.empty() && !stopped_ && steady_now() < deadline) {
        co_await wakeup_.wait();
    }
    pause_timer_.cancel();
    if (is_connected_) co_return std::nullopt;
    if (!closed_because_.empty()) co_return ConnectFault{false, closed_because_};
    co_return ConnectFault{false, connection_ && connection_->awaits_tls()
                                      ? "no answer in TLS: does it speak TLS on this port?"
                                      : "no answer"};
}

Client::Connected Client::shake_hands() {
    Handshake handshake(options_, was_replica_);
    while (auto step = handshake.next(breaker_.is_down())) {
        if (!is_connected_) co_return ConnectFault{false, closed_because_};
        AwaitedCommand command(std::move(step->command), wakeup_);
        pipeline_.send_now({&command, steady_now() + step->time}, to_connection());
        watch_deadlines(false);
        while (!command.done()) co_await wakeup_.wait();
        // The reason for the loss says more than the loss itself.
        if (!command.reply() && !closed_because_.empty()) {
            co_return ConnectFault{false, closed_because_};
        }
        if (!command.reply()) {
            co_return ConnectFault{
                false, command.failure() == Failure::timeout ? "no answer" : "connection closed"};
        }
        if (auto fault = handshake.on_reply(*command.reply())) co_return fault;
        is_master_ = handshake.is_master();
    }
    was_replica_ = false;
    co_return std::nullopt;
}

Task<> Client::pause(milliseconds time) {
    pause_timer_.expires_after(time);
    co_await pause_timer_.async_wait(as_values);
}

}  // namespace tidegate::redis
