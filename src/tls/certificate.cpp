#include "tls/certificate.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "base/file_work.hpp"
#include "base/ip.hpp"
#include "base/text.hpp"
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

using VerificationPtr = Owned<X509_STORE_CTX, X509_STORE_CTX_free>;

// `name` of the environment, if OpenSSL reads it, else `otherwise`.
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

// Clocks of one machine and its containers may differ a little.
constexpr std::chrono::minutes kClockSlack{5};
constexpr int kSerialBits = 127;

bool set_random_serial(X509* certificate) {
    const Owned<BIGNUM, BN_free> serial(BN_new());
    return serial != nullptr &&
           BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
           BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_validity(X509* certificate, system_clock::time_point now) {
    const std::time_t from = system_clock::to_time_t(now - kClockSlack);
    const std::time_t until = system_clock::to_time_t(now + kThrowawayValidity);
    return ASN1_TIME_set(X509_getm_notBefore(certificate), from) != nullptr &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), until) != nullptr;
}

// Its own issuer.
bool set_names(X509* certificate) {
    static constexpr unsigned char kName[] = "Tidegate quickstart";
    X509_NAME* const name = X509_get_subject_name(certificate);
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC, kName, sizeof kName - 1,
                                      -1, 0) == 1 &&
           X509_set_issuer_name(certificate, name) == 1;
}

bool add_extension(X509* certificate, int id, const char* value) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
    const Owned<X509_EXTENSION, X509_EXTENSION_free> extension(
        X509V3_EXT_conf_nid(nullptr, &context, id, value));
    return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool add_extensions(X509* certificate) {
    return add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, NID_ext_key_usage, "serverAuth") &&
           add_extension(certificate, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
}

CertificatePtr make_certificate(EVP_PKEY* key, system_clock::time_point now) {
    CertificatePtr made(X509_new());
    X509* const certificate = made.get();
    const bool good = certificate != nullptr &&
                      X509_set_version(certificate, X509_VERSION_3) == 1 &&
                      set_random_serial(certificate) && set_validity(certificate, now) &&
                      set_names(certificate) && X509_set_pubkey(certificate, key) == 1 &&
                      add_extensions(certificate) && X509_sign(certificate, key, EVP_sha256()) > 0;
    return good ? std::move(made) : nullptr;
}

// What `write` puts into a BIO; empty when it cannot.
template <class Write>
std::string pem_of(Write write) {
    const BioPtr memory = open_memory();
    return memory != nullptr && write(memory.get()) == 1 ? written(*memory) : std::string();
}

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

std::vector<std::string> sorted_names_of(const X509& certificate) {
    std::vector<std::string> names = names_of(certificate);
    std::stable_partition(names.begin(), names.end(),
                          [](const std::string& name) { return !parse_ip(name); });
    return names;
}

std::string issuer_location_of(const X509& certificate) {
    const Owned<AUTHORITY_INFO_ACCESS, AUTHORITY_INFO_ACCESS_free> access(
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

bool matches_key(const X509& certificate, const EVP_PKEY& key) {
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

// In whole seconds: the span between two times may be too long for the clock's unit.
bool Validity::ends_soon(system_clock::time_point now) const {
    using std::chrono::seconds;
    constexpr std::chrono::days kSoon{14};
    constexpr int kLastPart = 3;
    const auto end = std::chrono::floor<seconds>(until);
    const seconds left = end - std::chrono::floor<seconds>(now);
    const seconds life = end - std::chrono::floor<seconds>(from);
    return left < kSoon && left < life / kLastPart;
}

bool Validity::is_more_urgent(const Validity& other, system_clock::time_point now) const {
    const bool is_soon = ends_soon(now);
    return is_soon == other.ends_soon(now) ? until < other.until : is_soon;
}

Validity validity_of(const X509& certificate) {
    return {time_of(X509_get0_notBefore(&certificate)), time_of(X509_get0_notAfter(&certificate))};
}

std::vector<SharedCertificate> shown_chain(const SSL* tls) {
    std::vector<SharedCertificate> chain;
    const STACK_OF(X509)* const shown = tls == nullptr ? nullptr : SSL_get_peer_cert_chain(tls);
    for (int i = 0; shown != nullptr && i < sk_X509_num(shown); ++i) {
        X509* const one = sk_X509_value(shown, i);
        X509_up_ref(one);
        chain.emplace_back(one, FreeOpenssl());
    }
    return chain;
}

std::optional<Validity> peer_validity(const SSL* tls) {
    if (tls == nullptr) return std::nullopt;
    const CertificatePtr certificate(SSL_get1_peer_certificate(tls));
    if (certificate == nullptr) return std::nullopt;
    return validity_of(*certificate);
}

std::string_view name_of(KeyType type) {
    return kKeyTypes[type];
}

CertificateKey key_of(const X509& certificate) {
    CertificateKey read;
    if (const EVP_PKEY* const key = X509_get0_pubkey(&certificate)) read_key(key, read);
    ERR_clear_error();
    return read;
}

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

CertificateFacts facts_of(const X509& certificate) {
    // OpenSSL caches in a certificate what it has read of its extensions.
    auto* const noted = const_cast<X509*>(&certificate);
    CertificateFacts facts{.subject = shown_name(*X509_get_subject_name(&certificate)),
                           .issuer = shown_name(*X509_get_issuer_name(&certificate)),
                           .names = sorted_names_of(certificate),
                           .key = key_of(certificate),
                           .sha256 = sha256_of(certificate),
                           .validity = validity_of(certificate),
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
    // The chain owns its certificates, the stack none of them.
    constexpr auto kFreeStack = [](STACK_OF(X509) * stack) { sk_X509_free(stack); };
    const Owned<STACK_OF(X509), kFreeStack> others(sk_X509_new_null());
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

Result<ThrowawayCertificate, std::string> make_throwaway_certificate(system_clock::time_point now) {
    ThrowawayCertificate made;
    const PrivateKeyPtr key(EVP_EC_gen("P-256"));
    if (key != nullptr) {
        const CertificatePtr certificate = make_certificate(key.get(), now);
        if (certificate != nullptr) {
            made.certificate =
                pem_of([&](BIO* out) { return PEM_write_bio_X509(out, certificate.get()); });
            made.key = pem_of([&](BIO* out) {
                return PEM_write_bio_PKCS8PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr,
                                                     nullptr);
            });
        }
    }
    if (!made.certificate.empty() && !made.key.empty()) return made;
    return {in_place_error, "OpenSSL cannot make a certificate: " + openssl_reason()};
}

}  // namespace tidegate
