#include "client/tls_handshake.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "base/text.hpp"
#include "http/proxy_header.hpp"
#include "net/tls_fault.hpp"

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

using Failure = TlsHandshakeFailure;

Failure failure_of(unsigned long error) {
    const int reason = ERR_GET_REASON(error);
    if (reason > SSL_AD_REASON_OFFSET) return Failure::refused;  // the client's alert
    switch (reason) {
        case SSL_R_WRONG_VERSION_NUMBER:
        case SSL_R_UNKNOWN_PROTOCOL:
        case SSL_R_HTTP_REQUEST:
        case SSL_R_HTTPS_PROXY_REQUEST:
        case SSL_R_PACKET_LENGTH_TOO_LONG:
            return Failure::not_tls;
        case SSL_R_UNSUPPORTED_PROTOCOL:
        case SSL_R_VERSION_TOO_LOW:
        case SSL_R_VERSION_TOO_HIGH:
        case SSL_R_WRONG_SSL_VERSION:
        case SSL_R_UNKNOWN_SSL_VERSION:
        case SSL_R_NO_PROTOCOLS_AVAILABLE:
        case SSL_R_INAPPROPRIATE_FALLBACK:
            return Failure::version;
        case SSL_R_NO_SHARED_CIPHER:
        case SSL_R_NO_CIPHERS_SPECIFIED:
        case SSL_R_NO_SHARED_GROUPS:
        case SSL_R_NO_SUITABLE_GROUPS:
        case SSL_R_NO_SUITABLE_KEY_SHARE:
        case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
            return Failure::cipher;
        // The choice of a certificate by its name is a callback that refuses, beside
        // lacks_protocol().
        case SSL_R_CALLBACK_FAILED:
            return Failure::unknown_name;
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        case SSL_R_CERTIFICATE_VERIFY_FAILED:
            return Failure::client_certificate;
        default:
            return Failure::other;
    }
}

// The listener refuses clients that offer protocols, but none of its own, or with `http: [h2]` no
// protocol.
bool lacks_protocol(const TlsChannel& channel) {
    return channel.sent_alert() == SSL_AD_NO_APPLICATION_PROTOCOL;
}

std::string reason_text(unsigned long error) {
    const char* const text = ERR_reason_error_string(error);
    return text != nullptr ? text : "error " + std::to_string(ERR_GET_REASON(error));
}

std::string certificate_words(const SSL* tls, unsigned long error) {
    if (ERR_GET_REASON(error) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        return "has shown no certificate, and `client_auth` requires one";
    }
    return std::string("has shown a certificate that is not accepted: ") +
           X509_verify_cert_error_string(SSL_get_verify_result(tls));
}

std::string alert_words(unsigned long error) {
    return (rejects_certificate(error) ? "does not accept our certificate: "
                                       : "ended the handshake: ") +
           reason_text(error);
}

std::string handshake_words(Failure failure, const SSL* tls, unsigned long error) {
    switch (failure) {
        case Failure::not_tls:
            return "does not speak TLS";
        case Failure::version:
            return "supports no version of TLS that `min_version` admits";
        case Failure::cipher:
            return "has no cipher, group or signature algorithm in common with the listener (" +
                   reason_text(error) + ")";
        case Failure::unknown_name: {
            const char* const name = SSL_get_servername(tls, TLSEXT_NAMETYPE_host_name);
            return name == nullptr ? "asks for no name, and `unknown_names` is `refuse`"
                                   : "asks for a name that no certificate has";
        }
        case Failure::client_certificate:
            return certificate_words(tls, error);
        case Failure::refused:
            return alert_words(error);
        default:
            return "and the listener could not agree on TLS: " + reason_text(error);
    }
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

HandshakeFault handshake_fault(const TlsChannel& channel) {
    const unsigned long error = channel.error();
    if (error == 0) return {Failure::closed, "closed it in the middle of the TLS handshake"};
    if (lacks_protocol(channel)) {
        return {Failure::other, "offers no version of HTTP that `http` of the listener admits"};
    }
    const Failure failure = failure_of(error);
    return {failure, handshake_words(failure, channel.native(), error)};
}

HandshakeShares::Place::Place(HandshakeShares& shares, const std::optional<IpAddress>& address)
    : shares_(shares) {
    if (!address) return;
    const auto [found, is_new] = shares.shares_.try_emplace(*address, *address);
    share_ = &found->second;
    if (is_new) shares.by_count_.insert(*share_);
    share_->places.push_back(*this);
    shares.recount(*share_, 1);
}

void HandshakeShares::Place::leave() {
    if (share_ == nullptr) return;
    Share& share = *share_;
    share_ = nullptr;
    share.places.erase(share.places.iterator_to(*this));
    shares_.recount(share, -1);
    if (share.count > 0) return;
    shares_.by_count_.erase(shares_.by_count_.iterator_to(share));
    shares_.shares_.erase(shares_.shares_.find(share.address));
}

HandshakeShares::Place* HandshakeShares::find_for(const std::optional<IpAddress>& address) {
    if (by_count_.empty()) return nullptr;
    std::size_t own = 0;
    if (address) {
        if (const auto found = shares_.find(*address); found != shares_.end()) {
            own = found->second.count;
        }
    }
    Share& most = *by_count_.rbegin();
    return most.count > own + 1 ? &most.places.front() : nullptr;
}

void HandshakeShares::recount(Share& share, int by) {
    by_count_.erase(by_count_.iterator_to(share));
    share.count += static_cast<std::size_t>(by);
    by_count_.insert(share);
}

bool HandshakeTurns::may_step(Place& place) {
    if (std::exchange(place.is_called_, false)) return true;
    if (place.is_linked()) return false;
    turn_.add(*this);
    if (queue_.empty() && left_ > 0) {
        --left_;
        return true;
    }
    queue_.push_back(place);
    return false;
}

void HandshakeTurns::end_of_turn() noexcept {
    while (left_ > 0 && !queue_.empty()) {
        --left_;
        Place& first = queue_.front();
        queue_.pop_front();
        first.is_called_ = true;
        first.wakeup_.wake_now();
    }
    left_ = kStepsATurn;
    if (!queue_.empty()) turn_.add(*this);
}

}  // namespace tidegate::client
