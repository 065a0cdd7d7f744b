#include "tls/tls_server.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/ip.hpp"
#include "base/utf8.hpp"
#include "tls/client_auth.hpp"
#include "tls/openssl.hpp"

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
// The list leaves out SHA-1 and SHA-224, which only TLS 1.2 would have.
constexpr const char* kSignatures =
    "ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:ecdsa_secp521r1_sha512:ed25519:"
    "rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:rsa_pss_rsae_sha512:"
    "rsa_pss_pss_sha256:rsa_pss_pss_sha384:rsa_pss_pss_sha512:"
    "rsa_pkcs1_sha256:rsa_pkcs1_sha384:rsa_pkcs1_sha512";
constexpr int kSecurityLevel = 2;  // 112 bits: RSA of 2048, no SHA-1

// The order is the server's preference.
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

// For a listener without HTTP/1. A client that offers no protocol would speak HTTP/1, as clients of
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
    if (!matches_key(*certificates->front(), **key)) {
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

using Choice = ServerCredentials::Choice;

// How long a session can be resumed: as long as the key of its ticket decrypts for certain.
constexpr std::chrono::seconds kSessionLife = TicketKeys::kOldPeriods * TicketKeys::kNewEvery;

// The data of OpenSSL's callbacks. The SSL_CTX owns it, as connections may outlive the TlsServer.
class TlsServerState {
  public:
    TlsServerState(std::shared_ptr<const ServerCredentials> credentials,
                   std::shared_ptr<const TicketKeys> tickets)
        : credentials_(std::move(credentials)),
          tickets_(std::move(tickets)),
          cipher_(EVP_CIPHER_fetch(nullptr, "AES-256-CBC", nullptr)) {
        if (cipher_ == nullptr) throw std::bad_alloc();
    }

    const ServerCredentials& credentials() const { return *credentials_; }
    const TicketKeySet& ticket_keys() { return tickets_.read(); }
    const EVP_CIPHER* ticket_cipher() const { return cipher_.get(); }

  private:
    std::shared_ptr<const ServerCredentials> credentials_;
    TicketKeyReader tickets_;
    Owned<EVP_CIPHER, EVP_CIPHER_free> cipher_;
};

void free_state(void*, void* state, CRYPTO_EX_DATA*, int, long, void*) {
    delete static_cast<TlsServerState*>(state);
}

// Where an SSL_CTX keeps it.
int state_index() {
    static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_state);
    return index;
}

TlsServerState& state_of(const SSL* tls) {
    return *static_cast<TlsServerState*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(tls), state_index()));
}

// Calls `use` with the certificate, the key and the chain of each pair of `choice`; whether it
// always returned 1. Threads share the keys: copies for each made two threads no faster.
template <class Use>
bool use_each(const ServerCredentials& credentials, const Choice& choice, Use use) {
    for (const auto& index : choice) {
        if (!index) continue;
        const ServerCredentials::Pair& pair = credentials.pairs()[*index];
        if (use(pair.certificate.get(), pair.key.get(), pair.chain.get()) != 1) return false;
    }
    return true;
}

// The pairs that the certificates' names give the client; null: they do not have its name.
const Choice* named_choice(const SSL* tls) {
    const char* const name = SSL_get_servername(tls, TLSEXT_NAMETYPE_host_name);
    const ServerCredentials& credentials = state_of(tls).credentials();
    return credentials.choice_for(name != nullptr ? std::optional<std::string_view>(name)
                                                  : std::nullopt);
}

