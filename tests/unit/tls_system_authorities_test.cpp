#include <stdlib.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tls/system_authorities.hpp"
#include "unit/trusted_authority.hpp"

namespace tidegate::tls_system_authorities_test {

namespace {

using test::Authority;
using test::TrustedAuthority;

std::vector<SharedCertificate> chain_of(const std::string& pem) {
    std::vector<SharedCertificate> chain;
    auto parsed = parse_certificates(pem);
    REQUIRE(parsed.has_value());
    for (CertificatePtr& one : *parsed) chain.emplace_back(std::move(one));
    return chain;
}

}  // namespace

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

}  // namespace tidegate::tls_system_authorities_test
