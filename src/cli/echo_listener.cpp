#include "cli/echo_listener.hpp"

#include <unistd.h>

#include <cstring>
#include <system_error>

#include <boost/asio/ip/v6_only.hpp>

namespace tidegate::cli {

namespace {

using Endpoint = StreamProtocol::endpoint;

[[noreturn]] void fail(const config::Address& address, error_code ec) {
    throw std::system_error(ec, "echo: cannot listen on " + address.to_string());
}

Endpoint checked_endpoint_of(const config::Address& address) {
    if (address.is_unix()) {
        const asio::local::stream_protocol::endpoint longest;
        if (address.unix_path.size() + sizeof(sa_family_t) >= longest.capacity()) {
            fail(address, asio::error::name_too_long);
        }
        return asio::local::stream_protocol::endpoint(address.unix_path);
    }
    error_code ec;
    const auto ip = asio::ip::make_address(address.host, ec);
    if (ec) fail(address, ec);
    return asio::ip::tcp::endpoint(ip, address.port);
}

// A name in the file system outlives a server that was killed; no server answers there any more.
bool is_left_behind(const Executor& executor, const Endpoint& endpoint) {
    StreamSocket probe(executor, endpoint.protocol());
    error_code ec;
    probe.connect(endpoint, ec);
    return ec == asio::error::connection_refused;
}

error_code bind_and_listen(Acceptor& acceptor, const Endpoint& endpoint) {
    error_code ec;
    acceptor.open(endpoint.protocol(), ec);
    // Every address is that of IPv4, too.
    if (!ec && endpoint.protocol().family() == AF_INET6) {
        acceptor.set_option(asio::ip::v6_only(false), ec);
    }
    if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec) acceptor.bind(endpoint, ec);
    if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
    return ec;
}

std::uint16_t port_of(const Acceptor& acceptor) {
    const Endpoint local = acceptor.local_endpoint();
    asio::ip::tcp::endpoint tcp;
    tcp.resize(local.size());
    std::memcpy(tcp.data(), local.data(), local.size());
    return tcp.port();
}

}  // namespace

EchoListener::EchoListener(const Executor& executor, const config::Address& address)
    : acceptor_(executor), address_(address) {
    const Endpoint endpoint = checked_endpoint_of(address);
    error_code ec = bind_and_listen(acceptor_, endpoint);
    if (ec == asio::error::address_family_not_supported && address.host == config::kEveryAddress) {
        address_.host = "0.0.0.0";
        ec = bind_and_listen(acceptor_, checked_endpoint_of(address_));
    }
    if (ec == asio::error::address_in_use && address.is_unix() &&
        is_left_behind(executor, endpoint)) {
        ::unlink(address.unix_path.c_str());
        acceptor_.close();
        ec = bind_and_listen(acceptor_, endpoint);
    }
    if (ec) fail(address, ec);
    if (!address.is_unix()) address_.port = port_of(acceptor_);
}

EchoListener::~EchoListener() {
    if (address_.is_unix()) ::unlink(address_.unix_path.c_str());
}

}  // namespace tidegate::cli
