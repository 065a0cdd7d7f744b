// Vectors of RFC 7515 appendix A (whose A.1 is the example of RFC 7519 section 3.1) and RFC 7520
// section 4.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/err.h>

#include "identity/jwk.hpp"
#include "identity/jwt.hpp"
#include "token_maker.hpp"

namespace tidegate::identity::jws_test {
namespace {

// Of A.1 to A.3.
constexpr std::string_view kJoe =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
    "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
constexpr std::string_view kJoeText =
    "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";

// Of RFC 7520.
constexpr std::string_view kFrodo =
    "SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250"
    "byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hl"
    "cmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4";

constexpr std::string_view kBilbo = "bilbo.baggins@hobbiton.example";

struct Example {
    std::string_view name;
    std::string_view key;
    JwsAlgorithm algorithm;
    std::string_view kid;  // empty: none
    std::string_view head;
    std::string_view payload;
    std::string_view signature;
};

const Example kExamples[] = {
    {"RFC 7515 A.1",
     R"({"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"})",
     JwsAlgorithm::hs256, "", "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9", kJoe,
     "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"},
    {"RFC 7515 A.2",
     R"({"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"})",
     JwsAlgorithm::rs256, "", "eyJhbGciOiJSUzI1NiJ9", kJoe,
     "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5"
     "jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb"
     "1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QO"
     "YEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"},
    {"RFC 7515 A.3",
     R"({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})",
     JwsAlgorithm::es256, "", "eyJhbGciOiJFUzI1NiJ9", kJoe,
     "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
    {"RFC 7515 A.4",
     R"({"kty":"EC","crv":"P-521","x":"AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk","y":"ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2"})",
     JwsAlgorithm::es512, "", "eyJhbGciOiJFUzUxMiJ9", "UGF5bG9hZA",
     "AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8G"
     "aSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn"},
    {"RFC 7520 4.2",
     R"({"kty":"RSA","kid":"bilbo.baggins@hobbiton.example","use":"sig","n":"n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw","e":"AQAB"})",
     JwsAlgorithm::ps384, kBilbo,
     "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9", kFrodo,
     "cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TT"
     "B5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrY"
     "RXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtf"
     "a64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw"},
    {"RFC 7520 4.3",
     R"({"kty":"EC","kid":"bilbo.baggins@hobbiton.example","use":"sig","crv":"P-521","x":"AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl_oJXu9A5RkTKqjqvjyekWF-7ytDyRXYgCF5cj0Kt","y":"AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kfmC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1"})",
     JwsAlgorithm::es512, kBilbo,
     "eyJhbGciOiJFUzUxMiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9", kFrodo,
     "AE_R_YZCChjn4791jSQCrdPZCNYqHXCTZH0-JZGYNlaAjP2kqaluUIIUnC9qvbu9Plon7KRTzoNEuT4Va2cmL1eJAQy3"
     "mtPBu_u_sDDyYjnAMDxXPn7XrT0lw-kvAD890jl8e2puQens_IEKBpHABlsbEPX6sFY8OcGDqoRuBomu9xQ2"},
    {"RFC 8037 A.4",
     R"({"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})",
     JwsAlgorithm::eddsa, "", "eyJhbGciOiJFZERTQSJ9", "RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
     "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"},
};

std::shared_ptr<const JwkSet> set_of(std::string_view key) {
    const auto set = JwkSet::parse("{\"keys\":[" + std::string(key) + "]}", JwkSet::Origin::file);
    if (!set) FAIL(set.error());
    return *set;
}

std::string joined(std::string_view head, std::string_view payload, std::string_view signature) {
    return std::string(head).append(".").append(payload).append(".").append(signature);
}

bool is_signed(const std::string& token, const JwkSet& set) {
    Jws jws;
    if (read_jws(token, jws) != CredentialFault::none) return false;
    return is_signed_by(jws, set.candidates(jws.kid, jws.algorithm).keys());
}

CredentialFault fault_of_head(std::string_view head) {
    const std::string token = joined(test::base64url(head), "e30", "AAAA");
    Jws jws;
    return read_jws(token, jws);
}

TEST_CASE("JWS: the examples of RFC 7515 and RFC 7520 are read and verified") {
    for (const Example& example : kExamples) {
        CAPTURE(example.name);
        const std::string token = joined(example.head, example.payload, example.signature);
        Jws jws;
        REQUIRE(read_jws(token, jws) == CredentialFault::none);
        CHECK(jws.algorithm == example.algorithm);
        CHECK(jws.kid.value_or("") == example.kid);
        CHECK(test::base64url(jws.payload) == example.payload);
        CHECK(is_signed(token, *set_of(example.key)));
    }
    Jws jws;
    const std::string token = joined(kExamples[0].head, kJoe, kExamples[0].signature);
    CHECK(read_jws(token, jws) == CredentialFault::none);
    CHECK(jws.payload == kJoeText);
}

TEST_CASE("JWS: a changed head, payload or signature of the examples is not verified") {
    for (const Example& example : kExamples) {
        CAPTURE(example.name);
        const auto set = set_of(example.key);
        const auto changed = [](std::string_view part, std::size_t at) {
            std::string text(part);
            text[at] = text[at] == 'A' ? 'B' : 'A';
            return text;
        };
        CHECK(
            !is_signed(joined(example.head, changed(example.payload, 3), example.signature), *set));
        for (const std::size_t at : {std::size_t{0}, example.signature.size() / 2}) {
            CHECK(!is_signed(joined(example.head, example.payload, changed(example.signature, at)),
                             *set));
        }
        // The same head to a reader of JSON, but not what was signed.
        const std::string head = "eyAi" + std::string(example.head.substr(3));
        CHECK(!is_signed(joined(head, example.payload, example.signature), *set));
    }
}

TEST_CASE("JWS: exactly three parts, none of them empty") {
    const Example& example = kExamples[0];
    const std::string head(example.head);
    const std::string payload(example.payload);
    const std::string signature(example.signature);
    const std::string token = joined(head, payload, signature);
    Jws jws;
    CHECK(read_jws(token, jws) == CredentialFault::none);
    for (const std::string& text :
         {std::string(), std::string("."), std::string(".."), std::string("..."), head,
          head + "." + payload, head + "." + payload + ".", head + ".." + signature,
          "." + payload + "." + signature, token + ".", "." + token, token + ".QUJD",
          // RFC 7516: a JWE has five.
          token + ".QUJD.QUJD", " " + token, token + " ", token + "\n", token + "\r\n",
          "\"" + token + "\"", "Bearer " + token,
          // RFC 7515 section 7.2: the other serialization.
          R"({"payload":")" + payload + R"(","protected":")" + head + R"(","signature":")" +
              signature + "\"}",
          R"([")" + token + "\"]"}) {
        CAPTURE(text);
        CHECK(read_jws(text, jws) == CredentialFault::malformed);
    }
    CHECK(read_jws(token + '\0', jws) == CredentialFault::malformed);
}

