#include "token_maker.hpp"

#include <stdexcept>
#include <utility>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

namespace tidegate::test {
namespace {

void require(bool good) {
    if (!good) throw std::runtime_error("OpenSSL would not make a key or a signature");
}

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) {
    return reinterpret_cast<unsigned char*>(text.data());
}

const EVP_MD* hash_of(std::string_view algorithm) {
    const std::string_view bits = algorithm.substr(2);
    return bits == "256" ? EVP_sha256() : bits == "384" ? EVP_sha384() : EVP_sha512();
}

std::string curve_signature(const std::string& der, std::size_t coordinate) {
    const unsigned char* at = bytes_of(std::string_view(der));
    const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> numbers(
        d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())), &ECDSA_SIG_free);
    require(numbers != nullptr);
    std::string signature(2 * coordinate, '\0');
    const int size = static_cast<int>(coordinate);
    require(BN_bn2binpad(ECDSA_SIG_get0_r(numbers.get()), bytes_of(signature), size) > 0);
    require(BN_bn2binpad(ECDSA_SIG_get0_s(numbers.get()), bytes_of(signature) + coordinate, size) >
            0);
    return signature;
}

std::size_t coordinate_bytes(const std::string& curve) {
    return curve == "P-256" ? 32 : curve == "P-384" ? 48 : 66;
}

std::string written(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(size)};
}

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

}  // namespace

std::string base64url(std::string_view bytes) {
    std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
    const int size =
        EVP_EncodeBlock(bytes_of(text), bytes_of(bytes), static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(size));
    while (text.ends_with('=')) text.pop_back();
    for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
    return text;
}

SigningKey SigningKey::secret(std::string bytes) {
    SigningKey key;
    key.secret_ = std::move(bytes);
    return key;
}

SigningKey SigningKey::rsa(unsigned bits) {
    SigningKey key;
    key.key_.reset(EVP_RSA_gen(bits));
    require(key.key_ != nullptr);
    return key;
}

SigningKey SigningKey::curve(const std::string& name) {
    SigningKey key;
    key.key_.reset(EVP_EC_gen(name.c_str()));
    require(key.key_ != nullptr);
    key.curve_ = name;
    return key;
}

SigningKey SigningKey::ed25519() {
    SigningKey key;
    key.key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
    require(key.key_ != nullptr);
    key.is_ed25519_ = true;
    return key;
}

std::string SigningKey::number(std::string_view name) const {
    if (is_ed25519_) {
        std::string bytes(32, '\0');
        std::size_t size = bytes.size();
        require(EVP_PKEY_get_raw_public_key(key_.get(), bytes_of(bytes), &size) == 1);
        return bytes;
    }
    const char* parameter = name == "n"   ? OSSL_PKEY_PARAM_RSA_N
                            : name == "e" ? OSSL_PKEY_PARAM_RSA_E
                            : name == "x" ? OSSL_PKEY_PARAM_EC_PUB_X
                                          : OSSL_PKEY_PARAM_EC_PUB_Y;
    BIGNUM* value = nullptr;
    require(EVP_PKEY_get_bn_param(key_.get(), parameter, &value) == 1);
    const std::unique_ptr<BIGNUM, decltype(&BN_free)> owner(value, &BN_free);
    const int size =
        curve_.empty() ? BN_num_bytes(value) : static_cast<int>(coordinate_bytes(curve_));
    std::string bytes(static_cast<std::size_t>(size), '\0');
    require(BN_bn2binpad(value, bytes_of(bytes), size) == size);
    return bytes;
}

std::string SigningKey::jwk(std::string_view more) const {
    std::string text = "{" + std::string(more);
    if (!key_) return text + R"("kty":"oct","k":")" + base64url(secret_) + "\"}";
    if (is_ed25519_) {
        return text + R"("kty":"OKP","crv":"Ed25519","x":")" + base64url(number("x")) + "\"}";
    }
    if (curve_.empty()) {
        return text + R"("kty":"RSA","n":")" + base64url(number("n")) + R"(","e":")" +
               base64url(number("e")) + "\"}";
    }
    return text + R"("kty":"EC","crv":")" + curve_ + R"(","x":")" + base64url(number("x")) +
           R"(","y":")" + base64url(number("y")) + "\"}";
}

std::string SigningKey::public_pem() const {
    const Bio bio(BIO_new(BIO_s_mem()), &BIO_free);
    require(PEM_write_bio_PUBKEY(bio.get(), key_.get()) == 1);
    return written(bio.get());
}

std::string SigningKey::public_der() const {
    const Bio bio(BIO_new(BIO_s_mem()), &BIO_free);
    require(i2d_PUBKEY_bio(bio.get(), key_.get()) == 1);
    return written(bio.get());
}

std::string SigningKey::private_pem() const {
    const Bio bio(BIO_new(BIO_s_mem()), &BIO_free);
    require(PEM_write_bio_PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr,
                                     nullptr) == 1);
    return written(bio.get());
}

std::string SigningKey::sign(std::string_view algorithm, std::string_view input) const {
    if (key_ && algorithm.starts_with("ES"))
        return curve_signature(sign_as_der(algorithm, input), coordinate_bytes(curve_));
    if (key_) return sign_as_der(algorithm, input);
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned size = 0;
    require(HMAC(hash_of(algorithm), secret_.data(), static_cast<int>(secret_.size()),
                 bytes_of(input), input.size(), bytes_of(digest), &size) != nullptr);
    digest.resize(size);
    return digest;
}

std::string SigningKey::sign_as_der(std::string_view algorithm, std::string_view input) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          &EVP_MD_CTX_free);
    EVP_PKEY_CTX* how = nullptr;
    require(context != nullptr &&
            EVP_DigestSignInit(context.get(), &how, is_ed25519_ ? nullptr : hash_of(algorithm),
                               nullptr, key_.get()) == 1);
    if (algorithm.starts_with("PS")) {
        require(EVP_PKEY_CTX_set_rsa_padding(how, RSA_PKCS1_PSS_PADDING) == 1 &&
                EVP_PKEY_CTX_set_rsa_pss_saltlen(how, RSA_PSS_SALTLEN_DIGEST) == 1);
    }
    std::size_t size = 0;
    require(EVP_DigestSign(context.get(), nullptr, &size, bytes_of(input), input.size()) == 1);
    std::string signature(size, '\0');
    require(EVP_DigestSign(context.get(), bytes_of(signature), &size, bytes_of(input),
                           input.size()) == 1);
    signature.resize(size);
    return signature;
}

std::string token_of(const SigningKey& key, std::string_view algorithm, std::string_view header,
                     std::string_view payload) {
    const std::string input = base64url(header) + "." + base64url(payload);
    return input + "." + base64url(key.sign(algorithm, input));
}

}  // namespace tidegate::test
