#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "client_certificates.hpp"
#include "tls/certificate.hpp"
#include "unit/made_certificates.hpp"

namespace tidegate::tls_certificate_facts_test {

namespace {

using namespace std::chrono_literals;
using test::Authority;
using test::Certificate;
using test::make_certificate;

}  // namespace

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

}  // namespace tidegate::tls_certificate_facts_test
