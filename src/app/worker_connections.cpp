// The part of a worker that opens and refuses connections, and reads their PROXY headers.
//
// A connection that is not served yet counts in `connections.max` from the start, and among those
// that cannot speak HTTP yet, which are a quarter of them at most. When they are, the address with
// most TLS handshakes makes room for others. Where TLS is spoken the worker closes what it refuses
// without an answer: the client could not read one.
//
// Behind a balancer, the PROXY header names the client, for `connections.per_ip` and for
// trusting forwarding fields.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "app/worker.hpp"

namespace tidegate::app {

using client::ConnectionRefusal;
using client::ProxyHeaderRefusal;
using client::ProxyHeaderWait;
using client::TlsHandshake;
using client::TlsHandshakeFailure;

namespace {

std::optional<IpAddress> address_of(const sockaddr_storage& from) {
    IpAddress ip;
    if (from.ss_family == AF_INET) {
        sockaddr_in in{};
        std::memcpy(&in, &from, sizeof in);
        std::memcpy(ip.bytes.data(), &in.sin_addr, 4);
        return ip;
    }
    if (from.ss_family != AF_INET6) return std::nullopt;
    sockaddr_in6 in{};
    std::memcpy(&in, &from, sizeof in);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
        std::memcpy(ip.bytes.data(), in.sin6_addr.s6_addr + 12, 4);
    } else {
        ip.v4 = false;
        std::memcpy(ip.bytes.data(), in.sin6_addr.s6_addr, 16);
    }
    return ip;
}

std::chrono::milliseconds time_until(SteadyTime moment) {
    return std::chrono::ceil<std::chrono::milliseconds>(
        std::max(moment - steady_now(), SteadyTime::duration::zero()));
}

}  // namespace

Result<client::ConnectionLimit::Slot, client::ConnectionRefusal> Worker::take_slot(
    const std::optional<IpAddress>& address) {
    const config::Config& config = *context_.generation->config;
    auto slot = shared_.connection_limit.take(address, config.connections);
    if (slot || slot.error() != client::ConnectionRefusal::max ||
        !connection_eviction_.evict_for(address, connections_, config.client_ip, steady_now())) {
        return slot;
    }
    metrics_.client.made_room.add();
    // The evicted connection keeps its slot until the end of this turn.
    config::Connections one_more = config.connections;
    one_more.max = std::numeric_limits<std::size_t>::max();
    return shared_.connection_limit.take(address, one_more);
}

Worker::MaybeUnfinished Worker::take_unfinished(const std::optional<IpAddress>& address) {
    const config::Connections& bounds = context_.generation->config->connections;
    MaybeUnfinished taken = shared_.connection_limit.take_unfinished(bounds);
    if (taken) return taken;
    return TlsHandshake::evict_for(address, handshake_shares_);
}

void Worker::judge_peer(identity::Peer& peer, const config::Listen& settings) const {
    const identity::ClientIpSettings& proxies = context_.generation->config->client_ip;
    peer.trusted = peer.address ? proxies.trusts(*peer.address) : settings.trusted;
    peer.is_gateway = settings.face == Face::forward_auth || settings.face == Face::envoy_grpc;
}

bool Worker::is_in_rate(const std::optional<IpAddress>& address) {
    const std::uint32_t per_second = context_.generation->config->connections.new_per_ip;
    return per_second == 0 || !address ||
           shared_.connection_rate.admit(*address, per_second, steady_now());
}

void Worker::open_connection(Listener& listener, Descriptor descriptor,
                             const sockaddr_storage& from) {
    const config::Config& config = *context_.generation->config;
    const config::Listen& settings = listener.settings;
    client::Arrival arrival{.peer = {address_of(from)},
                            .local_port = settings.address.port,
                            .is_https = settings.is_https,
                            .takes_http1 = settings.takes_http1,
                            .takes_http2 = settings.takes_http2,
                            .half_close = settings.half_close,
                            .hsts_line = &listener.hsts_line};
    const std::optional<IpAddress>& peer = arrival.peer.address;
    if (settings.proxy_protocol) {
        return open_behind_balancer(listener, std::move(descriptor), arrival);
    }
    judge_peer(arrival.peer, settings);
    const auto address = client::counted_address(arrival.peer, config.client_ip);
    if (!is_in_rate(address)) {
        return refuse_connection(listener, std::move(descriptor), ConnectionRefusal::new_per_ip,
                                 peer);
    }
    MaybeUnfinished unfinished = listener.tls ? take_unfinished(address) : std::nullopt;
    if (listener.tls && !unfinished) {
        return unserved_.add(TlsHandshakeFailure::too_many, peer, settings.address.to_string(), {},
                             steady_now());
    }
    auto slot = take_slot(address);
    if (!slot) return refuse_connection(listener, std::move(descriptor), slot.error(), peer);
    ConnectionPtr connection(new Connection(readiness_, std::move(descriptor)));
    if (listener.tls) {
        begin_handshake(listener, std::move(connection),
                        {arrival, peer, address, std::move(unfinished)}, std::move(*slot),
                        config.timeouts.tls_handshake);
    } else {
        serve_connection(listener, std::move(connection), arrival, std::move(*slot));
    }
}

