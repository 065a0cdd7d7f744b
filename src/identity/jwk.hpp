// One key that tokens are checked with (RFC 7517, RFC 7518 section 6, RFC 8037). Immutable; any
// thread.
#pragma once

#include <cjose/jwk.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/strict_json.hpp"
#include "identity/ed25519.hpp"
#include "identity/jws_algorithm.hpp"

namespace tidegate::identity {

// A `kid` longer than this is none.
inline constexpr std::size_t kKeyIdBytesMax = 256;

struct JwkRelease {
    void operator()(cjose_jwk_t* key) const;
};

struct Jwk {
    std::optional<std::string> kid;  // empty is a name, too
    KeyKind kind = KeyKind::secret;
    std::optional<JwsAlgorithm> algorithm;  // the only one that it is for, if it says so
    std::size_t bytes = 0;                  // of the secret, the modulus, a coordinate
    std::string order;                      // of the curve, big-endian in `bytes`; else empty
    std::string digest;                     // SHA-256 of all that is used of it
    // Holds no private part but that of a secret. No thread changes it or counts references to it,
    // so that threads may share it.
    std::unique_ptr<cjose_jwk_t, JwkRelease> handle;  // null: the key is of Ed25519
    PublicKey ed25519;                                // null: it is not

    // Whether it may check what is signed with `algorithm`: the kind, the curve, its own `alg`, and
    // for a secret the length (RFC 7518 section 3.2).
    bool fits(JwsAlgorithm wanted) const;

    // Whether a signature that this key made could have this form: exactly the one length, and of
    // ECDSA both numbers from 1 to n - 1 (zeros would pass for anybody where they are not
    // checked: CVE-2022-21449).
    bool may_have_signed(std::string_view signature, JwsAlgorithm wanted) const;
};

struct JwkReading {
    std::optional<Jwk> key;
    bool malformed = false;  // no key: it is meant for us, and wrong; else it is not for us
    std::string remark;      // why there is no key, or what should be said of it; or empty
};

// Reads a member of `keys`. Public parts only are kept of a private key.
JwkReading read_jwk(const JsonValue& value);

}  // namespace tidegate::identity