// Called in each handshake, those that resume a session included.
int on_name(SSL* tls, int* alert, void*) {
    if (named_choice(tls) != nullptr) return SSL_TLSEXT_ERR_OK;
    if (state_of(tls).credentials().unknown_names() == UnknownNames::first) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Called before a certificate is shown. Lends the pairs of the name to the connection; OpenSSL
// takes the one for which the client has a signature and, in TLS 1.2, a cipher: ECDSA first, as in
// the orders of kCiphers12. 0 fails the handshake.
int on_certificate(SSL* tls, void*) {
    const ServerCredentials& credentials = state_of(tls).credentials();
    const Choice* const choice = named_choice(tls);
    // The connection has the first ones from its SSL_CTX.
    if (choice == nullptr || *choice == credentials.first()) return 1;
    SSL_certs_clear(tls);
    const auto lend = [tls](X509* certificate, EVP_PKEY* key, stack_st_X509* chain) {
        return SSL_use_cert_and_key(tls, certificate, key, chain, 1);
    };
    return use_each(credentials, *choice, lend) ? 1 : 0;
}

bool set_ticket_keys(const TicketKey& key, EVP_MAC_CTX* mac) {
    // OpenSSL only reads both.
    auto* const bytes = const_cast<unsigned char*>(key.mac.data());
    char digest[] = "SHA256";
    const std::array<OSSL_PARAM, 3> parameters{
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, bytes, key.mac.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    return EVP_MAC_CTX_set_params(mac, parameters.data()) == 1;
}

int begin_ticket(TlsServerState& state, unsigned char* name, unsigned char* iv,
                 EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac) {
    const TicketKey& key = state.ticket_keys().keys.front();
    std::copy(key.name.begin(), key.name.end(), name);
    if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(state.ticket_cipher())) != 1 ||
        EVP_EncryptInit_ex2(cipher, state.ticket_cipher(), key.cipher.data(), iv, nullptr) != 1 ||
        !set_ticket_keys(key, mac)) {
        return -1;
    }
    return 1;
}

// 0: the ticket cannot be read, and the handshake goes on without it.
int open_ticket(TlsServerState& state, const SSL* tls, const unsigned char* name,
                const unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac) {
    const TicketKeySet& keys = state.ticket_keys();
    const TicketKey* const key = keys.find(name);
    if (key == nullptr) return 0;
    if (EVP_DecryptInit_ex2(cipher, state.ticket_cipher(), key->cipher.data(), iv, nullptr) != 1 ||
        !set_ticket_keys(*key, mac)) {
        return -1;
    }
    // A client of TLS 1.3 uses each ticket once, lest it be recognised by it: it needs the next.
    const bool is_renewed = key != &keys.keys.front() || SSL_version(tls) == TLS1_3_VERSION;
    return is_renewed ? 2 : 1;
}

int on_ticket(SSL* tls, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
              EVP_MAC_CTX* mac, int is_new) {
    TlsServerState& state = state_of(tls);
    return is_new == 1 ? begin_ticket(state, name, iv, cipher, mac)
                       : open_ticket(state, tls, name, iv, cipher, mac);
}

}  // namespace

TlsContextPtr make_server_context(TlsVersion min_version, HttpVersions http) {
    TlsContextPtr context(SSL_CTX_new(TLS_server_method()));
    const bool is_made = context != nullptr && apply(context.get(), min_version, http);
    ERR_clear_error();
    if (!is_made) throw std::bad_alloc();
    return context;
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
    if (!client_auth) return {in_place_error, client_auth.error()};
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

// Adds the pairs of other key types that have the first name of the first pair.
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

struct TlsServer::Context {
    TlsContextPtr openssl;
};

TlsServer::TlsServer(std::shared_ptr<const ServerCredentials> credentials,
                     std::shared_ptr<TicketKeys> tickets)
    : context_(std::make_unique<Context>()) {
    auto state = std::make_unique<TlsServerState>(std::move(credentials), std::move(tickets));
    context_->openssl =
        make_server_context(state->credentials().min_version(), state->credentials().http());
    SSL_CTX* const context = context_->openssl.get();
    // OpenSSL's macro does the same with a cast in the style of C.
    SSL_CTX_callback_ctrl(context, SSL_CTRL_SET_TLSEXT_SERVERNAME_CB,
                          reinterpret_cast<void (*)()>(on_name));
    SSL_CTX_set_cert_cb(context, on_certificate, nullptr);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket);
    SSL_CTX_set_timeout(context, kSessionLife.count());
    prepare_client_auth(context, state->credentials().client_auth());
    const auto use = [context](X509* certificate, EVP_PKEY* key, stack_st_X509* chain) {
        return SSL_CTX_use_cert_and_key(context, certificate, key, chain, 1);
    };
    const ServerCredentials& shown = state->credentials();
    const bool is_set = use_each(shown, shown.first(), use) &&
                        SSL_CTX_set_ex_data(context, state_index(), state.get()) == 1;
    ERR_clear_error();
    if (!is_set) throw std::bad_alloc();
    static_cast<void>(state.release());
}

TlsServer::~TlsServer() = default;

