#include "tls/certificate.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/ascii.hpp"
#include "base/hex.hpp"
#include "base/ip.hpp"
#include "tls/openssl.hpp"

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

namespace {

using Fault = CertificateKey::Fault;

constexpr EnumTexts<KeyType> kKeyTypes({{KeyType::ecdsa, "ECDSA"},
                                        {KeyType::ed25519, "Ed25519"},
                                        {KeyType::rsa, "RSA"}});

// In TLS 1.3, a signature names the curve of its key, and there are three.
constexpr std::array<std::string_view, 3> kCurvesOfTls{"prime256v1", "secp384r1", "secp521r1"};

std::string curve_of(const EVP_PKEY* key) {
    std::array<char, 64> name{};
    std::size_t size = 0;
    if (EVP_PKEY_get_group_name(key, name.data(), name.size(), &size) != 1) return {};
    return {name.data(), size};
}

// `P-256`; the name itself where there is no such one.
std::string usual_curve_name(const std::string& curve) {
    const char* const name = EC_curve_nid2nist(OBJ_txt2nid(curve.c_str()));
    return name != nullptr ? name : curve;
}

void read_key(const EVP_PKEY* key, CertificateKey& into) {
    into.bits = EVP_PKEY_get_bits(key);
    const std::string bits = std::to_string(into.bits);
    switch (EVP_PKEY_get_base_id(key)) {
        case EVP_PKEY_EC: {
            into.type = KeyType::ecdsa;
            into.curve = curve_of(key);
            into.text = "ECDSA " + usual_curve_name(into.curve);
            const bool is_of_tls = std::find(kCurvesOfTls.begin(), kCurvesOfTls.end(),
                                             into.curve) != kCurvesOfTls.end();
            into.fault = is_of_tls ? Fault::none : Fault::curve;
            return;
        }
        case EVP_PKEY_ED25519:
            into.type = KeyType::ed25519;
            into.text = "Ed25519";
            into.fault = Fault::none;
            return;
        case EVP_PKEY_RSA:
            into.type = KeyType::rsa;
            into.text = "RSA " + bits;
            into.fault = into.bits < kRsaBitsMin ? Fault::bits : Fault::none;
            return;
        case EVP_PKEY_RSA_PSS:
            into.text = "RSA-PSS " + bits;
            return;
        case EVP_PKEY_ED448:
            into.text = "Ed448";
            return;
        default:
            if (const char* const name = EVP_PKEY_get0_type_name(key)) into.text = name;
    }
}

}  // namespace

std::string_view name_of(KeyType type) {
    return kKeyTypes[type];
}

CertificateKey key_of(const X509& certificate) {
    CertificateKey read;
    if (const EVP_PKEY* const key = X509_get0_pubkey(&certificate)) read_key(key, read);
    ERR_clear_error();
    return read;
}

namespace {

constexpr std::size_t kNameBytesMax = 253;  // RFC 1035, as text and without the root's dot
constexpr std::size_t kLabelBytesMax = 63;

// Applications have names with `_`, although hosts ought not to.
bool is_label(std::string_view label) {
    return !label.empty() && label.size() <= kLabelBytesMax &&
           std::all_of(label.begin(), label.end(),
                       [](char c) { return is_alphanumeric(c) || c == '-' || c == '_'; });
}

// A name whose last label is a number is an address or nothing, or `*.0.2.1` were one.
bool is_host_name(std::string_view name) {
    if (name.size() > kNameBytesMax) return false;
    for (;;) {
        const std::size_t end = name.find('.');
        const std::string_view label = name.substr(0, end);
        if (!is_label(label)) return false;
        if (end == name.npos) return !std::all_of(label.begin(), label.end(), is_digit);
        name.remove_prefix(end + 1);
    }
}

std::string_view without_root(std::string_view name) {
    if (name.ends_with('.')) name.remove_suffix(1);
    return name;
}

std::optional<std::string> normal_host_name(std::string_view name) {
    if (!is_host_name(name)) return std::nullopt;
    return to_lower(std::string(name));
}

std::optional<std::string> normal_address(std::string_view bytes) {
    IpAddress address;
    if (bytes.size() != 4 && bytes.size() != address.bytes.size()) return std::nullopt;
    std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
    address.v4 = bytes.size() == 4;
    // An IPv6 address that is an IPv4 address has the latter's spelling.
    return normal_asked_name(address.to_string());
}

std::optional<std::string> normal_general_name(const GENERAL_NAME& name) {
    if (name.type == GEN_DNS) return normal_certificate_name(bytes_of(name.d.dNSName));
    if (name.type == GEN_IPADD) return normal_address(bytes_of(name.d.iPAddress));
    return std::nullopt;
}

}  // namespace

