// JSON Web Tokens: only tokens that we signed are accepted, however their bytes are changed, and an
// accepted token names a safe user. And sets of keys: whatever is in them, none is read past its
// rules.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "identity/identifier.hpp"
#include "identity/jwt.hpp"
#include "token_maker.hpp"

namespace {

using namespace tidegate::identity;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds(1'700'000'000)};

// RFC 7515 appendix A.1 to A.3 and RFC 8037 appendix A.1: keys of each kind, the same claims,
// expired in 2011.
constexpr std::string_view kKeys =
    R"({"keys":[{"kty":"oct","kid":"s","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"},)"
    R"({"kty":"RSA","kid":"r","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"},)"
    R"({"kty":"EC","kid":"e","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},)"
    R"({"kty":"OKP","kid":"o","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})";
constexpr std::string_view kClaims =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlf"
    "Q";
constexpr std::chrono::system_clock::time_point kThen{std::chrono::seconds(1'300'819'000)};

const std::vector<std::string>& signed_tokens() {
    const std::string claims(kClaims);
    static const std::vector<std::string> tokens{
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + claims +
            ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        "eyJhbGciOiJSUzI1NiJ9." + claims +
            ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
            "O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIAR"
            "NPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvh"
            "J1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
        "eyJhbGciOiJFUzI1NiJ9." + claims +
            ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1"
            "Q",
        "eyJhbGciOiJFZERTQSJ9." + claims +
            "._vSpFAYzQd76KTga_fKXdhrh3C0FWu4LvjqsxWd4NRyBOrKTdBeh_"
            "PkyRQtFmRgGKgdW5upgieZM67Gbz4AtAA"};
    return tokens;
}

std::shared_ptr<const JwkSet> parsed(std::string_view json, JwkSet::Origin origin) {
    const auto set = JwkSet::parse(json, origin);
    return set ? *set : nullptr;
}

const JwkSet& our_keys() {
    static const auto set = parsed(kKeys, JwkSet::Origin::file);
    FUZZ_CHECK(set && set->size() == 4);
    return *set;
}

JwtMethod method_for(std::string_view claim) {
    JwtMethod method;
    method.algorithms = {JwsAlgorithm::hs256, JwsAlgorithm::hs384, JwsAlgorithm::hs512,
                         JwsAlgorithm::rs256, JwsAlgorithm::ps256, JwsAlgorithm::es256,
                         JwsAlgorithm::eddsa};
    method.claim = claim;
    return method;
}

bool is_ours(std::string_view token) {
    for (const std::string& known : signed_tokens())
        if (token == known) return true;
    return false;
}

// All that a client without a key can make: only our four are accepted. (A client that knows a
// signature on a curve can make the other one of the same message, but not by accident.)
void check_token(std::string_view token) {
    static const JwtMethod method = method_for("iss");
    const TokenVerdict verdict = verify_token(token, method, &our_keys(), kThen);
    FUZZ_CHECK((verdict.fault == CredentialFault::none) == is_ours(token));
    FUZZ_CHECK(verdict.claims.user == (verdict.fault == CredentialFault::none ? "joe" : ""));
    FUZZ_CHECK(!verdict.keys_missing || verdict.fault == CredentialFault::unknown_key);
    if (token.size() > kTokenBytesMax) FUZZ_CHECK(verdict.fault == CredentialFault::malformed);
}

// Replaces a byte, cuts, or puts in what follows, as the first bytes say.
void check_changed(std::string_view data) {
    if (data.size() < 4) return;
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(data[i]); };
    std::string token = signed_tokens()[byte(0) % 4];
    const std::size_t at = (byte(1) * 256U + byte(2)) % token.size();
    const std::string_view rest = data.substr(3);
    switch (byte(0) / 4 % 3) {
        case 0:
            token.replace(at, rest.size(), rest);
            break;
        case 1:
            token.insert(at, rest);
            break;
        default:
            token.erase(at, rest.size());
            break;
    }
    check_token(token);
}

// Anything as head or claims of a token that is signed with our key.
void check_signed(std::string_view text) {
    static const auto key = tidegate::test::SigningKey::secret(std::string(32, 'k'));
    static const auto keys =
        parsed("{\"keys\":[" + key.jwk(R"("kid":"k",)") + "]}", JwkSet::Origin::file);
    static const JwtMethod method = [] {
        JwtMethod made = method_for("sub");
        made.tier_claim = "plan";
        made.known_tiers = {"pro"};
        made.claims = {"tenant", "exp"};
        return made;
    }();
    const auto with_claims =
        verify_token(token_of(key, "HS256", R"({"alg":"HS256"})", text), method, keys.get(), kNow);
    if (with_claims.fault == CredentialFault::none) {
        FUZZ_CHECK(is_safe_user(with_claims.claims.user));
        FUZZ_CHECK(with_claims.claims.tier.empty() || is_tier_name(with_claims.claims.tier));
        FUZZ_CHECK(with_claims.claims.expires + method.leeway > kNow);
        const auto& counted = with_claims.claims.counted;
        FUZZ_CHECK(counted.size() == method.claims.size());
        FUZZ_CHECK(!counted[1].empty());
        const std::string packed = pack_claims(method.claims, counted, "");
        FUZZ_CHECK(claim_identifier(packed, 1).starts_with("claim:exp="));
        FUZZ_CHECK(claim_identifier(packed, 0).empty() == counted[0].empty());
    }
    const auto with_head =
        verify_token(token_of(key, "HS256", text, R"({"sub":"alice","exp":1800000000})"), method,
                     keys.get(), kNow);
    if (with_head.fault == CredentialFault::none) {
        FUZZ_CHECK(with_head.claims.user == "alice");
        FUZZ_CHECK(text.find("HS256") != text.npos || text.find("\\u") != text.npos);
    }
}

// Anything as keys.
void check_keys(std::string_view text) {
    const auto fetched = parsed(text, JwkSet::Origin::fetched);
    const auto file = parsed(text, JwkSet::Origin::file);
    if (file) FUZZ_CHECK(file->size() > 0 && fetched && *file == *fetched);
    if (!fetched) return;
    FUZZ_CHECK(fetched->size() <= kJwkSetKeysMax);
    static const JwtMethod method = method_for("iss");
    for (const std::string& token : signed_tokens())
        FUZZ_CHECK(verify_token(token, method, fetched.get(), kNow).fault != CredentialFault::none);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check_token(text);
    check_changed(text);
    check_signed(text);
    check_keys(text);
    return 0;
}
