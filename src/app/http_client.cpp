#include "app/http_client.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "admin/message_reader.hpp"
#include "base/process.hpp"
#include "base/units.hpp"
#include "config/error_message.hpp"
#include "http/head.hpp"
#include "net/byte_stream.hpp"
#include "net/deadline.hpp"
#include "net/name_lookup.hpp"
#include "net/tls_fault.hpp"
#include "tls/certificate.hpp"
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

namespace {

constexpr std::size_t kAnswerHeadMax = std::size_t{16} * 1024;
constexpr std::size_t kAnswerBodyMax = std::size_t{64} * 1024;
// A connection on which no batch was sent for so long is closed.
constexpr std::chrono::seconds kIdleConnection{60};

// In seconds; a date is not read.
std::optional<std::chrono::seconds> retry_after_of(const http::ResponseHead& head) {
    const auto text = http::single_value(head.fields, http::FieldName::retry_after);
    const auto seconds = parse_decimal(text);
    if (!seconds) return std::nullopt;
    constexpr std::int64_t kDay = 86'400;
    return std::chrono::seconds(std::min(*seconds, kDay));
}

// In TLS 1.3 a server refuses the client's certificate, or that there is none, when the client has
// sent its request already.
std::string fault_of_reading(TimedSocket& socket, const admin::MessageReader& reader,
                             error_code unsent) {
    SSL* const tls = socket.tls();
    if (tls != nullptr && !reader.is_heard() &&
        tls_fault(tls, reader.fault().ec, false).wants_certificate) {
        return std::string(kNoClientCertificate);
    }
    return unsent ? "the spans cannot be sent: " + unsent.message()
                  : "its answer cannot be read: " + reason_of(reader.fault());
}

}  // namespace

CollectorClient::CollectorClient(Executor executor, config::HttpsUrl url, TlsSettings tls,
                                 const std::string& header_lines)
    : executor_(std::move(executor)),
      url_(std::move(url)),
      tls_(std::move(tls)),
      head_(fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidegate/{}\r\n"
                        "Content-Type: application/json\r\n{}Content-Length: ",
                        url_.target, url_.authority, kVersion, header_lines)) {}

Task<CollectorClient::Answer> CollectorClient::post(const std::string& json, SteadyTime until) {
    if (!socket_ || !socket_->socket().is_open()) {
        std::string fault = co_await open(until);
        if (!fault.empty()) {
            close();
            co_return Answer{.fault = std::move(fault)};
        }
    }
    // The timer may close the socket, and close() may give it up meanwhile.
    const std::shared_ptr<TimedSocket> socket = socket_;
    socket->expect_within(until - steady_now());
    Answer answer = co_await exchange(json);
    const bool is_open = socket->socket().is_open();
    if (answer.status == 0 && !is_open) {
        answer.is_late = true;
        answer.fault = "it did not answer in time";
    }
    if (is_open && answer.status != 0) {
        socket->expect_within(kIdleConnection);
    } else {
        close();
    }
    co_return answer;
}

void CollectorClient::close() {
    if (socket_) socket_->close();
    socket_.reset();
}

Task<std::string> CollectorClient::open(SteadyTime until) {
    const auto endpoints = co_await look_up(executor_, url_.address, until);
    if (!endpoints) co_return endpoints.error();
    socket_ = std::make_shared<TimedSocket>(StreamSocket(executor_));
    const error_code ec = co_await connect_to_any(socket_, *endpoints, until);
    if (ec) co_return "cannot connect to it: " + ec.message();
    if (!url_.is_tls) co_return std::string();
    socket_->expect_within(until - steady_now());
    co_return co_await begin_tls(*socket_, url_.address.host, tls_);
}

Task<CollectorClient::Answer> CollectorClient::exchange(const std::string& json) {
    const std::shared_ptr<TimedSocket> socket = socket_;
    const std::string head = fmt::format("{}{}\r\n\r\n", head_, json.size());
    // The reason why the collector did not take the request may lie there: an answer.
    const error_code unsent = co_await socket->write(head, json);
    admin::MessageReader reader(*socket, kAnswerHeadMax);
    http::ResponseHead answered;
    const bool is_read = co_await reader.read_head(answered);
    if (!is_read) co_return Answer{.fault = fault_of_reading(*socket, reader, unsent)};
    Answer answer{.status = answered.status, .retry_after = retry_after_of(answered)};
    const int minor_version = answered.minor_version;
    const auto connection = http::single_value(answered.fields, http::FieldName::connection);
    const bool goes_on = minor_version > 0 && !http::equal_ignoring_case(connection, "close");
    const bool is_whole = co_await reader.read_body(answered, kAnswerBodyMax, answer.body);
    if (!is_whole || !goes_on || unsent) socket->close();
    co_return answer;
}

}  // namespace tidegate::app