std::optional<std::string> normal_certificate_name(std::string_view name) {
    if (!name.starts_with("*.")) return normal_asked_name(name);
    auto parent = normal_host_name(without_root(name.substr(2)));
    // The asterisk counts as well.
    if (!parent || parent->size() + 2 > kNameBytesMax) return std::nullopt;
    return parent->insert(0, "*.");
}

std::optional<std::string> normal_asked_name(std::string_view name) {
    if (const auto address = parse_ip(name)) return address->to_string();
    return normal_host_name(without_root(name));
}

std::vector<std::string> names_of(const X509& certificate) {
    std::vector<std::string> names;
    const AlternativeNames stated = alternative_names(certificate);
    CertificateNames seen;
    for (int i = 0; i < sk_GENERAL_NAME_num(stated.list.get()); ++i) {
        auto name = normal_general_name(*sk_GENERAL_NAME_value(stated.list.get(), i));
        if (!name) continue;
        const std::size_t before = seen.size();
        if (seen.add(*name) == before) names.push_back(std::move(*name));
    }
    return names;
}

bool is_for(const X509& certificate, const std::string& name) {
    constexpr unsigned int kFlags =
        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
    // OpenSSL caches in a certificate what it has read of its extensions.
    auto* const noted = const_cast<X509*>(&certificate);
    const bool fits = parse_ip(name)
                          ? X509_check_ip_asc(noted, name.c_str(), 0) == 1
                          : X509_check_host(noted, name.data(), name.size(), kFlags, nullptr) == 1;
    ERR_clear_error();
    return fits;
}

std::size_t CertificateNames::add(const std::string& name) {
    const std::size_t next = numbers_.size();
    return numbers_.try_emplace(name.starts_with('*') ? name.substr(1) : name, next).first->second;
}

std::optional<std::size_t> CertificateNames::find(const std::string& asked) const {
    auto found = numbers_.find(asked);
    if (found == numbers_.end()) {
        const std::size_t dot = asked.find('.');
        // No wildcard ends in a number, so that no address is found.
        if (dot == asked.npos) return std::nullopt;
        found = numbers_.find(std::string_view(asked).substr(dot));
    }
    if (found == numbers_.end()) return std::nullopt;
    return found->second;
}

namespace {

struct FreeAuthorityAccess {
    void operator()(AUTHORITY_INFO_ACCESS* access) const { AUTHORITY_INFO_ACCESS_free(access); }
};

std::vector<std::string> sorted_names_of(const X509& certificate) {
    std::vector<std::string> names = names_of(certificate);
    std::stable_partition(names.begin(), names.end(),
                          [](const std::string& name) { return !parse_ip(name); });
    return names;
}

std::string issuer_location_of(const X509& certificate) {
    const std::unique_ptr<AUTHORITY_INFO_ACCESS, FreeAuthorityAccess> access(
        static_cast<AUTHORITY_INFO_ACCESS*>(
            X509_get_ext_d2i(&certificate, NID_info_access, nullptr, nullptr)));
    for (int i = 0; i < sk_ACCESS_DESCRIPTION_num(access.get()); ++i) {
        const ACCESS_DESCRIPTION* const one = sk_ACCESS_DESCRIPTION_value(access.get(), i);
        if (OBJ_obj2nid(one->method) != NID_ad_ca_issuers || one->location->type != GEN_URI) {
            continue;
        }
        return std::string(bytes_of(one->location->d.uniformResourceIdentifier));
    }
    return {};
}

}  // namespace

CertificateFacts facts_of(const X509& certificate) {
    // OpenSSL caches in a certificate what it has read of its extensions.
    auto* const noted = const_cast<X509*>(&certificate);
    CertificateFacts facts{.subject = shown_name(*X509_get_subject_name(&certificate)),
                           .issuer = shown_name(*X509_get_issuer_name(&certificate)),
                           .names = sorted_names_of(certificate),
                           .key = key_of(certificate),
                           .sha256 = sha256_of(certificate),
                           .from = valid_from(certificate),
                           .until = valid_until(certificate),
                           .is_self_signed = X509_self_signed(noted, 0) == 1,
                           .is_authority = X509_check_ca(noted) != 0,
                           .issuer_location = issuer_location_of(certificate)};
    ERR_clear_error();
    return facts;
}

long days_left(std::chrono::system_clock::time_point until,
               std::chrono::system_clock::time_point now) {
    return std::chrono::floor<std::chrono::days>(until - now).count();
}

}  // namespace tidegate
