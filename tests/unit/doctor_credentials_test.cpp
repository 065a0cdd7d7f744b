// Keys that are fetched, and certificates of files.
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "app_tls_world.hpp"
#include "doctor/examinations.hpp"
#include "tls_server.hpp"
#include "token_maker.hpp"

namespace tidegate::doctor::credentials_test {

namespace {

using namespace std::chrono_literals;
using app::TrustedAuthority;
using test::tls_answer;
using test::TlsServer;

// RFC 7517 appendix A.1, the first key.
constexpr const char* kKeys =
    R"({"keys":[{"kty":"EC","crv":"P-256","kid":"1",
        "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]})";

Findings keys_of_method(const std::string& keys) {
    const auto loaded =
        config::load_text("upstream: http://127.0.0.1:1\nidentity: {user: [{jwt: {" + keys +
                              ", algorithms: [ES256], audience: b}}]}\n",
                          "test.yaml");
    REQUIRE(loaded.config);
    return examine_keys(*loaded.config, {std::chrono::steady_clock::now() + 3s});
}

Findings keys_from(const std::string& url) {
    return keys_of_method("jwks: \"" + url + "\"");
}

bool has(const Findings& findings, std::string_view check, Severity severity) {
    for (const Finding& finding : findings.list()) {
        if (finding.check == check && finding.severity == severity) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("credentials: keys that can be fetched are counted, with the server's certificate") {
    const TrustedAuthority trusted;
    const TlsServer soon(
        trusted.authority.issue("DNS:localhost,IP:127.0.0.1", {-60 * 86'400, 3 * 86'400}),
        tls_answer(kKeys));
    const Findings found = keys_from(soon.url("/keys?token=secret"));
    CHECK(has(found, "jwks.keys", Severity::ok));
    CHECK(has(found, "jwks.certificate", Severity::warning));
    for (const Finding& finding : found.list()) {
        CHECK(finding.about.find("secret") == std::string::npos);
    }
}

TEST_CASE("credentials: keys that cannot be fetched, or are none, are a fault") {
    const TrustedAuthority trusted;
    const TlsServer none(trusted.authority.issue(), tls_answer("{\"keys\":[]}"));
    CHECK(has(keys_from(none.url()), "jwks.keys", Severity::fault));
    const TlsServer odd(trusted.authority.issue(), tls_answer("no", "404 Not Found"));
    CHECK(has(keys_from(odd.url()), "jwks.fetch", Severity::fault));
    const test::Authority stranger;
    const TlsServer wrong(stranger.issue(), tls_answer(kKeys));
    CHECK(has(keys_from(wrong.url()), "jwks.fetch", Severity::fault));
    CHECK(has(keys_from("https://127.0.0.1:1/keys"), "jwks.fetch", Severity::fault));
}

TEST_CASE("credentials: keys of an issuer are found by its metadata, or a fault says why not") {
    const TrustedAuthority trusted;
    const TlsServer keys(trusted.authority.issue(), tls_answer(kKeys));
    // The port is known before any client comes.
    std::optional<TlsServer> right;
    right.emplace(trusted.authority.issue(), [&](TlsServer::Conversation& client) {
        client.read_head();
        client.send(tls_answer(R"({"issuer":")" + right->url("") + R"(","jwks_uri":")" +
                               keys.url() + "\"}"));
        client.finish();
    });
    const Findings found = keys_of_method("discovery: \"" + right->url("") + "\"");
    CHECK(has(found, "jwks.keys", Severity::ok));
    const TlsServer wrong(trusted.authority.issue(), tls_answer("{}"));
    CHECK(
        has(keys_of_method("discovery: \"" + wrong.url("") + "\""), "jwks.fetch", Severity::fault));
}

TEST_CASE("credentials: of keys in files and of a secret, type and size are said") {
    std::string folder = (std::filesystem::temp_directory_path() / "doctor-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/keys.pem")
        << test::SigningKey::curve("P-256").public_pem() << test::SigningKey::rsa(2048).public_pem()
        << test::SigningKey::rsa(2048).public_pem();
    std::ofstream(folder + "/keys.json") << kKeys;
    const auto said = [&](const std::string& keys) {
        const auto loaded =
            config::load_text("upstream: http://127.0.0.1:1\nidentity: {user: [{jwt: {" + keys +
                                  ", audience: b}}]}\n",
                              "test.yaml");
        REQUIRE(loaded.config);
        const Findings found =
            examine_keys(*loaded.config, {std::chrono::steady_clock::now() + 3s});
        REQUIRE(found.list().size() == 1);
        CHECK(found.list().front().severity == Severity::ok);
        return found.list().front().about + ": " + found.list().front().what;
    };
    CHECK(said("public_key: \"" + folder + "/keys.pem\"") ==
          "jwt public_key " + folder + "/keys.pem: 3 keys: EC P-256, 2 of RSA 2048 bits");
    CHECK(said("jwks: \"" + folder + "/keys.json\", algorithms: [ES256]") ==
          "jwt jwks " + folder + "/keys.json: 1 key: EC P-256");
    CHECK(said("secret: 0123456789abcdef0123456789abcdef") ==
          "jwt secret: 1 key: a secret of 32 bytes");
    std::filesystem::remove_all(folder);
}

TEST_CASE("credentials: certificates of files are reported before they expire") {
    const std::string folder = (std::filesystem::temp_directory_path() / "doctor-XXXXXX").string();
    std::string made = folder;
    REQUIRE(::mkdtemp(made.data()) != nullptr);
    const auto examined = [&](long days) {
        const test::Authority authority({-60 * 86'400, days * 86'400});
        std::ofstream(made + "/ca.pem") << authority.pem();
        const auto loaded = config::load_text(
            "upstream: http://127.0.0.1:1\nstore: {redis: {url: \"rediss://localhost\", tls: {ca: "
            "\"" +
                made + "/ca.pem\"}}}\nreplicas: 1\n",
            "test.yaml");
        REQUIRE(loaded.config);
        return examine_certificates(*loaded.config);
    };
    CHECK(has(examined(20), "certificate.file", Severity::ok));
    CHECK(has(examined(3), "certificate.file", Severity::warning));
    CHECK(has(examined(-1), "certificate.file", Severity::fault));
    std::filesystem::remove_all(made);
}

}  // namespace tidegate::doctor::credentials_test
