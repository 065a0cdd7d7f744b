#include "app/https_get.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>
#include <openssl/ssl.h>

#include "base/units.hpp"
#include "base/version.hpp"
#include "config/error_message.hpp"
#include "net/deadline.hpp"
#include "net/name_lookup.hpp"
#include "net/timed_socket.hpp"
#include "net/tls_fault.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::app {

namespace {

namespace ssl = asio::ssl;
namespace beast = boost::beast;
namespace http = beast::http;

using config::ErrorMessage;
using Endpoints = std::vector<StreamProtocol::endpoint>;
// The socket is closed when its time is over, whatever is being waited for then.
using Socket = TimedSocket;
using TlsStream = ssl::stream<StreamSocket&>;
using Parser = http::response_parser<http::string_body>;

// How often a look-up that is under way is asked whether it is done.
constexpr std::chrono::milliseconds kLookupPause{10};
constexpr std::uint32_t kHeadBytesMax = 16 * 1024;
constexpr std::size_t kBufferBytesMax = std::size_t{64} * 1024;

Task<Result<Endpoints, std::string>> look_up(Executor executor, config::Address address,
                                             SteadyTime until) {
    const NameLookup lookup(address.host, address.port);
    Timer pause(executor);
    while (!lookup.done()) {
        if (steady_now() >= until)
            co_return ErrorMessage{"its host name could not be resolved in time"};
        pause.expires_after(kLookupPause);
        co_await pause.async_wait(as_values);
    }
    if (lookup.endpoints().empty()) {
        co_return ErrorMessage{"its host name could not be resolved: " + lookup.error()};
    }
    co_return lookup.endpoints();
}

bool is_loopback(const StreamProtocol::endpoint& endpoint) {
    constexpr unsigned char kNetwork = 127;
    if (endpoint.data()->sa_family == AF_INET) {
        sockaddr_in in{};
        std::memcpy(&in, endpoint.data(), std::min<std::size_t>(endpoint.size(), sizeof in));
        return ntohl(in.sin_addr.s_addr) >> 24U == kNetwork;
    }
    if (endpoint.data()->sa_family != AF_INET6) return false;
    sockaddr_in6 in{};
    std::memcpy(&in, endpoint.data(), std::min<std::size_t>(endpoint.size(), sizeof in));
    return IN6_IS_ADDR_LOOPBACK(&in.sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr) && in.sin6_addr.s6_addr[12] == kNetwork);
}

// Where a URL without TLS may be asked. A name such as `localhost` says nothing: the addresses do.
Result<Endpoints, std::string> on_this_machine(Endpoints endpoints) {
    std::erase_if(endpoints, [](const auto& endpoint) { return !is_loopback(endpoint); });
    if (endpoints.empty()) {
        return ErrorMessage{
            "its host is not this machine, and Tidegate fetches over `http://` from this machine "
            "only"};
    }
    return endpoints;
}

// Connects to the first that lets us; each gets an equal part of the time that is left, so that
// one which is silent does not use up all of it. Returns what was wrong with the last.
Task<error_code> connect(std::shared_ptr<Socket> socket, Endpoints endpoints, SteadyTime until) {
    error_code ec = asio::error::host_unreachable;
    for (std::size_t tried = 0; tried < endpoints.size(); ++tried) {
        const auto left = std::max(until - steady_now(), SteadyTime::duration::zero());
        socket->expect_within(left / static_cast<int>(endpoints.size() - tried));
        std::tie(ec) = co_await socket->socket().async_connect(endpoints[tried], as_values);
        // Its time may have ended in the same turn of the loop, and the socket with it.
        if (!ec && !socket->socket().is_open()) ec = asio::error::timed_out;
        if (!ec) break;
        socket->close();
    }
    co_return ec;
}

constexpr const char* kNoCertificate = "it asks for a client certificate, and Tidegate sends none";

std::string fault_of_handshake(TlsStream& stream, const error_code& ec) {
    TlsFault fault = tls_fault(stream.native_handle(), ec, false);
    return fault.wants_certificate ? kNoCertificate : std::move(fault.message);
}

// Empty: the server is who it should be.
Task<std::string> shake_hands(TlsStream& stream) {
    const auto [ec] = co_await stream.async_handshake(ssl::stream_base::client, as_values);
    if (ec) co_return fault_of_handshake(stream, ec);
    co_return std::string();
}

std::optional<std::chrono::system_clock::time_point> own_certificate_until(StreamSocket&) {
    return std::nullopt;
}

std::optional<std::chrono::system_clock::time_point> own_certificate_until(TlsStream& stream) {
    const CertificatePtr certificate(SSL_get1_peer_certificate(stream.native_handle()));
    if (certificate == nullptr) return std::nullopt;
    return valid_until(*certificate);
}

