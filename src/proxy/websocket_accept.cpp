#include "proxy/websocket_accept.hpp"

#include <array>

#include <openssl/evp.h>

namespace tidegate::proxy {

std::string websocket_accept(std::string_view key) {
    constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    constexpr std::size_t kDigestBytes = 20;
    constexpr std::size_t kBase64Bytes = (kDigestBytes + 2) / 3 * 4;
    std::string text(key);
    text += kGuid;
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1 ||
        size != kDigestBytes) {
        return {};
    }
    std::array<unsigned char, kBase64Bytes + 1> encoded;  // with the end that OpenSSL writes
    EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(size));
    return {encoded.begin(), encoded.begin() + kBase64Bytes};
}

}  // namespace tidegate::proxy