void Worker::refuse_connection(const Listener& listener, Descriptor descriptor,
                               client::ConnectionRefusal reason,
                               const std::optional<IpAddress>& peer) {
    if (listener.tls) {
        return refused_connections_.add_unanswered(reason, std::move(descriptor), peer,
                                                   steady_now());
    }
    answer_unread(std::move(descriptor), reason, peer);
}

void Worker::answer_unread(Descriptor descriptor, std::optional<client::ConnectionRefusal> reason,
                           const std::optional<IpAddress>& peer) {
    std::string request_id;
    context_.request_ids.next(request_id);
    refused_connections_.add(
        {.descriptor = std::move(descriptor),
         .reason = reason,
         .peer = peer,
         .request_id = request_id,
         .date_line = context_.date.line(),
         .more_lines = context_.generation->config->response.lines_without_request},
        steady_now());
}

void Worker::serve_connection(Listener& listener, ConnectionPtr connection,
                              const client::Arrival& arrival, client::ConnectionLimit::Slot slot) {
    client::ConnectionContext& clients = listener.clients ? *listener.clients : clients_;
    const TlsChannel* const tls = connection->tls();
    const bool is_http2 = tls != nullptr && tls->speaks_http2();
    Task<> run = is_http2 ? client::Http2Connection::run(std::make_unique<client::Http2Connection>(
                                clients, std::move(connection), arrival))
                          : client::Http1Connection::run(std::make_unique<client::Http1Connection>(
                                clients, std::move(connection), arrival));
    spawn(io_.get_executor(), std::move(run),
          // The slot comes back whether this is called or, with the loop, only destroyed.
          [this, taken = std::move(slot)](const std::exception_ptr& failed) { note_end(failed); });
}

void Worker::open_behind_balancer(Listener& listener, Descriptor descriptor,
                                  const client::Arrival& arrival) {
    const std::optional<IpAddress>& peer = arrival.peer.address;
    // Closed unread, and without an answer: a client of a balancer that is not listed would take
    // it for its own.
    if (!listener.settings.proxy_protocol->admits(peer)) {
        return refuse_header(listener, ProxyHeaderRefusal::peer, peer);
    }
    MaybeUnfinished unfinished = take_unfinished(std::nullopt);
    if (!unfinished) return refuse_header(listener, ProxyHeaderRefusal::too_many, peer);
    auto slot = take_slot(std::nullopt);
    if (!slot) return refuse_connection(listener, std::move(descriptor), slot.error(), peer);
    auto wait = std::make_unique<ProxyHeaderWait>(
        io_.get_executor(), deadlines_,
        ConnectionPtr(new Connection(readiness_, std::move(descriptor))), arrival);
    awaiting_proxy_header_.push_back(*wait);
    spawn(io_.get_executor(),
          await_proxy_header(listener, std::move(wait), std::move(*slot), std::move(unfinished)),
          [this](const std::exception_ptr& failed) { note_end(failed); });
}

Task<> Worker::await_proxy_header(Listener& listener, std::unique_ptr<ProxyHeaderWait> wait,
                                  client::ConnectionLimit::Slot slot, MaybeUnfinished unfinished) {
    const std::optional<IpAddress> balancer = wait->arrival().peer.address;
    const SteadyTime until = steady_now() + context_.generation->config->timeouts.tls_handshake;
    const ProxyHeaderWait::End end = co_await wait->run(time_until(until));
    switch (end) {
        case ProxyHeaderWait::End::complete: {
            const client::Arrival arrival = wait->arrival();
            ConnectionPtr connection = wait->take_connection();
            wait.reset();
            open_named(listener, std::move(connection), balancer, arrival, std::move(slot),
                       std::move(unfinished), time_until(until));
            break;
        }
        case ProxyHeaderWait::End::malformed:
            refuse_header(listener, ProxyHeaderRefusal::malformed, balancer, wait->fault());
            break;
        case ProxyHeaderWait::End::timeout:
            refuse_header(listener, ProxyHeaderRefusal::timeout, balancer);
            break;
        case ProxyHeaderWait::End::left:
            break;
    }
}