TEST_CASE("JWS: every part is strict base64url") {
    const Example& example = kExamples[0];
    Jws jws;
    const auto fault = [&](std::string_view head, std::string_view payload,
                           std::string_view signature) {
        const std::string token = joined(head, payload, signature);
        return read_jws(token, jws);
    };
    const auto spoilt = [](std::string_view part) {
        const std::string text(part);
        return std::vector<std::string>{text + "=",
                                        text + "==",
                                        text + "\n",
                                        text.substr(0, 8) + "\r\n" + text.substr(8),
                                        text.substr(0, 8) + " " + text.substr(8),
                                        text.substr(0, 8) + "+" + text.substr(9),
                                        text.substr(0, 8) + "/" + text.substr(9),
                                        text.substr(0, 8) + "%2D" + text.substr(9),
                                        text.substr(0, 8) + '\0' + text.substr(9)};
    };
    for (const std::string& head : spoilt(example.head))
        CHECK(fault(head, example.payload, example.signature) == CredentialFault::malformed);
    for (const std::string& payload : spoilt(example.payload))
        CHECK(fault(example.head, payload, example.signature) == CredentialFault::malformed);
    for (const std::string& signature : spoilt(example.signature))
        CHECK(fault(example.head, example.payload, signature) == CredentialFault::malformed);
    // The last digit of A.1 has two bits left over: three more spellings of one signature.
    std::string signature(example.signature);
    REQUIRE(signature.back() == 'k');
    for (const char last : {'l', 'm', 'n'}) {
        signature.back() = last;
        CHECK(fault(example.head, example.payload, signature) == CredentialFault::malformed);
    }
}

TEST_CASE("JWS: a token has at most 8 KiB") {
    const auto key = test::SigningKey::secret(std::string(32, 'k'));
    const std::string head = R"({"alg":"HS256"})";
    // 20 for the head, 43 for the signature, 2 dots: 8127 are left, of which 8124 are whole groups.
    const std::string longest = test::token_of(key, "HS256", head, std::string(6095, 'a'));
    Jws jws;
    REQUIRE(longest.size() == kTokenBytesMax);
    CHECK(read_jws(longest, jws) == CredentialFault::none);
    const std::string longer = test::token_of(key, "HS256", head, std::string(6096, 'a'));
    CHECK(read_jws(longer, jws) == CredentialFault::malformed);
}

