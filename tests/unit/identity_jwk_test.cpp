#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/base64.hpp"
#include "identity/jwk.hpp"
#include "token_maker.hpp"

namespace tidegate::identity::jwk_test {

namespace {

using Origin = JwkSet::Origin;
using test::SigningKey;

std::string set_of(const std::vector<std::string>& keys) {
    std::string text = "{\"keys\":[";
    for (std::size_t i = 0; i < keys.size(); ++i) text += (i == 0 ? "" : ",") + keys[i];
    return text + "]}";
}

std::shared_ptr<const JwkSet> parsed_text(std::string_view json, Origin origin = Origin::file) {
    const auto set = JwkSet::parse(json, origin);
    if (!set) FAIL(set.error());
    return *set;
}

std::shared_ptr<const JwkSet> parsed(const std::vector<std::string>& keys,
                                     Origin origin = Origin::file) {
    return parsed_text(set_of(keys), origin);
}

std::string fault(std::string_view json, Origin origin = Origin::file) {
    const auto set = JwkSet::parse(json, origin);
    return set ? "" : set.error();
}

std::string fault_of_key(const std::string& key) {
    return fault(set_of({key}));
}

// Why a key is left out of a set that has another one.
std::string left_out(const std::string& key, Origin origin = Origin::file) {
    const auto set = parsed({SigningKey::secret(std::string(32, 'k')).jwk(), key}, origin);
    CHECK(set->size() == 1);
    // Of a fetched set the secret is remarked on, too.
    return set->warnings().empty() ? "" : set->warnings().back();
}

const SigningKey& rsa() {
    static const SigningKey key = SigningKey::rsa(2048);
    return key;
}
const SigningKey& p256() {
    static const SigningKey key = SigningKey::curve("P-256");
    return key;
}
const SigningKey& secret() {
    static const SigningKey key = SigningKey::secret(std::string(32, 's'));
    return key;
}

std::string rsa_jwk(const std::string& modulus, const std::string& exponent) {
    return R"({"kty":"RSA","n":")" + test::base64url(modulus) + R"(","e":")" +
           test::base64url(exponent) + "\"}";
}

std::string curve_jwk(std::string_view curve, const std::string& x, const std::string& y) {
    return R"({"kty":"EC","crv":")" + std::string(curve) + R"(","x":")" + test::base64url(x) +
           R"(","y":")" + test::base64url(y) + "\"}";
}

// RFC 7517 appendix A.1.
constexpr std::string_view kPublicExample = R"({"keys":[
 {"kty":"EC", "crv":"P-256",
  "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
  "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
  "use":"enc", "kid":"1"},
 {"kty":"RSA",
  "n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
  "e":"AQAB", "alg":"RS256", "kid":"2011-04-29"}]})";

// RFC 7517 appendix A.3.
constexpr std::string_view kSecretExample = R"({"keys":[
 {"kty":"oct", "alg":"A128KW", "k":"GawgguFyGrWKav7AX4VKUg"},
 {"kty":"oct",
  "k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
  "kid":"HMAC key used in JWS spec Appendix A.1 example"}]})";

TEST_CASE("JWK set: the examples of RFC 7517, without the keys that are for encryption") {
    const auto set = parsed_text(kPublicExample);
    CHECK(set->size() == 1);
    CHECK(set->candidates("2011-04-29", JwsAlgorithm::rs256).keys().size() == 1);
    CHECK(set->warnings() ==
          std::vector<std::string>{"key 1 (kid `1`) is left out: its `use` is `enc`"});

    const auto secrets = parsed_text(kSecretExample);
    CHECK(secrets->size() == 1);
    CHECK(secrets->warnings() ==
          std::vector<std::string>{"key 1 is left out: its `alg` `A128KW` signs no token"});
}

