#include "app/http_client.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/process.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "http/head.hpp"
#include "net/byte_stream.hpp"
#include "net/name_lookup.hpp"
#include "net/tls_fault.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::app {

namespace {

using Endpoints = std::vector<StreamProtocol::endpoint>;
using Fault = HttpAnswer::Fault;

// How often Tidegate looks whether a look-up under way is done.
constexpr std::chrono::milliseconds kLookupPause{10};
constexpr std::size_t kHeadBytesMax = std::size_t{16} * 1024;
// A connection that no call has used for so long is closed.
constexpr std::chrono::seconds kIdleConnection{60};
// The server has asked for a certificate of the client in TLS.
constexpr const char* kNoClientCertificate =
    "it asks for a client certificate, and Tidegate sends none";

Task<Result<Endpoints, std::string>> look_up(Executor executor, config::Address address,
                                             SteadyTime until) {
    if (address.is_unix()) {
        co_return Endpoints{asio::local::stream_protocol::endpoint(address.unix_path)};
    }
    error_code is_name;
    const auto ip = asio::ip::make_address(address.host, is_name);
    if (!is_name) co_return Endpoints{asio::ip::tcp::endpoint(ip, address.port)};
    const NameLookup lookup(address.host, address.port);
    Timer pause(executor);
    while (!lookup.done()) {
        if (steady_now() >= until) {
            co_return ErrorMessage{"its host name could not be resolved in time"};
        }
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

// Connects to the first endpoint that lets us; each gets an equal part of the time that is left, so
// that one which is silent does not use up all of it. Returns what was wrong with the last.
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

// The handshake as a client. Returns the fault; empty: none.
Task<std::string> begin_tls(ByteStream& stream, std::string host, TlsSettings settings) {
    const auto client = TlsClient::make(settings);
    if (!client) co_return client.error();
    TlsPtr tls = (*client)->connection_to(host);
    if (tls == nullptr) co_return "its host name is not valid in TLS";
    stream.begin_tls(std::move(tls));
    const error_code ec = co_await stream.shake_hands();
    if (!ec) co_return std::string();
    TlsFault fault = tls_fault(stream.tls(), ec, false);
    co_return fault.wants_certificate ? kNoClientCertificate : std::move(fault.message);
}

// In seconds; a date is not read.
std::optional<std::chrono::seconds> retry_after_of(const http::ResponseHead& head) {
    const auto text = http::single_value(head.fields, http::FieldName::retry_after);
    const auto seconds = parse_decimal(text);
    if (!seconds) return std::nullopt;
    constexpr std::int64_t kDay = 86'400;
    return std::chrono::seconds(std::min(*seconds, kDay));
}

// Whether the server takes another request behind this answer (RFC 9112 section 9.3).
bool goes_on(const http::ResponseHead& head) {
    const auto connection = http::single_value(head.fields, http::FieldName::connection);
    return head.minor_version > 0 && !http::equal_ignoring_case(connection, "close");
}

// Why no answer, or not all of it, was read. `unsent`: why the request was not sent whole.
void note_fault(ByteStream& stream, const MessageReader& reader, error_code unsent,
                const HttpCall& call, HttpAnswer& answer) {
    const MessageFault& fault = reader.fault();
    answer.is_late = !stream.socket().is_open();
    // In TLS 1.3 a server refuses the client's certificate, or that there is none, when the client
    // has sent its request already.
    SSL* const tls = stream.tls();
    if (tls != nullptr && !reader.is_heard() && tls_fault(tls, fault.ec, false).wants_certificate) {
        answer.fault = Fault::handshake;
        answer.reason = kNoClientCertificate;
    } else if (unsent && !reader.is_heard()) {
        answer.fault = Fault::send;
        answer.reason = unsent.message();
    } else if (fault.is_too_long) {
        answer.fault = Fault::too_long;
        answer.reason = fmt::format("its answer is longer than {} bytes", call.body_bytes_max);
    } else {
        answer.fault = Fault::read;
        answer.reason = reason_of(fault);
    }
}

}  // namespace

std::string HttpAnswer::fault_text(std::string_view what) const {
    if (may_have_been_taken()) return "it did not answer in time";
    if (fault == Fault::connect) return "cannot connect to it: " + reason;
    if (fault == Fault::send) return fmt::format("{} cannot be sent: {}", what, reason);
    if (fault == Fault::read) return "its answer cannot be read: " + reason;
    return reason;
}

HttpClient::HttpClient(Executor executor, Server server)
    : executor_(std::move(executor)), server_(std::move(server)) {}

Task<HttpAnswer> HttpClient::call(HttpCall call) {
    if (!socket_ || !socket_->socket().is_open()) {
        HttpAnswer unasked = co_await open(call.until);
        if (unasked.fault != Fault::none) {
            close();
            co_return unasked;
        }
    }
    // The timer may close the socket, and close() may give it up meanwhile.
    const std::shared_ptr<TimedSocket> socket = socket_;
    socket->expect_within(call.until - steady_now());
    bool is_kept = false;
    HttpAnswer answer = co_await exchange(*socket, call, is_kept);
    if (is_kept && socket->socket().is_open()) {
        socket->expect_within(kIdleConnection);
    } else {
        socket->close();
    }
    co_return answer;
}

Task<HttpAnswer> HttpClient::open(SteadyTime until) {
    auto endpoints = co_await look_up(executor_, server_.address, until);
    if (!endpoints) co_return HttpAnswer{.fault = Fault::look_up, .reason = endpoints.error()};
    // A name such as `localhost` says nothing: the addresses do.
    if (server_.is_on_this_machine) std::erase_if(*endpoints, std::not_fn(is_loopback));
    if (endpoints->empty()) {
        co_return HttpAnswer{.fault = Fault::look_up,
                             .reason =
                                 "its host is not this machine, and Tidegate fetches over "
                                 "`http://` from this machine only"};
    }
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(executor_));
    socket_ = socket;
    if (const error_code ec = co_await connect_to_any(socket, *endpoints, until)) {
        co_return HttpAnswer{
            .fault = Fault::connect, .reason = ec.message(), .is_late = steady_now() >= until};
    }
    if (!server_.tls) co_return HttpAnswer();
    socket->expect_within(until - steady_now());
    std::string fault = co_await begin_tls(*socket, server_.address.host, *server_.tls);
    if (fault.empty()) co_return HttpAnswer();
    co_return HttpAnswer{.fault = Fault::handshake,
                         .reason = std::move(fault),
                         .is_late = !socket->socket().is_open()};
}

Task<HttpAnswer> HttpClient::exchange(TimedSocket& socket, HttpCall call, bool& is_kept) {
    // The reason why the server did not take the request may lie there: an answer, or an alert of
    // TLS.
    const error_code unsent = co_await socket.write(call.head, call.body);
    MessageReader reader(socket, kHeadBytesMax);
    http::ResponseHead head;
    HttpAnswer answer;
    bool is_read = co_await reader.read_head(head);
    if (is_read) {
        answer.status = head.status;
        answer.retry_after = retry_after_of(head);
        if (!call.field.empty()) answer.field = http::single_value(head.fields, call.field);
        const bool may_go_on = goes_on(head) && !unsent;
        if (call.body_of != 0 && head.status != call.body_of) co_return answer;
        is_read = co_await reader.read_body(head, call.body_bytes_max, answer.body);
        is_kept = is_read && may_go_on;
    }
    if (!is_read) note_fault(socket, reader, unsent, call, answer);
    co_return answer;
}

std::optional<Validity> HttpClient::certificate_validity() const {
    return socket_ ? peer_validity(socket_->tls()) : std::nullopt;
}

void HttpClient::close() {
    if (socket_) socket_->close();
    socket_.reset();
}

namespace {

HttpClient::Server server_of(const config::HttpsUrl& url, TlsSettings tls) {
    HttpClient::Server server{.address = url.address};
    if (url.is_tls) server.tls = std::move(tls);
    return server;
}

}  // namespace

Task<Result<HttpsBody, std::string>> https_get(Executor executor, config::HttpsUrl url,
                                               HttpsBounds bounds, std::string accept,
                                               std::string ca) {
    constexpr int kOk = 200;
    constexpr int kNotModified = 304;
    TlsSettings tls;
    tls.ca = std::move(ca);
    HttpClient::Server server = server_of(url, std::move(tls));
    server.is_on_this_machine = !url.is_tls && !url.is_insecure;
    HttpClient client(executor, std::move(server));
    const std::string head = fmt::format(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidegate/{}\r\nAccept: {}\r\n"
        "Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
        url.target, url.authority, kVersion, accept);
    HttpAnswer answer = co_await client.call({.head = head,
                                              .until = steady_now() + bounds.patience,
                                              .body_bytes_max = bounds.body_bytes_max,
                                              .body_of = kOk});
    const auto certificate = client.certificate_validity();
    client.close();
    // The error of the step that the deadline has interrupted would only mislead.
    if (answer.is_late) {
        co_return ErrorMessage{"it did not finish within " + format_duration(bounds.patience)};
    }
    if (answer.fault != Fault::none) co_return ErrorMessage{answer.fault_text()};
    if (answer.status == kOk) co_return HttpsBody{std::move(answer.body), certificate};
    const bool is_redirect =
        answer.status >= 300 && answer.status <= 399 && answer.status != kNotModified;
    co_return ErrorMessage{
        fmt::format("it answered {}{}", answer.status,
                    is_redirect ? ", a redirect, which Tidegate does not follow" : "")};
}

CollectorClient::CollectorClient(Executor executor, const config::HttpsUrl& url, TlsSettings tls,
                                 const std::string& header_lines)
    : client_(std::move(executor), server_of(url, std::move(tls))),
      head_(fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidegate/{}\r\n"
                        "Content-Type: application/json\r\n{}Content-Length: ",
                        url.target, url.authority, kVersion, header_lines)) {}

Task<HttpAnswer> CollectorClient::post(const std::string& json, SteadyTime until) {
    const std::string head = fmt::format("{}{}\r\n\r\n", head_, json.size());
    co_return co_await client_.call({.head = head, .body = json, .until = until});
}

}  // namespace tidegate::app
