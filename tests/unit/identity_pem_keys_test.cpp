// Keys without a name: PEM files and a shared secret.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/err.h>

#include "identity/jwk.hpp"
#include "identity/jwt.hpp"
#include "unit/identity_tokens.hpp"

namespace tidegate::identity::pem_keys_test {

namespace {

constexpr std::string_view kCertificate = R"(-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIURzofR7MWwafkqh+DKYFqy1pIGigwCgYIKoZIzj0EAwIw
DjEMMAoGA1UEAwwDaWRwMB4XDTI2MTEyODIzNTA1MFoXDTM2MTEyNTIzNTA1MFow
DjEMMAoGA1UEAwwDaWRwMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEWLSY3tnQ
5NhI1jFrITLvT/7zkcbg5jgUPQUfqs+iteRbvsfXlSD/4efmQ/3cvUXVPZ51vjMF
Pa1B4R+n8YPX26NTMFEwHQYDVR0OBBYEFOfnRC6q849KgjABV6HK/3cmGnUiMB8G
A1UdIwQYMBaAFOfnRC6q849KgjABV6HK/3cmGnUiMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSQAwRgIhAIucqsTgMiI5q8gamsD0qmOY6cYxc7UUUYd3lMBw
nO71AiEA/4kB3VKBKTcop514fOuM27M0tNTuirZQ/29R8nYQIo8=
-----END CERTIFICATE-----
)";
constexpr std::string_view kOtherCurve = R"(-----BEGIN PUBLIC KEY-----
MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAERpzl/6Mhk72ae+IiEL13h7GL9pRj7H7O
lA3d5RuVdATVTUoDHG+w2TPqRU9rFY7NTI6BP3MmcAssBVnAMaj/Vw==
-----END PUBLIC KEY-----
)";
constexpr std::string_view kOtherType = R"(-----BEGIN PUBLIC KEY-----
MCowBQYDK2VuAyEAyHsLEvm3kBIdFu4DxZwgSpxEaBg/ESyO/dCjgH8Vl2I=
-----END PUBLIC KEY-----
)";
constexpr std::string_view kShortRsa = R"(-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDXMO3vU5TkMq5QiSoUivN1GfcD
nCHgH3fd4RrM1g/vJhnj69YyHzF5glB9uUD7Pl0NJNgBoXdKQ0AeDxX+GhnXaE/r
20QXkwsZFixyaq3St1DiU6PFpe8SeBQEcasf7oUZl88CPNQ3O9yPFb3y3XxPm9sN
oYngR6iNgq7ssc6lwQIDAQAB
-----END PUBLIC KEY-----
)";
constexpr std::string_view kPkcs1 = R"(-----BEGIN RSA PUBLIC KEY-----
MIIBCgKCAQEA4F2crcxjFItQtrIEvCl7Sj2MYkbdmsX+p1iWt8vuWhAOZ1LUg5qZ
rbDBuWlgRDWzTNqZ4PheOUrAM2oG9/HDVniY7TMCC904N6VCiw00Q0zFrnGgce67
O+bBTBmkMWnssWFePqEISihHb52NJiOgy/p1egwrLXCp8c9vQfaZ/YuacC3kqakf
AoDd9l2Vg243xnLDEX66i3dNL9v6PpZXjRSwGmkzpoJk736VfrcGR03yftCiLahs
xskHa+pP/Mpn5DN+j1pAAheyn3iEb9tzuXlpouF2jxXpnwmyl9aB5KlOS2ujUCtX
Bfi1gvWInQlUaFkEGtozqhUpdNz84Uh3qQIDAQAB
-----END RSA PUBLIC KEY-----
)";

std::string fault_of_pem(std::string_view pem) {
    const auto keys = read_pem_keys(pem, "a.pem");
    CHECK(ERR_peek_error() == 0);
    return keys ? std::string() : keys.error();
}

std::shared_ptr<const JwkSet> pem_set(const std::string& pem) {
    const auto keys = read_pem_keys(pem, "a.pem");
    if (!keys) FAIL(keys.error());
    const auto set = JwkSet::of_public_keys(*keys);
    if (!set) FAIL(set.error());
    return *set;
}

