// Certificates and private keys: read from PEM (RFC 7468), which is how files have them, shown by a
// peer, or made here. Pure, but for SystemAuthorities, which reads files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <openssl/types.h>

#include "base/described_enum.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "tls/openssl.hpp"

namespace tidegate {

using CertificatePtr = OpensslPtr<X509>;
using PrivateKeyPtr = OpensslPtr<EVP_PKEY>;

// All certificates of `pem`, at least one, in their order; other text is passed over. Or why not: a
// clause that continues the name of a file.
Result<std::vector<CertificatePtr>, std::string> parse_certificates(std::string_view pem);

// The first private key of `pem`. One that is locked by a password is refused: Tidegate asks for
// none.
Result<PrivateKeyPtr, std::string> parse_private_key(std::string_view pem);

// Whether `key` belongs to the public key in `certificate`.
bool matches_key(const X509& certificate, const EVP_PKEY& key);

// Whether the names and keys of both fit, and `issuer` may sign certificates.
bool has_issued(const X509& issuer, const X509& certificate);

// The hash of its DER form, in lower-case hex.
std::string sha256_of(const X509& certificate);

// When a certificate is valid.
struct Validity {
    std::chrono::system_clock::time_point from;
    std::chrono::system_clock::time_point until;

    // Whether it has to be renewed: fewer than 14 days and less than a third of its life are left.
    // The third is for short-lived certificates, which would otherwise warn from their first day.
    // True once it has expired.
    bool ends_soon(std::chrono::system_clock::time_point now) const;
    // Whether it has to be renewed before `other`. One that ends soon comes first; of two that do,
    // or of two that do not, the one that ends first.
    bool is_more_urgent(const Validity& other, std::chrono::system_clock::time_point now) const;
};

Validity validity_of(const X509& certificate);

using SharedCertificate = std::shared_ptr<X509>;

// The certificates that the server at the other end of `tls` has shown, its own first; none when it
// has shown none, or `tls` is null.
std::vector<SharedCertificate> shown_chain(const SSL* tls);
// When the peer's certificate is valid; nothing when it has shown none, or `tls` is null.
std::optional<Validity> peer_validity(const SSL* tls);

// The kinds of keys that the certificates of a listener may be about.
BOOST_DEFINE_FIXED_ENUM_CLASS(KeyType, std::uint8_t, ecdsa, ed25519, rsa)

std::string_view name_of(KeyType type);

inline constexpr int kRsaBitsMin = 2'048;

struct CertificateKey {
    // Says what keeps a listener from using the key.
    enum class Fault : std::uint8_t { none, type, bits, curve };

    Fault fault = Fault::type;
    std::optional<KeyType> type{};  // nothing with Fault::type alone
    int bits = 0;
    std::string curve{};                      // of ECDSA, as OpenSSL names it: `prime256v1`
    std::string text = "of an unknown kind";  // `ECDSA P-256`, `RSA 2048`, `Ed25519`
};

CertificateKey key_of(const X509& certificate);

// The names of servers' certificates, and which of them is meant by the name that a client asks
// for (RFC 9525). Pure.
//
// A normal name is one that can be compared byte by byte: lower case, without the root's dot, each
// address in its one spelling.

// The normal form of a name that a certificate or the configuration states: `example.com`,
// `192.0.2.1`, or `*.example.com` for all names with one label more. Nothing when no client can ask
// for such a name. A name of other alphabets is written in ASCII (`xn--...`); in Unicode, it is
// none.
std::optional<std::string> normal_certificate_name(std::string_view name);

// The normal form of a name that a client asks for, which is no wildcard. Clients ought not to ask
// for addresses, but some do.
std::optional<std::string> normal_asked_name(std::string_view name);

// The names that `certificate` states as subject alternative names, normal, each once, in its
// order. Its subject means nothing.
std::vector<std::string> names_of(const X509& certificate);

// Whether a client that asks for `name`, a DNS name or an IP address, takes `certificate` for it:
// OpenSSL's answer, which knows nothing of this file.
bool is_for(const X509& certificate, const std::string& name);

// Numbers normal names from 0 on, and finds them again in the same time however many there are.
class CertificateNames {
  public:
    // The number of `name`, which must be normal; it is the next one if `name` is new.
    std::size_t add(const std::string& name);
    // The number of the name that `asked`, which must be normal, means: itself, or else the
    // wildcard for its first label. An address is itself only.
    std::optional<std::size_t> find(const std::string& asked) const;
    std::size_t size() const { return numbers_.size(); }

  private:
    // Wildcards without their asterisk: no name begins with a dot.
    std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>> numbers_;
};

// Holds what a certificate states, as text and numbers for checks, reports and logs. Pure.
struct CertificateFacts {
    std::string subject;  // shown_name()
    std::string issuer;   // likewise
    // names_of() it: first those that are DNS names, then addresses.
    std::vector<std::string> names;
    CertificateKey key;
    std::string sha256;  // of its DER form, in lower-case hex
    Validity validity;
    bool is_self_signed = false;
    bool is_authority = false;    // other certificates can be verified with it
    std::string issuer_location;  // of the issuer's certificate (RFC 5280 4.2.2.1); empty: not said

    // The first name; without one the subject.
    const std::string& first_name() const { return names.empty() ? subject : names.front(); }
};

CertificateFacts facts_of(const X509& certificate);

// Whole days from `now` to `until`; below 0 when it expired so many days ago.
long days_left(std::chrono::system_clock::time_point until,
               std::chrono::system_clock::time_point now);

// The authorities of the system, and why clients that trust them would doubt a certificate. Any
// thread.
class SystemAuthorities {
  public:
    // Reads them (SSL_CERT_FILE and SSL_CERT_DIR replace them). Or why they cannot be read: a
    // system may have none. Blocks.
    static Result<std::shared_ptr<const SystemAuthorities>, std::string> read();

    // Whether the issuer of `certificate` is one of them. Reads files. Blocks.
    bool have_issuer_of(const X509& certificate) const;

    struct Doubt {
        std::string why;  // OpenSSL's words, a clause
        // No authority of the system has issued the last certificate of the chain...
        bool is_unknown_issuer = false;
        // ...and a certificate says where its issuer's is to be had, as those do that public
        // authorities issue by an intermediate one: the server ought to show that.
        bool is_incomplete = false;
        std::string issuer{};  // of the last certificate of the chain
    };
    // Why they do not vouch for `chain`, whatever its names. Requires one certificate at least.
    std::optional<Doubt> doubt(std::span<const SharedCertificate> chain) const;

  private:
    using StorePtr = OpensslPtr<X509_STORE>;

    explicit SystemAuthorities(StorePtr store) : store_(std::move(store)) {}

    StorePtr store_;
};

inline constexpr std::chrono::days kThrowawayValidity{90};

// A certificate to try TLS with on one machine, and its key. Both PEM.
struct ThrowawayCertificate {
    std::string certificate;
    std::string key;
};

// A new ECDSA key (P-256), and a certificate of it for `localhost`, 127.0.0.1 and ::1, valid from
// shortly before `now` for kThrowawayValidity. It vouches for itself and for no other: a client
// that believes it believes nothing else by that. Or what OpenSSL could not do.
Result<ThrowawayCertificate, std::string> make_throwaway_certificate(
    std::chrono::system_clock::time_point now);

}  // namespace tidegate
