// Who the user is, method by method, with the credentials that a request carries.
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "cli/explain.hpp"
#include "identity/key_source.hpp"
#include "token_maker.hpp"

namespace tidegate::cli::explain_user_test {
namespace {

using Outcome = Explanation::Method::Outcome;
using test::SigningKey;
using test::token_of;

// The SHA-256 of `the-key`, and `open sesame` by SHA-crypt.
constexpr std::string_view kApiKeys =
    "ad44dc8e51cfbfa55e81ddbb626b466241069045066846e7e4cd096131505290: {user: bob, tier: pro}\n";
constexpr std::string_view kPasswords =
    "carol:$5$rounds=1000$saltsalt$nKsyTQBmKz4GdCft0Sv/FbzLiu0y3wFdEXOzudLQLJ5\n";

struct Folder {
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "explain-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    void write(const std::string& name, std::string_view text) const {
        std::ofstream(path / name) << text;
    }

    std::filesystem::path path;
};

const SigningKey& key() {
    static const SigningKey made = SigningKey::curve("P-256");
    return made;
}

std::string jwks() {
    return R"({"keys":[)" + key().jwk(R"("kid":"k",)") + "]}";
}

std::string token(std::string_view kid, std::chrono::seconds valid_for) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto expires = std::chrono::duration_cast<std::chrono::seconds>(now + valid_for).count();
    return token_of(key(), "ES256", R"({"alg":"ES256","kid":")" + std::string(kid) + R"("})",
                    R"({"sub":"alice","plan":"pro","exp":)" + std::to_string(expires) + "}");
}

constexpr std::chrono::hours kHour{1};

std::string yaml(const std::string& keys = "keys.json", const std::string& more = "") {
    return R"(
upstream: http://127.0.0.1:3000
limits: [10/s]
identity:
  client_ip: {trusted_proxies: [10.0.0.0/8]}
  user:
    - jwt: {jwks: )" +
           keys + R"(, algorithms: [ES256], tier_claim: plan}
    - api_key: {header: x-api-key, keys: api-keys.yaml, namespace: key}
    - basic: {htpasswd: users.htpasswd, namespace: login}
    - cookie: {name: session, namespace: session}
    - header: {name: x-user-id, from: trusted_proxies}
  failed_credentials: 20/min
)" + more;
}

