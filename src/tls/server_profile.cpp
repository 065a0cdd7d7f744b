#include "tls/server_profile.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <new>
#include <span>
#include <string_view>

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace tidegate {

namespace {

// AES of 128 bits first: it is enough, and both the cipher and its hash are cheaper. All have
// forward secrecy and authenticate what they encrypt.
constexpr const char* kSuites13 =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
// In TLS 1.2 the cipher decides on the certificate: an ECDSA signature costs a tenth of one of RSA.
constexpr const char* kCiphers12 =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:"
    "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305";
// The first list that the library knows all of: with hybrids, which no quantum computer can undo,
// from OpenSSL 3.5 on. Of groups that a client has sent a key for, the server takes the first.
constexpr const char* kGroups[] = {"X25519MLKEM768:SecP256r1MLKEM768:X25519:P-256:P-384",
                                   "X25519MLKEM768:X25519:P-256:P-384", "X25519:P-256:P-384"};
// Nothing with SHA-1 or SHA-224, which only TLS 1.2 would have.
constexpr const char* kSignatures =
    "ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:ecdsa_secp521r1_sha512:ed25519:"
    "rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:rsa_pss_rsae_sha512:"
    "rsa_pss_pss_sha256:rsa_pss_pss_sha384:rsa_pss_pss_sha512:"
    "rsa_pkcs1_sha256:rsa_pkcs1_sha384:rsa_pkcs1_sha512";
constexpr int kSecurityLevel = 2;  // 112 bits: RSA of 2048, no SHA-1

// In our order.
constexpr std::string_view kProtocols[] = {"h2", "http/1.1", "http/1.0"};
constexpr std::span<const std::string_view> kBoth = kProtocols;
constexpr std::span<const std::string_view> kOnlyHttp1 = kBoth.subspan(1);
constexpr std::span<const std::string_view> kOnlyHttp2 = kBoth.first(1);

// It lives as long as the program.
const std::span<const std::string_view>& protocols_of(HttpVersions http) {
    switch (http) {
        case HttpVersions::http1:
            return kOnlyHttp1;
        case HttpVersions::http2:
            return kOnlyHttp2;
        case HttpVersions::both:
            break;
    }
    return kBoth;
}

// The first of `protocols` that is also in `offered` (each with its length in front, RFC 7301
// section 3.1); empty: none.
std::string_view choose_protocol(std::span<const std::string_view> protocols,
                                 std::string_view offered) {
    for (const std::string_view ours : protocols) {
        for (std::size_t at = 0; at < offered.size();) {
            const auto size = static_cast<unsigned char>(offered[at]);
            const std::string_view theirs = offered.substr(at + 1, size);
            if (theirs == ours) return theirs;
            at += 1 + std::size_t{size};
        }
    }
    return {};
}

// OpenSSL calls it in each handshake, those that resume a session included, and only for clients
// that offer protocols. One that offers none of ours gets an alert: it would not understand an
// answer, and an attacker may have led here a connection that is meant for another kind of server.
int on_protocols(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                 const unsigned char* offered, unsigned offered_size, void* protocols) {
    const std::string_view ours =
        choose_protocol(*static_cast<const std::span<const std::string_view>*>(protocols),
                        {reinterpret_cast<const char*>(offered), offered_size});
    if (ours.empty()) return SSL_TLSEXT_ERR_ALERT_FATAL;  // no_application_protocol
    *chosen = reinterpret_cast<const unsigned char*>(ours.data());
    *chosen_size = static_cast<unsigned char>(ours.size());
    return SSL_TLSEXT_ERR_OK;
}

// Of a listener without HTTP/1. A client that offers no protocol would speak HTTP/1, as clients of
// HTTP/2 always offer it (RFC 9113 section 3.2); an alert says more than a connection that ends.
int on_client_hello(SSL* tls, int* alert, void*) {
    const unsigned char* offered = nullptr;
    std::size_t size = 0;
    if (SSL_client_hello_get0_ext(tls, TLSEXT_TYPE_application_layer_protocol_negotiation, &offered,
                                  &size) == 1) {
        return SSL_CLIENT_HELLO_SUCCESS;
    }
    *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    return SSL_CLIENT_HELLO_ERROR;
}

void set_protocols(SSL_CTX* context, HttpVersions http) {
    // It is only read.
    auto* const protocols = const_cast<std::span<const std::string_view>*>(&protocols_of(http));
    SSL_CTX_set_alpn_select_cb(context, on_protocols, protocols);
    if (http == HttpVersions::http2) {
        SSL_CTX_set_client_hello_cb(context, on_client_hello, nullptr);
    }
}

bool set_groups(SSL_CTX* context) {
    return std::any_of(std::begin(kGroups), std::end(kGroups), [&](const char* groups) {
        return SSL_CTX_set1_groups_list(context, groups) == 1;
    });
}

bool apply(SSL_CTX* context, TlsVersion min_version, HttpVersions http) {
    SSL_CTX_set_security_level(context, kSecurityLevel);
    // The system's configuration of OpenSSL may have set what is not set here again.
    SSL_CTX_clear_options(context, SSL_CTX_get_options(context));
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                     SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    // A chain is shown as it is configured, not looked for in each handshake.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_early_data(context, 0);
    set_protocols(context, http);
    const int oldest = min_version == TlsVersion::tls_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
    return SSL_CTX_set_min_proto_version(context, oldest) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(context, kSuites13) == 1 &&
           SSL_CTX_set_cipher_list(context, kCiphers12) == 1 && set_groups(context) &&
           SSL_CTX_set1_sigalgs_list(context, kSignatures) == 1 &&
           // OpenSSL sends two to clients of TLS 1.3, and each costs as much as half a resumption.
           SSL_CTX_set_num_tickets(context, 1) == 1;
}

}  // namespace

void FreeTlsContext::operator()(SSL_CTX* context) const {
    SSL_CTX_free(context);
}

TlsContextPtr make_server_context(TlsVersion min_version, HttpVersions http) {
    TlsContextPtr context(SSL_CTX_new(TLS_server_method()));
    const bool is_made = context != nullptr && apply(context.get(), min_version, http);
    ERR_clear_error();
    if (!is_made) throw std::bad_alloc();
    return context;
}

}  // namespace tidegate
