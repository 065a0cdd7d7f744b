#include "client/tls_handshake.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include <openssl/ssl.h>

#include "base/text.hpp"
#include "http/proxy_header.hpp"

namespace tidegate::client {

namespace {

constexpr std::chrono::milliseconds kHandshakeInDrain{500};
// Room for the longest method there is, and the space behind it.
constexpr std::size_t kFirstBytes = 24;

enum class FirstBytes : std::uint8_t { tls, http, proxy_header, incomplete };

// A record of TLS never begins with a letter, a request in the clear always does. OpenSSL judges
// other bytes.
FirstBytes kind_of(std::string_view bytes) {
    if (http::looks_like_proxy_header(bytes)) return FirstBytes::proxy_header;
    const auto end = std::find_if(bytes.begin(), bytes.end(), [](char c) {
        return !is_upper(c) && !is_lower(c) && c != '-' && c != '_';
    });
    if (end == bytes.begin()) return FirstBytes::tls;
    if (end != bytes.end()) return *end == ' ' ? FirstBytes::http : FirstBytes::tls;
    return bytes.size() < kFirstBytes ? FirstBytes::incomplete : FirstBytes::tls;
}

}  // namespace

TlsHandshake::TlsHandshake(const Context& context, ConnectionPtr connection, Client client)
    : HandshakeShares::Place(context.shares, client.counted),
      server_(context.server),
      turns_(context.turns),
      sleeper_(context.executor, context.deadlines),
      place_(sleeper_.wakeup()),
      connection_(std::move(connection)),
      client_(std::move(client)) {}

Task<TlsHandshake::End> TlsHandshake::run(std::chrono::milliseconds patience) {
    sleeper_.allow(is_stopping_ ? kHandshakeInDrain : patience);
    while (!is_cut_off_) {
        if (connection_->readable() && turns_.may_step(place_)) {
            if (const std::optional<End> end = step()) co_return *end;
        }
        if (sleeper_.expired()) co_return is_stopping_ ? End::left : End::timeout;
        connection_->watch_read(&sleeper_.wakeup());
        co_await sleeper_.sleep();
    }
    co_return is_evicted_ ? End::evicted : End::left;
}

std::optional<TlsHandshake::End> TlsHandshake::step() {
    if (connection_->tls() == nullptr) {
        const std::optional<End> end = look();
        if (end || connection_->tls() == nullptr) return end;
    }
    switch (connection_->shake_hands()) {
        case IoStatus::would_block:
            return std::nullopt;
        case IoStatus::ok:
            note_client();
            return End::complete;
        default:
            fault_ = handshake_fault(*connection_->tls());
            return End::failed;
    }
}

std::optional<TlsHandshake::End> TlsHandshake::look() {
    std::array<char, kFirstBytes> bytes;
    const IoResult seen = connection_->peek_some(bytes);
    if (seen.status == IoStatus::would_block) return std::nullopt;
    if (seen.status != IoStatus::ok) return End::left;
    switch (kind_of({bytes.data(), seen.bytes})) {
        case FirstBytes::http:
            fault_.reason = TlsHandshakeFailure::plain_http;
            return End::plain_http;
        case FirstBytes::proxy_header:
            fault_.reason = TlsHandshakeFailure::proxy_header;
            return End::failed;
        case FirstBytes::incomplete:
            if (connection_->has_hung_up()) return End::left;
            connection_->await_more();
            return std::nullopt;
        case FirstBytes::tls:
            break;
    }
    TlsPtr tls = server_->connection();
    if (!tls) throw std::bad_alloc();
    connection_->begin_tls(std::move(tls), TlsSide::server);
    return std::nullopt;
}

void TlsHandshake::note_client() {
    const SSL* const tls = connection_->tls()->native();
    is_resumed_ = SSL_session_reused(tls) == 1;
    client_.arrival.is_https = true;
    if (auto shown = client_certificate_of(tls)) {
        client_.arrival.certificate = std::make_shared<const ClientCertificate>(std::move(*shown));
    }
}

void TlsHandshake::on_drain() {
    is_stopping_ = true;
    sleeper_.allow(kHandshakeInDrain);
}

void TlsHandshake::cut_off() {
    is_stopping_ = is_cut_off_ = true;
    if (connection_) connection_->reset();
    sleeper_.wakeup().wake_later();
}

TlsHandshake::MaybeUnfinished TlsHandshake::evict_for(const std::optional<IpAddress>& address,
                                                      HandshakeShares& shares) {
    HandshakeShares::Place* const place = shares.find_for(address);
    if (place == nullptr) return std::nullopt;
    auto& evicted = static_cast<TlsHandshake&>(*place);
    evicted.leave();
    evicted.is_evicted_ = true;
    evicted.cut_off();
    MaybeUnfinished room = std::move(evicted.client_.unfinished);
    evicted.client_.unfinished.reset();
    return room;
}

}  // namespace tidegate::client
