// Handshakes between a TlsServer and a client of OpenSSL's, over a pair of sockets and in one
// thread.
#pragma once

#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "certificates.hpp"
#include "tls/channel.hpp"
#include "tls/openssl.hpp"
#include "tls/tls_server.hpp"
#include "tls_peer.hpp"

namespace tidegate::test {

// The file of a certificate is what a test calls it.
inline ServerCertificate shown(const std::string& file, const Certificate& made,
                               std::vector<std::string> names = {}) {
    return {made.pem(), made.key_pem(), std::move(names), file};
}

inline std::shared_ptr<const ServerCredentials> credentials_of(const TlsServerSettings& settings) {
    const auto parsed = parse_credentials(settings);
    REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error()));
    return *parsed;
}

inline std::shared_ptr<TicketKeys> new_ticket_keys() {
    return std::make_shared<TicketKeys>(std::vector<std::string>{}, TicketKeys::Time{});
}

// A client's abilities and wishes. Empty: OpenSSL's defaults.
struct ClientHello {
    std::string name{};
    int version = 0;  // the only one
    std::string ciphers{};
    std::string suites{};  // of TLS 1.3
    std::string signatures{};
    std::string groups{};
    std::string protocols{};  // as on the wire
    SSL_SESSION* session = nullptr;
    bool takes_tickets = true;
};

// A connection between both.
class Meeting {
  public:
    Meeting(TlsPtr server, ClientHello hello)
        : context_(client_context(hello)), ours_(pair_.ends[0]) {
        channel_ = std::make_unique<TlsChannel>(std::move(server), TlsSide::server, ours_);
        client_ = std::make_unique<TlsPeer>(context_.get(), false, pair_.ends[1]);
        SSL* const tls = client_->native();
        if (!hello.name.empty()) {
            SSL_ctrl(tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                     hello.name.data());
        }
        SSL_set_msg_callback(tls, &Meeting::on_message);
        SSL_set_msg_callback_arg(tls, this);
        if (hello.session != nullptr) {
            // A copy, as OpenSSL uses none again for which there is a newer one.
            const TlsSessionPtr session(SSL_SESSION_dup(hello.session));
            SSL_set_session(tls, session.get());
        }
        shake_hands();
    }
    // OpenSSL would mark the session of a connection without a good end as unusable.
    ~Meeting() {
        SSL_set_shutdown(client(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        ::close(ours_);
    }
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

    bool is_shaken() const { return status_ == TlsChannel::Status::ok; }
    // Why the client gave up; 0: it did not.
    int client_error() const { return client_error_; }
    SSL* client() const { return client_->native(); }
    TlsPeer& peer() { return *client_; }
    TlsChannel& channel() { return *channel_; }

    std::string cipher() const { return SSL_get_cipher_name(client()); }
    int version() const { return SSL_version(client()); }
    bool is_resumed() const { return SSL_session_reused(client()) == 1; }
    std::string protocol() const {
        const unsigned char* text = nullptr;
        unsigned size = 0;
        SSL_get0_alpn_selected(client(), &text, &size);
        return {reinterpret_cast<const char*>(text), size};
    }
    bool was_shown(const Certificate& certificate) const {
        X509* const seen = SSL_get0_peer_certificate(client());
        return seen != nullptr && X509_cmp(seen, certificate.certificate.get()) == 0;
    }
    int chain_size() const { return sk_X509_num(SSL_get_peer_cert_chain(client())); }
    int tickets() const { return tickets_; }
    // With the last ticket.
    TlsSessionPtr session() const { return TlsSessionPtr(SSL_get1_session(client())); }

  private:
    using ContextPtr = std::unique_ptr<SSL_CTX, ReleaseOpenSsl>;

    static ContextPtr client_context(const ClientHello& hello) {
        ContextPtr made(SSL_CTX_new(TLS_client_method()));
        SSL_CTX* const context = made.get();
        SSL_CTX_set_security_level(context, 0);
        SSL_CTX_set_min_proto_version(context, hello.version);
        SSL_CTX_set_max_proto_version(context, hello.version);
        if (!hello.takes_tickets) SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
        if (!hello.ciphers.empty())
            REQUIRE(SSL_CTX_set_cipher_list(context, hello.ciphers.c_str()) == 1);
        if (!hello.suites.empty())
            REQUIRE(SSL_CTX_set_ciphersuites(context, hello.suites.c_str()) == 1);
        if (!hello.signatures.empty())
            REQUIRE(SSL_CTX_set1_sigalgs_list(context, hello.signatures.c_str()) == 1);
        if (!hello.groups.empty())
            REQUIRE(SSL_CTX_set1_groups_list(context, hello.groups.c_str()) == 1);
        if (!hello.protocols.empty()) {
            const auto* const text = reinterpret_cast<const unsigned char*>(hello.protocols.data());
            const auto size = static_cast<unsigned>(hello.protocols.size());
            REQUIRE(SSL_CTX_set_alpn_protos(context, text, size) == 0);
        }
        return made;
    }

    static void on_message(int written, int, int type, const void* bytes, std::size_t size, SSL*,
                           void* self) {
        if (written != 0 || type != SSL3_RT_HANDSHAKE || size == 0) return;
        const bool is_ticket =
            *static_cast<const unsigned char*>(bytes) == SSL3_MT_NEWSESSION_TICKET;
        if (is_ticket) ++static_cast<Meeting*>(self)->tickets_;
    }

    void shake_hands() {
        ERR_clear_error();
        for (int i = 0; i < 10 && status_ == TlsChannel::Status::wants_read; ++i) {
            client_->receive();
            client_->flush();
            channel_->note_arrival(false);
            status_ = channel_->shake_hands();
        }
        ERR_clear_error();
        client_->receive();  // the end of the handshake, or an alert
        client_error_ = ERR_GET_REASON(ERR_peek_last_error());
        ERR_clear_error();
        if (is_shaken()) client_->heard();  // tickets
    }

    ContextPtr context_;
    StreamPair pair_;
    int ours_;
    std::unique_ptr<TlsChannel> channel_;
    std::unique_ptr<TlsPeer> client_;
    int tickets_ = 0;
    TlsChannel::Status status_ = TlsChannel::Status::wants_read;
    int client_error_ = 0;
};

}  // namespace tidegate::test
