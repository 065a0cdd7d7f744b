// Public keys as PEM files have them, turned into JWKs: so one reader judges every key.
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/base64.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "identity/jwk.hpp"

namespace tidegate::identity {

namespace {

constexpr std::string_view kTaken = "RSA, EC of P-256, P-384 and P-521, and Ed25519 are taken";

struct FreePem {
    void operator()(BIO* bio) const { BIO_free(bio); }
    void operator()(BIGNUM* number) const { BN_clear_free(number); }
    // What PEM_read_bio() allocates.
    void operator()(char* text) const { OPENSSL_free(text); }
    void operator()(unsigned char* bytes) const { OPENSSL_free(bytes); }
};
template <class T>
using PemOwned = std::unique_ptr<T, FreePem>;

struct PemBlock {
    std::string label;  // `PUBLIC KEY`
    std::string bytes;
};

// A JWK, or why there is none. A type of its own, as Result<std::string, std::string> would be
// ambiguous.
struct MadeJwk {
    std::string json{};
    std::string fault{};
};

// The blocks of `pem`, nothing if one is broken.
std::optional<std::vector<PemBlock>> blocks_of(std::string_view pem) {
    std::size_t begun = 0;
    for (std::size_t at = pem.find(kPemBegin); at != pem.npos; at = pem.find(kPemBegin, at + 1)) {
        ++begun;
    }
    const PemOwned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    if (!bio) throw std::bad_alloc();
    std::vector<PemBlock> blocks;
    while (blocks.size() < begun) {
        char* label = nullptr;
        char* header = nullptr;
        unsigned char* data = nullptr;
        long size = 0;
        if (PEM_read_bio(bio.get(), &label, &header, &data, &size) != 1) return std::nullopt;
        const PemOwned<char> owns_label(label);
        const PemOwned<char> owns_header(header);
        const PemOwned<unsigned char> owns_data(data);
        blocks.push_back({label, std::string(reinterpret_cast<const char*>(data),
                                             static_cast<std::size_t>(size))});
        OPENSSL_cleanse(data, static_cast<std::size_t>(size));
    }
    return blocks;
}

// What a text without a block seems to be.
std::string fault_of_no_pem(std::string_view text, std::string_view file) {
    const std::string_view first = without_outer_blanks(text.substr(0, text.find('\n')));
    if (first.starts_with('{')) return "it is JSON, not PEM: for a key set, write `jwks`";
    if (first.starts_with("ssh-") || first.starts_with("ecdsa-")) {
        return "it is a key of SSH: `ssh-keygen -e -m PKCS8 -f " + std::string(file) +
               "` writes it as PEM";
    }
    return "it has no public key as PEM (`-----BEGIN PUBLIC KEY-----`)";
}

// Why a block with that label is no public key; empty: it may be one.
std::string fault_of_label(std::string_view label, std::string_view file) {
    const std::string shown = quote(label);
    if (label == "PUBLIC KEY" || label == "RSA PUBLIC KEY") return {};
    if (label.find("PRIVATE KEY") != label.npos) {
        return "is a private key (" + shown +
               "), which only the issuer of the tokens should have: `openssl pkey -in " +
               std::string(file) + " -pubout -out public.pem` writes the public key";
    }
    if (label == "CERTIFICATE" || label == "X509 CERTIFICATE" || label == "TRUSTED CERTIFICATE") {
        return "is a certificate, not a public key: `openssl x509 -in " + std::string(file) +
               " -pubkey -noout > public.pem` takes the key out of it";
    }
    return "is " + shown + ", which is no public key: write `PUBLIC KEY` or `RSA PUBLIC KEY`";
}

// A number of the key, in base64url; with `bytes`, as that many. Empty: it has none.
std::string number_in(const EVP_PKEY& key, const char* name, std::size_t bytes = 0) {
    BIGNUM* found = nullptr;
    if (EVP_PKEY_get_bn_param(&key, name, &found) != 1) return {};
    const PemOwned<BIGNUM> number(found);
    std::string out(std::max(bytes, static_cast<std::size_t>(BN_num_bytes(found))), '\0');
    const int written = BN_bn2binpad(found, reinterpret_cast<unsigned char*>(out.data()),
                                     static_cast<int>(out.size()));
    return written < 0 ? std::string() : base64url_of(out);
}

MadeJwk jwk_of_rsa(const EVP_PKEY& key) {
    const std::string modulus = number_in(key, OSSL_PKEY_PARAM_RSA_N);
    const std::string exponent = number_in(key, OSSL_PKEY_PARAM_RSA_E);
    return {R"({"kty":"RSA","n":")" + modulus + R"(","e":")" + exponent + "\"}"};
}

MadeJwk jwk_of_curve(const EVP_PKEY& key) {
    struct KnownCurve {
        std::string_view group;  // as OpenSSL calls it
        std::string_view name;
        std::size_t bytes;
    };
    constexpr std::array<KnownCurve, 3> kKnown{
        {{"prime256v1", "P-256", 32}, {"secp384r1", "P-384", 48}, {"secp521r1", "P-521", 66}}};
    std::array<char, 64> group{};
    std::size_t size = 0;
    // None: of a curve that is written out, which may be weak.
    EVP_PKEY_get_group_name(&key, group.data(), group.size(), &size);
    const std::string_view found(group.data());
    const auto* curve = std::find_if(kKnown.begin(), kKnown.end(),
                                     [&](const KnownCurve& one) { return one.group == found; });
    if (curve == kKnown.end()) {
        return {{},
                "is an EC key of " +
                    (found.empty() ? "a curve without a name" : "the curve " + quote(found)) +
                    ": " + std::string(kTaken)};
    }
    return {R"({"kty":"EC","crv":")" + std::string(curve->name) + R"(","x":")" +
            number_in(key, OSSL_PKEY_PARAM_EC_PUB_X, curve->bytes) + R"(","y":")" +
            number_in(key, OSSL_PKEY_PARAM_EC_PUB_Y, curve->bytes) + "\"}"};
}

