#include <stdlib.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "certificates.hpp"
#include "client_certificates.hpp"
#include "tls/certificate.hpp"
#include "unit/made_certificates.hpp"
#include "unit/trusted_authority.hpp"

namespace tidegate::tls_certificate_test {

namespace {

using namespace std::chrono_literals;
using std::chrono::hours;
using std::chrono::system_clock;
using test::Authority;
using test::Certificate;
using test::make_certificate;
using test::TrustedAuthority;
using Fault = CertificateKey::Fault;
using Names = std::vector<std::string>;
using Number = std::optional<std::size_t>;

bool says(const std::string& message, const std::string& part) {
    return message.find(part) != std::string::npos;
}

TEST_CASE("certificate: a file may hold several, with words between them, in their order") {
    const Authority authority;
    const Certificate leaf = authority.issue("DNS:a", {-60, 60});
    const auto chain =
        parse_certificates("subject=/CN=a\n" + leaf.pem() + "\nthe authority:\n" + authority.pem());
    REQUIRE(chain.has_value());
    REQUIRE(chain->size() == 2);
    CHECK(matches_key(*chain->front(), *leaf.key));
    CHECK_FALSE(matches_key(*chain->back(), *leaf.key));
}

TEST_CASE("certificate: a file without one, or with a broken one, has a fault of its own") {
    const Authority authority;
    for (const std::string& text : {std::string(), std::string("hello\n"), std::string(3, '\0'),
                                    authority.issue().key_pem()}) {
        const auto none = parse_certificates(text);
        REQUIRE_FALSE(none.has_value());
        CHECK(says(none.error(), "holds no certificate"));
    }
    std::string cut = authority.pem();
    cut.resize(cut.size() / 2);
    std::string bent = authority.pem();
    bent[bent.size() / 2] = '!';
    for (const std::string& text : {cut, bent, authority.pem() + cut, authority.pem() + bent}) {
        const auto broken = parse_certificates(text);
        REQUIRE_FALSE(broken.has_value());
        CHECK(says(broken.error(), "cannot be read"));
    }
}

TEST_CASE("certificate: a key is read; a locked one is named as such, without a prompt") {
    const Authority authority;
    const Certificate made = authority.issue();
    const auto key = parse_private_key(made.key_pem());
    REQUIRE(key.has_value());
    CHECK(matches_key(*made.certificate, **key));
    const auto locked = parse_private_key(made.key_pem("s3cret"));
    REQUIRE_FALSE(locked.has_value());
    CHECK(says(locked.error(), "locked by a password"));
    for (const std::string& text : {std::string(), made.pem(), std::string("-----BEGIN ")}) {
        const auto none = parse_private_key(text);
        REQUIRE_FALSE(none.has_value());
        CHECK(says(none.error(), "holds no private key"));
    }
}

TEST_CASE("certificate: DER and PKCS #12 are named, with the commands that convert them") {
    const std::string der = "\x30\x82\x01\xfa\x30";
    CHECK(says(parse_certificates(der).error(), "is DER or PKCS #12, and Tidegate reads PEM"));
    CHECK(says(parse_private_key(der).error(), "`openssl pkey -inform der`"));
    CHECK(says(parse_private_key("0 is no key\n").error(), "holds no private key"));
}

TEST_CASE("certificate: only an authority with the issuer's name and key has issued another") {
    const Authority authority;
    const Certificate leaf = authority.issue();
    CHECK(has_issued(*authority.certificate(), *leaf.certificate));
    CHECK(has_issued(*authority.certificate(), *authority.certificate()));
    CHECK_FALSE(has_issued(*leaf.certificate, *authority.certificate()));
    CHECK_FALSE(has_issued(*Authority().certificate(), *leaf.certificate));
}

TEST_CASE("certificate: it says from when until when it is valid") {
    const Authority authority;
    const Certificate made = authority.issue("DNS:a", {-3600, 7200});
    const auto now = std::chrono::system_clock::now();
    CHECK(validity_of(*made.certificate).from < now - 59min);
    CHECK(validity_of(*made.certificate).from > now - 61min);
    CHECK(validity_of(*made.certificate).until > now + 119min);
    CHECK(validity_of(*made.certificate).until < now + 121min);
    // Beyond what the clock can count.
    const Certificate long_lived = authority.issue("DNS:a", {0, 400L * 366 * 86'400});
    CHECK(validity_of(*long_lived.certificate).until == system_clock::time_point::max());
}

TEST_CASE("certificate_facts: names are those of the extension, DNS names first, in lower case") {
    const Authority authority;
    const Certificate made =
        authority.issue("IP:10.0.0.7,DNS:A.Example,DNS:*.b.example,IP:2001:db8::1");
    const CertificateFacts facts = facts_of(*made.certificate);
    CHECK(facts.names ==
          std::vector<std::string>{"a.example", "*.b.example", "10.0.0.7", "2001:db8::1"});
    CHECK(facts.first_name() == "a.example");
    CHECK(facts.subject == "CN=server");
    CHECK(facts.issuer == facts_of(*authority.certificate()).subject);
    CHECK(facts.issuer != facts.subject);
    CHECK_FALSE(facts.is_self_signed);
    CHECK(facts_of(*authority.certificate()).is_self_signed);
}

TEST_CASE("certificate_facts: a certificate without names is called by its subject") {
    const Authority authority;
    const Certificate made = authority.issue("");
    const CertificateFacts facts = facts_of(*made.certificate);
    CHECK(facts.names.empty());
    CHECK(facts.first_name() == "CN=localhost");
}

TEST_CASE("certificate_facts: a name that no client can ask for is none") {
    const CertificateFacts facts =
        facts_of(*Authority().issue("DNS:f*.example,DNS:a b,DNS:b.example").certificate);
    CHECK(facts.names == std::vector<std::string>{"b.example"});
}

TEST_CASE("certificate_facts: a subject is shown in UTF-8, and in ASCII if it hides something") {
    const auto subject_of = [](const std::string& name) {
        return facts_of(*make_certificate({.subject = {{"CN", name}}}).certificate).subject;
    };
    CHECK(subject_of("B\xc3\xbcro, 2") == "CN=B\xc3\xbcro\\, 2");
    CHECK(subject_of("B\xc3\xbcro\xe2\x80\xae") == "CN=B\\C3\\BCro\\E2\\80\\AE");
    CHECK(subject_of("a\n") == "CN=a\\0A");
}

TEST_CASE("certificate_facts: an authority, one that signs itself, and where an issuer is") {
    const auto root = test::make_site_certificate({.subject = "root", .is_authority = true});
    const auto leaf = test::make_site_certificate(
        {.issuer = &root, .issuer_location = "http://ca.example/root.der"});
    const CertificateFacts of_root = facts_of(*root.certificate);
    CHECK(of_root.is_authority);
    CHECK(of_root.is_self_signed);
    CHECK(of_root.issuer_location.empty());
    const CertificateFacts of_leaf = facts_of(*leaf.certificate);
    CHECK_FALSE(of_leaf.is_authority);
    CHECK_FALSE(of_leaf.is_self_signed);
    CHECK(of_leaf.issuer_location == "http://ca.example/root.der");
}

TEST_CASE("certificate_facts: the kind of the key is named, and digests distinguish certificates") {
    const Authority authority;
    const Certificate one = authority.issue();
    const Certificate other = authority.issue();
    CHECK(facts_of(*one.certificate).key.text == "ECDSA P-256");
    CHECK(facts_of(*one.certificate).sha256.size() == 64);
    CHECK(facts_of(*one.certificate).sha256 == facts_of(*one.certificate).sha256);
    CHECK(facts_of(*one.certificate).sha256 != facts_of(*other.certificate).sha256);
}

TEST_CASE("certificate_facts: days that are left are whole ones, and negative when it is over") {
    const std::chrono::system_clock::time_point now{};
    CHECK(days_left(now + 48h, now) == 2);
    CHECK(days_left(now + 48h - 1s, now) == 1);
    CHECK(days_left(now + 1s, now) == 0);
    CHECK(days_left(now - 1s, now) == -1);
}

TEST_CASE("certificate_validity: it ends soon below 14 days and below a third of its life") {
    const system_clock::time_point now{};
    const auto ends_soon = [now](system_clock::duration life, system_clock::duration left) {
        return Validity{now + left - life, now + left}.ends_soon(now);
    };
    CHECK_FALSE(ends_soon(90 * 24h, 14 * 24h));
    CHECK(ends_soon(90 * 24h, 14 * 24h - 1s));
    CHECK_FALSE(ends_soon(30 * 24h, 10 * 24h));
    CHECK(ends_soon(30 * 24h, 10 * 24h - 1s));
    CHECK_FALSE(ends_soon(6 * 24h, 6 * 24h));
    CHECK_FALSE(ends_soon(6 * 24h, 48h));
    CHECK(ends_soon(6 * 24h, 48h - 1s));
    CHECK(ends_soon(6 * 24h, -1s));
    constexpr auto kFirst = system_clock::time_point::min();
    constexpr auto kLast = system_clock::time_point::max();
    CHECK(Validity{kFirst, now + 1h}.ends_soon(now));
    CHECK(Validity{kFirst, kFirst}.ends_soon(now));
    CHECK_FALSE(Validity{now, kLast}.ends_soon(now));
}

TEST_CASE("certificate_validity: what ends soon is more urgent, then what ends first") {
    const system_clock::time_point now{};
    const Validity late{now - 24h, now + 89 * 24h};
    const Validity near{now - 80 * 24h, now + 10 * 24h};
    const Validity nearer{now - 80 * 24h, now + 9 * 24h};
    const Validity short_lived{now - 24h, now + 5 * 24h};
    CHECK(near.is_more_urgent(late, now));
    CHECK_FALSE(late.is_more_urgent(near, now));
    CHECK(nearer.is_more_urgent(near, now));
    CHECK(near.is_more_urgent(short_lived, now));
    CHECK_FALSE(short_lived.is_more_urgent(near, now));
    CHECK(short_lived.is_more_urgent(late, now));
    CHECK_FALSE(late.is_more_urgent(late, now));
}

CertificateKey key_of_kind(const std::string& kind) {
    return key_of(*test::make_site_certificate({.key = kind}).certificate);
}

TEST_CASE("certificate_key: keys that a listener may have are described by type and size") {
    for (const auto& [kind, type, text] : {std::tuple{"P-256", KeyType::ecdsa, "ECDSA P-256"},
                                           {"P-384", KeyType::ecdsa, "ECDSA P-384"},
                                           {"P-521", KeyType::ecdsa, "ECDSA P-521"},
                                           {"ED25519", KeyType::ed25519, "Ed25519"},
                                           {"RSA-2048", KeyType::rsa, "RSA 2048"}}) {
        CAPTURE(kind);
        const CertificateKey key = key_of_kind(kind);
        CHECK(key.fault == Fault::none);
        CHECK(key.type == type);
        CHECK(key.text == text);
        CHECK(key.text.starts_with(name_of(type)));
    }
    CHECK(key_of_kind("P-256").curve == "prime256v1");
}

TEST_CASE("certificate_key: keys that a listener may not have are described by their fault") {
    const CertificateKey weak = key_of_kind("RSA-1024");
    CHECK(weak.fault == Fault::bits);
    CHECK(weak.bits == 1'024);
    const CertificateKey odd = key_of_kind("secp256k1");
    CHECK(odd.fault == Fault::curve);
    CHECK(odd.curve == "secp256k1");
    CHECK(odd.text == "ECDSA secp256k1");
    CHECK(key_of_kind("P-224").fault == Fault::curve);
    const CertificateKey other = key_of_kind("ED448");
    CHECK(other.fault == Fault::type);
    CHECK_FALSE(other.type.has_value());
    CHECK(other.text == "Ed448");
}

TEST_CASE("certificate_key: a certificate without a key that can be read has none") {
    const std::unique_ptr<X509, test::ReleaseOpenSsl> empty(X509_new());
    CHECK(key_of(*empty).fault == Fault::type);
    CHECK(key_of(*empty).text == "of an unknown kind");
}

TEST_CASE("certificate names: case and the root's dot make no other name") {
    CHECK(normal_asked_name("API.Example.COM") == "api.example.com");
    CHECK(normal_asked_name("api.example.com.") == "api.example.com");
    CHECK(normal_asked_name("localhost") == "localhost");
    CHECK(normal_asked_name("a_b.example") == "a_b.example");
    CHECK(normal_asked_name("xn--bcher-kva.example") == "xn--bcher-kva.example");
    CHECK(normal_certificate_name("*.Example.com.") == "*.example.com");
    CHECK(normal_certificate_name("Example.com") == "example.com");
}

TEST_CASE("certificate names: a malformed host name is no name") {
    const std::string label(63, 'a');
    const std::string longest = label + '.' + label + '.' + label + '.' + std::string(61, 'a');
    REQUIRE(longest.size() == 253);
    CHECK(normal_asked_name(longest) == longest);
    CHECK(normal_asked_name(longest + '.') == longest);
    CHECK_FALSE(normal_asked_name(longest + 'a'));
    CHECK_FALSE(normal_asked_name(label + "a.example"));
    CHECK_FALSE(normal_certificate_name("*." + longest));
    using namespace std::string_literals;
    for (const std::string& name : {""s,
                                    "."s,
                                    ".."s,
                                    "a..b"s,
                                    ".a"s,
                                    "a.."s,
                                    "a b"s,
                                    "a\0b"s,
                                    "a\0"s,
                                    "bücher.example"s,
                                    "a/b"s,
                                    "a:443"s,
                                    "[::1]"s,
                                    "1.2.3"s,
                                    "256.1.1.1"s,
                                    "1.2.3.4.5"s,
                                    "a.1"s,
                                    "*"s,
                                    "*."s,
                                    "**.a"s,
                                    "a.*"s,
                                    "f*.example.com"s,
                                    "*.*.example.com"s,
                                    "*.0.2.1"s,
                                    "*a.example"s}) {
        CAPTURE(name);
        CHECK_FALSE(normal_asked_name(name));
        CHECK_FALSE(normal_certificate_name(name));
    }
    CHECK_FALSE(normal_asked_name("*.example.com"));
}

TEST_CASE("certificate names: an address has one spelling") {
    CHECK(normal_asked_name("192.0.2.1") == "192.0.2.1");
    CHECK(normal_asked_name("2001:DB8:0::1") == "2001:db8::1");
    CHECK(normal_asked_name("::ffff:192.0.2.1") == "192.0.2.1");
    CHECK_FALSE(normal_asked_name("192.0.2.1."));
}

TEST_CASE("certificate names: a certificate states names and addresses, each once, in its order") {
    const test::Authority authority;
    const auto made = authority.issue(
        "DNS:B.example,DNS:*.a.example,IP:192.0.2.1,DNS:b.example,IP:2001:db8::1,"
        "email:x@example.org,URI:https://c.example/,DNS:f*.example,DNS:192.0.2.9");
    CHECK(names_of(*made.certificate) ==
          Names{"b.example", "*.a.example", "192.0.2.1", "2001:db8::1", "192.0.2.9"});
    CHECK(names_of(*authority.issue("").certificate).empty());
}

TEST_CASE("certificate names: a certificate is for those that it states as alternatives alone") {
    const test::Authority authority;
    const auto made = authority.issue("DNS:a.example,DNS:*.b.example,IP:10.0.0.7");
    CHECK(is_for(*made.certificate, "a.example"));
    CHECK(is_for(*made.certificate, "x.b.example"));
    CHECK(is_for(*made.certificate, "10.0.0.7"));
    CHECK_FALSE(is_for(*made.certificate, "b.example"));
    CHECK_FALSE(is_for(*made.certificate, "x.y.b.example"));
    CHECK_FALSE(is_for(*made.certificate, "10.0.0.8"));
    CHECK_FALSE(is_for(*authority.issue("").certificate, "localhost"));
}

TEST_CASE("certificate names: the exact name goes before a wildcard, which is for one label") {
    CertificateNames names;
    CHECK(names.add("*.example.com") == 0);
    CHECK(names.add("api.example.com") == 1);
    CHECK(names.add("example.com") == 2);
    CHECK(names.add("*.api.example.com") == 3);
    CHECK(names.add("*.example.com") == 0);
    CHECK(names.size() == 4);
    CHECK(names.find("api.example.com") == Number(1));
    CHECK(names.find("www.example.com") == Number(0));
    CHECK(names.find("example.com") == Number(2));
    CHECK(names.find("x.api.example.com") == Number(3));
    CHECK_FALSE(names.find("x.www.example.com"));
    CHECK_FALSE(names.find("com"));
    CHECK_FALSE(names.find("example.org"));
    CHECK_FALSE(names.find("notexample.com"));
    CHECK_FALSE(names.find(""));
}

TEST_CASE("certificate names: an address is found as itself only") {
    CertificateNames names;
    names.add("192.0.2.1");
    names.add("2001:db8::1");
    names.add("*.localhost");
    CHECK(names.find("192.0.2.1") == Number(0));
    CHECK(names.find("2001:db8::1") == Number(1));
    CHECK_FALSE(names.find("192.0.2.2"));
    CHECK(names.find("a.localhost") == Number(2));
    CHECK_FALSE(names.find("localhost"));
}

std::vector<SharedCertificate> chain_of(const std::string& pem) {
    std::vector<SharedCertificate> chain;
    auto parsed = parse_certificates(pem);
    REQUIRE(parsed.has_value());
    for (CertificatePtr& one : *parsed) chain.emplace_back(std::move(one));
    return chain;
}

TEST_CASE("system_authorities: a certificate of one of them is trusted, until it expires") {
    const TrustedAuthority trusted;
    const auto authorities = SystemAuthorities::read();
    REQUIRE(authorities.has_value());
    CHECK_FALSE((*authorities)->doubt(chain_of(trusted.authority.issue().pem())).has_value());
    CHECK_FALSE((*authorities)
                    ->doubt(chain_of(trusted.authority.issue().pem() + trusted.authority.pem()))
                    .has_value());
    const auto expired =
        (*authorities)->doubt(chain_of(trusted.authority.issue("DNS:a", {-60, -1}).pem()));
    REQUIRE(expired.has_value());
    CHECK_FALSE(expired->is_unknown_issuer);
    CHECK(expired->why.find("expired") != std::string::npos);
}

TEST_CASE(
    "system_authorities: a certificate of another authority is not trusted, and its issuer named") {
    const TrustedAuthority trusted;
    const Authority stranger;
    const auto authorities = SystemAuthorities::read();
    REQUIRE(authorities.has_value());
    for (const std::string& pem :
         {stranger.issue().pem(), stranger.issue().pem() + stranger.pem(), stranger.pem()}) {
        const auto doubt = (*authorities)->doubt(chain_of(pem));
        REQUIRE(doubt.has_value());
        CHECK(doubt->is_unknown_issuer);
        CHECK_FALSE(doubt->is_incomplete);  // it does not say where its issuer is to be had
        CHECK(doubt->issuer.find("Tidegate test authority") != std::string::npos);
    }
}

TEST_CASE("system_authorities: the issuer of a certificate is known, whatever its times") {
    const TrustedAuthority trusted;
    const auto authorities = SystemAuthorities::read();
    REQUIRE(authorities.has_value());
    CHECK((*authorities)->have_issuer_of(*trusted.authority.issue().certificate));
    CHECK((*authorities)->have_issuer_of(*trusted.authority.issue("DNS:a", {-60, -1}).certificate));
    CHECK_FALSE((*authorities)->have_issuer_of(*Authority().issue().certificate));
}

TEST_CASE("system_authorities: a system without any is reported") {
    ::setenv("SSL_CERT_FILE", "/nonexistent", 1);
    ::setenv("SSL_CERT_DIR", "/nonexistent:/nonexistent/too", 1);
    const auto authorities = SystemAuthorities::read();
    ::unsetenv("SSL_CERT_FILE");
    ::unsetenv("SSL_CERT_DIR");
    REQUIRE_FALSE(authorities.has_value());
    CHECK(authorities.error() == "the system has no authorities");
}

// A time on a whole second, as certificates have them.
const system_clock::time_point kNow{std::chrono::seconds{1'750'000'000}};

struct Throwaway {
    Throwaway() : made(make_throwaway_certificate(kNow)) {
        REQUIRE(made.has_value());
        auto chain = parse_certificates(made->certificate);
        REQUIRE(chain.has_value());
        REQUIRE(chain->size() == 1);
        certificate = std::move(chain->front());
        auto parsed = parse_private_key(made->key);
        REQUIRE(parsed.has_value());
        key = std::move(*parsed);
    }

    // What a client that trusts `believed` says at `when`; X509_V_OK: it goes on.
    int verdict(const X509* believed, system_clock::time_point when, const char* name) const {
        X509_STORE* const store = X509_STORE_new();
        X509_STORE_add_cert(store, const_cast<X509*>(believed));
        X509_STORE_CTX* const context = X509_STORE_CTX_new();
        X509_STORE_CTX_init(context, store, certificate.get(), nullptr);
        X509_STORE_CTX_set_default(context, "ssl_server");
        X509_VERIFY_PARAM* const wanted = X509_STORE_CTX_get0_param(context);
        X509_VERIFY_PARAM_set_time(wanted, system_clock::to_time_t(when));
        X509_VERIFY_PARAM_set1_host(wanted, name, 0);
        X509_verify_cert(context);
        const int result = X509_STORE_CTX_get_error(context);
        X509_STORE_CTX_free(context);
        X509_STORE_free(store);
        return result;
    }

    Result<ThrowawayCertificate, std::string> made;
    CertificatePtr certificate;
    PrivateKeyPtr key;
};

TEST_CASE("throwaway_certificate: a client that trusts it accepts it for this machine alone") {
    const Throwaway made;
    const X509* const self = made.certificate.get();
    CHECK(made.verdict(self, kNow, "localhost") == X509_V_OK);
    CHECK(made.verdict(self, kNow, "example.com") == X509_V_ERR_HOSTNAME_MISMATCH);
    for (const char* const address : {"127.0.0.1", "::1"}) {
        CHECK(X509_check_ip_asc(made.certificate.get(), address, 0) == 1);
    }
    CHECK(X509_check_ip_asc(made.certificate.get(), "127.0.0.2", 0) == 0);
    CHECK(made.verdict(Throwaway().certificate.get(), kNow, "localhost") != X509_V_OK);
}

TEST_CASE("throwaway_certificate: it is valid at once, and for 90 days") {
    const Throwaway made;
    CHECK(validity_of(*made.certificate).from <= kNow);
    CHECK(validity_of(*made.certificate).from >= kNow - hours{1});
    CHECK(validity_of(*made.certificate).until == kNow + kThrowawayValidity);
    const X509* const self = made.certificate.get();
    CHECK(made.verdict(self, kNow + kThrowawayValidity + hours{1}, "localhost") ==
          X509_V_ERR_CERT_HAS_EXPIRED);
}

TEST_CASE("throwaway_certificate: its key is a new one of P-256, and it is no authority") {
    const Throwaway made;
    CHECK(matches_key(*made.certificate, *made.key));
    CHECK(EVP_PKEY_get_bits(made.key.get()) == 256);
    CHECK(EVP_PKEY_is_a(made.key.get(), "EC") == 1);
    CHECK(X509_check_ca(made.certificate.get()) == 0);
    const Throwaway other;
    CHECK_FALSE(matches_key(*other.certificate, *made.key));
    CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(made.certificate.get()),
                           X509_get0_serialNumber(other.certificate.get())) != 0);
}

}  // namespace

}  // namespace tidegate::tls_certificate_test
