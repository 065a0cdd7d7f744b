#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "identity/authenticator.hpp"
#include "identity/credentials.hpp"

namespace tidegate::identity::client_certificate_test {

namespace {

using Subject = CertificateMethod::Subject;
using Result = Authentication::Result;

const CertificateMethod kSpiffe{Subject::uri, "spiffe://example.org/"};

ClientCertificate with_uris(std::vector<std::string> uris, bool is_incomplete = false) {
    ClientCertificate certificate;
    certificate.uris = {std::move(uris), is_incomplete};
    return certificate;
}

std::string user_by_uri(std::vector<std::string> uris) {
    const ClientCertificate certificate = with_uris(std::move(uris));
    const CertificateUser user = user_of(kSpiffe, certificate);
    return user.fault == CredentialFault::none ? std::string(user.name)
                                               : std::string(to_string(user.fault));
}

constexpr std::string_view kNotOne = "certificate: not exactly one name that fits";

// The result of an authenticator with one certificate method.
Authentication found(const UserMethod& method, const ClientCertificate* certificate,
                     const Peer& peer = {parse_ip("192.0.2.1"), false, false}) {
    const std::vector<UserMethod> methods{method};
    Authenticator authenticator(methods);
    Authentication authentication;
    authenticator.look(peer, certificate, {}, {}, authentication);
    return authentication;
}

}  // namespace

TEST_CASE("certificate_user: exactly one name fits the prefix, which stays part of the user") {
    CHECK(user_by_uri({"spiffe://example.org/a"}) == "spiffe://example.org/a");
    CHECK(user_by_uri({"https://x", "spiffe://example.org/a"}) == "spiffe://example.org/a");
    CHECK(user_by_uri({"spiffe://example.org/a", "spiffe://example.org/a"}) ==
          "spiffe://example.org/a");
    CHECK(user_by_uri({"spiffe://example.org/a", "spiffe://example.org/b"}) == kNotOne);
    CHECK(user_by_uri({"spiffe://example.org.evil/a"}) == kNotOne);
    CHECK(user_by_uri({"SPIFFE://example.org/a"}) == kNotOne);
    CHECK(user_by_uri({}) == kNotOne);
    CHECK(user_by_uri({""}) == kNotOne);
}

TEST_CASE("certificate_user: each subject has its names, and no other does in its place") {
    ClientCertificate certificate;
    certificate.common_names.values = {"alice"};
    certificate.uris.values = {"urn:a"};
    certificate.dns_names.values = {"a.example"};
    certificate.emails.values = {"alice@example.org"};
    certificate.sha256 = "0a";
    const auto name = [&](Subject subject, const std::string& prefix = "") {
        return std::string(user_of({subject, prefix}, certificate).name);
    };
    CHECK(name(Subject::common_name) == "alice");
    CHECK(name(Subject::uri) == "urn:a");
    CHECK(name(Subject::dns) == "a.example");
    CHECK(name(Subject::dns, "A.") == "a.example");
    CHECK(name(Subject::email) == "alice@example.org");
    CHECK(name(Subject::email, "Alice").empty());
    CHECK(name(Subject::sha256) == "0a");
    certificate.dns_names.values.clear();
    CHECK(name(Subject::dns).empty());
    certificate.sha256.clear();
    CHECK(user_of({Subject::sha256, ""}, certificate).fault == CredentialFault::certificate_name);
}

TEST_CASE("certificate_user: a name that was left out could have been another one") {
    CHECK(user_of(kSpiffe, with_uris({"spiffe://example.org/a"}, true)).fault ==
          CredentialFault::unsafe_user);
    ClientCertificate elsewhere = with_uris({"spiffe://example.org/a"});
    elsewhere.common_names.is_incomplete = true;
    CHECK(user_of(kSpiffe, elsewhere).fault == CredentialFault::none);
}

TEST_CASE("certificate_user: a user has the length and the characters of any other") {
    const std::string longest = "spiffe://example.org/" + std::string(235, 'a');
    CHECK(user_by_uri({longest}) == longest);
    CHECK(user_by_uri({longest + "a"}) == "credential: unusable user name");
    ClientCertificate certificate;
    for (const char* name : {"alice ", " alice", "a\xe2\x80\x8b", "a\n"}) {
        certificate.common_names.values = {name};
        CHECK(user_of({Subject::common_name, ""}, certificate).fault ==
              CredentialFault::unsafe_user);
    }
}

TEST_CASE("authenticator: a certificate names the user; without one the method is absent") {
    const ClientCertificate certificate = with_uris({"spiffe://example.org/a"});
    const UserMethod method{"mtls", kSpiffe};
    const Authentication one = found(method, &certificate);
    CHECK(one.result == Result::user);
    CHECK(one.user == "mtls:spiffe://example.org/a");
    CHECK(one.tier.empty());
    CHECK(found(method, nullptr).result == Result::anonymous);
    const ClientCertificate other = with_uris({"https://x"});
    const Authentication none = found(method, &other);
    CHECK(none.result == Result::refused);
    CHECK(none.fault == CredentialFault::certificate_name);
    CHECK_FALSE(is_guess(none.fault));
}

TEST_CASE("authenticator: a gateway's certificate is not that of the client it asks about") {
    const ClientCertificate certificate = with_uris({"spiffe://example.org/a"});
    const UserMethod method{"", kSpiffe};
    const Peer gateway{parse_ip("192.0.2.1"), true, true};
    CHECK(found(method, &certificate, gateway).result == Result::anonymous);
}

TEST_CASE("authenticator: a certificate names no user of another method's namespace") {
    const std::vector<UserMethod> methods{{"", CertificateMethod{Subject::common_name, ""}},
                                          {"key", HeaderMethod{"x-user", ""}}};
    Authenticator authenticator(methods);
    ClientCertificate certificate;
    certificate.common_names.values = {"key:bob"};
    Authentication authentication;
    authenticator.look({parse_ip("192.0.2.1"), false, false}, &certificate, {}, {}, authentication);
    CHECK(authentication.result == Result::refused);
    CHECK(authentication.fault == CredentialFault::foreign_space);
    CHECK(authentication.user.empty());
}

TEST_CASE("authenticator: of a certificate and a token, the method that is first decides") {
    ClientCertificate certificate;
    certificate.common_names.values = {"alice"};
    const UserMethod by_certificate{"", CertificateMethod{Subject::common_name, ""}};
    const UserMethod by_field{"f", HeaderMethod{"x-user", ""}};
    const http::Fields fields{{http::FieldName::other, "x-user", "bob"}};
    const auto user = [&](const std::vector<UserMethod>& methods) {
        Authenticator authenticator(methods);
        Authentication authentication;
        authenticator.look({parse_ip("192.0.2.1"), true, false}, &certificate, fields, {},
                           authentication);
        return authentication.user;
    };
    CHECK(user({by_certificate, by_field}) == "alice");
    CHECK(user({by_field, by_certificate}) == "f:bob");
}

}  // namespace tidegate::identity::client_certificate_test
