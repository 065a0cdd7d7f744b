#include "client/handshake_fault.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

namespace tidegate::client {

namespace {

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
    switch (ERR_GET_REASON(error)) {
        case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
            return "does not accept our certificate: " + reason_text(error);
        default:
            return "ended the handshake: " + reason_text(error);
    }
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

HandshakeFault handshake_fault(const TlsChannel& channel) {
    const unsigned long error = channel.error();
    if (error == 0) return {Failure::closed, "closed it in the middle of the TLS handshake"};
    if (lacks_protocol(channel)) {
        return {Failure::other, "offers no version of HTTP that `http` of the listener admits"};
    }
    const Failure failure = failure_of(error);
    return {failure, handshake_words(failure, channel.native(), error)};
}

}  // namespace tidegate::client
