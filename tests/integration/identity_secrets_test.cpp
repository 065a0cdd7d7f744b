// Secrets: none may be in a log, a metric or an answer.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_secrets_test {

using namespace std::chrono_literals;

namespace {

// Each credential, and the secret in it.
struct Secret {
    std::string fields;
    std::vector<std::string> parts;
};

Secret login(const std::string& user, const std::string& password) {
    const std::string raw = base64(user + ":" + password);
    return {basic(user, password), {password, raw, raw.substr(0, 24)}};
}

Secret whole(const std::string& field, const std::string& before, const std::string& secret) {
    return {line(field, before + secret), {secret, secret.substr(0, 32)}};
}

Secret signed_by(const SigningKey& key, const std::string& payload) {
    const std::string text = token(key, "ES256", payload);
    Secret secret = whole("Authorization", "Bearer ", text);
    secret.parts.push_back(text.substr(text.rfind('.') + 1));
    secret.parts.push_back(base64url(payload));
    return secret;
}

std::vector<Secret> all_secrets() {
    return {
        login("alice", "wonderland"),
        login("alice", "a wrong password"),
        login("mallory", "password of nobody"),
        login("mall\x01ory", "password of an unsafe user"),
        {line("Authorization", "Basic =bm90LWJhc2U2NA"), {"bm90LWJhc2U2NA"}},
        {line("Authorization", "Basic two words-of-secret"), {"words-of-secret"}},
        signed_by(curve_key(), claims("alice")),
        signed_by(curve_key(), claims("alice", "", -1h)),
        signed_by(other_key(), claims("alice")),
        whole("Authorization", "Bearer ", "not-a-token-but-a-secret-of-somebody"),
        whole("X-Api-Key", "", "the-right-key-0123456789abcdef0123456789"),
        whole("X-Api-Key", "", "the-wrong-key-0123456789abcdef0123456789"),
        whole("Cookie", "session=", "cookie-secret-0123456789abcdef012345"),
        whole("Cookie", "session=", "bad\\cookie-secret-0123456789abcdef"),
        {line("X-Api-Key", "twice-a-secret") + line("X-Api-Key", "twice-another"),
         {"twice-a-secret", "twice-another"}},
    };
}

// All that an answer says.
std::string text_of(const Message& answer) {
    std::string text = answer.start_line + answer.body;
    for (const auto& [name, value] : answer.fields) text += "\n" + name + ": " + value;
    return text;
}

}  // namespace

TEST_CASE("secrets: no password, key, token or cookie is written anywhere") {
    const TemporaryFolder folder;
    const Upstream upstream(ok());
    const std::string jwks = folder.write("keys.json", key_set({curve_key().jwk()}));
    const std::string keys = folder.write(
        "keys.yaml", api_key_file({{"the-right-key-0123456789abcdef0123456789", "alice"}}));
    const std::string htpasswd = folder.write("users.htpasswd", kPasswords);
    const std::string log = (folder.path() / "everything.log").string();
    const Tidegate tidegate(
        "log: {access: {path: \"" + log + "\"}, level: debug}\n" +
        identified(upstream,
                   "failed_credentials: 15/h, user: [{jwt: {jwks: \"" + jwks +
                       "\", algorithms: [ES256]}}, {api_key: {keys: \"" + keys +
                       "\"}}, {basic: {htpasswd: \"" + htpasswd +
                       "\"}}, {cookie: {name: session}}]",
                   "key: [ip, user, \"header:authorization\", \"header:x-api-key\"], "
                   "limits: [1000/h]"));
    const auto secrets = all_secrets();
    std::string said;
    int asked = 0;
    // Twice each, as a credential that is remembered or over the limit takes another way.
    for (int round = 0; round < 2; ++round) {
        for (const Secret& secret : secrets) {
            const std::string path = "/" + std::to_string(++asked);
            said += text_of(tidegate.get(path, secret.fields)) + "\n";
        }
    }
    folder.write("users.htpasswd", std::string("alice:plain-text-password\n"));
    said += text_of(tidegate.reload()) + "\n";
    folder.write("users.htpasswd", kPasswords);
    said += text_of(tidegate.reload()) + "\n";
    await("all lines of the log", [&] {
        return read_file(log).find("\"/" + std::to_string(asked) + "\"") != std::string::npos;
    });
    said += read_file(log) + tidegate.errors() + tidegate.admin("/metrics").value().body +
            tidegate.admin("/readyz").value().body;
    CHECK(said.find("password: wrong") != std::string::npos);  // the search is not blind
    CHECK(said.find("failed_credentials") != std::string::npos);
    CHECK(said.find("plain-text-password") == std::string::npos);
    for (const Secret& secret : secrets) {
        for (const auto& part : secret.parts)
            CHECK_MESSAGE(said.find(part) == std::string::npos, part);
    }
    for (const char* hash : {"$2b$", "$6$"}) CHECK(said.find(hash) == std::string::npos);
}

}  // namespace tidegate::test::identity_secrets_test
