#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "tls/certificate.hpp"

namespace tidegate::tls_certificate_test {

namespace {

using namespace std::chrono_literals;
using test::Authority;
using test::Certificate;

bool says(const std::string& message, const std::string& part) {
    return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("certificate: a file may hold several, with words between them, in their order") {
    const Authority authority;
    const Certificate leaf = authority.issue("DNS:a", {-60, 60});
    const auto chain =
        parse_certificates("subject=/CN=a\n" + leaf.pem() + "\nthe authority:\n" + authority.pem());
    REQUIRE(chain.has_value());
    REQUIRE(chain->size() == 2);
    CHECK(belong_together(*chain->front(), *leaf.key));
    CHECK_FALSE(belong_together(*chain->back(), *leaf.key));
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
    CHECK(belong_together(*made.certificate, **key));
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
    CHECK(valid_from(*made.certificate) < now - 59min);
    CHECK(valid_from(*made.certificate) > now - 61min);
    CHECK(valid_until(*made.certificate) > now + 119min);
    CHECK(valid_until(*made.certificate) < now + 121min);
    // Beyond what the clock can count.
    const Certificate long_lived = authority.issue("DNS:a", {0, 400L * 366 * 86'400});
    CHECK(valid_until(*long_lived.certificate) == std::chrono::system_clock::time_point::max());
}

}  // namespace tidegate::tls_certificate_test