TEST_CASE("JWS: the head is a strict JSON object") {
    CHECK(fault_of_head(R"({"alg":"RS256"})") == CredentialFault::none);
    for (const std::string_view head :
         {R"("alg")", R"(["alg"])", R"({"alg":"RS256"} x)", R"({"alg":"RS256"}{"alg":"HS256"})",
          "\xef\xbb\xbf{\"alg\":\"RS256\"}", R"({"alg":"RS256","alg":"HS256"})",
          R"({"alg":"none","alg":"RS256"})", R"({"alg":"RS256","\u0061lg":"HS256"})",
          R"({"alg":"RS256","x":{"a":1,"a":2}})", R"({"alg":"RS256","x":"\ud800"})",
          "{\"alg\":\"RS256\",\"x\":\"\xff\"}", R"({"alg":"RS256",})", R"({'alg':'RS256'})"}) {
        CAPTURE(head);
        CHECK(fault_of_head(head) == CredentialFault::not_json);
    }
    CHECK(fault_of_head(R"({"alg":"RS256","x":)" + std::string(20, '[') + std::string(20, ']') +
                        "}") == CredentialFault::not_json);
}

TEST_CASE("JWS: only the algorithms we know, spelt as they are") {
    for (const std::string_view algorithm :
         {"none", "None", "NONE", "nOnE", "none ", "", "HS1", "rs256", "RS256 ", " RS256", "RS",
          "HS256\\n", "ES256K", "Ed25519", "eddsa", "RSA1_5", "dir", "A128KW", "RS256\\u0000"}) {
        CAPTURE(algorithm);
        const auto fault = fault_of_head("{\"alg\":\"" + std::string(algorithm) + "\"}");
        CHECK(fault != CredentialFault::none);
    }
    for (const std::string_view head :
         {R"({})", R"({"alg":null})", R"({"alg":0})", R"({"alg":[]})", R"({"alg":["RS256"]})",
          R"({"alg":{"RS256":1}})", R"({"alg":true})", R"({"Alg":"RS256"})", R"({"alg":"none"})"}) {
        CAPTURE(head);
        CHECK(fault_of_head(head) == CredentialFault::algorithm);
    }
}

TEST_CASE("JWS: any crit is refused, and compression") {
    for (const std::string_view more :
         {R"("crit":["exp"],"exp":1)", R"("crit":[])", R"("crit":null)", R"("crit":"b64")",
          R"("crit":["b64"],"b64":false)", R"("crit":["alg"])", R"("crit":["cty"])",
          R"("zip":"DEF")", R"("zip":null)"}) {
        CAPTURE(more);
        CHECK(fault_of_head("{\"alg\":\"RS256\"," + std::string(more) + "}") ==
              CredentialFault::critical_extension);
    }
}

TEST_CASE("JWS: typ is absent, JWT or at+jwt; other tokens of the same issuer are none of ours") {
    const auto fault = [](std::string_view type) {
        return fault_of_head("{\"alg\":\"RS256\",\"typ\":" + std::string(type) + "}");
    };
    for (const std::string_view type : {R"("JWT")", R"("jwt")", R"("Jwt")", R"("at+jwt")",
                                        R"("application/jwt")", R"("application/at+JWT")"}) {
        CAPTURE(type);
        CHECK(fault(type) == CredentialFault::none);
    }
    for (const std::string_view type :
         {R"("")", R"("JOSE")", R"("JWE")", R"("logout+jwt")", R"("dpop+jwt")", R"("secevent+jwt")",
          R"("token-introspection+jwt")", R"("JWT ")", R"("text/jwt")"}) {
        CAPTURE(type);
        CHECK(fault(type) == CredentialFault::token_type);
    }
    for (const std::string_view type : {"null", "7", R"(["JWT"])"}) {
        CAPTURE(type);
        CHECK(fault(type) == CredentialFault::malformed);
    }
}

TEST_CASE("JWS: a kid is a string of at most 256 bytes") {
    const auto fault = [](std::string_view kid) {
        return fault_of_head("{\"alg\":\"RS256\",\"kid\":" + std::string(kid) + "}");
    };
    CHECK(fault(R"("")") == CredentialFault::none);
    CHECK(fault("\"" + std::string(256, 'k') + "\"") == CredentialFault::none);
    CHECK(fault("\"" + std::string(257, 'k') + "\"") == CredentialFault::malformed);
    CHECK(fault("\"" + std::string(5000, 'k') + "\"") == CredentialFault::malformed);
    for (const std::string_view kid : {"null", "0", "-1", "true", "[]", R"(["a"])", R"({"a":1})"}) {
        CAPTURE(kid);
        CHECK(fault(kid) == CredentialFault::malformed);
    }
}

TEST_CASE("JWS: a refusal leaves nothing in OpenSSL's queue of errors, where TLS would find it") {
    ERR_clear_error();
    for (const Example& example : kExamples) {
        std::string signature(example.signature);
        signature[0] = signature[0] == 'A' ? 'B' : 'A';
        const auto set = set_of(example.key);
        CHECK(!is_signed(joined(example.head, example.payload, signature), *set));
        CHECK(ERR_peek_error() == 0);
    }
    CHECK(!JwkSet::parse(R"({"keys":[{"kty":"EC","crv":"P-256",)"
                         R"("x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",)"
                         R"("y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]})",
                         JwkSet::Origin::file));
    CHECK(ERR_peek_error() == 0);
}

}  // namespace
}  // namespace tidegate::identity::jws_test
