#include "tls/certificate.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/hex.hpp"
#include "tls/asn1.hpp"
#include "tls/openssl_text.hpp"

namespace tidegate {

namespace {

using boost::system::in_place_error;
using std::chrono::system_clock;

// Instead of OpenSSL's own, which asks on the terminal.
int no_password(char*, int, int, void* was_asked) {
    *static_cast<bool*>(was_asked) = true;
    return -1;
}

// Why `text` has no PEM block of this `kind`, in words that follow "the file".
std::string holds_none(std::string_view text, std::string_view what, std::string_view kind) {
    // Both begin with the tag of an ASN.1 sequence.
    const auto is_binary = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
    if (text.starts_with('\x30') && std::any_of(text.begin(), text.end(), is_binary)) {
        return "is DER or PKCS #12, and Tidegate reads PEM: convert it with `openssl x509 -inform "
               "der`, `openssl pkey -inform der` or `openssl pkcs12 -nodes`";
    }
    return "holds no " + std::string(what) + " (PEM: `-----BEGIN " + std::string(kind) + "-----`)";
}

}  // namespace

void FreeCertificate::operator()(X509* certificate) const {
    X509_free(certificate);
}

void FreePrivateKey::operator()(EVP_PKEY* key) const {
    EVP_PKEY_free(key);
}

Result<std::vector<CertificatePtr>, std::string> parse_certificates(std::string_view pem) {
    auto found = read_all<CertificatePtr>(pem, PEM_read_bio_X509);
    if (!found) return {in_place_error, "holds a certificate that cannot be read"};
    if (!found->empty()) return std::move(*found);
    return {in_place_error, holds_none(pem, "certificate", "CERTIFICATE")};
}

Result<PrivateKeyPtr, std::string> parse_private_key(std::string_view pem) {
    bool was_asked = false;
    const BioPtr bio = open_text(pem);
    PrivateKeyPtr key(bio == nullptr
                          ? nullptr
                          : PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, &was_asked));
    ERR_clear_error();
    if (key != nullptr) return key;
    if (was_asked) {
        return {in_place_error,
                "holds a key that is locked by a password: remove the password, with `openssl pkey "
                "-in locked.key -out site.key`"};
    }
    return {in_place_error, holds_none(pem, "private key", "PRIVATE KEY")};
}

bool belong_together(const X509& certificate, const EVP_PKEY& key) {
    const bool match = X509_check_private_key(&certificate, &key) == 1;
    ERR_clear_error();
    return match;
}

bool has_issued(const X509& issuer, const X509& certificate) {
    // OpenSSL caches in a certificate what it has read of its extensions.
    const bool has =
        X509_check_issued(const_cast<X509*>(&issuer), const_cast<X509*>(&certificate)) == X509_V_OK;
    ERR_clear_error();
    return has;
}

std::string sha256_of(const X509& certificate) {
    std::array<unsigned char, 32> digest{};
    std::string hex;
    if (X509_digest(&certificate, EVP_sha256(), digest.data(), nullptr) == 1) {
        append_hex(digest, hex);
    }
    return hex;
}

system_clock::time_point valid_from(const X509& certificate) {
    return time_of(X509_get0_notBefore(&certificate));
}

system_clock::time_point valid_until(const X509& certificate) {
    return time_of(X509_get0_notAfter(&certificate));
}

std::vector<SharedCertificate> shown_chain(const SSL* tls) {
    std::vector<SharedCertificate> chain;
    const STACK_OF(X509)* const shown = tls == nullptr ? nullptr : SSL_get_peer_cert_chain(tls);
    for (int i = 0; shown != nullptr && i < sk_X509_num(shown); ++i) {
        X509* const one = sk_X509_value(shown, i);
        X509_up_ref(one);
        chain.emplace_back(one, FreeCertificate());
    }
    return chain;
}

std::optional<system_clock::time_point> peer_valid_until(const SSL* tls) {
    if (tls == nullptr) return std::nullopt;
    const CertificatePtr certificate(SSL_get1_peer_certificate(tls));
    if (certificate == nullptr) return std::nullopt;
    return valid_until(*certificate);
}

}  // namespace tidegate
