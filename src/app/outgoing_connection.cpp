#include "app/outgoing_connection.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "config/error_message.hpp"
#include "net/name_lookup.hpp"
#include "net/tls_fault.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::app {

namespace {

// How often Tidegate looks whether a look-up under way is done.
constexpr std::chrono::milliseconds kLookupPause{10};

}  // namespace

Task<Result<Endpoints, std::string>> look_up(Executor executor, config::Address address,
                                             SteadyTime until) {
    const NameLookup lookup(address.host, address.port);
    Timer pause(executor);
    while (!lookup.done()) {
        if (steady_now() >= until)
            co_return config::ErrorMessage{"its host name could not be resolved in time"};
        pause.expires_after(kLookupPause);
        co_await pause.async_wait(as_values);
    }
    if (lookup.endpoints().empty()) {
        co_return config::ErrorMessage{"its host name could not be resolved: " + lookup.error()};
    }
    co_return lookup.endpoints();
}

Task<error_code> connect_to_any(std::shared_ptr<TimedSocket> socket, Endpoints endpoints,
                                SteadyTime until) {
    error_code ec = asio::error::host_unreachable;
    for (std::size_t tried = 0; tried < endpoints.size(); ++tried) {
        const auto left = std::max(until - steady_now(), SteadyTime::duration::zero());
        socket->expect_within(left / static_cast<int>(endpoints.size() - tried));
        ec = co_await socket->connect(endpoints[tried]);
        // Its time may have ended in the same turn of the loop, and the socket with it.
        if (!ec && !socket->socket().is_open()) ec = asio::error::timed_out;
        if (!ec) break;
        socket->close();
    }
    co_return ec;
}

Task<std::string> begin_tls(ByteStream& stream, std::string host, TlsSettings settings) {
    const auto client = TlsClient::make(settings);
    if (!client) co_return client.error();
    TlsPtr tls = (*client)->connection_to(host);
    if (tls == nullptr) co_return "its host name is not valid in TLS";
    stream.begin_tls(std::move(tls));
    const error_code ec = co_await stream.shake_hands();
    if (!ec) co_return std::string();
    TlsFault fault = tls_fault(stream.tls(), ec, false);
    co_return fault.wants_certificate ? std::string(kNoClientCertificate)
                                      : std::move(fault.message);
}

}  // namespace tidegate::app