TEST_CASE("JWK set: keys of all kinds") {
    const auto p384 = SigningKey::curve("P-384");
    const auto p521 = SigningKey::curve("P-521");
    const auto set = parsed({rsa().jwk(), p256().jwk(), p384.jwk(), p521.jwk(), secret().jwk(),
                             SigningKey::ed25519().jwk(R"("alg":"EdDSA",)")});
    CHECK(set->size() == 6);
    CHECK(set->warnings().empty());
    for (const JwsAlgorithm algorithm :
         {JwsAlgorithm::rs256, JwsAlgorithm::rs512, JwsAlgorithm::ps384, JwsAlgorithm::es256,
          JwsAlgorithm::es384, JwsAlgorithm::es512, JwsAlgorithm::hs256, JwsAlgorithm::eddsa}) {
        CAPTURE(to_string(algorithm));
        const auto candidates = set->candidates({}, algorithm);
        REQUIRE(candidates.keys().size() == 1);
        CHECK(candidates.keys()[0]->kind == key_kind_of(algorithm));
    }
    // RFC 7518 section 3.2: a secret of 32 bytes is too short for a longer hash.
    CHECK(set->candidates({}, JwsAlgorithm::hs384).keys().empty());
    CHECK(set->candidates({}, JwsAlgorithm::hs512).keys().empty());
}

TEST_CASE("JWK set: a text that is no set is refused") {
    for (const std::string_view text :
         {"", "[]", "{}", R"({"keys":{}})", R"({"keys":null})", R"({"keys":[],"keys":[]})",
          R"({"Keys":[]})", R"({"keys":[]} x)", R"({"kty":"oct","k":"AAAA"})"}) {
        CAPTURE(text);
        CHECK(!fault(text).empty());
        CHECK(!fault(text, Origin::fetched).empty());
    }
    CHECK(fault("{}") == "no `keys`, or no list: `{\"keys\": [...]}`");
}

TEST_CASE("JWK set: a file without any key of use is refused, a fetched set may be empty") {
    CHECK(fault(R"({"keys":[]})") == "no key in it can check a token");
    CHECK(fault(R"({"keys":[{"kty":"OKP","crv":"X25519","x":"AA"}]})") ==
          "no key in it can check a token");
    CHECK(parsed({}, Origin::fetched)->size() == 0);
}

TEST_CASE("JWK set: its text and the number of its keys are bounded") {
    std::vector<std::string> keys;
    for (int i = 0; i < 100; ++i)
        keys.push_back(secret().jwk("\"kid\":\"" + std::to_string(i) + "\","));
    std::string text = set_of(keys);
    CHECK(parsed_text(text)->size() == 100);
    text.resize(kJwkSetBytesMax, ' ');
    CHECK(fault(text).empty());
    text += ' ';
    CHECK(fault(text) == "more than 1 MiB");
    keys.push_back(secret().jwk());
    CHECK(fault(set_of(keys)) == "more than 100 keys: 101");
    CHECK(fault(set_of(keys), Origin::fetched) == "more than 100 keys: 101");
}

TEST_CASE("JWK set: keys that are not for us are left out (RFC 7517 section 5)") {
    CHECK(left_out(R"({"kty":"OKP","crv":"Ed448","x":"AA"})") ==
          "key 2 is left out: the curve `Ed448` is not known");
    CHECK(left_out(R"({"kty":"AKP","alg":"ML-DSA-44"})") ==
          "key 2 is left out: the `kty` `AKP` is not known");
    CHECK(left_out(R"({"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"})") ==
          "key 2 is left out: the curve `secp256k1` is not known");
    CHECK(left_out(p256().jwk(R"("use":"enc",)")) == "key 2 is left out: its `use` is `enc`");
    CHECK(left_out(p256().jwk(R"("key_ops":["sign"],)")) ==
          "key 2 is left out: its `key_ops` do not have `verify`");
    CHECK(left_out(p256().jwk(R"("key_ops":[],)")) ==
          "key 2 is left out: its `key_ops` do not have `verify`");
    CHECK(left_out(rsa().jwk(R"("kid":"e","alg":"RSA-OAEP",)")) ==
          "key 2 (kid `e`) is left out: its `alg` `RSA-OAEP` signs no token");
    CHECK(left_out(rsa().jwk(R"("alg":"none",)")) ==
          "key 2 is left out: its `alg` `none` signs no token");
    // Key types are compared with case (RFC 7517 section 4.1).
    CHECK(left_out(R"({"kty":"rsa","n":"AA","e":"AA"})") ==
          "key 2 is left out: the `kty` `rsa` is not known");
    CHECK(parsed({p256().jwk(R"("use":"sig","key_ops":["sign","verify"],"alg":"ES256",)")})
              ->warnings()
              .empty());
}

