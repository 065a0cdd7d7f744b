// Every published attack on signed tokens, by name.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "identity_tokens.hpp"

namespace tidegate::identity::jwt_attacks_test {
namespace {

// ---- attacks on the algorithm

TEST_CASE("attack: alg none, in every spelling, with and without a signature") {
    for (const std::string_view name :
         {"none", "None", "NONE", "nOnE", "noNe", "none ", "\\u006eone"}) {
        CAPTURE(name);
        const std::string input = test::base64url("{\"alg\":\"" + std::string(name) + "\"}") + "." +
                                  test::base64url(kGood);
        CHECK(fault_of(input) == CredentialFault::malformed);
        CHECK(fault_of(input + ".") == CredentialFault::malformed);
        CHECK(fault_of(input + ".AAAA") == CredentialFault::algorithm);
        CHECK(fault_of(input + "." + test::base64url(secret().sign("HS256", input))) ==
              CredentialFault::algorithm);
    }
}

TEST_CASE("attack: RS to HS confusion, the public key as the secret in every form") {
    for (const std::string& guess :
         {rsa().public_pem(), rsa().public_pem().substr(0, rsa().public_pem().size() - 1),
          rsa().public_der(), rsa().number("n"), rsa().jwk(), test::base64url(rsa().number("n")),
          p256().public_pem(), p256().number("x") + p256().number("y"), std::string()}) {
        const auto forger = SigningKey::secret(guess);
        for (const std::string_view more : {"", R"("kid":"r",)", R"("kid":"e",)"}) {
            const std::string token =
                token_of(forger, "HS256", head_of(JwsAlgorithm::hs256, more), kGood);
            CHECK(fault_of(token) != CredentialFault::none);
            CHECK(fault_of(token, method_of({JwsAlgorithm::rs256})) == CredentialFault::algorithm);
            CHECK(fault_of(token, any_algorithm(), *set_of({rsa().jwk(R"("kid":"r",)")})) !=
                  CredentialFault::none);
        }
    }
    // Named by kid, our RSA key is refused for HS before any signature is looked at.
    CHECK(fault_of(signed_with(JwsAlgorithm::hs256, kGood, R"("kid":"r",)")) ==
          CredentialFault::algorithm);
}

TEST_CASE("attack: an algorithm that is not configured, with our own key") {
    for (const JwsAlgorithm algorithm : kAll) {
        CAPTURE(to_string(algorithm));
        std::vector<JwsAlgorithm> others;
        for (const JwsAlgorithm other : kAll)
            if (other != algorithm) others.push_back(other);
        CHECK(fault_of(signed_with(algorithm), method_of(others)) == CredentialFault::algorithm);
    }
}

TEST_CASE("attack: a key is used for another algorithm than its own") {
    const auto bound = set_of({rsa().jwk(R"("kid":"r","alg":"PS256",)")});
    CHECK(fault_of(signed_with(JwsAlgorithm::ps256, kGood, R"("kid":"r",)"), any_algorithm(),
                   *bound) == CredentialFault::none);
    CHECK(fault_of(signed_with(JwsAlgorithm::rs256, kGood, R"("kid":"r",)"), any_algorithm(),
                   *bound) == CredentialFault::algorithm);
    // A secret that is too short for the hash, however strong it may be.
    const auto brief = SigningKey::secret(std::string(31, 'b'));
    CHECK(fault_of(token_of(brief, "HS256", head_of(JwsAlgorithm::hs256, R"("kid":"b",)"), kGood),
                   any_algorithm(),
                   *set_of({brief.jwk(R"("kid":"b",)")})) == CredentialFault::algorithm);
}

TEST_CASE("attack: the head says one algorithm, the signature is of another") {
    // Hash and padding both matter.
    for (const JwsAlgorithm real : kAll) {
        for (const JwsAlgorithm claimed : kAll) {
            if (real == claimed) continue;
            CAPTURE(to_string(real));
            CAPTURE(to_string(claimed));
            const std::string token =
                token_of(key_for(real), to_string(real), head_of(claimed), kGood);
            CHECK(fault_of(token) == CredentialFault::signature);
        }
    }
}

TEST_CASE("attack: a curve that is not the key's") {
    for (const auto& [kid, algorithm] :
         {std::pair{"f", JwsAlgorithm::es256}, std::pair{"e", JwsAlgorithm::es384},
          std::pair{"e", JwsAlgorithm::es512}}) {
        const std::string more = "\"kid\":\"" + std::string(kid) + "\",";
        CHECK(fault_of(signed_with(algorithm, kGood, more)) == CredentialFault::algorithm);
    }
}

// ---- attacks by the head

TEST_CASE("attack: kid as a path, a query, a command, empty, null, a number, very long") {
    for (const std::string_view kid :
         {R"("../../../../dev/null")", R"("/dev/null")", R"("/proc/sys/kernel/randomize_va_space")",
          R"("file:///etc/passwd")", R"("https://attacker.example/key")", R"("s' OR '1'='1")",
          R"("x' UNION SELECT 'key';--")", R"("s|id")", "\"$(id)\"", R"("s\n")", R"("S")",
          R"("s ")", R"("")", R"("*")", R"("key 1")", R"("%s%n")"}) {
        CAPTURE(kid);
        const std::string more = "\"kid\":" + std::string(kid) + ",";
        CHECK(fault_of(signed_with(JwsAlgorithm::hs256, kGood, more)) ==
              CredentialFault::unknown_key);
        // Signed with the key that such a kid is meant to lead to.
        for (const std::string& guess :
             {std::string(), std::string(1, '\0'), std::string("2"), std::string("key")}) {
            CHECK(fault_of(token_of(SigningKey::secret(guess), "HS256",
                                    head_of(JwsAlgorithm::hs256, more), kGood)) ==
                  CredentialFault::unknown_key);
        }
    }
    for (const std::string& kid : {std::string("null"), std::string("0"), std::string("[\"s\"]"),
                                   std::string("{\"s\":1}"), "\"" + std::string(3000, 's') + "\""})
        CHECK(fault_of(signed_with(JwsAlgorithm::hs256, kGood, "\"kid\":" + kid + ",")) ==
              CredentialFault::malformed);
    CHECK(fault_of(signed_with(JwsAlgorithm::hs256, kGood, R"("kid":"s\u0000",)")) ==
          CredentialFault::unknown_key);
}

TEST_CASE("attack: the token brings its own key (jwk, x5c) or says where it is (jku, x5u)") {
    const auto forger = SigningKey::rsa(2048);
    for (const std::string& more :
         {"\"jwk\":" + forger.jwk() + ",", "\"jwk\":" + forger.jwk(R"("kid":"r",)") + ",",
          std::string(R"("jku":"https://attacker.example/jwks.json",)"),
          std::string(R"("jku":"file:///etc/passwd",)"),
          std::string(R"("x5u":"https://attacker.example/cert.pem",)"),
          "\"x5c\":[\"" + test::base64url(forger.public_der()) + "\"],",
          std::string(R"("x5t":"AAAA","x5t#S256":"AAAA",)")}) {
        for (const std::string_view kid : {"", R"("kid":"r",)"}) {
            CAPTURE(more);
            const std::string head = head_of(JwsAlgorithm::rs256, std::string(kid) + more);
            CHECK(fault_of(token_of(forger, "RS256", head, kGood)) == CredentialFault::signature);
            // With our signature such members change nothing.
            CHECK(fault_of(token_of(rsa(), "RS256", head, kGood)) == CredentialFault::none);
        }
        const std::string unknown = head_of(JwsAlgorithm::rs256, "\"kid\":\"mine\"," + more);
        CHECK(fault_of(token_of(forger, "RS256", unknown, kGood)) == CredentialFault::unknown_key);
    }
}

TEST_CASE("attack: a head that two readers understand in two ways") {
    const auto with_head = [](std::string_view head) {
        return fault_of(token_of(secret(), "HS256", head, kGood));
    };
    CHECK(with_head(R"({"alg":"HS256"})") == CredentialFault::none);
    CHECK(with_head(R"({"alg":"HS256","alg":"none"})") == CredentialFault::not_json);
    CHECK(with_head(R"({"alg":"none","alg":"HS256"})") == CredentialFault::not_json);
    CHECK(with_head(R"({"alg":"HS256","kid":"s","kid":"r"})") == CredentialFault::not_json);
    CHECK(with_head(R"({"alg":"HS256","\u0061lg":"none"})") == CredentialFault::not_json);
    CHECK(with_head(R"({"alg":"HS256"},)") == CredentialFault::not_json);
    CHECK(with_head("\xef\xbb\xbf{\"alg\":\"HS256\"}") == CredentialFault::not_json);
    CHECK(with_head(R"({"alg":"HS256","crit":["exp"]})") == CredentialFault::critical_extension);
    CHECK(with_head(R"({"alg":"HS256","b64":false,"crit":["b64"]})") ==
          CredentialFault::critical_extension);
    CHECK(with_head(R"({"alg":"HS256","zip":"DEF"})") == CredentialFault::critical_extension);
    CHECK(with_head(R"({"alg":"HS256","typ":"logout+jwt"})") == CredentialFault::token_type);
}

// ---- attacks on the signature

TEST_CASE("attack: psychic signatures (CVE-2022-21449) and others of no proper numbers") {
    struct {
        JwsAlgorithm algorithm;
        std::string order;  // of its curve, in hexadecimal
    } const curves[] = {
        {JwsAlgorithm::es256, "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"},
        {JwsAlgorithm::es384,
         "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196ac"
         "cc5"
         "2973"},
        {JwsAlgorithm::es512,
         "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f"
         "966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409"},
    };
    for (const auto& [algorithm, hexadecimal] : curves) {
        CAPTURE(to_string(algorithm));
        std::string order;
        for (std::size_t i = 0; i < hexadecimal.size(); i += 2)
            order += static_cast<char>(std::stoi(hexadecimal.substr(i, 2), nullptr, 16));
        const std::string zero(order.size(), '\0');
        std::string one = zero;
        one.back() = 1;
        const Parts good = parts_of(signed_with(algorithm));
        const std::string real = key_for(algorithm).sign(to_string(algorithm), good.input);
        const std::string r = real.substr(0, order.size());
        const std::string s = real.substr(order.size());
        for (const std::string& signature :
             {zero + zero, zero + one, one + zero, one + one, order + order, order + s, r + order,
              zero + s, r + zero, std::string(2 * order.size(), '\xff'), r + one, s + r}) {
            CHECK(fault_of(good.input + "." + test::base64url(signature)) ==
                  CredentialFault::signature);
        }
        const auto& key = *all_keys().candidates({}, algorithm).keys()[0];
        CHECK(key.order == order);
        CHECK(!key.may_have_signed(zero + s, algorithm));
        CHECK(!key.may_have_signed(r + order, algorithm));
        CHECK(key.may_have_signed(one + one, algorithm));
    }
}

TEST_CASE("attack: signatures that are cut short, padded, extended, empty") {
    for (const JwsAlgorithm algorithm : kAll) {
        CAPTURE(to_string(algorithm));
        const Parts good = parts_of(signed_with(algorithm));
        const std::string real = key_for(algorithm).sign(to_string(algorithm), good.input);
        for (const std::string& signature :
             {real.substr(0, real.size() - 1), real.substr(1), real.substr(0, real.size() / 2),
              real.substr(0, 1), real + '\0', '\0' + real, real + real, real + "x",
              std::string(real.size(), '\0'), std::string(real.size(), '\xff')}) {
            CHECK(fault_of(good.input + "." + test::base64url(signature)) ==
                  CredentialFault::signature);
        }
        CHECK(fault_of(good.input + ".") == CredentialFault::malformed);
        CHECK(fault_of(good.input + "." + good.signature + "=") == CredentialFault::malformed);
    }
}

TEST_CASE("attack: every bit of a signature and of what is signed counts") {
    for (const JwsAlgorithm algorithm : {JwsAlgorithm::hs256, JwsAlgorithm::es256}) {
        const Parts good = parts_of(signed_with(algorithm));
        const std::string real = key_for(algorithm).sign(to_string(algorithm), good.input);
        REQUIRE(fault_of(good.input + "." + test::base64url(real)) == CredentialFault::none);
        for (std::size_t bit = 0; bit < 8 * real.size(); bit += 3) {
            std::string wrong = real;
            wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << bit % 8));
            CHECK(fault_of(good.input + "." + test::base64url(wrong)) ==
                  CredentialFault::signature);
        }
        for (std::size_t at = 0; at < good.input.size(); ++at) {
            std::string wrong = good.input;
            wrong[at] = wrong[at] == 'A' ? 'B' : 'A';
            CHECK(fault_of(wrong + "." + good.signature) != CredentialFault::none);
        }
    }
}

TEST_CASE("attack: an ECDSA signature as DER") {
    const Parts good = parts_of(signed_with(JwsAlgorithm::es256));
    CHECK(fault_of(good.input + "." + test::base64url(p256().sign_as_der("ES256", good.input))) ==
          CredentialFault::signature);
}

TEST_CASE("attack: signature and token of another key, or of another token") {
    CHECK(fault_of(token_of(other_rsa(), "RS256", head_of(JwsAlgorithm::rs256), kGood)) ==
          CredentialFault::signature);
    CHECK(fault_of(token_of(SigningKey::curve("P-256"), "ES256", head_of(JwsAlgorithm::es256),
                            kGood)) == CredentialFault::signature);
    CHECK(fault_of(token_of(SigningKey::secret(std::string(64, 't')), "HS256",
                            head_of(JwsAlgorithm::hs256), kGood)) == CredentialFault::signature);
    const Parts alice = parts_of(signed_with(JwsAlgorithm::hs256));
    const Parts bob =
        parts_of(signed_with(JwsAlgorithm::hs256, R"({"sub":"bob","exp":1700000060})"));
    CHECK(fault_of(bob.input + "." + alice.signature) == CredentialFault::signature);
}

// ---- attacks on form

TEST_CASE("attack: tokens of another form") {
    const std::string token = signed_with(JwsAlgorithm::hs256);
    const Parts parts = parts_of(token);
    for (const std::string& text :
         {token + "=", token + "\n", "\n" + token, token + " ", " " + token, token + ".",
          token + ".e30", token + "." + parts.signature + ".e30",
          parts.input + "\r\n." + parts.signature, parts.input + ".\t" + parts.signature,
          std::string("{\"payload\":\"e30\"}"), std::string("e30.e30.e30.e30.e30"),
          std::string(9000, 'e')}) {
        CAPTURE(text);
        CHECK(fault_of(text) == CredentialFault::malformed);
    }
}

}  // namespace
}  // namespace tidegate::identity::jwt_attacks_test
