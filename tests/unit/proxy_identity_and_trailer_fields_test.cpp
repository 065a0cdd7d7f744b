#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "proxy/identity_and_trailer_fields.hpp"
#include "unit/proxy_world.hpp"

namespace tidegate::proxy::identity_and_trailer_fields_test {

namespace {

IdentityFields fields_of(const std::string& identity) {
    return IdentityFields(*load("upstream: http://127.0.0.1:3000\nidentity: {" + identity + "}\n"));
}

TEST_CASE("identity_fields: fields that could name a user are recognised in every spelling") {
    const IdentityFields fields = fields_of(
        "client_ip: {trusted_proxies: [10.0.0.0/8]},"
        "user: [{header: {name: x-user-id, tier_header: x-plan}}, {header: {name: x-consumer, "
        "namespace: c}}], forward_as: {user: x-auth-user}");
    for (const char* name : {"x-user-id", "X-USER-ID", "X_User_Id", "x_user-id", "X-Consumer",
                             "X-Plan", "x_plan", "X-Auth-User", "X_AUTH-USER", "x.auth.user"})
        CHECK_MESSAGE(fields.include(name), name);
    for (const char* name : {"x-user", "x-user-id2", "xuserid", "", "host", "cf-connecting-ip"})
        CHECK_MESSAGE(!fields.include(name), name);
    CHECK_FALSE(fields_of("").include("x-user-id"));
}

TEST_CASE("identity_fields: the single-address field is one only when it is the one configured") {
    CHECK(fields_of("client_ip: {trusted_proxies: 10.0.0.1, header: cf-connecting-ip}")
              .include("CF_Connecting_IP"));
    CHECK_FALSE(fields_of("client_ip: {trusted_proxies: 10.0.0.1}").include("cf-connecting-ip"));
}

TEST_CASE("identity_fields: a trusted peer is believed in one spelling, and never in ours") {
    const IdentityFields fields = fields_of(
        "client_ip: {trusted_proxies: [10.0.0.0/8]}, user: [{header: {name: x-user-id}}],"
        "forward_as: {user: x-user-id, client_ip: x-client}");
    CHECK_FALSE(fields.is_believed("x-user-id"));
    CHECK_FALSE(fields.is_believed("x-client"));
    const IdentityFields other = fields_of(
        "client_ip: {trusted_proxies: [10.0.0.0/8]}, user: [{header: {name: x-user-id}}]");
    CHECK(other.is_believed("X-User-Id"));
    CHECK_FALSE(other.is_believed("X_User_Id"));
}

ClientCertificate alice() {
    ClientCertificate certificate;
    certificate.sha256 = "0a1b";
    certificate.subject = "CN=alice,O=Acme";
    certificate.uris.values = {"spiffe://example.org/b", "spiffe://example.org/a"};
    certificate.dns_names.values = {"b.example", "a.example"};
    certificate.emails.values = {"alice@example.org"};
    return certificate;
}

std::string line_of(const ClientCertificate& certificate) {
    std::string out;
    append_client_certificate(certificate, out);
    return out;
}

const std::string kLine =
    "X-Forwarded-Client-Cert: Hash=0a1b;Subject=\"CN=alice,O=Acme\";URI=spiffe://example.org/b;"
    "URI=spiffe://example.org/a;DNS=b.example;DNS=a.example\r\n";

// The head that the upstream gets of a request with one field that claims a certificate. The
// setting needs no listener here.
std::string forwarded(bool is_on, const ClientCertificate* certificate, const std::string& field,
                      bool trusted) {
    World world;
    std::const_pointer_cast<config::Config>(world.generation->config)
        ->forwarding.client_certificate = is_on;
    Request asked(world, get(field + ": Hash=forged\r\n"), trusted);
    asked.exchange.facts.certificate = certificate;
    return asked.forwarded();
}

}  // namespace

TEST_CASE("client_certificate_field: it has the digest, the subject, and every URI and DNS name") {
    CHECK(line_of(alice()) == kLine);
}

TEST_CASE("client_certificate_field: a certificate without names has an empty subject") {
    ClientCertificate certificate;
    certificate.sha256 = "0a";
    CHECK(line_of(certificate) == "X-Forwarded-Client-Cert: Hash=0a;Subject=\"\"\r\n");
}

TEST_CASE("client_certificate_field: a value with a separator is quoted") {
    ClientCertificate certificate;
    certificate.sha256 = "0a";
    certificate.uris.values = {"x:a,b", "x:?c=d", "x:e;URI", "x:plain"};
    certificate.dns_names.values = {"a=b"};
    CHECK(line_of(certificate) ==
          "X-Forwarded-Client-Cert: Hash=0a;Subject=\"\";URI=\"x:a,b\";URI=\"x:?c=d\";"
          "URI=\"x:e;URI\";URI=x:plain;DNS=\"a=b\"\r\n");
}

TEST_CASE("client_certificate_field: only the proxy's own field reaches the upstream") {
    const ClientCertificate certificate = alice();
    for (const std::string field : {"X-Forwarded-Client-Cert", "x-forwarded-client-cert",
                                    "X_Forwarded_Client_Cert", "X-Forwarded.Client-Cert"}) {
        for (const bool trusted : {false, true}) {
            CAPTURE(field);
            const std::string on = forwarded(true, &certificate, field, trusted);
            CHECK(has(on, kLine));
            CHECK_FALSE(has(on, "forged"));
            CHECK_FALSE(has(forwarded(false, &certificate, field, trusted), "Hash="));
            CHECK_FALSE(has(forwarded(true, nullptr, field, trusted), "Hash="));
            CHECK_FALSE(has(forwarded(false, nullptr, field, trusted), "Hash="));
        }
    }
}

}  // namespace tidegate::proxy::identity_and_trailer_fields_test