TEST_CASE("JWK set: a malformed key is refused in a file and left out of a fetched set") {
    struct {
        std::string key;
        std::string why;
    } const rows[] = {
        {"7", "it is not an object"},
        {"{}", "`kty` is missing or not a string"},
        {R"({"kty":7})", "`kty` is missing or not a string"},
        {R"({"kty":"oct"})", "`k` is not base64url"},
        {R"({"kty":"oct","k":""})", "`k` is not base64url"},
        {R"({"kty":"oct","k":"AAAA="})", "`k` is not base64url"},
        {R"({"kty":"oct","k":"AA+/"})", "`k` is not base64url"},
        {SigningKey::secret(std::string(1025, 'k')).jwk(), "`k` has more than 1024 bytes"},
        {R"({"kty":"RSA","e":"AQAB"})", "`n` is not base64url"},
        {R"({"kty":"RSA","n":"AQAB"})", "`e` is not base64url"},
        {rsa().jwk(R"("kid":7,)"), "`kid` is not a string of at most 256 bytes"},
        {rsa().jwk(R"("kid":null,)"), "`kid` is not a string of at most 256 bytes"},
        {rsa().jwk(R"("use":7,)"), "`use` is not a string"},
        {rsa().jwk(R"("key_ops":"verify",)"), "`key_ops` is not a list"},
        {rsa().jwk(R"("key_ops":[7],)"), "`key_ops` has an entry that is not a string"},
        {rsa().jwk(R"("alg":7,)"), "`alg` is not a string"},
        {rsa().jwk(R"("alg":"ES256",)"), "it cannot be used with its `alg` `ES256`"},
        {rsa().jwk(R"("alg":"HS256",)"), "it cannot be used with its `alg` `HS256`"},
        {p256().jwk(R"("alg":"ES384",)"), "it cannot be used with its `alg` `ES384`"},
        {secret().jwk(R"("alg":"HS512",)"), "it cannot be used with its `alg` `HS512`"},
        {R"({"kty":"EC","x":"AA","y":"AA"})", "`crv` is missing or not a string"},
        {R"({"kty":"OKP","x":"AA"})", "`crv` is missing or not a string"},
        {R"({"kty":"OKP","crv":"Ed25519"})", "`x` is not base64url of 32 bytes"},
        {R"({"kty":"OKP","crv":"Ed25519","x":"AA"})", "`x` is not base64url of 32 bytes"},
        {R"({"kty":"OKP","crv":"Ed25519","x":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"})",
         "`x` is not a point of Ed25519 that can be a key"},
        {SigningKey::ed25519().jwk(R"("alg":"ES256",)"),
         "it cannot be used with its `alg` `ES256`"},
    };
    for (const auto& [key, why] : rows) {
        CAPTURE(key);
        CHECK(fault_of_key(key) == "key 1: " + why);
        CHECK(left_out(key, Origin::fetched) == "key 2 is left out: " + why);
    }
}

TEST_CASE("JWK set: weak and strange RSA keys are refused") {
    CHECK(fault_of_key(SigningKey::rsa(1024).jwk()) ==
          "key 1: an RSA key of 1024 bits; at least 2048 are safe");
    const std::string n = rsa().number("n");
    const std::string e = rsa().number("e");
    CHECK(fault_of_key(rsa_jwk(n, e)).empty());
    // Some issuers write a zero in front.
    CHECK(*parsed({rsa_jwk('\0' + n, '\0' + e)}) == *parsed({rsa_jwk(n, e)}));

    std::string even = n;
    even.back() = static_cast<char>(even.back() & ~1);
    CHECK(fault_of_key(rsa_jwk(even, e)) == "key 1: `n` is even");
    std::string small = n;
    small[0] = '\x7f';
    CHECK(fault_of_key(rsa_jwk(small, e)) ==
          "key 1: an RSA key of 2047 bits; at least 2048 are safe");
    CHECK(fault_of_key(rsa_jwk(std::string(1025, '\xff'), e)) ==
          "key 1: an RSA key of 8200 bits; at most 8192 are taken");
    CHECK(fault_of_key(rsa_jwk(std::string(256, '\0'), e)) ==
          "key 1: an RSA key of 0 bits; at least 2048 are safe");
    for (const std::string& exponent :
         {std::string(1, '\0'), std::string("\x01"), std::string("\x02"),
          std::string("\x01\x00\x00", 3), std::string(9, '\xff')}) {
        CHECK(fault_of_key(rsa_jwk(n, exponent)) ==
              "key 1: `e` is not an odd number from 3 to 2^64 - 1");
    }
    CHECK(fault_of_key(rsa_jwk(n, "\x03")).empty());
}

