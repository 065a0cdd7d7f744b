#include "tls/certificate.hpp"

#include <ctime>
#include <limits>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace tidegate {

namespace {

using boost::system::in_place_error;
using std::chrono::system_clock;

struct FreeBio {
    void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioPtr = std::unique_ptr<BIO, FreeBio>;

BioPtr open_pem(std::string_view pem) {
    if (pem.size() > std::numeric_limits<int>::max()) return nullptr;
    return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Instead of OpenSSL's own, which asks on the terminal.
int no_password(char*, int, int, void* was_asked) {
    *static_cast<bool*>(was_asked) = true;
    return -1;
}

// A time outside what the system's clock counts (nanoseconds in 64 bits: until 2262) is the nearest
// that it does.
system_clock::time_point time_of(const ASN1_TIME* time) {
    std::tm parts{};
    if (ASN1_TIME_to_tm(time, &parts) != 1) return system_clock::time_point::min();
    const std::time_t seconds = ::timegm(&parts);
    constexpr auto kMax = system_clock::time_point::max();
    if (seconds >= system_clock::to_time_t(kMax)) return kMax;
    return system_clock::from_time_t(seconds);
}

}  // namespace

void FreeCertificate::operator()(X509* certificate) const {
    X509_free(certificate);
}

void FreePrivateKey::operator()(EVP_PKEY* key) const {
    EVP_PKEY_free(key);
}

Result<std::vector<CertificatePtr>, std::string> parse_certificates(std::string_view pem) {
    std::vector<CertificatePtr> found;
    const BioPtr bio = open_pem(pem);
    ERR_clear_error();
    while (bio != nullptr) {
        CertificatePtr next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
        if (next == nullptr) break;
        found.push_back(std::move(next));
    }
    const unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    // The end of the text is an error like others.
    const bool at_end =
        ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
    if (!at_end) return {in_place_error, "holds a certificate that cannot be read"};
    if (found.empty()) {
        return {in_place_error, "holds no certificate (PEM: `-----BEGIN CERTIFICATE-----`)"};
    }
    return found;
}

Result<PrivateKeyPtr, std::string> parse_private_key(std::string_view pem) {
    bool was_asked = false;
    const BioPtr bio = open_pem(pem);
    PrivateKeyPtr key(bio == nullptr
                          ? nullptr
                          : PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, &was_asked));
    ERR_clear_error();
    if (key != nullptr) return key;
    if (was_asked) return {in_place_error, "holds a key that is locked by a password: unlock it"};
    return {in_place_error, "holds no private key (PEM: `-----BEGIN PRIVATE KEY-----`)"};
}

bool belong_together(const X509& certificate, const EVP_PKEY& key) {
    const bool match = X509_check_private_key(&certificate, &key) == 1;
    ERR_clear_error();
    return match;
}

system_clock::time_point valid_from(const X509& certificate) {
    return time_of(X509_get0_notBefore(&certificate));
}

system_clock::time_point valid_until(const X509& certificate) {
    return time_of(X509_get0_notAfter(&certificate));
}

std::optional<system_clock::time_point> peer_valid_until(const SSL* tls) {
    if (tls == nullptr) return std::nullopt;
    const CertificatePtr certificate(SSL_get1_peer_certificate(tls));
    if (certificate == nullptr) return std::nullopt;
    return valid_until(*certificate);
}

}  // namespace tidegate
