// A TlsServer makes the TLS connections of a listener: it has its certificates by name, its
// versions, its tickets, and the authorities of clients.
//
// OpenSSL locks what threads share, so each worker makes a TlsServer of its own for each listener
// that speaks TLS, from certificates that are parsed once. One thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/types.h>

#include "base/result.hpp"
#include "tls/certificate.hpp"
#include "tls/client_auth.hpp"
#include "tls/openssl.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate {

// The keys that session tickets are encrypted with (RFC 5077 section 4): of the process's own
// making, new every 8 hours, or those of the configuration, which replicas share.
//
// A process has one TicketKeys for each listener that speaks TLS, and keeps it over a reload, so
// that clients resume their sessions. Any thread; each reads through a TicketKeyReader of its own,
// so that no handshake waits for another thread's.

// Its destructor wipes the memory.
struct TicketKey {
    std::array<unsigned char, 16> name{};    // in the ticket, in the clear
    std::array<unsigned char, 32> mac{};     // of HMAC-SHA256
    std::array<unsigned char, 32> cipher{};  // of AES-256-CBC

    TicketKey() = default;
    TicketKey(const TicketKey&) = default;
    TicketKey& operator=(const TicketKey&) = default;
    ~TicketKey();
    bool operator==(const TicketKey&) const = default;
};

// Immutable.
struct TicketKeySet {
    // The key of the ticket that begins with `name`; null: it is not known, or no more.
    const TicketKey* find(const unsigned char* name) const;

    std::uint64_t version = 0;
    std::vector<TicketKey> keys;  // at least one; the first encrypts
};

class TicketKeys {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // The name, the key of the MAC and that of the cipher: as nginx writes them, too.
    static constexpr std::size_t kKeyBytes = 80;
    static constexpr std::size_t kKeysMax = 4;
    static constexpr std::chrono::hours kNewEvery{8};
    // For so many periods, a key that no longer encrypts still decrypts.
    static constexpr int kOldPeriods = 2;

    // `configured` as use() takes it. Throws std::runtime_error when the system gives no random
    // bytes.
    TicketKeys(const std::vector<std::string>& configured, Time now);

    // Keys of kKeyBytes each, the first of which encrypts; none: the process makes its own, or
    // keeps those that it has made.
    void use(const std::vector<std::string>& configured, Time now);
    // Makes a new key when it is time, and forgets the oldest. A timer calls it: a key lives on
    // until then.
    void rotate(Time now);

    // The keys that the process has made, the newest first; none when they are configured. For the
    // process that takes this one's place, whose clock is the same.
    std::vector<std::pair<TicketKey, Time>> made() const;
    // Goes on with the keys of another process, as its made() gave them, in place of its own. Does
    // nothing where the keys are configured, or `made` is empty.
    void adopt(const std::vector<std::pair<TicketKey, Time>>& made);

    // Changes whenever keys() does.
    std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
    std::shared_ptr<const TicketKeySet> keys() const;

  private:
    void publish(std::vector<TicketKey> keys);  // under mutex_

    mutable std::mutex mutex_;  // of all below but the version
    std::shared_ptr<const TicketKeySet> keys_;
    std::vector<Time> made_;  // when each of keys_ was; empty: they are configured
    std::atomic<std::uint64_t> version_{0};
};

// Each thread has a reader, which looks at the keys again only if their version has changed.
class TicketKeyReader {
  public:
    explicit TicketKeyReader(std::shared_ptr<const TicketKeys> keys)
        : keys_(std::move(keys)), seen_(keys_->keys()) {}

    // The newest, until the next call.
    const TicketKeySet& read() {
        if (seen_->version != keys_->version()) seen_ = keys_->keys();
        return *seen_;
    }

  private:
    std::shared_ptr<const TicketKeys> keys_;
    std::shared_ptr<const TicketKeySet> seen_;
};

// Makes a context with the ciphers and groups of all listeners, for which there is no setting, and
// without a certificate, tickets or client authentication. Throws std::bad_alloc
// when OpenSSL has no memory.
TlsContextPtr make_server_context(TlsVersion min_version, HttpVersions http);

// The certificates and authorities of a listener, parsed once from its settings.
//
// Immutable, any thread. The workers' TlsServers share it.
using CertificateChainPtr = OpensslPtr<stack_st_X509>;

class ServerCredentials {
  public:
    struct Pair {
        CertificatePtr certificate;
        CertificateChainPtr chain;  // of the certificate, without it
        PrivateKeyPtr key;
        KeyType type;
        std::string file;                // of the certificate
        std::vector<std::string> names;  // all that the pair is shown for, normal
    };
    // The pairs of one name by type of their keys, as indices of pairs(): the client's abilities
    // decide between them. At least one.
    using Choice = std::array<std::optional<std::uint16_t>, kEnumerators<KeyType>.size()>;

    const std::vector<Pair>& pairs() const { return pairs_; }
    // For a client that asks for `name`, as it is written in the handshake, or for no name: that
    // client knows an address only. Null: no certificate has the name.
    const Choice* choice_for(std::optional<std::string_view> name) const;
    // The choice of the first certificate.
    const Choice& first() const { return first_; }
    UnknownNames unknown_names() const { return unknown_names_; }
    TlsVersion min_version() const { return min_version_; }
    HttpVersions http() const { return http_; }
    const std::shared_ptr<const ParsedClientAuth>& client_auth() const { return client_auth_; }

  private:
    friend Result<std::shared_ptr<const ServerCredentials>, std::string> parse_credentials(
        const TlsServerSettings& settings);

    // Empty, or a fault. `context` tries the pair out.
    std::string add(const ServerCertificate& settings, SSL_CTX* context);
    std::string add_name(const std::string& name, std::uint16_t pair);
    void choose_first();

    std::vector<Pair> pairs_;
    CertificateNames names_;
    std::vector<Choice> choices_;  // by the number of their name
    Choice first_;
    std::optional<std::size_t> first_address_;  // the number of a name
    UnknownNames unknown_names_ = UnknownNames::first;
    TlsVersion min_version_ = TlsVersion::tls_1_2;
    HttpVersions http_ = HttpVersions::both;
    std::shared_ptr<const ParsedClientAuth> client_auth_;
};

class ServerCredentials;  // certificates, keys and authorities, parsed; immutable, any thread

// Or what is wrong with `settings`, as a sentence that names the file.
Result<std::shared_ptr<const ServerCredentials>, std::string> parse_credentials(
    const TlsServerSettings& settings);

class TlsServer {
  public:
    // Throws std::bad_alloc when OpenSSL has no memory.
    TlsServer(std::shared_ptr<const ServerCredentials> credentials,
              std::shared_ptr<TicketKeys> tickets);
    ~TlsServer();
    TlsServer(const TlsServer&) = delete;
    TlsServer& operator=(const TlsServer&) = delete;

    // The server's side of a connection, for Connection::begin_tls(). It keeps what it needs of
    // this server, which may go before it. Null when OpenSSL has no memory.
    TlsPtr connection() const;

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace tidegate
