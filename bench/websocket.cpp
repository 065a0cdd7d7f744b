#include "websocket.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <stdexcept>

#include <openssl/evp.h>
#include <openssl/rand.h>

namespace bench {
namespace {

constexpr std::string_view kHandshake = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // section 1.3
constexpr std::uint8_t kFinal = 0x80;
constexpr std::uint8_t kMasked = 0x80;

void fill(unsigned char* into, std::size_t bytes) {
    if (RAND_bytes(into, static_cast<int>(bytes)) != 1) throw std::runtime_error("no random bytes");
}

std::string base64(const unsigned char* bytes, std::size_t count) {
    std::string text((count + 2) / 3 * 4 + 1, '\0');  // it ends with a zero
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes, static_cast<int>(count));
    text.pop_back();
    return text;
}

// `name` and a colon, in any case, are what `line` begins with.
bool names(std::string_view line, std::string_view name) {
    if (line.size() <= name.size() || line[name.size()] != ':') return false;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (std::tolower(static_cast<unsigned char>(line[i])) != name[i]) return false;
    }
    return true;
}

void apply(const Mask& mask, char* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        bytes[i] = static_cast<char>(bytes[i] ^ mask[i % mask.size()]);
    }
}

}  // namespace

std::string_view field_of(std::string_view head, std::string_view name) {
    for (std::size_t at = head.find("\r\n"); at != head.npos; at = head.find("\r\n")) {
        head.remove_prefix(at + 2);
        if (!names(head, name)) continue;
        std::string_view value = head.substr(name.size() + 1, head.find("\r\n") - name.size() - 1);
        value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
        return value;
    }
    return {};
}

std::string accept_value(std::string_view key) {
    std::string text(key);
    text += kHandshake;
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned bytes = 0;
    if (EVP_Digest(text.data(), text.size(), hash, &bytes, EVP_sha1(), nullptr) != 1) {
        throw std::runtime_error("no SHA-1");
    }
    return base64(hash, bytes);
}

std::string random_key() {
    unsigned char bytes[16];
    fill(bytes, sizeof bytes);
    return base64(bytes, sizeof bytes);
}

Mask Masks::next() {
    if (used_ == bytes_.size()) {
        fill(bytes_.data(), bytes_.size());
        used_ = 0;
    }
    Mask mask;
    std::memcpy(mask.data(), bytes_.data() + used_, mask.size());
    used_ += mask.size();
    return mask;
}

void add_frame(std::string& to, Opcode opcode, std::string_view payload,
               const std::optional<Mask>& mask) {
    if (payload.size() > kPayloadBytesMax) throw std::runtime_error("a payload is too long");
    to += static_cast<char>(kFinal | opcode);
    to += static_cast<char>((mask ? kMasked : 0) | payload.size());
    if (mask) to.append(mask->data(), mask->size());
    to += payload;
    if (mask) apply(*mask, to.data() + to.size() - payload.size(), payload.size());
}

std::optional<Frame> first_frame(std::string_view bytes) {
    if (bytes.size() < 2) return {};
    const auto second = static_cast<std::uint8_t>(bytes[1]);
    const std::size_t payload_bytes = second & 0x7f;
    if (payload_bytes > kPayloadBytesMax) throw std::runtime_error("a payload is too long");
    const bool is_masked = (second & kMasked) != 0;
    const std::size_t head_bytes = is_masked ? 6 : 2;
    if (bytes.size() < head_bytes + payload_bytes) return {};
    Frame frame{static_cast<Opcode>(bytes[0] & 0x0f),
                std::string(bytes.substr(head_bytes, payload_bytes)), head_bytes + payload_bytes};
    if (is_masked) {
        Mask mask;
        std::memcpy(mask.data(), bytes.data() + 2, mask.size());
        apply(mask, frame.payload.data(), frame.payload.size());
    }
    return frame;
}

}  // namespace bench
