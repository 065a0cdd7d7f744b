#include "net/tls_fault.hpp"

#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "tls/tls_client.hpp"

namespace tidegate {

namespace {

std::string explanation(SSL* tls, long verdict) {
    switch (verdict) {
        case X509_V_ERR_HOSTNAME_MISMATCH:
            return std::string(" (it is not for `") +
                   X509_VERIFY_PARAM_get0_host(SSL_get0_param(tls), 0) + "`)";
        case X509_V_ERR_IP_ADDRESS_MISMATCH:
            return " (it does not name this address)";
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
            return " (no trusted authority has signed it)";
        default:
            return {};
    }
}

// Whether the server sent an alert: what OpenSSL finds wrong itself has lower numbers.
bool is_alert(const error_code& ec) {
    return ec.category() == asio::error::get_ssl_category() &&
           ERR_GET_REASON(static_cast<unsigned long>(ec.value())) > SSL_AD_REASON_OFFSET;
}

bool is_end(const error_code& ec) {
    return ec == asio::error::eof || ec == asio::ssl::error::stream_truncated ||
           ec == asio::error::connection_reset || ec == asio::error::broken_pipe;
}

std::string words_for_end(const error_code& ec) {
    const bool is_plain_end = ec == asio::error::eof || ec == asio::ssl::error::stream_truncated;
    return is_plain_end ? "connection closed" : ec.message();
}

std::string oldest_version(const SSL* tls) {
    // OpenSSL's macro for this casts away const and the type of its result.
    const long oldest = SSL_ctrl(const_cast<SSL*>(tls), SSL_CTRL_GET_MIN_PROTO_VERSION, 0, nullptr);
    return oldest == TLS1_3_VERSION ? "1.3" : "1.2";
}

// What an error of TLS means, for readers who do not know its alerts by heart (RFC 8446 section
// 6.2).
std::string words_for(const SSL* tls, const error_code& ec) {
    const auto error = static_cast<unsigned long>(ec.value());
    if (rejects_certificate(error)) return "it does not accept our certificate: " + ec.message();
    switch (ERR_GET_REASON(error)) {
        case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
            return "it wants a client certificate: " + ec.message();
        case SSL_R_WRONG_VERSION_NUMBER:
        case SSL_R_PACKET_LENGTH_TOO_LONG:
            return "it does not speak TLS there: " + ec.message();
        case SSL_R_UNSUPPORTED_PROTOCOL:
        case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
            // In one expression GCC 14 warns of a copy that is out of bounds, and is wrong.
            return std::string("it does not support TLS ")
                .append(oldest_version(tls))
                .append(" or later: ")
                .append(ec.message());
        default:
            return "TLS: " + ec.message();
    }
}

}  // namespace

bool rejects_certificate(unsigned long error) {
    switch (ERR_GET_REASON(error)) {
        case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
            return true;
        default:
            return false;
    }
}

TlsFault tls_fault(SSL* tls, const error_code& ec, bool heard) {
    const long verdict =
        SSL_get_verify_mode(tls) == SSL_VERIFY_NONE ? X509_V_OK : SSL_get_verify_result(tls);
    if (verdict != X509_V_OK) {
        return {true, false,
                std::string("its certificate is not accepted: ") +
                    X509_verify_cert_error_string(verdict) + explanation(tls, verdict)};
    }
    const bool is_tls = ec.category() == asio::error::get_ssl_category();
    if (!heard && server_wants_certificate(tls) && (is_alert(ec) || is_end(ec))) {
        const std::string why = is_tls ? ec.message() : words_for_end(ec);
        if (SSL_get_certificate(tls) == nullptr) {
            return {true, true,
                    "it wants a client certificate, and none is configured (`tls.certificate` and "
                    "`tls.key`): " +
                        why};
        }
        // An alert says more than this.
        if (!is_alert(ec)) {
            return {false, false,
                    why + " after it had asked for our certificate, which it may not accept"};
        }
    }
    if (is_tls) return {true, false, words_for(tls, ec)};
    return {false, false, words_for_end(ec)};
}

TlsFault tls_fault(const TlsChannel& channel, bool heard) {
    error_code ec = asio::error::eof;
    if (channel.error() != 0) {
        ec.assign(static_cast<int>(channel.error()), asio::error::get_ssl_category());
    } else if (channel.system_error() != 0) {
        ec.assign(channel.system_error(), boost::system::system_category());
    }
    return tls_fault(channel.native(), ec, heard);
}

}  // namespace tidegate
