#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "tls/certificate.hpp"

namespace tidegate::tls_certificate_names_test {

namespace {

using Names = std::vector<std::string>;
using Number = std::optional<std::size_t>;

}  // namespace

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

}  // namespace tidegate::tls_certificate_names_test