TlsPtr TlsServer::connection() const {
    TlsPtr tls(SSL_new(context_->openssl.get()));
    ERR_clear_error();
    return tls;
}

namespace {

bool fill_with_chance(TicketKey& key) {
    return RAND_bytes(key.name.data(), static_cast<int>(key.name.size())) == 1 &&
           RAND_priv_bytes(key.mac.data(), static_cast<int>(key.mac.size())) == 1 &&
           RAND_priv_bytes(key.cipher.data(), static_cast<int>(key.cipher.size())) == 1;
}

TicketKey made_by_chance() {
    TicketKey key;
    if (!fill_with_chance(key)) {
        throw std::runtime_error("the system gives no random bytes for the keys of TLS tickets");
    }
    return key;
}

TicketKey parsed(const std::string& text) {
    assert(text.size() == TicketKeys::kKeyBytes);
    TicketKey key;
    const char* from = text.data();
    std::memcpy(key.name.data(), from, key.name.size());
    from += key.name.size();
    std::memcpy(key.mac.data(), from, key.mac.size());
    from += key.mac.size();
    std::memcpy(key.cipher.data(), from, key.cipher.size());
    return key;
}

}  // namespace

TicketKey::~TicketKey() {
    OPENSSL_cleanse(mac.data(), mac.size());
    OPENSSL_cleanse(cipher.data(), cipher.size());
}

const TicketKey* TicketKeySet::find(const unsigned char* name) const {
    const auto found = std::find_if(keys.begin(), keys.end(), [name](const TicketKey& key) {
        return std::equal(key.name.begin(), key.name.end(), name);
    });
    return found == keys.end() ? nullptr : &*found;
}

TicketKeys::TicketKeys(const std::vector<std::string>& configured, Time now) {
    use(configured, now);
}

void TicketKeys::use(const std::vector<std::string>& configured, Time now) {
    const std::lock_guard lock(mutex_);
    std::vector<TicketKey> keys;
    keys.reserve(configured.size());
    for (const std::string& text : configured) keys.push_back(parsed(text));
    if (keys.empty()) {
        if (!made_.empty()) return;
        keys.push_back(made_by_chance());
        made_ = {now};
    } else {
        made_.clear();
        if (keys_ != nullptr && keys_->keys == keys) return;
    }
    publish(std::move(keys));
}

void TicketKeys::rotate(Time now) {
    const std::lock_guard lock(mutex_);
    if (made_.empty() || now - made_.front() < kNewEvery) return;
    TicketKey newest;
    // If the system gives no random bytes, the keys stay until the next call.
    if (!fill_with_chance(newest)) return;
    std::vector<TicketKey> keys{newest};
    std::vector<Time> made{now};
    for (std::size_t i = 0; i < made_.size(); ++i) {
        // Keys go by age: the process may have slept for long.
        if (now - made_[i] >= (1 + kOldPeriods) * kNewEvery) break;
        keys.push_back(keys_->keys[i]);
        made.push_back(made_[i]);
    }
    made_ = std::move(made);
    publish(std::move(keys));
}

std::vector<std::pair<TicketKey, TicketKeys::Time>> TicketKeys::made() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<TicketKey, Time>> all;
    all.reserve(made_.size());
    for (std::size_t i = 0; i < made_.size(); ++i) all.emplace_back(keys_->keys[i], made_[i]);
    return all;
}

void TicketKeys::adopt(const std::vector<std::pair<TicketKey, Time>>& made) {
    const std::lock_guard lock(mutex_);
    if (made_.empty() || made.empty()) return;
    std::vector<TicketKey> keys;
    keys.reserve(made.size());
    made_.clear();
    for (const auto& [key, time] : made) {
        keys.push_back(key);
        made_.push_back(time);
    }
    publish(std::move(keys));
}

std::shared_ptr<const TicketKeySet> TicketKeys::keys() const {
    const std::lock_guard lock(mutex_);
    return keys_;
}

void TicketKeys::publish(std::vector<TicketKey> keys) {
    auto next = std::make_shared<TicketKeySet>();
    next->version = version_.load(std::memory_order_relaxed) + 1;
    next->keys = std::move(keys);
    keys_ = std::move(next);
    version_.store(keys_->version, std::memory_order_release);
}

}  // namespace tidegate
