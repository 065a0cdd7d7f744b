#include "identity/ed25519.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include <openssl/bn.h>
#include <openssl/evp.h>

namespace tidegate::identity {

namespace {

struct FreeNumber {
    void operator()(BIGNUM* number) const { BN_free(number); }
    void operator()(BN_CTX* context) const { BN_CTX_free(context); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Number = std::unique_ptr<BIGNUM, FreeNumber>;

// p = 2^255 - 19, and d of the curve -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032 section 5.1).
constexpr const char* kPrime = "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed";
constexpr const char* kCurveD = "52036cee2b6ffe738cc740797779e89800700a4d4141d8ab75eb4dca135978a3";
// y of the points whose order is 1, 2, 4 and 8 (two of them), big-endian.
constexpr std::array<const char*, 5> kSmallOrder{
    "01", "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffec", "00",
    "05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826",
    "7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7"};

void require(bool good) {
    if (!good) throw std::bad_alloc();  // numbers fail only for want of memory
}

Number number_of(const char* hex) {
    BIGNUM* number = nullptr;
    require(BN_hex2bn(&number, hex) != 0);
    return Number(number);
}

Number new_number() {
    Number number(BN_new());
    require(number != nullptr);
    return number;
}

bool has_small_order(const BIGNUM& y) {
    return std::any_of(kSmallOrder.begin(), kSmallOrder.end(),
                       [&](const char* known) { return BN_cmp(&y, number_of(known).get()) == 0; });
}

// Whether some x makes (x, y) a point: x^2 = (y^2 - 1) / (d y^2 + 1) has to be a square, and by
// Euler's criterion it is one if (y^2 - 1) * (d y^2 + 1), raised to (p - 1) / 2, is 1. Requires
// y < p; the divisor is never 0, and the numerator only where the order is small.
bool is_on_curve(const BIGNUM& y, const BIGNUM& prime) {
    const std::unique_ptr<BN_CTX, FreeNumber> context(BN_CTX_new());
    require(context != nullptr);
    const Number square = new_number();
    const Number numerator = new_number();
    const Number divisor = new_number();
    const Number exponent = new_number();
    const Number d = number_of(kCurveD);
    require(BN_mod_sqr(square.get(), &y, &prime, context.get()) == 1 &&
            BN_mod_sub(numerator.get(), square.get(), BN_value_one(), &prime, context.get()) == 1 &&
            BN_mod_mul(divisor.get(), square.get(), d.get(), &prime, context.get()) == 1 &&
            BN_mod_add(divisor.get(), divisor.get(), BN_value_one(), &prime, context.get()) == 1 &&
            BN_mod_mul(square.get(), numerator.get(), divisor.get(), &prime, context.get()) == 1 &&
            BN_rshift1(exponent.get(), &prime) == 1 &&
            BN_mod_exp(square.get(), square.get(), exponent.get(), &prime, context.get()) == 1);
    return BN_is_one(square.get());
}

// The key is y in little-endian order, with the sign of x in the highest bit.
bool is_safe_point(std::string_view bytes) {
    std::string y_bytes(bytes);
    y_bytes.back() = static_cast<char>(static_cast<unsigned char>(y_bytes.back()) & 0x7fU);
    const Number y(BN_lebin2bn(reinterpret_cast<const unsigned char*>(y_bytes.data()),
                               static_cast<int>(y_bytes.size()), nullptr));
    require(y != nullptr);
    const Number prime = number_of(kPrime);
    return BN_cmp(y.get(), prime.get()) < 0 && !has_small_order(*y) && is_on_curve(*y, *prime);
}

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

void FreePublicKey::operator()(EVP_PKEY* key) const {
    EVP_PKEY_free(key);
}

PublicKey read_ed25519_key(std::string_view bytes) {
    if (bytes.size() != kEd25519KeyBytes || !is_safe_point(bytes)) return nullptr;
    PublicKey key(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(bytes), bytes.size()));
    require(key != nullptr);
    return key;
}

// OpenSSL refuses a signature whose second half is not below the order of the group, so each
// signature has one form (RFC 8032 section 5.1.7).
bool is_signed_with_ed25519(EVP_PKEY& key, std::string_view message, std::string_view signature) {
    if (signature.size() != kEd25519SignatureBytes) return false;
    const std::unique_ptr<EVP_MD_CTX, FreeNumber> context(EVP_MD_CTX_new());
    return context != nullptr &&
           EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, &key) == 1 &&
           EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(message),
                            message.size()) == 1;
}

}  // namespace tidegate::identity
