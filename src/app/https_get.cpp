#include "app/https_get.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "admin/message_reader.hpp"
#include "app/outgoing_connection.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "config/error_message.hpp"
#include "net/deadline.hpp"
#include "net/timed_socket.hpp"
#include "net/tls_fault.hpp"
#include "tls/certificate.hpp"

namespace tidegate::app {

namespace {

using admin::MessageFault;
using config::ErrorMessage;
constexpr std::size_t kHeadBytesMax = std::size_t{16} * 1024;

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

std::string fault_of_status(int status) {
    const bool redirect = status >= 300 && status <= 399 && status != 304;
    return fmt::format("it answered {}{}", status,
                       redirect ? ", a redirect, which Tidegate does not follow" : "");
}

std::string fault_of_reading(const MessageFault& fault, const HttpsBounds& bounds) {
    if (fault.is_too_long) {
        return fmt::format("its answer is longer than {} bytes", bounds.body_bytes_max);
    }
    return "its answer cannot be read: " + reason_of(fault);
}

// For a server that ended the connection before it sent anything.
std::string fault_of_silence(SSL* tls, error_code unsent, const MessageFault& fault,
                             const HttpsBounds& bounds) {
    if (tls != nullptr && tls_fault(tls, fault.ec, false).wants_certificate) {
        return std::string(kNoClientCertificate);
    }
    return unsent ? "the request cannot be sent: " + unsent.message()
                  : fault_of_reading(fault, bounds);
}

Task<Result<HttpsBody, std::string>> exchange(ByteStream& stream, const config::HttpsUrl& url,
                                              const HttpsBounds& bounds,
                                              const std::string& accept) {
    const std::string request = fmt::format(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidegate/{}\r\nAccept: {}\r\n"
        "Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
        url.target, url.authority, kVersion, accept);
    const error_code unsent = co_await stream.write(request);
    admin::MessageReader reader(stream, kHeadBytesMax);
    http::ResponseHead head;
    // The reason why the server did not take the request may lie there: an answer, or an alert of
    // TLS.
    const bool is_read = co_await reader.read_head(head);
    if (!is_read && !reader.is_heard()) {
        co_return ErrorMessage{fault_of_silence(stream.tls(), unsent, reader.fault(), bounds)};
    }
    if (!is_read) co_return ErrorMessage{fault_of_reading(reader.fault(), bounds)};
    if (head.status != 200) co_return ErrorMessage{fault_of_status(head.status)};
    std::string text;
    const bool is_whole = co_await reader.read_body(head, bounds.body_bytes_max, text);
    if (!is_whole) co_return ErrorMessage{fault_of_reading(reader.fault(), bounds)};
    co_return HttpsBody{std::move(text), peer_valid_until(stream.tls())};
}

// The steps after connecting.
Task<Result<HttpsBody, std::string>> ask(ByteStream& stream, const config::HttpsUrl& url,
                                         const HttpsBounds& bounds, const std::string& accept,
                                         const std::string& ca) {
    if (!url.is_tls) co_return co_await exchange(stream, url, bounds, accept);
    TlsSettings settings;
    settings.ca = ca;
    std::string fault = co_await begin_tls(stream, url.address.host, std::move(settings));
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

    const auto socket = std::make_shared<TimedSocket>(StreamSocket(executor));
    const auto too_late = [&] {
        return ErrorMessage{"it did not finish within " + format_duration(bounds.patience)};
    };
    if (const error_code ec = co_await connect_to_any(socket, *endpoints, until)) {
        if (steady_now() >= until) co_return too_late();
        co_return ErrorMessage{"cannot connect to it: " + ec.message()};
    }
    socket->expect_within(until - steady_now());
    auto answer = co_await ask(*socket, url, bounds, accept, ca);
    // The deadline closed the socket: the error of the interrupted step would only mislead.
    const bool late = !socket->socket().is_open();
    socket->close();
    if (!answer && late) co_return too_late();
    co_return answer;
}

}  // namespace tidegate::app
