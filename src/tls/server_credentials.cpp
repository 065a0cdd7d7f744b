#include "tls/server_credentials.hpp"

#include <algorithm>
#include <utility>

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/ip.hpp"
#include "base/quote.hpp"
#include "tls/openssl_text.hpp"
#include "tls/server_profile.hpp"
#include "tls/ticket_keys.hpp"
#include "tls/tls_server.hpp"

namespace tidegate {

namespace {

using boost::system::in_place_error;
using Pair = ServerCredentials::Pair;

// Empty: it can be used.
std::string fault_of(const CertificateKey& key) {
    switch (key.fault) {
        case CertificateKey::Fault::none:
            return {};
        case CertificateKey::Fault::type:
            return "is of a type that is not supported: use ECDSA, RSA or Ed25519";
        case CertificateKey::Fault::bits:
            return "has only " + std::to_string(key.bits) + " bits: RSA needs at least " +
                   std::to_string(kRsaBitsMin);
        case CertificateKey::Fault::curve:
            return "has a curve that TLS does not have: make a key of P-256";
    }
    return {};
}

// All but the first of `certificates`.
CertificateChainPtr chain_of(std::vector<CertificatePtr>& certificates) {
    CertificateChainPtr chain(sk_X509_new_null());
    for (std::size_t i = 1; i < certificates.size() && chain != nullptr; ++i) {
        if (sk_X509_push(chain.get(), certificates[i].get()) == 0) return nullptr;
        static_cast<void>(certificates[i].release());
    }
    return chain;
}

// OpenSSL finds faults of its own, such as weak signatures.
std::string try_out(SSL_CTX* context, const Pair& pair) {
    const bool fits = SSL_CTX_use_cert_and_key(context, pair.certificate.get(), pair.key.get(),
                                               pair.chain.get(), 1) == 1;
    std::string reason = openssl_reason();
    return fits ? std::string() : reason;
}

// Reads the files into `pair`; or returns a fault.
std::string parse_pair(const ServerCertificate& settings, SSL_CTX* context, Pair& pair) {
    const std::string file = quote(settings.file);
    auto certificates = parse_certificates(settings.certificate);
    if (!certificates) return "the file " + file + " " + certificates.error();
    auto key = parse_private_key(settings.key);
    if (!key) return "the file of the key for " + file + " " + key.error();
    if (!belong_together(*certificates->front(), **key)) {
        return "the key for " + file +
               " does not belong to the certificate (the first one in the file)";
    }
    const CertificateKey shown = key_of(*certificates->front());
    std::string fault = fault_of(shown);
    if (!fault.empty()) return "the key for " + file + " " + fault;
    pair.type = *shown.type;
    pair.file = settings.file;
    pair.key = std::move(*key);
    pair.chain = chain_of(*certificates);
    pair.certificate = std::move(certificates->front());
    fault = try_out(context, pair);
    if (!fault.empty()) return "the certificate in " + file + " cannot be used: " + fault;
    return {};
}

// The names for which `pair` is used: those that its certificate states, and those of `more`, which
// are the configuration's. Or a fault.
std::string collect_names(const std::vector<std::string>& more, Pair& pair) {
    CertificateNames seen;
    pair.names = names_of(*pair.certificate);
    for (const std::string& name : pair.names) seen.add(name);
    for (const std::string& name : more) {
        auto normal = normal_certificate_name(name);
        if (!normal) return quote(name) + ", a name for " + quote(pair.file) + ", is no host name";
        const std::size_t next = seen.size();
        if (seen.add(*normal) == next) pair.names.push_back(std::move(*normal));
    }
    return {};
}

std::string fault_of_ticket_keys(const std::vector<std::string>& keys) {
    if (keys.size() > TicketKeys::kKeysMax) {
        return "`ticket_keys` has " + std::to_string(keys.size()) + " keys: at most " +
               std::to_string(TicketKeys::kKeysMax) + " are allowed";
    }
    for (const std::string& key : keys) {
        if (key.size() == TicketKeys::kKeyBytes) continue;
        return "a key of `ticket_keys` has " + std::to_string(key.size()) + " bytes: it needs " +
               std::to_string(TicketKeys::kKeyBytes);
    }
    return {};
}

}  // namespace

void FreeCertificateChain::operator()(stack_st_X509* chain) const {
    sk_X509_pop_free(chain, X509_free);
}

Result<std::shared_ptr<const ServerCredentials>, std::string> parse_credentials(
    const TlsServerSettings& settings) {
    const auto made = std::make_shared<ServerCredentials>();
    made->unknown_names_ = settings.unknown_names;
    made->min_version_ = settings.min_version;
    made->http_ = settings.http;
    std::string fault = fault_of_ticket_keys(settings.ticket_keys);
    if (settings.certificates.empty()) fault = "a listener with `tls` needs a certificate";
    const TlsContextPtr context = make_server_context(settings.min_version, settings.http);
    for (const ServerCertificate& one : settings.certificates) {
        if (fault.empty()) fault = made->add(one, context.get());
    }
    if (!fault.empty()) return {in_place_error, std::move(fault)};
    auto client_auth = parse_client_auth(settings.client_auth);
    if (!client_auth) return {in_place_error, std::move(client_auth.error())};
    made->client_auth_ = std::move(*client_auth);
    made->choose_first();
    return std::shared_ptr<const ServerCredentials>(made);
}

std::string ServerCredentials::add(const ServerCertificate& settings, SSL_CTX* context) {
    Pair pair;
    std::string fault = parse_pair(settings, context, pair);
    if (fault.empty()) fault = collect_names(settings.names, pair);
    if (!fault.empty()) return fault;
    const bool is_shown_anyway = pairs_.empty() && unknown_names_ == UnknownNames::first;
    if (pair.names.empty() && !is_shown_anyway) {
        return "the certificate in " + quote(pair.file) +
               " has no subject alternative name, so that no client can ask for it: give it "
               "`names`";
    }
    const auto index = static_cast<std::uint16_t>(pairs_.size());
    pairs_.push_back(std::move(pair));
    for (const std::string& name : pairs_.back().names) {
        fault = add_name(name, index);
        if (!fault.empty()) return fault;
    }
    return {};
}

std::string ServerCredentials::add_name(const std::string& name, std::uint16_t pair) {
    const std::size_t number = names_.add(name);
    if (number == choices_.size()) {
        if (number == TlsServerSettings::kNamesMax) {
            return "the certificates have more than " +
                   std::to_string(TlsServerSettings::kNamesMax) +
                   " names in all: spread them over several listeners";
        }
        choices_.emplace_back();
        if (!first_address_ && parse_ip(name)) first_address_ = number;
    }
    const KeyType type = pairs_[pair].type;
    auto& place = choices_[number][static_cast<std::size_t>(type)];
    if (place) {
        return "two certificates for " + quote(name) + " have keys of one type (" +
               std::string(name_of(type)) + "): those in " + quote(pairs_[*place].file) + " and " +
               quote(pairs_[pair].file);
    }
    place = pair;
    return {};
}

// With those of other key types that have the first of its names.
void ServerCredentials::choose_first() {
    const Pair& pair = pairs_.front();
    if (!pair.names.empty()) {
        first_ = choices_.front();
    } else {
        first_[static_cast<std::size_t>(pair.type)] = 0;
    }
}

const ServerCredentials::Choice* ServerCredentials::choice_for(
    std::optional<std::string_view> name) const {
    std::optional<std::size_t> number = first_address_;
    if (name) {
        const auto normal = normal_asked_name(*name);
        number = normal ? names_.find(*normal) : std::nullopt;
    }
    return number ? &choices_[*number] : nullptr;
}

}  // namespace tidegate
