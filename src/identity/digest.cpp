#include "identity/digest.hpp"

#include <new>
#include <stdexcept>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include "tls/openssl.hpp"

namespace tidegate::identity {

namespace {

using DigestContext = Owned<EVP_MD_CTX, EVP_MD_CTX_free>;

DigestContext make_digest() {
    DigestContext context(EVP_MD_CTX_new());
    if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
        throw std::bad_alloc();
    return context;
}

}  // namespace

Sha256 sha256(std::string_view text) {
    // To look for the algorithm takes longer than a short digest: once a thread.
    thread_local const DigestContext context = make_digest();
    Sha256 digest;
    unsigned size = 0;
    // Fails only for want of memory.
    if (EVP_DigestInit_ex(context.get(), nullptr, nullptr) != 1 ||
        EVP_DigestUpdate(context.get(), text.data(), text.size()) != 1 ||
        EVP_DigestFinal_ex(context.get(), digest.data(), &size) != 1) {
        throw std::bad_alloc();
    }
    return digest;
}

namespace {

using MacContext = Owned<EVP_MAC_CTX, EVP_MAC_CTX_free>;

MacContext make_mac() {
    const Owned<EVP_MAC, EVP_MAC_free> mac(EVP_MAC_fetch(nullptr, "SIPHASH", nullptr));
    MacContext context(mac ? EVP_MAC_CTX_new(mac.get()) : nullptr);
    std::size_t size = KeyedDigest::Value{}.size();
    const OSSL_PARAM wanted[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                                 OSSL_PARAM_construct_end()};
    if (!context || EVP_MAC_CTX_set_params(context.get(), wanted) != 1)
        throw std::runtime_error("this OpenSSL has no SipHash");
    return context;
}

// Making one costs allocations, beginning anew with one does not.
EVP_MAC_CTX* context_of_thread() {
    thread_local const MacContext context = make_mac();
    return context.get();
}

}  // namespace

KeyedDigest::KeyedDigest() {
    context_of_thread();  // fails now or never
    if (RAND_bytes(key_.data(), static_cast<int>(key_.size())) != 1)
        throw std::runtime_error("no random numbers");
}

KeyedDigest::Value KeyedDigest::of(std::initializer_list<std::string_view> parts) const {
    EVP_MAC_CTX* const context = context_of_thread();
    bool done = EVP_MAC_init(context, key_.data(), key_.size(), nullptr) == 1;
    for (const std::string_view part : parts) {
        const auto* const bytes = reinterpret_cast<const unsigned char*>(part.data());
        done = done && EVP_MAC_update(context, bytes, part.size()) == 1;
    }
    Value value{};
    std::size_t size = 0;
    done = done && EVP_MAC_final(context, value.data(), &size, value.size()) == 1;
    // A digest of another text would be another identifier's name.
    if (!done || size != value.size()) throw std::runtime_error("SipHash failed");
    return value;
}

}  // namespace tidegate::identity
