// The algorithms of signed tokens, the keys that verify them (RFC 7517, PEM, shared secrets), and
// Ed25519 signatures.
#pragma once

#include <cjose/jwk.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/types.h>

#include "base/json.hpp"
#include "base/result.hpp"
#include "identity/user_methods.hpp"
#include "tls/openssl.hpp"

namespace tidegate::identity {

// Names the type of a key; each curve is a kind of its own.
enum class JwkKind : std::uint8_t { secret, rsa, p256, p384, p521, ed25519 };

// `RS256`, exactly so. Nothing for other names, `none` among them.
std::optional<JwsAlgorithm> parse_jws_algorithm(std::string_view name);
std::string_view to_string(JwsAlgorithm algorithm);

// The only kind of key that signs with it.
JwkKind key_kind_of(JwsAlgorithm algorithm);

// How many bytes the hash of the algorithm has; for EdDSA those of SHA-512.
std::size_t hash_bytes_of(JwsAlgorithm algorithm);

// Ed25519 signatures (RFC 8032) as JSON Web Tokens use them (RFC 8037). Pure; any thread.
inline constexpr std::size_t kEd25519KeyBytes = 32;
inline constexpr std::size_t kEd25519SignatureBytes = 64;

using PublicKey = OpensslPtr<EVP_PKEY>;

// The public key that has these bytes (RFC 8032 section 5.1.5). Null if they are not a point of the
// curve in its one canonical form, or a point of small order: everyone can make signatures that
// such a key accepts. Throws std::bad_alloc.
PublicKey read_ed25519_key(std::string_view bytes);

// Whether the owner of `key` signed `message`. Several threads may use one key. Leaves its errors
// in OpenSSL's queue.
bool is_signed_with_ed25519(EVP_PKEY& key, std::string_view message, std::string_view signature);

// A `kid` longer than this is none.
inline constexpr std::size_t kKeyIdBytesMax = 256;

struct JwkRelease {
    void operator()(cjose_jwk_t* key) const;
};

struct Jwk {
    std::optional<std::string> kid;  // empty is a name, too
    JwkKind kind = JwkKind::secret;
    std::optional<JwsAlgorithm> algorithm;  // the only one that it is for, if it says so
    std::size_t bytes = 0;                  // of the secret, the modulus, a coordinate
    std::size_t bits = 0;                   // of the modulus; else 0
    std::string order;                      // of the curve, big-endian in `bytes`; else empty
    std::string digest;                     // SHA-256 of all that is used of it
    // Holds no private part but that of a secret. No thread changes it or counts references to it,
    // so that threads may share it.
    std::unique_ptr<cjose_jwk_t, JwkRelease> handle;  // null: the key is of Ed25519
    PublicKey ed25519;                                // null: it is not

    // Whether it may check what is signed with `wanted`: the kind, the curve, its own `alg`, and
    // for a secret the length (RFC 7518 section 3.2).
    bool fits(JwsAlgorithm wanted) const;

    // Whether a signature that this key made could have this form: exactly the one length, and of
    // ECDSA both numbers from 1 to n - 1 (zeros would pass for anybody where they are not
    // checked: CVE-2022-21449).
    bool may_have_signed(std::string_view signature, JwsAlgorithm wanted) const;

    // Type and size, for people: `RSA 2048 bits`, `EC P-256`. Shows nothing of the key.
    std::string to_string() const;
};

struct JwkReading {
    std::optional<Jwk> key;
    // Without a key. True: the key is for checking tokens, and is not valid; false: it has another
    // purpose.
    bool malformed = false;
    std::string remark;  // why there is no key, or what should be said of it; or empty
};

// Reads a member of `keys`. Public parts only are kept of a private key.
JwkReading read_jwk(const JsonValue& value);

inline constexpr std::size_t kJwkSetBytesMax = std::size_t{1} << 20;
inline constexpr std::size_t kJwkSetKeysMax = 100;
inline constexpr std::size_t kSigningSecretBytesMax = 1024;

// A file of public keys (PEM, RFC 7468): `PUBLIC KEY` (RSA, EC of P-256, P-384 and P-521, Ed25519)
// and `RSA PUBLIC KEY`. Text between the blocks is a comment.
inline constexpr std::string_view kPemBegin = "-----BEGIN ";

// Each key of `pem` as a JWK, in their order; at least one, at most kJwkSetKeysMax. The error is a
// clause that says which block is wrong, what it is (a private key, a certificate) and how to get
// the public key out of it; it shows nothing of a key. `file` is named in commands.
Result<std::vector<std::string>, std::string> read_pem_keys(std::string_view pem,
                                                            std::string_view file);

// A JwkSet holds the keys that tokens are checked with (RFC 7517 section 5). Immutable; any thread.
class JwkSet {
  public:
    // An operator edits a file, so each mistake is worth refusing; a fetched set is not ours to
    // mend, and one bad key must not cost the others.
    enum class Origin : std::uint8_t { file, fetched };

    // `{"keys": [...]}`. Keys that are not for checking tokens (an unknown `kty`, `crv` or `alg`,
    // `use` other than `sig`, `key_ops` without `verify`) are left out, with a warning. In a file
    // refused, else left out with a warning: a key that is malformed; a `kid` that an earlier key
    // of the same kind has (both stay in a fetched set). In a file refused: no key that is left.
    // An error is a sentence that says which key and what is wrong; none shows a key.
    static Result<std::shared_ptr<const JwkSet>, std::string> parse(std::string_view json,
                                                                    Origin origin);

    // Keys without a name, as read_pem_keys() returns them: each is tried whatever `kid` a token
    // has. An error as of parse().
    static Result<std::shared_ptr<const JwkSet>, std::string> of_public_keys(
        std::span<const std::string> jwks);
    // The same with one shared secret, of 1 to kSigningSecretBytesMax bytes.
    static std::shared_ptr<const JwkSet> of_secret(std::string_view bytes);

    // Keys of use; a fetched set may have none.
    std::size_t size() const { return keys_.size(); }
    // Sentences for the one who runs this.
    const std::vector<std::string>& warnings() const { return warnings_; }
    const std::vector<Jwk>& keys() const { return keys_; }

    // Keys that may have signed a token.
    class Candidates {
      public:
        static constexpr std::size_t kMax = 4;  // signatures tried for one token

        std::span<const Jwk* const> keys() const { return {keys_.data(), count_}; }
        // Whether the set has a key of that `kid`, if it does not fit; false without a `kid`.
        bool kid_is_known() const { return kid_is_known_; }

      private:
        friend class JwkSet;
        std::array<const Jwk*, kMax> keys_{};
        std::size_t count_ = 0;
        bool kid_is_known_ = false;
    };
    // The first that have exactly this `kid`, or any if there is none or the keys have no names,
    // and fit the algorithm.
    // Pointers are valid as long as the set.
    Candidates candidates(const std::optional<std::string>& kid, JwsAlgorithm algorithm) const;

    // Whether both check the same tokens: the same keys in the same order.
    bool operator==(const JwkSet& other) const;

  private:
    JwkSet() = default;

    // An error if the set is to be refused for this member.
    std::optional<std::string> take(const JsonValue& member, std::size_t number, Origin origin);

    std::vector<Jwk> keys_;
    std::vector<std::string> warnings_;
    bool has_names_ = true;  // false: tokens may have any `kid`
};

}  // namespace tidegate::identity
