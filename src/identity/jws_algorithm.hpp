// The algorithms of signed tokens (RFC 7518 section 3.1, RFC 8037): their names, and which key each
// needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "identity/user_methods.hpp"

namespace tidegate::identity {

// What a key is; a curve is a kind of its own.
enum class KeyKind : std::uint8_t { secret, rsa, p256, p384, p521, ed25519 };

// `RS256`, exactly so. Nothing for other names, `none` among them.
std::optional<JwsAlgorithm> parse_jws_algorithm(std::string_view name);
std::string_view to_string(JwsAlgorithm algorithm);

// The only kind of key that signs with it.
KeyKind key_kind_of(JwsAlgorithm algorithm);

// Bytes of the hash in it; of EdDSA those of SHA-512.
std::size_t hash_bytes_of(JwsAlgorithm algorithm);

}  // namespace tidegate::identity
