// Keys of every kind, tokens signed with them, and their texts: for the tests of JSON Web Tokens.
#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "identity/jwt.hpp"
#include "token_maker.hpp"

namespace tidegate::identity {

using test::SigningKey;
using test::token_of;
using Time = std::chrono::system_clock::time_point;

inline constexpr std::int64_t kNowSeconds = 1'700'000'000;
inline constexpr Time kNow{std::chrono::seconds(kNowSeconds)};

inline constexpr std::string_view kGood = R"({"sub":"alice","exp":1700000060})";

inline constexpr JwsAlgorithm kAll[] = {
    JwsAlgorithm::hs256, JwsAlgorithm::hs384, JwsAlgorithm::hs512, JwsAlgorithm::rs256,
    JwsAlgorithm::rs384, JwsAlgorithm::rs512, JwsAlgorithm::ps256, JwsAlgorithm::ps384,
    JwsAlgorithm::ps512, JwsAlgorithm::es256, JwsAlgorithm::es384, JwsAlgorithm::es512,
    JwsAlgorithm::eddsa};

inline const SigningKey& rsa() {
    static const SigningKey key = SigningKey::rsa(2048);
    return key;
}
inline const SigningKey& other_rsa() {
    static const SigningKey key = SigningKey::rsa(2048);
    return key;
}
inline const SigningKey& p256() {
    static const SigningKey key = SigningKey::curve("P-256");
    return key;
}
inline const SigningKey& p384() {
    static const SigningKey key = SigningKey::curve("P-384");
    return key;
}
inline const SigningKey& p521() {
    static const SigningKey key = SigningKey::curve("P-521");
    return key;
}
inline const SigningKey& ed25519() {
    static const SigningKey key = SigningKey::ed25519();
    return key;
}
inline const SigningKey& secret() {
    static const SigningKey key = SigningKey::secret(std::string(64, 's'));
    return key;
}

inline const SigningKey& key_for(JwsAlgorithm algorithm) {
    switch (key_kind_of(algorithm)) {
        case JwkKind::secret:
            return secret();
        case JwkKind::rsa:
            return rsa();
        case JwkKind::p256:
            return p256();
        case JwkKind::p384:
            return p384();
        case JwkKind::p521:
            return p521();
        case JwkKind::ed25519:
            return ed25519();
    }
    return secret();
}

inline std::shared_ptr<const JwkSet> set_of(const std::vector<std::string>& keys) {
    std::string text = "{\"keys\":[";
    for (std::size_t i = 0; i < keys.size(); ++i) text += (i == 0 ? "" : ",") + keys[i];
    const auto set = JwkSet::parse(text + "]}", JwkSet::Origin::fetched);
    if (!set) FAIL(set.error());
    return *set;
}

// A key of each kind.
inline const JwkSet& all_keys() {
    static const auto set = set_of({secret().jwk(R"("kid":"s",)"), rsa().jwk(R"("kid":"r",)"),
                                    p256().jwk(R"("kid":"e",)"), p384().jwk(R"("kid":"f",)"),
                                    p521().jwk(R"("kid":"g",)"), ed25519().jwk(R"("kid":"o",)")});
    return *set;
}

inline JwtMethod method_of(std::vector<JwsAlgorithm> algorithms) {
    JwtMethod method;
    method.algorithms = std::move(algorithms);
    return method;
}

inline const JwtMethod& any_algorithm() {
    static const JwtMethod method = method_of({std::begin(kAll), std::end(kAll)});
    return method;
}

inline std::string head_of(JwsAlgorithm algorithm, std::string_view more = {}) {
    return "{" + std::string(more) + "\"alg\":\"" + std::string(to_string(algorithm)) + "\"}";
}

inline std::string signed_with(JwsAlgorithm algorithm, std::string_view payload = kGood,
                               std::string_view more = {}) {
    return token_of(key_for(algorithm), to_string(algorithm), head_of(algorithm, more), payload);
}

inline TokenVerdict verdict_of(const std::string& token, const JwtMethod& method = any_algorithm(),
                               const JwkSet& keys = all_keys(), Time now = kNow) {
    return verify_token(token, method, &keys, now);
}

inline CredentialFault fault_of(const std::string& token, const JwtMethod& method = any_algorithm(),
                                const JwkSet& keys = all_keys(), Time now = kNow) {
    return verdict_of(token, method, keys, now).fault;
}

// Of a token that is rightly signed.
inline CredentialFault fault_of_claims(std::string_view payload,
                                       const JwtMethod& method = any_algorithm(), Time now = kNow) {
    return fault_of(signed_with(JwsAlgorithm::hs256, payload), method, all_keys(), now);
}

struct Parts {
    std::string input;  // head, dot, payload
    std::string signature;
};

inline Parts parts_of(const std::string& token) {
    const auto dot = token.rfind('.');
    return {token.substr(0, dot), token.substr(dot + 1)};
}

}  // namespace tidegate::identity
