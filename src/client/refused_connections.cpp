#include "client/refused_connections.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "http/problem.hpp"
#include "telemetry/log.hpp"

namespace tidegate::client {

namespace {

using telemetry::ConnectionRefusal;
using telemetry::Level;

constexpr std::string_view kNoId = "................................";
static_assert(kNoId.size() == RefusedConnections::kIdBytes);
constexpr int kRetryAfterSeconds = 1;
// How much is read from one client at a time: the kernel's buffer holds back the rest.
constexpr int kBlocksATime = 4;
constexpr std::size_t kBlockBytes = 4'096;

std::string_view detail_of(ConnectionRefusal reason) {
    return reason == ConnectionRefusal::max
               ? "Too many connections are open here."
               : "Too many connections are open here from this client's address.";
}

// True once the client has closed, or the connection has failed.
bool discard_input(int descriptor) {
    std::array<char, kBlockBytes> block;
    for (int i = 0; i < kBlocksATime; ++i) {
        const ssize_t bytes = ::recv(descriptor, block.data(), block.size(), MSG_DONTWAIT);
        if (bytes == 0) return true;
        if (bytes < 0) return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
    }
    return false;
}

}  // namespace

RefusedConnections::Answer::Answer(ConnectionRefusal reason) {
    constexpr int kStatus = 503;
    http::append_problem({.status = kStatus,
                          .detail = detail_of(reason),
                          .request_id = kNoId,
                          .violated_policies = {},
                          .retry_after_seconds = kRetryAfterSeconds},
                         body);
    body += '\n';
    head = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nX-Request-Id: {}\r\n"
        "Retry-After: {}\r\nConnection: close\r\n",
        kStatus, http::status_title(kStatus), http::kProblemContentType, body.size(), kNoId,
        kRetryAfterSeconds);
    id_in_head = head.find(kNoId);
    id_in_body = body.find(kNoId);
}

void RefusedConnections::Answer::write(const RefusedConnection& refused) {
    head.replace(id_in_head, kIdBytes, refused.request_id);
    body.replace(id_in_body, kIdBytes, refused.request_id);
    text.assign(head).append(refused.date_line).append(refused.more_lines);
    text.append("\r\n").append(body);
}

RefusedConnections::RefusedConnections(telemetry::MetricsShard& metrics)
    : metrics_(metrics),
      answers_{Answer(ConnectionRefusal::max), Answer(ConnectionRefusal::per_ip)} {}

void RefusedConnections::add(const RefusedConnection& refused, SteadyTime now) {
    const int descriptor = refused.descriptor;
    metrics_.client_refused(refused.reason);
    log(refused.reason, refused.peer, now);
    Answer& answer = answers_[static_cast<std::size_t>(refused.reason)];
    answer.write(refused);
    // The buffer of a new connection takes it whole, or the client has closed already.
    ::send(descriptor, answer.text.data(), answer.text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(descriptor, SHUT_WR);
    if (discard_input(descriptor)) {
        ::close(descriptor);
        return;
    }
    if (kept_.size() == kKeptMax) {
        ::close(kept_.front().descriptor);
        kept_.pop_front();
    }
    kept_.push_back({descriptor, now + kKept});
}

void RefusedConnections::sweep(SteadyTime now) {
    std::erase_if(kept_, [now](const Kept& one) {
        const bool over = discard_input(one.descriptor) || one.until <= now;
        if (over) ::close(one.descriptor);
        return over;
    });
}

void RefusedConnections::close_all() {
    for (const Kept& one : kept_) ::close(one.descriptor);
    kept_.clear();
}

void RefusedConnections::log(ConnectionRefusal reason, const std::optional<IpAddress>& peer,
                             SteadyTime now) {
    if (!log_intervals_[static_cast<std::size_t>(reason)].is_due(now)) return;
    if (reason == ConnectionRefusal::max) {
        telemetry::log(Level::warn, "refusing connections: connections.max is reached");
    } else {
        telemetry::log(Level::warn,
                       "refusing a connection: {} has connections.per_ip connections open",
                       peer ? peer->to_string() : "it");
    }
}

}  // namespace tidegate::client
