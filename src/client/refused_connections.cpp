#include "client/refused_connections.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "http/problem.hpp"
#include "telemetry/log.hpp"

namespace tidegate::client {

namespace {

using telemetry::Level;

constexpr std::string_view kNoId = "................................";
static_assert(kNoId.size() == RefusedConnections::kIdBytes);
constexpr int kRetryAfterSeconds = 1;
// How much is read from one client at a time: the kernel's buffer holds back the rest.
constexpr int kBlocksATime = 4;
constexpr std::size_t kBlockBytes = 4'096;

constexpr EnumTexts<ConnectionRefusal> kDetails(
    {{ConnectionRefusal::max, "Too many connections are open here."},
     {ConnectionRefusal::per_ip, "Too many connections are open here from this client's address."},
     {ConnectionRefusal::new_per_ip,
      "This client's address opens too many connections in a second."}});

std::string_view detail_of(const std::optional<ConnectionRefusal>& reason) {
    return reason ? kDetails[*reason] : "This port speaks TLS: use https.";
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

RefusedConnections::Answer::Answer(const std::optional<ConnectionRefusal>& reason) {
    const int status = reason ? 503 : 400;
    http::Problem problem{.status = status,
                          .detail = detail_of(reason),
                          .request_id = kNoId,
                          .violated_policies = {},
                          .retry_after_seconds = {}};
    if (reason) problem.retry_after_seconds = kRetryAfterSeconds;
    http::append_problem(problem, body);
    body += '\n';
    head = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nX-Request-Id: {}\r\n", status,
        http::status_title(status), http::kProblemContentType, body.size(), kNoId);
    if (reason) head += fmt::format("Retry-After: {}\r\n", kRetryAfterSeconds);
    head += "Connection: close\r\n";
    id_in_head = head.find(kNoId);
    id_in_body = body.find(kNoId);
}

void RefusedConnections::Answer::write(const RefusedConnection& refused) {
    head.replace(id_in_head, kIdBytes, refused.request_id);
    body.replace(id_in_body, kIdBytes, refused.request_id);
    text.assign(head).append(refused.date_line).append(refused.more_lines);
    text.append("\r\n").append(body);
}

RefusedConnections::RefusedConnections(Metrics& metrics)
    : metrics_(metrics),
      answers_{Answer(ConnectionRefusal::max), Answer(ConnectionRefusal::per_ip),
               Answer(ConnectionRefusal::new_per_ip), Answer(std::nullopt)} {}

void RefusedConnections::add(RefusedConnection refused, SteadyTime now) {
    if (refused.reason) note(*refused.reason, refused.peer, now);
    Answer& answer =
        refused.reason ? answers_[static_cast<std::size_t>(*refused.reason)] : answers_.back();
    answer.write(refused);
    // The buffer of a new connection takes it whole, or the client has closed already.
    ::send(refused.descriptor.get(), answer.text.data(), answer.text.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
    part_from(std::move(refused.descriptor), now);
}

void RefusedConnections::add_unanswered(ConnectionRefusal reason, Descriptor,
                                        const std::optional<IpAddress>& peer, SteadyTime now) {
    note(reason, peer, now);
}

void RefusedConnections::part_from(Descriptor descriptor, SteadyTime now) {
    ::shutdown(descriptor.get(), SHUT_WR);
    if (discard_input(descriptor.get())) return;
    if (kept_.size() == kKeptMax) kept_.pop_front();
    kept_.push_back({std::move(descriptor), now + kKept});
}

void RefusedConnections::sweep(SteadyTime now) {
    std::erase_if(kept_, [now](const Kept& one) {
        return discard_input(one.descriptor.get()) || one.until <= now;
    });
}

void RefusedConnections::note(ConnectionRefusal reason, const std::optional<IpAddress>& peer,
                              SteadyTime now) {
    metrics_.refused[reason].add();
    if (!log_intervals_[static_cast<std::size_t>(reason)].is_due(now)) return;
    const std::string whose = peer ? peer->to_string() : "it";
    switch (reason) {
        case ConnectionRefusal::max:
            return telemetry::log(Level::warn, "refusing connections: connections.max is reached");
        case ConnectionRefusal::per_ip:
            return telemetry::log(
                Level::warn, "refusing a connection: {} has connections.per_ip connections open",
                whose);
        case ConnectionRefusal::new_per_ip:
            return telemetry::log(Level::warn,
                                  "refusing a connection: {} opens more than "
                                  "connections.new_per_ip connections in a second",
                                  whose);
    }
}

}  // namespace tidegate::client
