#include "tls/system_authorities.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include "base/file_work.hpp"
#include "tls/certificate.hpp"

namespace tidegate {

namespace {

using boost::system::in_place_error;

struct FreeVerification {
    void operator()(X509_STORE_CTX* verification) const { X509_STORE_CTX_free(verification); }
};
using VerificationPtr = std::unique_ptr<X509_STORE_CTX, FreeVerification>;
// Of pointers that others own.
struct FreeStack {
    void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};

// `name` of the environment, where OpenSSL heeds it, else `otherwise`.
std::string system_path(const char* name, const char* otherwise) {
    const char* const written = ::secure_getenv(name);
    return written != nullptr ? written : otherwise;
}

bool system_has_authorities() {
    namespace fs = std::filesystem;
    std::error_code ec;
    const auto file = system_path(X509_get_default_cert_file_env(), X509_get_default_cert_file());
    if (fs::is_regular_file(file, ec)) return true;
    std::string folders = system_path(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
    while (!folders.empty()) {
        const std::size_t end = std::min(folders.find(':'), folders.size());
        const std::string folder = folders.substr(0, end);
        folders.erase(0, end + 1);
        if (fs::is_directory(folder, ec) && !fs::is_empty(folder, ec)) return true;
    }
    return false;
}

bool is_of_unknown_issuer(int verdict) {
    return verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
           verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
           verdict == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE ||
           verdict == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
           verdict == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT;
}

}  // namespace

void SystemAuthorities::FreeStore::operator()(X509_STORE* store) const {
    X509_STORE_free(store);
}

Result<std::shared_ptr<const SystemAuthorities>, std::string> SystemAuthorities::read() {
    const FileWait wait(
        system_path(X509_get_default_cert_file_env(), X509_get_default_cert_file()));
    if (!system_has_authorities()) return {in_place_error, "the system has no authorities"};
    StorePtr store(X509_STORE_new());
    const bool was_read = store != nullptr && X509_STORE_set_default_paths(store.get()) == 1;
    ERR_clear_error();
    if (!was_read) return {in_place_error, "the system's authorities cannot be read"};
    return std::shared_ptr<const SystemAuthorities>(new SystemAuthorities(std::move(store)));
}

bool SystemAuthorities::have_issuer_of(const X509& certificate) const {
    const VerificationPtr verification(X509_STORE_CTX_new());
    X509* issuer = nullptr;
    const bool have =
        verification != nullptr &&
        X509_STORE_CTX_init(verification.get(), store_.get(), nullptr, nullptr) == 1 &&
        // OpenSSL only reads it.
        X509_STORE_CTX_get1_issuer(&issuer, verification.get(), const_cast<X509*>(&certificate)) ==
            1;
    const CertificatePtr owner(issuer);
    ERR_clear_error();
    return have;
}

std::optional<SystemAuthorities::Doubt> SystemAuthorities::doubt(
    std::span<const SharedCertificate> chain) const {
    const VerificationPtr verification(X509_STORE_CTX_new());
    const std::unique_ptr<STACK_OF(X509), FreeStack> others(sk_X509_new_null());
    if (verification == nullptr || others == nullptr) return Doubt{.why = "out of memory"};
    for (const SharedCertificate& one : chain.subspan(1)) sk_X509_push(others.get(), one.get());
    int verdict = X509_V_ERR_UNSPECIFIED;
    if (X509_STORE_CTX_init(verification.get(), store_.get(), chain.front().get(), others.get()) ==
            1 &&
        X509_STORE_CTX_set_default(verification.get(), "ssl_server") == 1) {
        X509_verify_cert(verification.get());
        verdict = X509_STORE_CTX_get_error(verification.get());
    }
    ERR_clear_error();
    if (verdict == X509_V_OK) return std::nullopt;
    const CertificateFacts last = facts_of(*chain.back());
    const bool is_unknown = is_of_unknown_issuer(verdict);
    const bool has_issuer_elsewhere = !last.is_self_signed && !last.issuer_location.empty();
    return Doubt{.why = X509_verify_cert_error_string(verdict),
                 .is_unknown_issuer = is_unknown,
                 .is_incomplete = is_unknown && has_issuer_elsewhere,
                 .issuer = last.issuer};
}

}  // namespace tidegate
