#include "tls/tls_client.hpp"

#include <string_view>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "base/file_work.hpp"
#include "base/ip.hpp"
#include "tls/certificate.hpp"
#include "tls/channel.hpp"
#include "tls/openssl.hpp"

namespace tidegate {

namespace {

// Empty when all went well, as are the other results here.
std::string believe_authorities(SSL_CTX* context, const std::string& pem) {
    if (pem.empty()) {
        const FileWait wait(X509_get_default_cert_file());
        if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
        return "the system's authorities cannot be read: " + openssl_reason();
    }
    const auto authorities = parse_certificates(pem);
    if (!authorities) return "the file of authorities " + authorities.error();
    X509_STORE* const store = SSL_CTX_get_cert_store(context);
    for (const CertificatePtr& authority : *authorities) {
        if (X509_STORE_add_cert(store, authority.get()) != 1) {
            return "an authority is not accepted: " + openssl_reason();
        }
    }
    return {};
}

std::string use_own_certificate(SSL_CTX* context, const TlsSettings& settings) {
    if (settings.certificate.empty()) return {};
    auto chain = parse_certificates(settings.certificate);
    if (!chain) return "the certificate " + chain.error();
    const auto key = parse_private_key(settings.key);
    if (!key) return "the key " + key.error();
    if (!matches_key(*chain->front(), **key)) return "the key does not belong to the certificate";
    if (SSL_CTX_use_certificate(context, chain->front().get()) != 1 ||
        SSL_CTX_use_PrivateKey(context, key->get()) != 1) {
        return "the certificate cannot be used: " + openssl_reason();
    }
    for (std::size_t i = 1; i < chain->size(); ++i) {
        if (SSL_CTX_add1_chain_cert(context, (*chain)[i].get()) != 1) {
            return "the certificate's chain cannot be used: " + openssl_reason();
        }
    }
    return {};
}

bool expect_name(SSL* tls, std::string name) {
    X509_VERIFY_PARAM* const wanted = SSL_get0_param(tls);
    X509_VERIFY_PARAM_set_hostflags(
        wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (parse_ip(name)) return X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) == 1;
    // The root's dot is part neither of SNI (RFC 6066 section 3) nor of a certificate's names.
    if (name.ends_with('.')) name.pop_back();
    return X509_VERIFY_PARAM_set1_host(wanted, name.data(), name.size()) == 1 &&
           SSL_ctrl(tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data()) == 1;
}

// Marks connections whose server has asked for a client certificate.
int asked_index() {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
}

// Called when the server asks for a client certificate, whether there is one or not.
int note_asked(SSL* tls, void*) {
    static char mark;
    SSL_set_ex_data(tls, asked_index(), &mark);
    return 1;  // go on with the certificate that is configured, or without one
}

// The settings of a new context of `settings`, but for the authorities.
std::string set_up(SSL_CTX* context, const TlsSettings& settings) {
    SSL_CTX_set_min_proto_version(
        context, settings.min_version == TlsVersion::tls_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_verify(context, settings.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    SSL_CTX_set_cert_cb(context, note_asked, nullptr);
    TlsChannel::keep_sessions(context);
    // A configuration that names one authority of a chain, or the server's own certificate, means
    // just that one.
    if (!settings.ca.empty()) {
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
    }
    return use_own_certificate(context, settings);
}

}  // namespace

TlsClient::TlsClient(TlsContextPtr context, TlsSettings settings)
    : context_(std::move(context)), settings_(std::move(settings)) {}

Result<std::shared_ptr<TlsClient>, std::string> TlsClient::make(const TlsSettings& settings) {
    using boost::system::in_place_error;
    TlsContextPtr context(SSL_CTX_new(TLS_client_method()));
    if (context == nullptr) return {in_place_error, "TLS cannot be set up: " + openssl_reason()};
    std::string fault = set_up(context.get(), settings);
    if (fault.empty() && settings.verify) {
        fault = believe_authorities(context.get(), settings.ca);
    }
    if (!fault.empty()) return {in_place_error, std::move(fault)};
    return std::shared_ptr<TlsClient>(new TlsClient(std::move(context), settings));
}

std::shared_ptr<TlsClient> TlsClient::copy() const {
    const std::lock_guard lock(mutex_);
    TlsContextPtr context(SSL_CTX_new(TLS_client_method()));
    if (context == nullptr || !set_up(context.get(), settings_).empty()) return nullptr;
    SSL_CTX_set1_cert_store(context.get(), SSL_CTX_get_cert_store(context_.get()));
    return std::shared_ptr<TlsClient>(new TlsClient(std::move(context), settings_));
}

TlsPtr TlsClient::connection_to(const std::string& host, const TlsSessionPtr& session,
                                Offer offer) const {
    const std::lock_guard lock(mutex_);
    TlsPtr tls(SSL_new(context_.get()));
    const std::string& name = settings_.server_name.empty() ? host : settings_.server_name;
    if (tls != nullptr && !expect_name(tls.get(), name)) tls.reset();
    // A session that does not fit is not used.
    if (tls != nullptr && session != nullptr) SSL_set_session(tls.get(), session.get());
    constexpr unsigned char kHttp2[] = {2, 'h', '2'};
    if (tls != nullptr && offer == Offer::http2 &&
        SSL_set_alpn_protos(tls.get(), kHttp2, sizeof kHttp2) != 0) {
        tls.reset();
    }
    ERR_clear_error();
    return tls;
}

bool speaks_http2(const SSL* tls) {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(tls, &name, &size);
    return std::string_view(reinterpret_cast<const char*>(name), size) == "h2";
}

bool refuses_protocol(unsigned long error) {
    return ERR_GET_LIB(error) == ERR_LIB_SSL &&
           ERR_GET_REASON(error) == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL;
}

bool server_wants_certificate(const SSL* tls) {
    return SSL_get_ex_data(tls, asked_index()) != nullptr;
}

void TlsClient::replace_with(const TlsClient& other) {
    if (this == &other) return;
    const std::scoped_lock lock(mutex_, other.mutex_);
    SSL_CTX_up_ref(other.context_.get());
    context_.reset(other.context_.get());
    settings_ = other.settings_;
}

}  // namespace tidegate
