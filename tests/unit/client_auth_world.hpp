// A listener that asks for certificates, and its clients; they shake hands in memory.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "client_certificates.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::test {

using ContextPtr = std::unique_ptr<SSL_CTX, ReleaseOpenSsl>;

inline constexpr auto kVersions = {TLS1_2_VERSION, TLS1_3_VERSION};

// The context of a listener. All of them have the same keys of tickets.
inline ContextPtr listener(const ClientAuthSettings& settings) {
    static const Certificate own = make_certificate({.subject = {{"CN", "server"}}});
    static const std::array<unsigned char, 80> keys{1, 2, 3};
    ContextPtr made(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_use_certificate(made.get(), own.certificate.get());
    SSL_CTX_use_PrivateKey(made.get(), own.key.get());
    SSL_CTX_set_session_cache_mode(made.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_tlsext_ticket_keys(made.get(), const_cast<unsigned char*>(keys.data()),
                                   keys.size());
    const auto auth = parse_client_auth(settings);
    REQUIRE(auth.has_value());
    prepare_client_auth(made.get(), *auth);
    return made;
}

// Who connects, with what it sends: its certificate and its chain.
struct Client {
    const Certificate* own = nullptr;
    std::vector<const Certificate*> chain{};
    int version = TLS1_3_VERSION;
};

struct Visit {
    bool is_accepted = false;
    bool is_resumed = false;
    std::string_view fault;
    std::optional<ClientCertificate> certificate;
    TlsSessionPtr session;  // for the next time
    TlsSessionPtr kept;     // the server's view of it
};

inline ContextPtr context_of(const Client& client) {
    ContextPtr context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_min_proto_version(context.get(), client.version);
    SSL_CTX_set_max_proto_version(context.get(), client.version);
    if (client.own != nullptr) {
        SSL_CTX_use_certificate(context.get(), client.own->certificate.get());
        SSL_CTX_use_PrivateKey(context.get(), client.own->key.get());
    }
    for (const Certificate* one : client.chain) {
        SSL_CTX_add1_chain_cert(context.get(), one->certificate.get());
    }
    return context;
}

// Both sides in turn, until there is nothing more to do.
inline bool shake_hands(SSL* server, SSL* client) {
    int result = -1;
    for (int turn = 0; turn < 10; ++turn) {
        std::array<char, 1> none{};
        SSL_read(client, none.data(), none.size());  // takes tickets, too
        if (SSL_is_init_finished(server) == 0) result = SSL_do_handshake(server);
    }
    ERR_clear_error();
    return result == 1;
}

inline Visit visit(SSL_CTX* listener, const Client& client,
                   const TlsSessionPtr& session = nullptr) {
    const ContextPtr context = context_of(client);
    const TlsPtr near(SSL_new(listener));
    const TlsPtr far(SSL_new(context.get()));
    BIO* near_wire = nullptr;
    BIO* far_wire = nullptr;
    REQUIRE(BIO_new_bio_pair(&near_wire, 65'536, &far_wire, 65'536) == 1);
    SSL_set_bio(near.get(), near_wire, near_wire);
    SSL_set_bio(far.get(), far_wire, far_wire);
    SSL_set_accept_state(near.get());
    SSL_set_connect_state(far.get());
    if (session != nullptr) REQUIRE(SSL_set_session(far.get(), session.get()) == 1);
    Visit seen;
    seen.is_accepted = shake_hands(near.get(), far.get());
    seen.is_resumed = SSL_session_reused(near.get()) == 1;
    seen.fault = client_certificate_fault(near.get());
    seen.certificate = client_certificate_of(near.get());
    seen.session.reset(SSL_get1_session(far.get()));
    seen.kept.reset(SSL_get1_session(near.get()));
    // A session of a connection that did not end well is not resumed.
    SSL_set_shutdown(near.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_set_shutdown(far.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    return seen;
}

// A root, an intermediate below it, and what they issue.
struct World {
    Certificate root = make_authority("root");
    Certificate middle = make_authority("middle", &root);
    Certificate alice = make_certificate({}, &root);
    Certificate bob = make_certificate({.subject = {{"CN", "bob"}}}, &middle);

    ClientAuthSettings settings(ClientAuth mode = ClientAuth::require,
                                const std::string& crl = "") const {
        return {mode, root.pem(), crl, 4};
    }
};

inline Visit visit(const ClientAuthSettings& settings, const Client& client,
                   const TlsSessionPtr& session = nullptr) {
    return visit(listener(settings).get(), client, session);
}

}  // namespace tidegate::test