TEST_CASE("JWK set: a point must lie on its curve, written in full") {
    const std::string x = p256().number("x");
    const std::string y = p256().number("y");
    CHECK(fault_of_key(curve_jwk("P-256", x, y)).empty());
    const std::string not_a_point = "key 1: `x` and `y` are not a point of P-256";
    CHECK(fault_of_key(curve_jwk("P-256", x, x)) == not_a_point);
    CHECK(fault_of_key(curve_jwk("P-256", std::string(32, '\0'), std::string(32, '\0'))) ==
          not_a_point);
    CHECK(fault_of_key(curve_jwk("P-256", std::string(32, '\xff'), y)) == not_a_point);
    const std::string wrong_size = "key 1: `x` and `y` are not base64url of 32 bytes each";
    CHECK(fault_of_key(curve_jwk("P-256", '\0' + x, y)) == wrong_size);
    CHECK(fault_of_key(curve_jwk("P-256", x.substr(1), y)) == wrong_size);
    CHECK(fault_of_key(curve_jwk("P-256", x, "")) == wrong_size);
    CHECK(fault_of_key(curve_jwk("P-384", x, y)) ==
          "key 1: `x` and `y` are not base64url of 48 bytes each");
}

TEST_CASE("JWK set: private parts are warned about and not needed") {
    const auto set = parsed({rsa().jwk(R"("kid":"a","d":"AQ","p":"AQ",)"),
                             p256().jwk(R"("kid":"b","d":"AQ",)"), secret().jwk()});
    CHECK(set->size() == 3);
    CHECK(set->warnings() ==
          std::vector<std::string>{
              "key 1 (kid `a`): it has private parts, which only the issuer should have",
              "key 2 (kid `b`): it has private parts, which only the issuer should have"});
    CHECK(*set ==
          *parsed({rsa().jwk(R"("kid":"a",)"), p256().jwk(R"("kid":"b",)"), secret().jwk()}));
}

TEST_CASE("JWK set: zeros at the end of a secret do not make it long enough") {
    // HMAC with such a key is HMAC with the key without them.
    const auto set = JwkSet::of_secret(std::string(31, 'x') + std::string(64, '\0'));
    CHECK(set->candidates("", JwsAlgorithm::hs256).keys().empty());
    CHECK(JwkSet::of_secret(std::string(40, '\0'))
              ->candidates("", JwsAlgorithm::hs256)
              .keys()
              .empty());
    CHECK(JwkSet::of_secret(std::string(32, 'x') + '\0')
              ->candidates("", JwsAlgorithm::hs256)
              .keys()
              .size() == 1);
}

TEST_CASE("JWK set: a secret that is fetched is warned about") {
    CHECK(parsed({secret().jwk()}, Origin::fetched)->warnings() ==
          std::vector<std::string>{"key 1 is a secret: everyone who can fetch it can sign tokens"});
}

TEST_CASE("JWK set: two keys of one kind cannot share a kid in a file") {
    const auto other = SigningKey::secret(std::string(32, 'o'));
    const std::vector<std::string> twice{secret().jwk(R"("kid":"a",)"), other.jwk(R"("kid":"a",)")};
    CHECK(fault(set_of(twice)) == "key 2 (kid `a`): another key of its kind has the same `kid`");
    const auto fetched = parsed(twice, Origin::fetched);
    CHECK(fetched->candidates("a", JwsAlgorithm::hs256).keys().size() == 2);
    // Key types may repeat (RFC 7517 section 4.5), and so may keys without a name.
    CHECK(parsed({secret().jwk(R"("kid":"a",)"), rsa().jwk(R"("kid":"a",)")})->size() == 2);
    CHECK(parsed({secret().jwk(), other.jwk()})->size() == 2);
}

TEST_CASE("JWK set: no sentence shows a secret") {
    const std::string bytes = "this-is-the-secret";
    const std::string text = test::base64url(bytes);
    const std::string sentences[] = {
        fault(R"({"keys":[{"kty":"oct","k":")" + text + "=\"}]}"),
        fault(R"({"keys":[{"kty":"oct","k":")" + text + "\" \"x\"}]}"),
        fault(R"({"keys":[{"kty":"oct","alg":"HS256","k":")" + text + "\"}]}"),
        fault(R"({"keys":[{"kty":"oct","k":")" + text + R"(","k":")" + text + "\"}]}")};
    for (const std::string& sentence : sentences) {
        CAPTURE(sentence);
        CHECK(!sentence.empty());
        CHECK(sentence.find(text) == sentence.npos);
        CHECK(sentence.find("secret") == sentence.npos);
    }
}