std::string fault_of_status(unsigned status) {
    const bool redirect = status >= 300 && status <= 399 && status != 304;
    return fmt::format("it answered {}{}", status,
                       redirect ? ", a redirect, which Tidegate does not follow" : "");
}

std::string fault_of_reading(error_code ec, const HttpsBounds& bounds) {
    if (ec == http::error::body_limit) {
        return fmt::format("its answer is longer than {} bytes", bounds.body_bytes_max);
    }
    return "its answer cannot be read: " + ec.message();
}

bool wants_certificate(TlsStream& stream, error_code end) {
    return tls_fault(stream.native_handle(), end, false).wants_certificate;
}

bool wants_certificate(StreamSocket&, error_code) {
    return false;
}

// Of a server that ended the connection before it said anything.
template <class Stream>
std::string fault_of_silence(Stream& stream, error_code unsent, error_code ec,
                             const HttpsBounds& bounds) {
    const error_code end = ec == http::error::end_of_stream ? asio::error::eof : ec;
    if (wants_certificate(stream, end)) return kNoCertificate;
    return unsent ? "the request cannot be sent: " + unsent.message()
                  : fault_of_reading(ec, bounds);
}

template <class Stream>
Task<Result<HttpsBody, std::string>> exchange(Stream& stream, const config::HttpsUrl& url,
                                              const HttpsBounds& bounds,
                                              const std::string& accept) {
    http::request<http::empty_body> request(http::verb::get, url.target, 11);
    request.set(http::field::host, url.authority);
    request.set(http::field::user_agent, "tidegate/" + std::string(kVersion));
    request.set(http::field::accept, accept);
    request.set(http::field::accept_encoding, "identity");
    request.set(http::field::connection, "close");
    const auto [unsent, sent] = co_await http::async_write(stream, request, as_values);
    beast::flat_buffer buffer(kBufferBytesMax);
    Parser parser;
    parser.header_limit(kHeadBytesMax);
    parser.body_limit(bounds.body_bytes_max);
    // Why it did not take the request may lie there: an answer, or an alert of TLS.
    auto [ec, bytes] = co_await http::async_read_header(stream, buffer, parser, as_values);
    if (ec && !parser.got_some())
        co_return ErrorMessage{fault_of_silence(stream, unsent, ec, bounds)};
    if (ec) co_return ErrorMessage{fault_of_reading(ec, bounds)};
    if (parser.get().result() != http::status::ok) {
        co_return ErrorMessage{fault_of_status(parser.get().result_int())};
    }
    std::tie(ec, bytes) = co_await http::async_read(stream, buffer, parser, as_values);
    if (ec) co_return ErrorMessage{fault_of_reading(ec, bounds)};
    co_return HttpsBody{std::move(parser.get().body()), own_certificate_until(stream)};
}

// All that comes after connecting.
Task<Result<HttpsBody, std::string>> ask(StreamSocket& socket, const config::HttpsUrl& url,
                                         const HttpsBounds& bounds, const std::string& accept,
                                         const std::string& ca) {
    if (!url.is_tls) co_return co_await exchange(socket, url, bounds, accept);
    TlsSettings settings;
    settings.ca = ca;
    const auto client = TlsClient::make(settings);
    if (!client) co_return ErrorMessage{client.error()};
    TlsPtr tls = (*client)->connection_to(url.address.host);
    if (tls == nullptr) co_return ErrorMessage{"its host name is not valid in TLS"};
    TlsStream stream(socket, tls.release());
    std::string fault = co_await shake_hands(stream);
    if (!fault.empty()) co_return ErrorMessage{std::move(fault)};
    co_return co_await exchange(stream, url, bounds, accept);
}

}  // namespace

Task<Result<HttpsBody, std::string>> https_get(Executor executor, config::HttpsUrl url,
                                               HttpsBounds bounds, std::string accept,
                                               std::string ca) {
    const SteadyTime until = steady_now() + bounds.patience;
    auto endpoints = co_await look_up(executor, url.address, until);
    if (endpoints && !url.is_tls) endpoints = on_this_machine(std::move(*endpoints));
    if (!endpoints) co_return ErrorMessage{endpoints.error()};

    const auto socket = std::make_shared<Socket>(StreamSocket(executor));
    const auto too_late = [&] {
        return ErrorMessage{"it did not finish within " + format_duration(bounds.patience)};
    };
    if (const error_code ec = co_await connect(socket, *endpoints, until)) {
        if (steady_now() >= until) co_return too_late();
        co_return ErrorMessage{"cannot connect to it: " + ec.message()};
    }
    socket->expect_within(until - steady_now());
    auto answer = co_await ask(socket->socket(), url, bounds, accept, ca);
    // What it was doing when the socket was closed under it would only mislead.
    const bool late = !socket->socket().is_open();
    socket->close();
    if (!answer && late) co_return too_late();
    co_return answer;
}

}  // namespace tidegate::app
