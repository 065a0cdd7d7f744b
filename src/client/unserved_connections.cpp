#include "client/unserved_connections.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "http/problem.hpp"
#include "http/proxy_header.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::client {

namespace {

constexpr std::chrono::milliseconds kPatienceInDrain{500};

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

using telemetry::Level;

constexpr std::string_view kTooMany =
    "connections that wait for PROXY headers or TLS handshakes are a quarter of connections.max "
    "already: raise it, or bound addresses by connections.new_per_ip";

// The reason, and what to do about it.
std::string_view refusal_words(ProxyHeaderRefusal reason) {
    switch (reason) {
        case ProxyHeaderRefusal::timeout:
            return "its PROXY header did not come within timeouts.tls_handshake";
        case ProxyHeaderRefusal::too_many:
            return kTooMany;
        default:
            return "its PROXY header ";  // and the fault
    }
}

std::string_view refusal_words(TlsHandshakeFailure reason) {
    switch (reason) {
        case TlsHandshakeFailure::plain_http:
            return "the client speaks HTTP in the clear, and the listener speaks TLS: its URL "
                   "needs `https`";
        case TlsHandshakeFailure::proxy_header:
            return "the peer sends a PROXY header, and the listener takes none: if it is your "
                   "balancer, write `proxy_protocol: {from: [...]}` beside the address of the "
                   "listener";
        case TlsHandshakeFailure::timeout:
            return "the client did not finish the TLS handshake within timeouts.tls_handshake";
        case TlsHandshakeFailure::too_many:
            return kTooMany;
        default:
            return "the client ";  // and the fault
    }
}

// Faults of clients are no faults of the configuration; on the internet they are frequent.
Level level_of(TlsHandshakeFailure reason) {
    const bool is_ours =
        reason == TlsHandshakeFailure::too_many || reason == TlsHandshakeFailure::proxy_header;
    return is_ours ? Level::warn : Level::info;
}

std::string peer_name(const std::optional<IpAddress>& peer) {
    return peer ? peer->to_string() : "a Unix socket";
}

void log_closed(Level level, const std::optional<IpAddress>& peer, const std::string& listener,
                std::string_view why, std::string_view fault) {
    telemetry::log(level, "closed a connection from {} to the listener on {}: {}{}",
                   peer_name(peer), listener, why, fault);
}

}  // namespace

ProxyHeaderWait::ProxyHeaderWait(Executor executor, DeadlineWheel& deadlines,
                                 ConnectionPtr connection, const Arrival& arrival)
    : sleeper_(std::move(executor), deadlines),
      connection_(std::move(connection)),
      arrival_(arrival) {
    arrival_.has_proxy_header = true;
}

Task<ProxyHeaderWait::End> ProxyHeaderWait::run(std::chrono::milliseconds patience) {
    sleeper_.allow(is_stopping_ ? kPatienceInDrain : patience);
    for (;;) {
        if (connection_->readable()) {
            if (const std::optional<End> end = look()) co_return *end;
        }
        if (sleeper_.expired()) co_return is_stopping_ ? End::left : End::timeout;
        connection_->watch_read(&sleeper_.wakeup());
        co_await sleeper_.sleep();
    }
}

std::optional<ProxyHeaderWait::End> ProxyHeaderWait::look() {
    std::array<char, http::kProxyHeaderBytesMax> bytes;
    const IoResult seen = connection_->peek_some(bytes);
    if (seen.status == IoStatus::would_block) return std::nullopt;
    if (seen.status != IoStatus::ok) return End::left;
    const http::ProxyHeader header = http::read_proxy_header({bytes.data(), seen.bytes});
    fault_ = header.fault;
    if (header.state == http::ProxyHeader::State::malformed) return End::malformed;
    if (header.state == http::ProxyHeader::State::incomplete) {
        if (!connection_->has_hung_up()) {
            connection_->await_more();
            return std::nullopt;
        }
        fault_ = "is not whole";
        return End::malformed;
    }
    const IoResult taken = connection_->read_some({bytes.data(), header.bytes});
    if (taken.bytes != header.bytes) return End::left;
    const bool is_all = seen.bytes == header.bytes && seen.bytes < bytes.size();
    if (is_all && !connection_->has_hung_up()) connection_->await_more();
    if (header.ends) {
        arrival_.peer.address = header.ends->source;
        arrival_.local_port = header.ends->destination_port;
        arrival_.port_is_published = true;
    }
    return End::complete;
}

void ProxyHeaderWait::on_drain() {
    is_stopping_ = true;
    sleeper_.allow(kPatienceInDrain);
}

void ProxyHeaderWait::cut_off() {
    is_stopping_ = true;
    if (connection_) connection_->reset();
    sleeper_.wakeup().wake_later();
}

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

void UnservedConnections::add(ProxyHeaderRefusal reason, const std::optional<IpAddress>& peer,
                              const std::string& listener, std::string_view fault, SteadyTime now) {
    metrics_.proxy_headers_refused[reason].add();
    if (!header_intervals_[static_cast<std::size_t>(reason)].is_due(now)) return;
    if (reason == ProxyHeaderRefusal::peer) {
        return telemetry::log(Level::warn,
                              "closed a connection from {}, which is not in `proxy_protocol.from` "
                              "of the listener on {}: add it to `from` if it is your balancer; "
                              "clients need another listener",
                              peer_name(peer), listener);
    }
    log_closed(Level::warn, peer, listener, refusal_words(reason), fault);
}

void UnservedConnections::add(TlsHandshakeFailure reason, const std::optional<IpAddress>& peer,
                              const std::string& listener, std::string_view fault, SteadyTime now) {
    metrics_.tls_handshakes_failed[reason].add();
    if (!handshake_intervals_[static_cast<std::size_t>(reason)].is_due(now)) return;
    log_closed(level_of(reason), peer, listener, refusal_words(reason), fault);
}

}  // namespace tidegate::client