TEST_CASE("JWK set: a kid selects by exact equality, whatever it looks like") {
    const auto set =
        parsed({secret().jwk(R"("kid":"a",)"), rsa().jwk(R"("kid":"",)"), p256().jwk()});
    const auto named = [&](const std::optional<std::string>& kid, JwsAlgorithm algorithm) {
        return set->candidates(kid, algorithm).keys().size();
    };
    CHECK(named("a", JwsAlgorithm::hs256) == 1);
    CHECK(named("", JwsAlgorithm::rs256) == 1);
    CHECK(named("", JwsAlgorithm::es256) == 0);
    CHECK(named({}, JwsAlgorithm::es256) == 1);
    CHECK(named({}, JwsAlgorithm::rs256) == 1);
    for (const std::string kid : {"A", "a ", "./a", "../../dev/null", "a' OR '1'='1", "*", "aa"}) {
        CAPTURE(kid);
        CHECK(named(kid, JwsAlgorithm::hs256) == 0);
        CHECK(!set->candidates(kid, JwsAlgorithm::hs256).kid_is_known());
    }
    CHECK(set->candidates("a", JwsAlgorithm::rs256).kid_is_known());
    CHECK(!set->candidates({}, JwsAlgorithm::hs512).kid_is_known());
}

TEST_CASE("JWK set: a signature has exactly one length for a key and an algorithm") {
    const auto p521 = SigningKey::curve("P-521");
    const auto long_secret = SigningKey::secret(std::string(100, 's'));
    const auto set = parsed({rsa().jwk(), p256().jwk(), p521.jwk(), long_secret.jwk()});
    const std::pair<JwsAlgorithm, std::size_t> rows[] = {
        {JwsAlgorithm::rs256, 256}, {JwsAlgorithm::ps512, 256}, {JwsAlgorithm::es256, 64},
        {JwsAlgorithm::es512, 132}, {JwsAlgorithm::hs256, 32},  {JwsAlgorithm::hs512, 64}};
    for (const auto& [algorithm, bytes] : rows) {
        CAPTURE(to_string(algorithm));
        const Jwk& key = *set->candidates({}, algorithm).keys()[0];
        // Small enough for the order of P-521, which begins so.
        CHECK(key.may_have_signed(std::string(bytes, '\1'), algorithm));
        for (const std::size_t wrong : {std::size_t{0}, bytes - 1, bytes + 1, 2 * bytes})
            CHECK(!key.may_have_signed(std::string(wrong, '\1'), algorithm));
    }
}

TEST_CASE("JWK set: a key's own algorithm binds it") {
    const auto set = parsed({rsa().jwk(R"("alg":"PS256",)")});
    CHECK(set->candidates({}, JwsAlgorithm::ps256).keys().size() == 1);
    CHECK(set->candidates({}, JwsAlgorithm::rs256).keys().empty());
    CHECK(set->candidates({}, JwsAlgorithm::ps384).keys().empty());
}

TEST_CASE("JWK set: no more than four keys are tried for a token") {
    std::vector<std::string> keys;
    for (int i = 0; i < 9; ++i)
        keys.push_back(SigningKey::secret(std::string(32, static_cast<char>('a' + i))).jwk());
    CHECK(parsed(keys)->candidates({}, JwsAlgorithm::hs256).keys().size() == 4);
}

TEST_CASE("JWK set: two sets are equal when they check the same tokens") {
    const auto set = parsed({secret().jwk(R"("kid":"a",)"), p256().jwk()});
    CHECK(*set == *parsed({secret().jwk(R"("use":"sig","kid":"a","x5t":"AA",)"), p256().jwk(),
                           R"({"kty":"AKP"})"}));
    CHECK_FALSE(*set == *parsed({secret().jwk(R"("kid":"b",)"), p256().jwk()}));
    CHECK_FALSE(*set == *parsed({secret().jwk(), p256().jwk()}));
    CHECK_FALSE(*set == *parsed({secret().jwk(R"("kid":"a","alg":"HS256",)"), p256().jwk()}));
    CHECK_FALSE(*set == *parsed({secret().jwk(R"("kid":"a",)")}));
    CHECK_FALSE(*set == *parsed({secret().jwk(R"("kid":"a",)"), SigningKey::curve("P-256").jwk()}));
    CHECK_FALSE(*parsed({secret().jwk(R"("kid":"",)")}) == *parsed({secret().jwk()}));
}