MadeJwk jwk_of_ed25519(const EVP_PKEY& key) {
    std::string bytes(kEd25519KeyBytes, '\0');
    std::size_t size = bytes.size();
    const int read =
        EVP_PKEY_get_raw_public_key(&key, reinterpret_cast<unsigned char*>(bytes.data()), &size);
    if (read != 1 || size != bytes.size()) return {{}, "cannot be read"};
    return {R"({"kty":"OKP","crv":"Ed25519","x":")" + base64url_of(bytes) + "\"}"};
}

PublicKey decode(const PemBlock& block) {
    const auto* const begin = reinterpret_cast<const unsigned char*>(block.bytes.data());
    const unsigned char* at = begin;
    const auto size = static_cast<long>(block.bytes.size());
    PublicKey key(block.label == "PUBLIC KEY" ? d2i_PUBKEY(nullptr, &at, size)
                                              : d2i_PublicKey(EVP_PKEY_RSA, nullptr, &at, size));
    return at == begin + size ? std::move(key) : nullptr;
}

MadeJwk jwk_of(const PemBlock& block) {
    const PublicKey key = decode(block);
    if (!key) return {{}, "is broken: it does not hold what its label says"};
    switch (EVP_PKEY_get_base_id(key.get())) {
        case EVP_PKEY_RSA:
            return jwk_of_rsa(*key);
        case EVP_PKEY_EC:
            return jwk_of_curve(*key);
        case EVP_PKEY_ED25519:
            return jwk_of_ed25519(*key);
        default: {
            const char* const name = EVP_PKEY_get0_type_name(key.get());
            return {{},
                    "is a key of the type " + quote(name != nullptr ? name : "unknown") + ": " +
                        std::string(kTaken)};
        }
    }
}

}  // namespace

Result<std::vector<std::string>, std::string> read_pem_keys(std::string_view pem,
                                                            std::string_view file) {
    // What cannot be read leaves its reason with OpenSSL, where TLS would find it.
    ERR_set_mark();
    const auto blocks = blocks_of(pem);
    std::vector<std::string> keys;
    std::string fault;
    for (std::size_t i = 0; blocks && i < blocks->size() && fault.empty(); ++i) {
        const PemBlock& block = (*blocks)[i];
        MadeJwk made;
        made.fault = fault_of_label(block.label, file);
        if (made.fault.empty()) made = jwk_of(block);
        if (made.fault.empty()) keys.push_back(std::move(made.json));
        const bool is_only = blocks->size() == 1;
        if (!made.fault.empty()) {
            fault = (is_only ? "it " : "block " + std::to_string(i + 1) + " ") + made.fault;
        }
    }
    ERR_pop_to_mark();
    if (!blocks) {
        return std::string(
            "its PEM is broken: each block is `-----BEGIN PUBLIC KEY-----`, base64 and "
            "`-----END PUBLIC KEY-----`, each on lines of its own");
    }
    if (!fault.empty()) return fault;
    if (blocks->empty()) return fault_of_no_pem(pem, file);
    if (keys.size() > kJwkSetKeysMax) {
        return "more than " + std::to_string(kJwkSetKeysMax) + " keys";
    }
    return keys;
}

}  // namespace tidegate::identity
