// Ed25519 signatures (RFC 8032) as JSON Web Tokens use them (RFC 8037). Pure; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <openssl/types.h>

namespace tidegate::identity {

inline constexpr std::size_t kEd25519KeyBytes = 32;
inline constexpr std::size_t kEd25519SignatureBytes = 64;

struct FreePublicKey {
    void operator()(EVP_PKEY* key) const;
};
using PublicKey = std::unique_ptr<EVP_PKEY, FreePublicKey>;

// The public key that has these bytes (RFC 8032 section 5.1.5). Null if they are not a point of the
// curve in its one canonical form, or a point of small order: everyone can make signatures that
// such a key accepts. Throws std::bad_alloc.
PublicKey read_ed25519_key(std::string_view bytes);

// Whether the owner of `key` signed `message`. Several threads may use one key. Leaves its errors
// in OpenSSL's queue.
bool is_signed_with_ed25519(EVP_PKEY& key, std::string_view message, std::string_view signature);

}  // namespace tidegate::identity
