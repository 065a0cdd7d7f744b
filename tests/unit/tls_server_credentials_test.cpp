#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "unit/tls_server_world.hpp"

namespace tidegate::tls_server_credentials_test {

namespace {

using test::Authority;
using test::KeyKind;
using test::shown;
using Shown = std::vector<ServerCertificate>;

TlsServerSettings settings_of(Shown certificates) {
    TlsServerSettings settings;
    settings.certificates = std::move(certificates);
    return settings;
}

std::string fault_of(const TlsServerSettings& settings) {
    const auto parsed = parse_credentials(settings);
    return parsed ? "" : parsed.error();
}

std::string fault_of(Shown certificates) {
    return fault_of(settings_of(std::move(certificates)));
}

}  // namespace

TEST_CASE("server credentials: files that hold the wrong thing are named") {
    const Authority authority;
    const auto made = authority.issue("DNS:a.example");
    const auto other = authority.issue("DNS:a.example");
    CHECK(fault_of(Shown{}) == "a listener with `tls` needs a certificate");
    CHECK(fault_of(Shown{{"", made.key_pem(), {}, "a.pem"}}) ==
          "the file `a.pem` holds no certificate (PEM: `-----BEGIN CERTIFICATE-----`)");
    CHECK(fault_of(Shown{{made.pem(), made.pem(), {}, "a.pem"}}) ==
          "the file of the key for `a.pem` holds no private key (PEM: `-----BEGIN PRIVATE "
          "KEY-----`)");
    CHECK(fault_of(Shown{{made.pem(), other.key_pem(), {}, "a.pem"}}) ==
          "the key for `a.pem` does not belong to the certificate (the first one in the file)");
    CHECK(fault_of(Shown{{authority.pem() + made.pem(), made.key_pem(), {}, "a.pem"}}) ==
          "the key for `a.pem` does not belong to the certificate (the first one in the file)");
}

TEST_CASE("server credentials: keys that are too weak, or not for TLS, are refused") {
    const Authority authority;
    const auto with = [&](KeyKind kind) {
        return fault_of(Shown{shown("a.pem", authority.issue(kind, "DNS:a.example"))});
    };
    CHECK(with(KeyKind::short_rsa) ==
          "the key for `a.pem` has only 1024 bits: RSA needs at least 2048");
    CHECK(with(KeyKind::secp256k1) ==
          "the key for `a.pem` has a curve that TLS does not have: make a key of P-256");
    for (const KeyKind kind : {KeyKind::p256, KeyKind::p384, KeyKind::rsa, KeyKind::ed25519}) {
        CHECK(with(kind).empty());
    }
}

TEST_CASE("server credentials: two certificates for a name need keys of two types") {
    const Authority authority;
    const auto ec = authority.issue(KeyKind::p256, "DNS:a.example,DNS:b.example");
    const auto rsa = authority.issue(KeyKind::rsa, "DNS:a.example,DNS:b.example");
    const auto ec_too = authority.issue(KeyKind::p384, "DNS:c.example,DNS:B.example");
    const auto wildcard = authority.issue(KeyKind::p256, "DNS:*.example,DNS:*.a.example");
    CHECK(fault_of(Shown{shown("ec.pem", ec), shown("rsa.pem", rsa), shown("w.pem", wildcard)})
              .empty());
    CHECK(fault_of(Shown{shown("ec.pem", ec), shown("rsa.pem", rsa), shown("too.pem", ec_too)}) ==
          "two certificates for `b.example` have keys of one type (ECDSA): those in `ec.pem` and "
          "`too.pem`");
    CHECK(fault_of(Shown{shown("w.pem", wildcard), shown("ec.pem", ec, {"*.A.example"})}) ==
          "two certificates for `*.a.example` have keys of one type (ECDSA): those in `w.pem` and "
          "`ec.pem`");
    // Two findings about one certificate are reported once.
    CHECK(fault_of(Shown{shown("ec.pem", ec, {"a.example", "x.example", "X.example."})}).empty());
}

TEST_CASE("server credentials: a certificate that no client can ask for is refused") {
    const Authority authority;
    const auto named = authority.issue("DNS:a.example");
    const auto nameless = authority.issue("");
    const std::string fault =
        "the certificate in `n.pem` has no subject alternative name, so that no client can ask for "
        "it: give it `names`";
    CHECK(fault_of(Shown{shown("a.pem", named), shown("n.pem", nameless)}) == fault);
    CHECK(fault_of(Shown{shown("a.pem", named), shown("n.pem", nameless, {"b.example"})}).empty());
    auto first = settings_of({shown("n.pem", nameless)});
    CHECK(fault_of(first).empty());
    first.unknown_names = UnknownNames::refuse;
    CHECK(fault_of(first) == fault);
    CHECK(fault_of(Shown{shown("a.pem", named, {"b c"})}) ==
          "`b c`, a name for `a.pem`, is no host name");
}

TEST_CASE("server credentials: at most 10,000 names in all") {
    const Authority authority;
    std::vector<std::string> names;
    for (std::size_t i = 1; i < TlsServerSettings::kNamesMax; ++i) {
        names.push_back("n" + std::to_string(i) + ".example");
    }
    const auto made = authority.issue("DNS:a.example");
    CHECK(fault_of(Shown{shown("a.pem", made, names)}).empty());
    const auto other = authority.issue("DNS:b.example");
    CHECK(fault_of(Shown{shown("a.pem", made, names), shown("b.pem", other)}) ==
          "the certificates have more than 10000 names in all: spread them over several listeners");
}

TEST_CASE("server credentials: ticket keys have 80 bytes, and there are at most 4") {
    const Authority authority;
    auto settings = settings_of({shown("a.pem", authority.issue("DNS:a.example"))});
    settings.ticket_keys = {std::string(80, 'x'), std::string(48, 'x')};
    CHECK(fault_of(settings) == "a key of `ticket_keys` has 48 bytes: it needs 80");
    settings.ticket_keys.assign(5, std::string(80, 'x'));
    CHECK(fault_of(settings) == "`ticket_keys` has 5 keys: at most 4 are allowed");
    settings.ticket_keys.pop_back();
    CHECK(fault_of(settings).empty());
}

TEST_CASE("server credentials: the files, names and types that they hold can be shown") {
    const Authority authority;
    const auto credentials = test::credentials_of(
        settings_of({shown("a.pem", authority.issue(KeyKind::rsa, "DNS:A.example"), {"*.b."}),
                     shown("c.pem", authority.issue("DNS:c.example"))}));
    REQUIRE(credentials->pairs().size() == 2);
    const auto& first = credentials->pairs().front();
    CHECK(first.file == "a.pem");
    CHECK(first.names == std::vector<std::string>{"a.example", "*.b"});
    CHECK(name_of(first.type) == "RSA");
    CHECK(name_of(credentials->pairs().back().type) == "ECDSA");
}

}  // namespace tidegate::tls_server_credentials_test
