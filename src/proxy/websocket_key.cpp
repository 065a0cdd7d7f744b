#include "proxy/websocket_key.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

#include <openssl/evp.h>

namespace tidegate::proxy {

std::string random_websocket_key() {
    constexpr std::size_t kKeyBytes = 16;
    constexpr std::size_t kKeyText = (kKeyBytes + 2) / 3 * 4;
    std::random_device device;
    std::array<unsigned char, kKeyBytes> key;
    for (std::size_t i = 0; i < key.size(); i += sizeof(std::uint32_t)) {
        const std::uint32_t drawn = device();
        for (std::size_t byte = 0; byte < sizeof drawn; ++byte) {
            key[i + byte] = drawn >> (8 * byte) & 0xff;
        }
    }
    std::array<unsigned char, kKeyText + 1> text;  // with the end that OpenSSL writes
    EVP_EncodeBlock(text.data(), key.data(), static_cast<int>(key.size()));
    return {text.begin(), text.begin() + kKeyText};
}

}  // namespace tidegate::proxy
