// The cost of checking a token: one that is remembered, and one that was not seen before, beside
// OpenSSL's cost for its signature alone.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "identity/authenticator.hpp"
#include "identity/jwk.hpp"
#include "identity/jwt.hpp"
#include "identity/key_source.hpp"
#include "token_maker.hpp"

namespace tidegate {
namespace {

using identity::JwkSet;
using identity::JwsAlgorithm;
using test::SigningKey;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds(1'700'000'000)};

// As an identity provider writes it: 700 bytes and more with its signature.
constexpr std::string_view kClaims =
    R"({"iss":"https://idp.example/realms/main","sub":"1b2f8a34-5c0e-4d6b-9b3a-7e1f0d2c4a55",)"
    R"("aud":["api","account"],"exp":1700000300,"iat":1700000000,"nbf":1700000000,)"
    R"("jti":"0c7f6f0e-4f0e-4c73-a6f5-4b6c1c2f9a10","azp":"web","session_state":"f1d2",)"
    R"("scope":"openid email profile","email_verified":true,"name":"Alice Example",)"
    R"("preferred_username":"alice","email":"alice@example.com","plan":"pro",)"
    R"("realm_access":{"roles":["user","offline_access"]}})";

SigningKey key_for(std::string_view algorithm) {
    if (algorithm.starts_with("HS")) return SigningKey::secret(std::string(64, 's'));
    if (algorithm == "ES256") return SigningKey::curve("P-256");
    if (algorithm == "ES512") return SigningKey::curve("P-521");
    return SigningKey::rsa(2048);
}

std::string token_for(const SigningKey& key, std::string_view algorithm) {
    return test::token_of(key, algorithm,
                          "{\"alg\":\"" + std::string(algorithm) +
                              R"(","typ":"JWT","kid":"2026-11-main-signing-key"})",
                          kClaims);
}

identity::JwtMethod method_for(const SigningKey& key, std::string_view algorithm) {
    auto keys =
        JwkSet::parse("{\"keys\":[" + key.jwk(R"("kid":"2026-11-main-signing-key",)") + "]}",
                      JwkSet::Origin::file);
    if (!keys) throw std::runtime_error(keys.error());
    identity::JwtMethod method;
    method.keys = std::make_shared<identity::KeySource>(std::move(*keys));
    method.algorithms = {*identity::parse_jws_algorithm(algorithm)};
    method.issuer = "https://idp.example/realms/main";
    method.audience = {"api"};
    method.tier_claim = "plan";
    return method;
}

// As a request brings it, in a head of twelve fields.
void remembered(benchmark::State& state, std::string_view algorithm) {
    const SigningKey key = key_for(algorithm);
    const std::string value = "Bearer " + token_for(key, algorithm);
    http::Fields fields(11, {http::FieldName::other, "Some-Other-Field", "its value"});
    fields.push_back({http::FieldName::other, "Authorization", value});
    const std::vector<identity::UserMethod> methods{{"", method_for(key, algorithm)}};
    identity::Authenticator authenticator(methods);
    identity::Authentication authentication;
    authenticator.look({}, nullptr, fields, kNow, authentication);
    authenticator.check(authentication, kNow);
    for (auto _ : state) {
        authenticator.look({}, nullptr, fields, kNow, authentication);
        if (authentication.result != identity::Authentication::Result::user)
            throw std::runtime_error("not remembered");
        benchmark::DoNotOptimize(authentication);
    }
    state.counters["token_bytes"] = static_cast<double>(value.size());
}
BENCHMARK_CAPTURE(remembered, ES256, "ES256");
BENCHMARK_CAPTURE(remembered, RS256, "RS256");

void first_sight(benchmark::State& state, std::string_view algorithm) {
    const SigningKey key = key_for(algorithm);
    const std::string token = token_for(key, algorithm);
    const identity::JwtMethod method = method_for(key, algorithm);
    const auto keys = method.keys->keys();
    for (auto _ : state) {
        const auto verdict = identity::verify_token(token, method, keys.get(), kNow);
        if (verdict.fault != identity::CredentialFault::none)
            throw std::runtime_error(std::string(to_string(verdict.fault)));
        benchmark::DoNotOptimize(verdict);
    }
    state.counters["token_bytes"] = static_cast<double>(token.size());
}
BENCHMARK_CAPTURE(first_sight, HS256, "HS256");
BENCHMARK_CAPTURE(first_sight, RS256, "RS256");
BENCHMARK_CAPTURE(first_sight, PS256, "PS256");
BENCHMARK_CAPTURE(first_sight, ES256, "ES256");
BENCHMARK_CAPTURE(first_sight, ES512, "ES512");

// The signature alone, with the key made ready and the signature in the form OpenSSL wants.
void openssl_alone(benchmark::State& state, std::string_view algorithm) {
    const SigningKey key = key_for(algorithm);
    const std::string token = token_for(key, algorithm);
    const std::string input = token.substr(0, token.rfind('.'));
    const std::string signature = key.sign_as_der(algorithm, input);
    const std::string der = key.public_der();
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> loaded(
        d2i_PUBKEY(nullptr, &at, static_cast<long>(der.size())), &EVP_PKEY_free);
    const EVP_MD* hash = algorithm == "ES512" ? EVP_sha512() : EVP_sha256();
    for (auto _ : state) {
        EVP_MD_CTX* context = EVP_MD_CTX_new();
        EVP_DigestVerifyInit(context, nullptr, hash, nullptr, loaded.get());
        const int good = EVP_DigestVerify(
            context, reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
            reinterpret_cast<const unsigned char*>(input.data()), input.size());
        EVP_MD_CTX_free(context);
        if (good != 1) throw std::runtime_error("not verified");
    }
}
BENCHMARK_CAPTURE(openssl_alone, RS256, "RS256");
BENCHMARK_CAPTURE(openssl_alone, ES256, "ES256");
BENCHMARK_CAPTURE(openssl_alone, ES512, "ES512");

// A token with a wrong signature: the cost of refusing it.
void refused(benchmark::State& state, std::string_view algorithm) {
    const SigningKey key = key_for(algorithm);
    const SigningKey forger =
        algorithm.starts_with("HS") ? SigningKey::secret(std::string(64, 'f')) : key_for(algorithm);
    const std::string token = token_for(forger, algorithm);
    const identity::JwtMethod method = method_for(key, algorithm);
    const auto keys = method.keys->keys();
    for (auto _ : state) {
        const auto verdict = identity::verify_token(token, method, keys.get(), kNow);
        if (verdict.fault != identity::CredentialFault::signature)
            throw std::runtime_error("not refused");
        benchmark::DoNotOptimize(verdict);
    }
}
BENCHMARK_CAPTURE(refused, HS256, "HS256");
BENCHMARK_CAPTURE(refused, RS256, "RS256");
BENCHMARK_CAPTURE(refused, ES256, "ES256");

}  // namespace
}  // namespace tidegate

BENCHMARK_MAIN();