std::string bytes_of(std::string_view hex) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    }
    return bytes;
}

// RFC 8032 section 7.1, test 3.
constexpr const char* kKey = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
constexpr const char* kMessage = "af82";
constexpr const char* kFirstHalf =
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac";
constexpr const char* kSecondHalf =
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";
// The same number and the order of the group together.
constexpr const char* kSecondHalfAndOrder =
    "05d391b0a77904e98404ef037747a56e4a7c15e9716ed28dc027beceea1ec41a";

TEST_CASE("Ed25519: the example of RFC 8032 is right, and nothing else") {
    const PublicKey key = read_ed25519_key(bytes_of(kKey));
    REQUIRE(key != nullptr);
    const std::string message = bytes_of(kMessage);
    const std::string signature = bytes_of(std::string(kFirstHalf) + kSecondHalf);
    CHECK(is_signed_with_ed25519(*key, message, signature));
    CHECK_FALSE(is_signed_with_ed25519(*key, message + "x", signature));
    CHECK_FALSE(is_signed_with_ed25519(*key, message, signature.substr(1)));
    CHECK_FALSE(is_signed_with_ed25519(*key, message, signature + "x"));
    CHECK_FALSE(is_signed_with_ed25519(*key, message, ""));
    for (std::size_t i = 0; i < signature.size(); ++i) {
        std::string changed = signature;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        CHECK_FALSE(is_signed_with_ed25519(*key, message, changed));
    }
}

TEST_CASE("Ed25519: a signature has one form") {
    const PublicKey key = read_ed25519_key(bytes_of(kKey));
    REQUIRE(key != nullptr);
    CHECK_FALSE(is_signed_with_ed25519(*key, bytes_of(kMessage),
                                       bytes_of(std::string(kFirstHalf) + kSecondHalfAndOrder)));
}

TEST_CASE("Ed25519: a malformed key, or one that accepts any signature, is refused") {
    for (const std::string_view hex : {
             // points of small order, with both signs of x
             "0000000000000000000000000000000000000000000000000000000000000000",
             "0000000000000000000000000000000000000000000000000000000000000080",
             "0100000000000000000000000000000000000000000000000000000000000000",
             "0100000000000000000000000000000000000000000000000000000000000080",
             "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
             "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
             "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
             "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
             "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             // y is not below p
             "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
             // no x belongs to y = 2
             "0200000000000000000000000000000000000000000000000000000000000000",
             "",
             "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb9115489080",
             "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb91154890802500",
         }) {
        CAPTURE(hex);
        CHECK(read_ed25519_key(bytes_of(hex)) == nullptr);
    }
    for (int i = 0; i < 50; ++i) {
        CHECK(read_ed25519_key(test::SigningKey::ed25519().number("x")) != nullptr);
    }
}

TEST_CASE("base64url: the example of RFC 7515 appendix C") {
    CHECK(decode_base64url("A-z_4ME") == "\x03\xec\xff\xe0\xc1");
    CHECK(decode_base64url("") == "");
}

TEST_CASE("base64url: whatever was encoded comes back") {
    std::string bytes;
    for (int i = 0; i < 600; ++i) {
        CHECK(decode_base64url(test::base64url(bytes)) == bytes);
        bytes += static_cast<char>(i * 7);
    }
}

TEST_CASE("base64url: padding, other alphabets and other bytes are refused") {
    for (const std::string_view text :
         {"QQ==", "QUI=", "=", "A", "AAAAA", "A+z/4ME", "QUJD\n", " QUJD", "QU JD", "QUJD\r\n",
          "QUJD.", "QU%4D", "QUJ\x80"}) {
        CAPTURE(text);
        CHECK(!decode_base64url(text));
    }
    CHECK(!decode_base64url(std::string_view("QUI\0", 4)));
}

TEST_CASE("base64url: bits left over must be zero, so that nothing has two spellings") {
    CHECK(decode_base64url("QQ") == "A");
    for (const std::string_view text : {"QR", "Qf", "QUJ", "QUJCQj"}) {
        CAPTURE(text);
        CHECK(!decode_base64url(text));
    }
    CHECK(decode_base64url("QUI") == "AB");
}

}  // namespace

}  // namespace tidegate::identity::jwk_test
