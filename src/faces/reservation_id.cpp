// The ids of reservations: what was taken, sealed.
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "faces/faces.hpp"
#include "identity/digest.hpp"
#include "tls/openssl.hpp"

namespace tidegate::faces {

namespace {

constexpr std::size_t kIvBytes = 12;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kNonceBytes = 16;
constexpr std::size_t kIdBytesMax = 98'304;

using Cipher = Owned<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;

unsigned char* bytes_of(std::string& text) {
    return reinterpret_cast<unsigned char*>(text.data());
}

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

std::string random_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    if (RAND_bytes(bytes_of(bytes), static_cast<int>(count)) != 1) {
        throw std::runtime_error("OpenSSL has no random numbers");
    }
    return bytes;
}

// Behind `iv`: the text, encrypted, and its tag.
std::string encrypted(std::string_view key, std::string_view iv, std::string_view text) {
    const Cipher context(EVP_CIPHER_CTX_new());
    std::string out(iv);
    out.resize(iv.size() + text.size() + kTagBytes);
    unsigned char* const begin = bytes_of(out) + iv.size();
    int size = 0;
    int rest = 0;
    const bool done = context &&
                      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key),
                                         bytes_of(iv)) == 1 &&
                      EVP_EncryptUpdate(context.get(), begin, &size, bytes_of(text),
                                        static_cast<int>(text.size())) == 1 &&
                      EVP_EncryptFinal_ex(context.get(), begin + size, &rest) == 1 &&
                      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                                          begin + text.size()) == 1;
    if (!done) throw std::runtime_error("OpenSSL cannot encrypt with AES-256-GCM");
    return out;
}

// Nothing: the tag is not of this text and key.
std::optional<std::string> decrypted(std::string_view key, std::string_view sealed) {
    if (sealed.size() < kIvBytes + kTagBytes) return std::nullopt;
    const std::string_view iv = sealed.substr(0, kIvBytes);
    const std::string_view text = sealed.substr(kIvBytes, sealed.size() - kIvBytes - kTagBytes);
    std::string tag(sealed.substr(sealed.size() - kTagBytes));
    const Cipher context(EVP_CIPHER_CTX_new());
    std::string out(text.size(), '\0');
    int size = 0;
    int rest = 0;
    const bool done =
        context &&
        EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key),
                           bytes_of(iv)) == 1 &&
        EVP_DecryptUpdate(context.get(), bytes_of(out), &size, bytes_of(text),
                          static_cast<int>(text.size())) == 1 &&
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
        EVP_DecryptFinal_ex(context.get(), bytes_of(out) + size, &rest) == 1;
    if (!done) return std::nullopt;
    return out;
}

constexpr unsigned kVarintBits = 7;

// In pieces of seven bits, the lowest first; all but the last have the high bit.
void append_varint(std::uint64_t number, std::string& out) {
    for (; number >> kVarintBits != 0; number >>= kVarintBits) {
        out += static_cast<char>((number & 0x7f) | 0x80);
    }
    out += static_cast<char>(number);
}

std::uint64_t take_varint(std::string_view& bytes) {
    std::uint64_t number = 0;
    for (unsigned shift = 0; !bytes.empty() && shift < 64; shift += kVarintBits) {
        const auto byte = static_cast<unsigned char>(bytes.front());
        bytes.remove_prefix(1);
        number |= std::uint64_t{byte & 0x7fU} << shift;
        if ((byte & 0x80) == 0) break;
    }
    return number;
}

// Packed, so that the id of the largest reservation fits into a call.
std::string packed(const std::vector<store::Reservation::Taken>& limits) {
    std::string bytes;
    for (const store::Reservation::Taken& one : limits) {
        for (int shift = 0; shift < 32; shift += 8) {
            bytes += static_cast<char>(one.limit >> shift & 0xff);
        }
        append_varint(static_cast<std::uint64_t>(one.quota), bytes);
    }
    return base64url_of(bytes);
}

