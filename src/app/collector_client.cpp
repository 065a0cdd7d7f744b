#include "app/collector_client.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "admin/message_reader.hpp"
#include "app/outgoing_connection.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "http/head.hpp"
#include "net/tls_fault.hpp"

namespace tidegate::app {

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