void Worker::open_named(Listener& listener, ConnectionPtr connection,
                        const std::optional<IpAddress>& balancer, client::Arrival arrival,
                        client::ConnectionLimit::Slot slot, MaybeUnfinished unfinished,
                        milliseconds patience) {
    const config::Config& config = *context_.generation->config;
    const std::optional<IpAddress>& peer = arrival.peer.address;
    judge_peer(arrival.peer, listener.settings);
    const auto address = client::counted_address(arrival.peer, config.client_ip);
    if (!is_in_rate(address)) {
        return refuse_connection(listener, connection->release(), ConnectionRefusal::new_per_ip,
                                 peer);
    }
    if (!shared_.connection_limit.add_address(slot, address, config.connections)) {
        return refuse_connection(listener, connection->release(), ConnectionRefusal::per_ip, peer);
    }
    if (listener.tls) {
        return begin_handshake(listener, std::move(connection),
                               {arrival, balancer, address, std::move(unfinished)}, std::move(slot),
                               patience);
    }
    unfinished.reset();
    serve_connection(listener, std::move(connection), arrival, std::move(slot));
}

void Worker::refuse_header(const Listener& listener, ProxyHeaderRefusal reason,
                           const std::optional<IpAddress>& peer, std::string_view fault) {
    unserved_.add(reason, peer, listener.settings.address.to_string(), fault, steady_now());
}

void Worker::begin_handshake(Listener& listener, ConnectionPtr connection,
                             TlsHandshake::Client client, client::ConnectionLimit::Slot slot,
                             milliseconds patience) {
    auto handshake =
        std::make_unique<TlsHandshake>(TlsHandshake::Context{.executor = io_.get_executor(),
                                                             .deadlines = deadlines_,
                                                             .turns = handshake_turns_,
                                                             .shares = handshake_shares_,
                                                             .server = listener.tls},
                                       std::move(connection), std::move(client));
    handshakes_.push_back(*handshake);
    if (clients_.is_draining) handshake->on_drain();
    spawn(io_.get_executor(),
          shake_hands(listener, std::move(handshake), std::move(slot), patience),
          [this](const std::exception_ptr& failed) { note_end(failed); });
}

Task<> Worker::shake_hands(Listener& listener, std::unique_ptr<TlsHandshake> handshake,
                           client::ConnectionLimit::Slot slot, milliseconds patience) {
    const TlsHandshake::End end = co_await handshake->run(patience);
    if (end != TlsHandshake::End::complete) {
        end_without_tls(listener, *handshake, end);
        co_return;
    }
    using client::TlsHandshakeKind;
    const auto kind = handshake->is_resumed() ? TlsHandshakeKind::resumed : TlsHandshakeKind::full;
    metrics_.client.tls_handshakes[kind].add();
    const client::Arrival arrival = handshake->arrival();
    ConnectionPtr connection = handshake->take_connection();
    handshake.reset();
    serve_connection(listener, std::move(connection), arrival, std::move(slot));
}

void Worker::end_without_tls(const Listener& listener, TlsHandshake& handshake,
                             TlsHandshake::End end) {
    const std::optional<IpAddress>& peer = handshake.arrival().peer.address;
    const ConnectionPtr connection = handshake.take_connection();
    const auto note = [&](TlsHandshakeFailure reason, std::string_view fault) {
        unserved_.add(reason, peer, listener.settings.address.to_string(), fault, steady_now());
    };
    switch (end) {
        case TlsHandshake::End::plain_http:
            note(TlsHandshakeFailure::plain_http, {});
            return answer_unread(connection->release(), std::nullopt, peer);
        case TlsHandshake::End::failed:
            if (handshake.fault().reason == TlsHandshakeFailure::proxy_header &&
                handshake.arrival().has_proxy_header) {
                return refuse_header(listener, ProxyHeaderRefusal::malformed, handshake.sender(),
                                     "is followed by a second one");
            }
            note(handshake.fault().reason, handshake.fault().message);
            // The alert says why; a reset could destroy it.
            if (connection->is_open()) {
                refused_connections_.part_from(connection->release(), steady_now());
            }
            return;
        case TlsHandshake::End::timeout:
            return note(TlsHandshakeFailure::timeout, {});
        case TlsHandshake::End::evicted:
            return note(TlsHandshakeFailure::too_many, {});
        case TlsHandshake::End::complete:
        case TlsHandshake::End::left:
            return;
    }
}

}  // namespace tidegate::app