std::vector<store::Reservation::Taken> unpacked(const std::string& text) {
    constexpr std::size_t kLimitBytes = 4;
    const std::string bytes = decode_base64url(text).value_or("");
    std::string_view left = bytes;
    std::vector<store::Reservation::Taken> limits;
    while (left.size() > kLimitBytes) {
        store::Reservation::Taken& one = limits.emplace_back();
        for (std::size_t i = kLimitBytes; i > 0; --i) {
            one.limit = one.limit << 8 | static_cast<unsigned char>(left[i - 1]);
        }
        left.remove_prefix(kLimitBytes);
        one.quota = static_cast<std::int64_t>(take_varint(left));
    }
    return limits;
}

nlohmann::ordered_json json_of(const SealedReservation& content) {
    using Json = nlohmann::ordered_json;
    Json parts = Json::array();
    for (const store::Reservation::Part& part : content.reservation.parts) {
        Json items = Json::array();
        for (const auto& item : part.items) {
            items.push_back({item.policy, item.tier, item.identifier, item.generation,
                             packed(item.limits), item.cost});
        }
        parts.push_back({part.in_redis, part.at.count(), std::move(items)});
    }
    Json costs = Json::array();
    for (const store::Reservation::Cost& one : content.reservation.costs) {
        costs.push_back({one.units, static_cast<int>(one.in_money)});
    }
    const auto expires =
        std::chrono::duration_cast<std::chrono::milliseconds>(content.expires.time_since_epoch());
    return {{"c", std::move(costs)},
            {"e", expires.count()},
            {"m", content.reservation.moment.count()},
            {"n", content.nonce},
            {"o", content.reservation.has_one_cost},
            {"p", content.process},
            {"t", std::move(parts)}};
}

// Text that this program has sealed: an unexpected character throws, and the id is refused.
SealedReservation content_of(const JsonValue& json) {
    SealedReservation content;
    for (const JsonValue& one : json.at("c")) {
        content.reservation.costs.push_back(
            {one.at(0).get<std::int64_t>(), one.at(1).get<int>() != 0});
    }
    content.reservation.has_one_cost = json.at("o").get<bool>();
    content.reservation.moment = limit::Micros{json.at("m").get<std::int64_t>()};
    content.expires = std::chrono::system_clock::time_point(
        std::chrono::milliseconds{json.at("e").get<std::int64_t>()});
    content.nonce = json.at("n").get<std::string>();
    content.process = json.at("p").get<std::string>();
    for (const JsonValue& part : json.at("t")) {
        store::Reservation::Part& to = content.reservation.parts.emplace_back();
        to.in_redis = part.at(0).get<bool>();
        to.at = limit::Micros{part.at(1).get<std::int64_t>()};
        for (const JsonValue& item : part.at(2)) {
            to.items.push_back({item.at(0).get<std::string>(), item.at(1).get<std::string>(),
                                item.at(2).get<std::string>(), item.at(3).get<std::uint64_t>(),
                                unpacked(item.at(4).get<std::string>()),
                                item.at(5).get<std::uint32_t>()});
        }
    }
    return content;
}

}  // namespace

IdSeal::IdSeal(std::string_view secret) {
    const identity::Sha256 digest = identity::sha256(secret);
    key_.assign(reinterpret_cast<const char*>(digest.data()), digest.size());
}

std::string IdSeal::seal(SealedReservation& content) const {
    content.nonce.clear();
    const std::string nonce = random_bytes(kNonceBytes);
    append_hex({bytes_of(std::string_view(nonce)), nonce.size()}, content.nonce);
    return base64url_of(
        encrypted(key_, random_bytes(kIvBytes), json_text(json_of(content), {.strict = true})));
}

std::optional<SealedReservation> IdSeal::open(std::string_view id) const {
    if (id.size() > kIdBytesMax) return std::nullopt;
    const auto sealed = decode_base64url(id);
    if (!sealed) return std::nullopt;
    const auto text = decrypted(key_, *sealed);
    if (!text) return std::nullopt;
    const auto json = parse_json_object(*text);
    if (!json) return std::nullopt;
    try {
        return content_of(*json);
    } catch (const JsonValue::exception&) {
        return std::nullopt;
    }
}

}  // namespace tidegate::faces
