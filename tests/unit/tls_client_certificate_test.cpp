#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/x509v3.h>

#include "client_certificates.hpp"
#include "tls/client_certificate.hpp"

namespace tidegate::tls_client_certificate_test {

namespace {

using test::make_certificate;
using test::Wish;
using Texts = std::vector<std::string>;

ClientCertificate read_of(const Wish& wish) {
    return read_client_certificate(*make_certificate(wish).certificate);
}

std::string subject_of_name(const std::string& common_name) {
    return read_of({.subject = {{"CN", common_name}}}).subject;
}

}  // namespace

TEST_CASE("client_certificate: it has its digest, its subject and every name in order") {
    const auto made = make_certificate({.subject = {{"O", "Acme"}, {"CN", "alice"}, {"CN", "al"}},
                                        .names = {{GEN_URI, "spiffe://example.org/b"},
                                                  {GEN_DNS, "b.example"},
                                                  {GEN_URI, "spiffe://example.org/a"},
                                                  {GEN_EMAIL, "alice@example.org"},
                                                  {GEN_DNS, "A.example"}}});
    const auto read = read_client_certificate(*made.certificate);
    CHECK(read.subject == "CN=al,CN=alice,O=Acme");
    CHECK(read.common_names.values == Texts{"alice", "al"});
    CHECK(read.uris.values == Texts{"spiffe://example.org/b", "spiffe://example.org/a"});
    CHECK(read.dns_names.values == Texts{"b.example", "a.example"});
    CHECK(read.emails.values == Texts{"alice@example.org"});
    for (const auto* names : {&read.common_names, &read.uris, &read.dns_names, &read.emails}) {
        CHECK_FALSE(names->is_incomplete);
    }
    CHECK(read.sha256.size() == 64);
    CHECK(read.sha256.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(read.sha256 == read_client_certificate(*made.certificate).sha256);
    CHECK(read.sha256 != read_of({}).sha256);
}

TEST_CASE("client_certificate: one without any names has none") {
    const auto read = read_of({.subject = {}});
    CHECK(read.subject.empty());
    CHECK(read.common_names.values.empty());
    CHECK_FALSE(read.common_names.is_incomplete);
    CHECK_FALSE(read.uris.is_incomplete);
}

TEST_CASE(
    "client_certificate: a name that a reader could take for another is left out, and reported") {
    using namespace std::string_literals;
    for (const std::string& bad :
         {"alice\0.evil"s, "a\nb"s, "a\x7f"s, "\xff"s, ""s, "a\xe2\x80\xae"s, "a\xc2\xad"s}) {
        const auto read = read_of({.subject = {{"CN", "good"}, {"CN", bad}}});
        CAPTURE(bad);
        CHECK(read.common_names.values == Texts{"good"});
        CHECK(read.common_names.is_incomplete);
        CHECK_FALSE(read.uris.is_incomplete);
    }
    for (const std::string& bad : {"a\0b"s, "a\rb"s, "a b"s, "a\"b"s, "a\\b"s, "\xc3\xa9"s, ""s}) {
        const auto read = read_of({.names = {{GEN_URI, "x:y"}, {GEN_URI, bad}, {GEN_DNS, bad}}});
        CAPTURE(bad);
        CHECK(read.uris.values == Texts{"x:y"});
        CHECK(read.uris.is_incomplete);
        CHECK(read.dns_names.values.empty());
        CHECK(read.dns_names.is_incomplete);
        CHECK_FALSE(read.emails.is_incomplete);
        CHECK_FALSE(read.common_names.is_incomplete);
    }
}

TEST_CASE("client_certificate: alternative names that cannot be read are no names") {
    auto made = make_certificate({});
    auto* const broken = ASN1_OCTET_STRING_new();
    ASN1_OCTET_STRING_set(broken, reinterpret_cast<const unsigned char*>("\x30\x05"), 2);
    X509_EXTENSION* const extension =
        X509_EXTENSION_create_by_NID(nullptr, NID_subject_alt_name, 0, broken);
    X509_add_ext(made.certificate.get(), extension, -1);
    X509_EXTENSION_free(extension);
    ASN1_OCTET_STRING_free(broken);
    const auto read = read_client_certificate(*made.certificate);
    CHECK(read.uris.is_incomplete);
    CHECK(read.dns_names.is_incomplete);
    CHECK(read.emails.is_incomplete);
    CHECK_FALSE(read.common_names.is_incomplete);
}

TEST_CASE("client_certificate: a subject is ASCII and escapes in hex alone") {
    using namespace std::string_literals;
    CHECK(subject_of_name("a,O=b") == "CN=a\\2CO=b");
    CHECK(subject_of_name("a\";URI=x") == "CN=a\\22\\3BURI=x");
    CHECK(subject_of_name("a\\") == "CN=a\\5C");
    CHECK(subject_of_name("a\\2C") == "CN=a\\5C2C");
    CHECK(subject_of_name(" #a ") == "CN=\\20#a\\20");
    CHECK(subject_of_name("#a") == "CN=\\23a");
    CHECK(subject_of_name("a+b<c>") == "CN=a\\2Bb\\3Cc\\3E");
    CHECK(subject_of_name("\xc3\xa9\r\n") == "CN=\\C3\\A9\\0D\\0A");
    CHECK(subject_of_name("a\0b"s) == "CN=a\\00b");
}

}  // namespace tidegate::tls_client_certificate_test