Explanation explained(
    std::vector<std::string> fields, const std::string& text = yaml(),
    const FetchKeys& fetch = [](const auto&) { FAIL("not to be fetched"); },
    const std::string& from = "203.0.113.7") {
    const Folder folder;
    folder.write("keys.json", jwks());
    folder.write("api-keys.yaml", kApiKeys);
    folder.write("users.htpasswd", kPasswords);
    folder.write("t.yaml", text);
    const auto loaded = config::load_file((folder.path / "t.yaml").string());
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    ExplainQuestion question;
    question.fields = std::move(fields);
    question.from = parse_scoped_ip(from);
    return explain(loaded.config, question, fetch);
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

std::vector<Outcome> outcomes(const Explanation& told) {
    std::vector<Outcome> all;
    for (const auto& method : told.methods) all.push_back(method.outcome);
    return all;
}

TEST_CASE("explain: without credentials, every method is absent") {
    const auto told = explained({});
    CHECK(outcomes(told) == std::vector<Outcome>{Outcome::absent, Outcome::absent, Outcome::absent,
                                                 Outcome::absent, Outcome::disbelieved});
    CHECK(told.methods[0].text == "jwt in authorization");
    CHECK(told.methods[1].text == "api_key in x-api-key");
    CHECK(told.methods[2].text == "basic in authorization");
    CHECK(told.methods[3].text == "cookie session");
    CHECK(told.methods[4].text == "header x-user-id");
    CHECK_FALSE(told.user);
    CHECK(told.guess.empty());
    CHECK(told.refusal == 0);
    CHECK(has(doc_of(told).text(), "no method found a user"));
}

TEST_CASE("explain: a good token names its user and tier, and is a guess until it is checked") {
    const std::string good = token("k", kHour);
    const auto told = explained({"Authorization: Bearer " + good, "X-Api-Key: the-key"});
    CHECK(outcomes(told) == std::vector<Outcome>{Outcome::valid, Outcome::not_tried,
                                                 Outcome::not_tried, Outcome::not_tried,
                                                 Outcome::not_tried});
    REQUIRE(told.user);
    CHECK(told.user->name == "alice");
    CHECK(told.user->tier == "pro");
    CHECK_FALSE(told.user->tier_listed);
    CHECK(told.guess == std::vector<std::string>{"ip:203.0.113.7"});
    // The guess is given back: it is not among what the request is charged.
    REQUIRE(told.policies.size() == 1);
    CHECK(told.policies[0].name == "default");
    CHECK(told.identifiers == 2);
    for (const std::string& text : {doc_of(told).text(), doc_of(told).json_text()}) {
        CHECK_FALSE(has(text, good));
        CHECK_FALSE(has(text, good.substr(good.rfind('.') + 1)));
        CHECK_FALSE(has(text, "the-key"));
    }
}

TEST_CASE("explain: a bad token says why it is refused, and goes on without a user if it may") {
    const std::string expired = "Authorization: Bearer " + token("k", -kHour);
    auto told = explained({expired});
    CHECK(told.methods[0].outcome == Outcome::refused);
    CHECK(told.methods[0].fault == "token: expired");
    CHECK(told.refusal == 401);
    CHECK_FALSE(told.user);
    CHECK(told.policies.empty());
    CHECK(has(doc_of(told).text(), "refused: token: expired"));
    CHECK(has(doc_of(told).text(), "the credential was not accepted"));

    told = explained({expired}, yaml("keys.json", "  on_invalid_credentials: anonymous\n"));
    CHECK(told.refusal == 0);
    CHECK(told.goes_on_anonymous);
    CHECK(told.identifiers == 1);
    CHECK(has(doc_of(told).text(), "on_invalid_credentials: anonymous"));

    told = explained({"Authorization: Bearer " + token("another", kHour)});
    CHECK(told.methods[0].fault == "token: no such key");
    std::string forged = token("k", kHour);
    forged[forged.rfind('.') + 5] ^= 1;
    told = explained({"Authorization: Bearer " + forged});
    CHECK(told.methods[0].outcome == Outcome::refused);
    told = explained({"Authorization: Bearer " + token("k", kHour),
                      "Authorization: Bearer " + token("k", kHour)});
    CHECK(told.methods[0].outcome == Outcome::ambiguous);
    CHECK(told.refusal == 400);
}

TEST_CASE("explain: keys are fetched for a token that needs them, and for nothing else") {
    const std::string text = yaml("https://idp.example/keys");
    int fetched = 0;
    const auto fetch = [&](const std::shared_ptr<identity::KeySource>& source) {
        ++fetched;
        CHECK(source->url() == "https://idp.example/keys");
        const auto keys = identity::JwkSet::parse(jwks(), identity::JwkSet::Origin::fetched);
        REQUIRE(keys);
        source->put(*keys);
    };
    CHECK(explained({"X-Api-Key: the-key"}, text, fetch).user->name == "key:bob");
    CHECK(fetched == 0);
    CHECK(explained({"Authorization: Bearer " + token("k", kHour)}, text, fetch).user->name ==
          "alice");
    CHECK(fetched == 1);
    // The keys have just come: a key that is not among them does not exist.
    auto told = explained({"Authorization: Bearer " + token("another", kHour)}, text, fetch);
    CHECK(told.methods[0].outcome == Outcome::refused);
    CHECK(told.methods[0].fault == "token: no such key");
    // And if none come, the answer is unknown.
    told = explained({"Authorization: Bearer " + token("k", kHour)}, text, [](const auto&) {});
    CHECK(told.methods[0].outcome == Outcome::unavailable);
    CHECK(told.refusal == 503);
}

TEST_CASE("explain: an API key, a password, a cookie and a header, each by its own method") {
    auto told = explained({"X-Api-Key: the-key"});
    REQUIRE(told.user);
    CHECK(told.user->name == "key:bob");
    CHECK(told.user->tier == "pro");
    CHECK(told.guess.empty());
    told = explained({"X-Api-Key: another-key"});
    CHECK(told.methods[1].fault == "key: unknown");
    CHECK(told.refusal == 401);

    told = explained({"Authorization: Basic Y2Fyb2w6b3BlbiBzZXNhbWU="});  // carol:open sesame
    REQUIRE(told.user);
    CHECK(told.user->name == "login:carol");
    told = explained({"Authorization: Basic Y2Fyb2w6Y2xvc2VkIHNlc2FtZQ=="});
    CHECK(told.methods[2].fault == "password: wrong");
    told = explained({"Authorization: Basic !"});
    CHECK(told.methods[2].fault == "credential: malformed");

    told = explained({"Cookie: session=hush"});
    REQUIRE(told.user);
    CHECK(told.user->name.starts_with("session:"));
    CHECK_FALSE(has(doc_of(told).text() + doc_of(told).json_text(), "hush"));

    const auto never = [](const auto&) { FAIL("not to be fetched"); };
    told = explained({"X-User-Id: dave"}, yaml(), never, "10.0.0.1");
    REQUIRE(told.user);
    CHECK(told.user->name == "dave");
    CHECK(told.methods[4].outcome == Outcome::valid);
}

TEST_CASE("explain: a credential changes nothing about a request without a route") {
    const std::string text = R"(
upstreams: {api: {servers: [http://127.0.0.1:3000]}}
routes: [{name: a, match: {path: /a}, policies: []}]
identity: {user: [api_key: {keys: api-keys.yaml}]}
)";
    const auto told = explained({"X-Api-Key: another-key"}, text);
    CHECK(told.methods[0].outcome == Outcome::refused);
    CHECK(told.refusal == 404);
    CHECK_FALSE(has(told.refusal_reason, "credential"));
}

}  // namespace
}  // namespace tidegate::cli::explain_user_test
