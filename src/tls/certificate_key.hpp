// The key that a certificate is about. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <openssl/types.h>

namespace tidegate {

// Those that a listener may have.
enum class KeyType : std::uint8_t { ecdsa, ed25519, rsa };
inline constexpr std::size_t kKeyTypes = 3;
std::string_view name_of(KeyType type);

inline constexpr int kRsaBitsMin = 2'048;

struct CertificateKey {
    // What keeps a listener from using it.
    enum class Fault : std::uint8_t { none, type, bits, curve };

    Fault fault = Fault::type;
    std::optional<KeyType> type{};  // nothing with Fault::type alone
    int bits = 0;
    std::string curve{};                      // of ECDSA, as OpenSSL names it: `prime256v1`
    std::string text = "of an unknown kind";  // `ECDSA P-256`, `RSA 2048`, `Ed25519`
};

CertificateKey key_of(const X509& certificate);

}  // namespace tidegate
