#include <string>

#include <doctest/doctest.h>

#include "identity/key_source.hpp"

namespace tidegate::identity::issuer_metadata_test {
namespace {

constexpr const char* kIssuer = "https://idp.example/realms/one";

std::string fault_of(const std::string& json, const std::string& issuer = kIssuer) {
    const auto url = key_set_url(json, issuer);
    return url ? "" : url.error();
}

TEST_CASE("issuer metadata: their URL is the issuer's with a path after it") {
    CHECK(metadata_url("https://idp.example") ==
          "https://idp.example/.well-known/openid-configuration");
    CHECK(metadata_url("https://idp.example/") ==
          "https://idp.example/.well-known/openid-configuration");
    CHECK(metadata_url("https://idp.example/realms/one") ==
          "https://idp.example/realms/one/.well-known/openid-configuration");
    CHECK(metadata_url("https://idp.example/realms/one/") ==
          "https://idp.example/realms/one/.well-known/openid-configuration");
}

TEST_CASE("issuer metadata: they name the URL of the keys") {
    const auto url = key_set_url(R"({"issuer":"https://idp.example/realms/one",
        "authorization_endpoint":"https://idp.example/authorize",
        "jwks_uri":"https://keys.example/certs","scopes_supported":["openid"]})",
                                 kIssuer);
    REQUIRE(url);
    CHECK(*url == "https://keys.example/certs");
}

TEST_CASE("issuer metadata: those of another issuer are refused") {
    const std::string keys = R"("jwks_uri":"https://idp.example/certs"})";
    CHECK(fault_of("{" + keys) == "it has no `issuer`");
    CHECK(fault_of(R"({"issuer":7,)" + keys) == "it has no `issuer`");
    CHECK(fault_of(R"({"issuer":"https://evil.example",)" + keys) ==
          "its `issuer` is `https://evil.example`, and `discovery` names another one");
    CHECK(fault_of(R"({"issuer":"https://IDP.example/realms/one",)" + keys) ==
          "its `issuer` is `https://IDP.example/realms/one`, and `discovery` names another one");
    CHECK(fault_of(R"({"issuer":"https://idp.example/realms/one/",)" + keys) ==
          "its `issuer` is `https://idp.example/realms/one/`: write `discovery` exactly so, with "
          "the same end");
    CHECK(fault_of(R"({"issuer":"https://a","issuer":"https://idp.example/realms/one",)" + keys) !=
          "");
}

TEST_CASE("issuer metadata: a text that is no strict JSON object, or names no keys, is refused") {
    for (const char* text : {"", "<html>", "[]", "\"x\"", "{", "{} x"}) CHECK(fault_of(text) != "");
    const std::string issuer = R"({"issuer":"https://idp.example/realms/one")";
    CHECK(fault_of(issuer + "}") == "it has no `jwks_uri`");
    CHECK(fault_of(issuer + R"(,"jwks_uri":""})") == "it has no `jwks_uri`");
    CHECK(fault_of(issuer + R"(,"jwks_uri":["https://idp.example"]})") == "it has no `jwks_uri`");
}

}  // namespace
}  // namespace tidegate::identity::issuer_metadata_test
