#include "doctor/wire.hpp"

#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include <boost/asio/write.hpp>
#include <openssl/ssl.h>

#include "net/name_lookup.hpp"
#include "net/tls_fault.hpp"
#include "tls/certificate.hpp"

namespace tidegate::doctor {

namespace {

using boost::system::in_place_error;

// How often a look-up that is under way is asked whether it is done.
constexpr std::chrono::milliseconds kLookupPause{5};
constexpr std::size_t kPieceBytes = 16'384;

std::string words_of(const error_code& ec) {
    if (ec == asio::error::timed_out) return "no answer in time";
    if (ec == asio::error::eof) return "it closed the connection";
    return ec.message();
}

}  // namespace

Result<Endpoints, std::string> find_endpoints(const config::Address& address, SteadyTime until) {
    if (address.is_unix()) {
        return Endpoints{asio::local::stream_protocol::endpoint(address.unix_path)};
    }
    const NameLookup lookup(address.host, address.port);
    while (!lookup.done()) {
        if (std::chrono::steady_clock::now() >= until) {
            return {in_place_error, "its name could not be looked up in time"};
        }
        std::this_thread::sleep_for(kLookupPause);
    }
    if (lookup.endpoints().empty()) {
        return {in_place_error, "its name cannot be looked up: " + lookup.error()};
    }
    return lookup.endpoints();
}

std::string endpoint_text(const StreamProtocol::endpoint& endpoint) {
    if (endpoint.protocol().family() == AF_UNIX) {
        asio::local::stream_protocol::endpoint local;
        local.resize(endpoint.size());
        std::memcpy(local.data(), endpoint.data(), endpoint.size());
        return local.path();
    }
    asio::ip::tcp::endpoint tcp;
    tcp.resize(endpoint.size());
    std::memcpy(tcp.data(), endpoint.data(), endpoint.size());
    const std::string host = tcp.address().to_string();
    const std::string port = std::to_string(tcp.port());
    return tcp.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

Wire::Wire() : socket_(io_) {}
Wire::~Wire() = default;

// `begin` starts an operation with the handler it is given. When its time is over the socket is
// closed, which ends it.
template <class Begin>
error_code Wire::await(Begin begin, SteadyTime until) {
    bool done = false;
    error_code result;
    begin([&](const error_code& ec, auto...) {
        done = true;
        result = ec;
    });
    io_.restart();
    while (!done && io_.run_one_until(until) > 0) {
    }
    if (done) return result;
    error_code ignored;
    socket_.close(ignored);
    while (!done && io_.run_one() > 0) {
    }
    return asio::error::timed_out;
}

std::string Wire::connect(const StreamProtocol::endpoint& endpoint, SteadyTime until) {
    const error_code ec =
        await([&](auto handler) { socket_.async_connect(endpoint, std::move(handler)); }, until);
    return ec ? words_of(ec) : "";
}

std::string Wire::encrypt(TlsPtr tls, SteadyTime until) {
    tls_.emplace(socket_, tls.release());
    const error_code ec = await(
        [&](auto handler) {
            tls_->async_handshake(asio::ssl::stream_base::client, std::move(handler));
        },
        until);
    if (!ec) return {};
    return ec == asio::error::timed_out ? "no answer in time to the handshake of TLS"
                                        : words_for_end(ec);
}

std::string Wire::words_for_end(const error_code& ec) {
    if (!tls_ || ec == asio::error::timed_out) return words_of(ec);
    TlsFault fault = tls_fault(tls_->native_handle(), ec, is_heard_);
    wants_certificate_ = fault.wants_certificate;
    return std::move(fault.message);
}

std::optional<std::chrono::system_clock::time_point> Wire::certificate_until() const {
    if (!tls_) return std::nullopt;
    // asio's accessor is not const, though what it gives is a pointer.
    SSL* const tls = const_cast<TlsStream&>(*tls_).native_handle();
    const CertificatePtr certificate(SSL_get1_peer_certificate(tls));
    if (certificate == nullptr) return std::nullopt;
    return valid_until(*certificate);
}

std::string Wire::write(std::string_view bytes, SteadyTime until) {
    const auto buffer = asio::buffer(bytes);
    const error_code ec = await(
        [&](auto handler) {
            if (tls_) {
                asio::async_write(*tls_, buffer, std::move(handler));
            } else {
                asio::async_write(socket_, buffer, std::move(handler));
            }
        },
        until);
    if (!ec) return {};
    // Why the server has closed may lie there: an alert of TLS.
    std::string unread;
    std::string why = tls_ && ec != asio::error::timed_out ? read(unread, until) : "";
    return why.empty() ? words_for_end(ec) : why;
}

std::string Wire::read(std::string& to, SteadyTime until) {
    std::array<char, kPieceBytes> piece;
    std::size_t size = 0;
    const error_code ec = await(
        [&](auto handler) {
            const auto keep = [&size, handler](const error_code& outcome, std::size_t bytes) {
                size = bytes;
                handler(outcome);
            };
            if (tls_) {
                tls_->async_read_some(asio::buffer(piece), keep);
            } else {
                socket_.async_read_some(asio::buffer(piece), keep);
            }
        },
        until);
    if (ec) return words_for_end(ec);
    is_heard_ = true;
    to.append(piece.data(), size);
    return {};
}

}  // namespace tidegate::doctor