bool says_pem(const std::string& text, std::string_view part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("PEM: keys of every kind check tokens as those of a key set do, whatever their kid") {
    const auto set = pem_set("# keys of 2026\n" + rsa().public_pem() + p256().public_pem() + "\n" +
                             p384().public_pem() + p521().public_pem() + ed25519().public_pem());
    CHECK(set->size() == 5);
    for (const JwsAlgorithm algorithm : kAll) {
        CAPTURE(to_string(algorithm));
        const auto expected = key_kind_of(algorithm) == JwkKind::secret
                                  ? CredentialFault::unknown_key
                                  : CredentialFault::none;
        CHECK(fault_of(signed_with(algorithm), any_algorithm(), *set) == expected);
        CHECK(fault_of(signed_with(algorithm, kGood, R"("kid":"2026-a",)"), any_algorithm(),
                       *set) == expected);
    }
    CHECK(fault_of(token_of(other_rsa(), "RS256", head_of(JwsAlgorithm::rs256), kGood),
                   any_algorithm(), *set) == CredentialFault::signature);
}

TEST_CASE("PEM: of several keys of one kind, each that fits is tried") {
    const auto set = pem_set(other_rsa().public_pem() + rsa().public_pem());
    CHECK(fault_of(signed_with(JwsAlgorithm::rs256), any_algorithm(), *set) ==
          CredentialFault::none);
    CHECK(fault_of(token_of(other_rsa(), "PS256", head_of(JwsAlgorithm::ps256), kGood),
                   any_algorithm(), *set) == CredentialFault::none);
}

TEST_CASE("PEM: the form that is for RSA alone is read") {
    CHECK(pem_set(std::string(kPkcs1))->keys().front().to_string() == "RSA 2048 bits");
}

TEST_CASE("PEM: a key says its type and size") {
    const auto set = pem_set(rsa().public_pem() + p256().public_pem() + p384().public_pem() +
                             p521().public_pem() + ed25519().public_pem());
    std::vector<std::string> types;
    for (const Jwk& key : set->keys()) types.push_back(key.to_string());
    CHECK(types ==
          std::vector<std::string>{"RSA 2048 bits", "EC P-256", "EC P-384", "EC P-521", "Ed25519"});
    CHECK(JwkSet::of_secret("0123456789")->keys().front().to_string() == "a secret of 10 bytes");
}

TEST_CASE("PEM: what is no public key is named, with the command that makes one") {
    const std::string key = rsa().private_pem();
    CHECK(says_pem(fault_of_pem(key), "it is a private key (`PRIVATE KEY`)"));
    CHECK(says_pem(fault_of_pem(key), "`openssl pkey -in a.pem -pubout -out public.pem`"));
    CHECK_FALSE(says_pem(fault_of_pem(key), key.substr(60, 40)));
    for (const char* label : {"RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY",
                              "OPENSSH PRIVATE KEY", "DSA PRIVATE KEY"}) {
        const std::string pem =
            "-----BEGIN " + std::string(label) + "-----\nAAAA\n-----END " + label + "-----\n";
        CHECK(says_pem(fault_of_pem(pem), "it is a private key (`" + std::string(label) + "`)"));
    }
    CHECK(says_pem(fault_of_pem(kCertificate),
                   "it is a certificate, not a public key: `openssl "
                   "x509 -in a.pem -pubkey -noout > public.pem`"));
    CHECK(says_pem(fault_of_pem(p256().public_pem() + std::string(kCertificate)),
                   "block 2 is a certificate"));
    CHECK(says_pem(fault_of_pem("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"),
                   "it is `X509 CRL`, which is no public key"));
    CHECK(says_pem(fault_of_pem(kOtherCurve), "it is an EC key of the curve `secp256k1`"));
    CHECK(says_pem(fault_of_pem(kOtherType), "it is a key of the type `X25519`"));
    CHECK(says_pem(fault_of_pem("{\"keys\":[]}"),
                   "it is JSON, not PEM: for a key set, write `jwks`"));
    CHECK(says_pem(fault_of_pem("ssh-rsa AAAA alice\n"), "`ssh-keygen -e -m PKCS8 -f a.pem`"));
    CHECK(says_pem(fault_of_pem(""), "it has no public key as PEM"));
    CHECK(says_pem(fault_of_pem(rsa().public_der()), "it has no public key as PEM"));
}

TEST_CASE("PEM: a broken block is named, wherever the break is") {
    const std::string good = p256().public_pem();
    CHECK(says_pem(fault_of_pem(good.substr(0, good.size() - 10)), "its PEM is broken"));
    CHECK(says_pem(fault_of_pem(good.substr(0, 60)), "its PEM is broken"));
    std::string letter = good;
    letter[40] = '!';
    CHECK(says_pem(fault_of_pem(good + letter), "its PEM is broken"));
    CHECK(says_pem(fault_of_pem("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
                   "it is broken: it does not hold what its label says"));
    // Each byte of a key changed: a key or a fault, never a crash.
    for (std::size_t i = 0; i < good.size(); ++i) {
        std::string other = good;
        other[i] = static_cast<char>(other[i] ^ 1);
        const auto keys = read_pem_keys(other, "a.pem");
        if (keys) CHECK_NOTHROW(static_cast<void>(JwkSet::of_public_keys(*keys)));
    }
    CHECK(ERR_peek_error() == 0);
}

TEST_CASE("PEM: a key that is too weak is refused like one of a key set") {
    const auto keys = read_pem_keys(kShortRsa, "a.pem");
    REQUIRE(keys.has_value());
    const auto set = JwkSet::of_public_keys(*keys);
    REQUIRE_FALSE(set.has_value());
    CHECK(says_pem(set.error(), "key 1: an RSA key of 1024 bits; at least 2048 are safe"));
}

TEST_CASE("PEM: more keys than any issuer has are refused") {
    std::string many;
    for (std::size_t i = 0; i <= kJwkSetKeysMax; ++i) many += p256().public_pem();
    CHECK(says_pem(fault_of_pem(many), "more than 100 keys"));
}

TEST_CASE("attack: a public key from PEM is never the secret of HS, in any form") {
    const auto set = pem_set(rsa().public_pem() + p256().public_pem() + ed25519().public_pem());
    for (const SigningKey* key : {&rsa(), &p256(), &ed25519()}) {
        for (const std::string& as_secret :
             {key->public_pem(), key->public_pem() + "\n", key->public_der(), key->jwk()}) {
            for (const JwsAlgorithm algorithm :
                 {JwsAlgorithm::hs256, JwsAlgorithm::hs384, JwsAlgorithm::hs512}) {
                const auto forged = token_of(SigningKey::secret(as_secret), to_string(algorithm),
                                             head_of(algorithm), kGood);
                CHECK(fault_of(forged, any_algorithm(), *set) == CredentialFault::unknown_key);
            }
        }
    }
}

TEST_CASE("secret: it checks the algorithms that it is long enough for, and no others") {
    const std::string bytes(48, 's');
    const auto set = JwkSet::of_secret(bytes);
    const SigningKey key = SigningKey::secret(bytes);
    const auto fault = [&](JwsAlgorithm algorithm, std::string_view more = {}) {
        return fault_of(token_of(key, to_string(algorithm), head_of(algorithm, more), kGood),
                        any_algorithm(), *set);
    };
    CHECK(fault(JwsAlgorithm::hs256) == CredentialFault::none);
    CHECK(fault(JwsAlgorithm::hs256, R"("kid":"any",)") == CredentialFault::none);
    CHECK(fault(JwsAlgorithm::hs384) == CredentialFault::none);
    CHECK(fault(JwsAlgorithm::hs512) == CredentialFault::unknown_key);
    CHECK(fault_of(signed_with(JwsAlgorithm::rs256), any_algorithm(), *set) ==
          CredentialFault::unknown_key);
}

}  // namespace tidegate::identity::pem_keys_test
