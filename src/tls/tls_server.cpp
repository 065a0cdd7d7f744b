#include "tls/tls_server.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "tls/client_auth.hpp"
#include "tls/server_credentials.hpp"
#include "tls/server_profile.hpp"
#include "tls/ticket_keys.hpp"

namespace tidegate {

namespace {

using Choice = ServerCredentials::Choice;

// How long a session can be resumed: as long as the key of its ticket decrypts for certain.
constexpr std::chrono::seconds kSessionLife = TicketKeys::kOldPeriods * TicketKeys::kNewEvery;

struct FreeCipher {
    void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
};

// The data of OpenSSL's callbacks. The SSL_CTX owns it, as connections may outlive the TlsServer.
class ServerState {
  public:
    ServerState(std::shared_ptr<const ServerCredentials> credentials,
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
    std::unique_ptr<EVP_CIPHER, FreeCipher> cipher_;
};

void free_state(void*, void* state, CRYPTO_EX_DATA*, int, long, void*) {
    delete static_cast<ServerState*>(state);
}

// Where an SSL_CTX keeps it.
int state_index() {
    static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_state);
    return index;
}

ServerState& state_of(const SSL* tls) {
    return *static_cast<ServerState*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(tls), state_index()));
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
// the orders of server_profile.cpp. 0 fails the handshake.
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
    // Both are only read.
    auto* const bytes = const_cast<unsigned char*>(key.mac.data());
    char digest[] = "SHA256";
    const std::array<OSSL_PARAM, 3> parameters{
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, bytes, key.mac.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    return EVP_MAC_CTX_set_params(mac, parameters.data()) == 1;
}

int begin_ticket(ServerState& state, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                 EVP_MAC_CTX* mac) {
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
int open_ticket(ServerState& state, const SSL* tls, const unsigned char* name,
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
    ServerState& state = state_of(tls);
    return is_new == 1 ? begin_ticket(state, name, iv, cipher, mac)
                       : open_ticket(state, tls, name, iv, cipher, mac);
}

}  // namespace

struct TlsServer::Context {
    TlsContextPtr openssl;
};

TlsServer::TlsServer(std::shared_ptr<const ServerCredentials> credentials,
                     std::shared_ptr<TicketKeys> tickets)
    : context_(std::make_unique<Context>()) {
    auto state = std::make_unique<ServerState>(std::move(credentials), std::move(tickets));
    context_->openssl =
        make_server_context(state->credentials().min_version(), state->credentials().http());
    SSL_CTX* const context = context_->openssl.get();
    // As the macro does it, but for its cast in the style of C.
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

}  // namespace tidegate
