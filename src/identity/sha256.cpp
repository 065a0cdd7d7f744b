#include "identity/sha256.hpp"

#include <memory>
#include <new>

#include <openssl/evp.h>

namespace tidegate::identity {
namespace {

struct ReleaseDigest {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using DigestContext = std::unique_ptr<EVP_MD_CTX, ReleaseDigest>;

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

}  // namespace tidegate::identity
