#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/evp.h>

#include "identity/api_key.hpp"
#include "identity/authenticator.hpp"
#include "identity/basic.hpp"
#include "identity/identifier.hpp"
#include "identity/key_source.hpp"
#include "identity_tokens.hpp"

namespace tidegate::identity::authenticator_test {

namespace {

using namespace std::chrono_literals;
using Result = Authentication::Result;

std::string sha256_of(std::string_view text) {
    std::array<unsigned char, 32> digest{};
    unsigned size = 0;
    REQUIRE(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
    std::string hex;
    for (const unsigned char byte : digest) {
        hex += "0123456789abcdef"[byte >> 4];
        hex += "0123456789abcdef"[byte & 0xf];
    }
    return hex;
}

UserMethod tokens(std::shared_ptr<KeySource> keys, std::string space = {}) {
    JwtMethod jwt = any_algorithm();
    jwt.keys = std::move(keys);
    jwt.tier_claim = "plan";
    return {std::move(space), std::move(jwt)};
}

UserMethod tokens(std::string space = {}) {
    return tokens(std::make_shared<KeySource>(
                      set_of({secret().jwk(R"("kid":"s",)"), p256().jwk(R"("kid":"e",)")})),
                  std::move(space));
}

UserMethod api_keys(std::string space = {}) {
    auto keys = std::make_shared<ApiKeys>();
    REQUIRE(keys->add(sha256_of("key-of-alice"), "alice", "pro").empty());
    REQUIRE(keys->add(sha256_of("key-of-nobody"), "key:bob", "").empty());
    return {std::move(space), ApiKeyMethod{"x-api-key", std::move(keys)}};
}

UserMethod passwords(std::string space = {}) {
    return {std::move(space), BasicMethod{std::make_shared<Htpasswd>(*Htpasswd::parse(""))}};
}

UserMethod cookies() {
    return {"", CookieMethod{"session"}};
}

UserMethod headers(std::string space = {}) {
    return {std::move(space), HeaderMethod{"x-user-id", "x-user-tier"}};
}

http::Fields fields(std::initializer_list<std::pair<std::string_view, std::string_view>> pairs) {
    http::Fields all;
    for (const auto& [name, value] : pairs) all.push_back({http::field_name(name), name, value});
    return all;
}

// An authenticator of these methods, and its last result.
struct Door {
    explicit Door(std::vector<UserMethod> of,
                  std::shared_ptr<SharedCredentialCache> shared = nullptr)
        : methods(std::move(of)), authenticator(methods, std::move(shared)) {}

    Result look(const http::Fields& of, bool trusted = false, Time now = kNow) {
        authenticator.look({parse_ip("10.0.0.1"), trusted}, nullptr, of, now, found);
        return found.result;
    }
    Result look_and_check(const http::Fields& of, Time now = kNow) {
        if (look(of, false, now) == Result::unchecked) authenticator.check(found, now);
        return found.result;
    }

    std::vector<UserMethod> methods;
    Authenticator authenticator;
    Authentication found;
};

http::Fields bearer(std::string_view line) {
    return fields({{"Authorization", line}});
}

TEST_CASE("authenticator: without a credential, or with one of another scheme, no user is found") {
    Door door({tokens(), api_keys(), cookies(), headers()});
    CHECK(door.look({}) == Result::anonymous);
    CHECK(door.look(bearer("Basic YTpi")) == Result::anonymous);
    CHECK(door.look(fields({{"X-Api-Key", ""}, {"Cookie", "other=1"}})) == Result::anonymous);
    Door none({});
    CHECK(none.look(bearer("Bearer x.y.z")) == Result::anonymous);
}

TEST_CASE("authenticator: a token is checked once and then known, until it expires") {
    Door door({tokens()});
    const std::string line =
        "Bearer " +
        signed_with(JwsAlgorithm::es256, R"({"sub":"alice","plan":"pro","exp":1700000060})");
    CHECK(door.look(bearer(line)) == Result::unchecked);
    CHECK(door.authenticator.passwords(door.found) == nullptr);
    CHECK(door.look(bearer(line)) == Result::unchecked);  // unknown before the check
    door.authenticator.check(door.found, kNow);
    REQUIRE(door.found.result == Result::user);
    CHECK(door.found.user == "alice");
    CHECK(door.found.tier == "pro");
    door.found.reset();
    CHECK(door.look(bearer(line)) == Result::user);
    CHECK(door.found.user == "alice");
    CHECK(door.found.tier == "pro");
    CHECK(door.look(bearer(line), false, kNow + 59'999'999us) == Result::user);
    CHECK(door.look(bearer(line), false, kNow + 60s) == Result::unchecked);
    door.authenticator.check(door.found, kNow + 60s);
    CHECK(door.found.result == Result::user);  // of the leeway
    CHECK(door.look(bearer(line), false, kNow + 61s) == Result::unchecked);
    door.authenticator.check(door.found, kNow + 90s);
    CHECK(door.found.result == Result::refused);
    CHECK(door.found.fault == CredentialFault::expired);
}

TEST_CASE("authenticator: claims are kept with the token, under the namespace of its method") {
    auto methods = std::vector{tokens("idp")};
    const std::vector<std::string> claims{"tenant", "org"};
    methods[0].how = methods[0].how->keeping(claims, {});
    const auto shared = std::make_shared<SharedCredentialCache>();
    Door door(methods, shared);
    Door other(methods, shared);
    const std::string line =
        "Bearer " + signed_with(JwsAlgorithm::es256, R"({"sub":"alice","org":9,"exp":1700000060})");
    REQUIRE(door.look_and_check(bearer(line)) == Result::user);
    CHECK(claim_identifier(door.found.claims, 0).empty());
    CHECK(claim_identifier(door.found.claims, 1) == "claim:org=idp:9");
    REQUIRE(door.look(bearer(line)) == Result::user);  // of its own memory
    CHECK(claim_identifier(door.found.claims, 1) == "claim:org=idp:9");
    // A thread that has not seen the token gets its claims from the one that has.
    REQUIRE(other.look(bearer(line)) == Result::user);
    CHECK(claim_identifier(other.found.claims, 1) == "claim:org=idp:9");
    // The next request of the connection has none of them.
    CHECK(door.look({}) == Result::anonymous);
    CHECK(door.found.claims.empty());
    const std::string bare =
        "Bearer " + signed_with(JwsAlgorithm::es256, R"({"sub":"bob","exp":1700000060})");
    REQUIRE(door.look_and_check(bearer(bare)) == Result::user);
    CHECK(door.found.claims.empty());
}

TEST_CASE("authenticator: a token that was found bad is not remembered, for good or ill") {
    Door door({tokens()});
    const std::string line = "Bearer " + signed_with(JwsAlgorithm::hs256) + "x";
    for (int i = 0; i < 2; ++i) {
        CHECK(door.look_and_check(bearer(line)) == Result::refused);
        CHECK(door.found.user.empty());
    }
}

TEST_CASE("authenticator: a refused token that a known key signed is not checked anew") {
    Door door({tokens()});
    const auto line = [](const std::string& claims) {
        return "Bearer " + signed_with(JwsAlgorithm::es256, claims);
    };
    const std::string expired = line(R"({"sub":"alice","exp":1600000000})");
    CHECK(door.look(bearer(expired)) == Result::unchecked);
    door.authenticator.check(door.found, kNow);
    REQUIRE(door.found.result == Result::refused);
    CHECK(door.look(bearer(expired), false, kNow + 59s) == Result::refused);
    CHECK(door.found.fault == CredentialFault::expired);
    CHECK_FALSE(is_guess(door.found.fault));
    CHECK(door.look(bearer(expired), false, kNow + 60s) == Result::unchecked);

    const std::string unsafe = line("{\"sub\":\"ali\\u202ece\",\"exp\":1700000060}");
    CHECK(door.look_and_check(bearer(unsafe)) == Result::refused);
    CHECK(door.look(bearer(unsafe)) == Result::refused);
    CHECK(door.found.fault == CredentialFault::unsafe_user);

    // The time of this one comes.
    const std::string early = line(R"({"sub":"alice","nbf":1700000060,"exp":1700000090})");
    CHECK(door.look_and_check(bearer(early)) == Result::refused);
    CHECK(door.look(bearer(early), false, kNow + 999ms) == Result::refused);
    CHECK(door.look_and_check(bearer(early), kNow + 61s) == Result::user);
}

TEST_CASE("authenticator: a token that one thread has checked is known to all threads") {
    const auto shared = std::make_shared<SharedCredentialCache>();
    const std::vector<UserMethod> methods{tokens(), passwords("staff")};
    Door first(methods, shared);
    Door second(methods, shared);
    const std::string token = "Bearer " + signed_with(JwsAlgorithm::es256);
    const std::string expired =
        "Bearer " + signed_with(JwsAlgorithm::es256, R"({"sub":"alice","exp":1600000000})");
    const std::string forged = token + "x";
    const std::string login = "Basic Y2Fyb2w6c2VjcmV0";
    CHECK(first.look_and_check(bearer(token)) == Result::user);
    CHECK(first.look_and_check(bearer(expired)) == Result::refused);
    CHECK(first.look_and_check(bearer(forged)) == Result::refused);
    REQUIRE(first.look(bearer(login)) == Result::unchecked);
    first.authenticator.conclude_password(first.found, "carol", true, kNow);

    CHECK(second.look(bearer(token)) == Result::user);
    CHECK(second.found.user == "alice");
    CHECK(second.look(bearer(expired)) == Result::refused);
    CHECK(second.look(bearer(forged)) == Result::unchecked);
    CHECK(second.look(bearer(login)) == Result::user);
    CHECK(second.found.user == "staff:carol");
    CHECK(second.look(bearer(login), false, kNow + 60s) == Result::unchecked);
    Door stranger(methods);
    CHECK(stranger.look(bearer(token)) == Result::unchecked);
}

TEST_CASE("authenticator: other keys in force make every remembered token unknown") {
    const auto source = std::make_shared<KeySource>("https://idp.example/keys");
    source->put(set_of({secret().jwk()}));
    Door door({tokens(source)});
    const std::string text = "Bearer " + signed_with(JwsAlgorithm::hs256);
    REQUIRE(door.look_and_check(bearer(text)) == Result::user);
    source->put(set_of({secret().jwk()}));
    CHECK(door.look(bearer(text)) == Result::user);  // they are the same
    source->put(set_of({p256().jwk()}));
    CHECK(door.look(bearer(text)) == Result::unchecked);
    CHECK(door.look_and_check(bearer(text)) == Result::key_missing);
}

TEST_CASE("authenticator: a token whose key may be fetched yet is neither believed nor refused") {
    const auto source = std::make_shared<KeySource>("https://idp.example/keys");
    Door door({tokens(source)});
    const std::string text = "Bearer " + signed_with(JwsAlgorithm::hs256, kGood, R"("kid":"s",)");
    CHECK(door.look_and_check(bearer(text)) == Result::key_missing);
    source->put(set_of({p256().jwk(R"("kid":"e",)")}));
    source->publish({.begun = 3, .ended = 2, .succeeded = 2});
    CHECK(door.look_and_check(bearer(text)) == Result::key_missing);
    REQUIRE(door.look(bearer(text)) == Result::unchecked);
    CHECK(door.authenticator.lacks_key(door.found));
    CHECK(door.found.result == Result::key_missing);
    CHECK(door.found.fetches.begun == 3);
    CHECK(door.authenticator.key_source(door.found) == source);
    Authenticator::refuse_missing_key(door.found);
    CHECK(door.found.result == Result::refused);
    CHECK(door.found.fault == CredentialFault::unknown_key);
    CHECK_FALSE(is_guess(door.found.fault));
    // Not remembered: the key may come.
    source->put(set_of({secret().jwk(R"("kid":"s",)")}));
    REQUIRE(door.look(bearer(text)) == Result::unchecked);
    CHECK_FALSE(door.authenticator.lacks_key(door.found));
    CHECK(door.look_and_check(bearer(text)) == Result::user);
    // A token that no key could make good does not wait for one.
    REQUIRE(door.look(bearer("Bearer not-a-token")) == Result::unchecked);
    CHECK_FALSE(door.authenticator.lacks_key(door.found));
}

TEST_CASE("authenticator: a token whose key is not in a file is refused at once") {
    Door door({tokens()});
    const std::string text = "Bearer " + signed_with(JwsAlgorithm::hs256, kGood, R"("kid":"x",)");
    CHECK(door.look_and_check(bearer(text)) == Result::refused);
    CHECK(door.found.fault == CredentialFault::unknown_key);
}

TEST_CASE("authenticator: changed keys end what all threads remember") {
    const auto shared = std::make_shared<SharedCredentialCache>();
    const auto source = std::make_shared<KeySource>("https://idp.example/keys");
    source->put(set_of({secret().jwk()}));
    const std::vector<UserMethod> methods{tokens(source)};
    Door first(methods, shared);
    Door second(methods, shared);
    const std::string text = "Bearer " + signed_with(JwsAlgorithm::hs256);
    CHECK(first.look_and_check(bearer(text)) == Result::user);
    CHECK(second.look(bearer(text)) == Result::user);
    source->put(set_of({secret().jwk(), p256().jwk()}));
    CHECK(second.look(bearer(text)) == Result::unchecked);
    CHECK(first.look_and_check(bearer(text)) == Result::user);
    CHECK(second.look(bearer(text)) == Result::user);
}

TEST_CASE("authenticator: an API key is known by its digest, others are refused") {
    Door door({api_keys("key")});
    CHECK(door.look(fields({{"x-api-key", "key-of-alice"}})) == Result::user);
    CHECK(door.found.user == "key:alice");
    CHECK(door.found.tier == "pro");
    CHECK(door.look(fields({{"x-api-key", "key-of-alicf"}})) == Result::refused);
    CHECK(door.found.fault == CredentialFault::unknown_secret);
    CHECK(door.look(fields({{"x-api-key", "key-of-alice"}, {"X-Api-Key", "key-of-alice"}})) ==
          Result::ambiguous);
}

TEST_CASE(
    "authenticator: a password is left for the caller to check, and a right one is remembered") {
    Door door({passwords("staff")});
    const auto login = bearer("Basic Y2Fyb2w6c2VjcmV0");
    REQUIRE(door.look(login) == Result::unchecked);
    CHECK(door.authenticator.passwords(door.found) != nullptr);
    door.authenticator.conclude_password(door.found, "carol", false, kNow);
    CHECK(door.found.result == Result::refused);
    CHECK(door.found.fault == CredentialFault::wrong_password);
    REQUIRE(door.look(login) == Result::unchecked);
    door.authenticator.conclude_password(door.found, "carol", true, kNow);
    CHECK(door.found.result == Result::user);
    CHECK(door.found.user == "staff:carol");
    CHECK(door.look(login, false, kNow + 29s) == Result::user);
    CHECK(door.found.user == "staff:carol");
    CHECK(door.look(bearer("Basic Y2Fyb2w6c2VjcmVU")) == Result::unchecked);
    CHECK(door.look(login, false, kNow + 60s) == Result::unchecked);
}

TEST_CASE("authenticator: a password stays known to all threads while one of them sees it") {
    const auto shared = std::make_shared<SharedCredentialCache>();
    const std::vector<UserMethod> methods{passwords("staff")};
    Door first(methods, shared);
    Door second(methods, shared);
    const auto login = bearer("Basic Y2Fyb2w6c2VjcmV0");
    REQUIRE(first.look(login) == Result::unchecked);
    first.authenticator.conclude_password(first.found, "carol", true, kNow);
    for (int i = 1; i <= 10; ++i) {
        CHECK(first.look(login, false, kNow + i * 50s) == Result::user);
        CHECK(first.found.user == "staff:carol");
    }
    CHECK(second.look(login, false, kNow + 500s) == Result::user);
    CHECK(second.found.user == "staff:carol");
    CHECK(first.look(login, false, kNow + 560s) == Result::unchecked);
}

TEST_CASE("authenticator: a cookie is counted by its hash, which is the same everywhere") {
    Door door({cookies()});
    REQUIRE(door.look(fields({{"Cookie", "a=1; session=s3cr3t"}})) == Result::user);
    CHECK(door.found.user == sha256_of("s3cr3t"));
    REQUIRE(door.look(fields({{"Cookie", "session=other"}})) == Result::user);
    CHECK(door.found.user == sha256_of("other"));
    for (const char* same : {"session=%6fther", "session=o%74her", "session=%6F%74%68%65%72"}) {
        REQUIRE(door.look(fields({{"Cookie", same}})) == Result::user);
        CHECK_MESSAGE(door.found.user == sha256_of("other"), same);
    }
    CHECK(door.look(fields({{"Cookie", "session=a"}, {"Cookie", "session=b"}})) == Result::refused);
    CHECK_FALSE(is_guess(door.found.fault));
}

TEST_CASE("authenticator: a field names a user only if a trusted peer sends it, once") {
    Door door({headers()});
    CHECK(door.look(fields({{"X-User-Id", "alice"}})) == Result::anonymous);
    CHECK(door.look(fields({{"X-User-Id", "alice"}, {"X-User-Tier", "pro"}}), true) ==
          Result::user);
    CHECK(door.found.user == "alice");
    CHECK(door.found.tier == "pro");
    CHECK(door.look(fields({{"X-User-Id", "alice"}, {"X-User-Tier", "a tier"}}), true) ==
          Result::user);
    CHECK(door.found.tier.empty());
    CHECK(door.look(fields({{"X-User-Id", "alice"}, {"X-User-Id", "bob"}}), true) ==
          Result::anonymous);
    CHECK(door.look(fields({{"X-User-Id", "alice"}, {"x-user-id", ""}}), true) ==
          Result::anonymous);
    CHECK(door.look(fields({{"X_User_Id", "mallory"}}), true) == Result::anonymous);
    CHECK(door.look(fields({{"X-User-Id", ""}}), true) == Result::anonymous);
    for (const std::string_view unsafe :
         {"al\xffice", "al\u202eice", "alice\u200b", "alice\u00a0"}) {
        CHECK(door.look(fields({{"X-User-Id", unsafe}}), true) == Result::refused);
        CHECK(door.found.fault == CredentialFault::unsafe_user);
    }
}

TEST_CASE("authenticator: two Authorization fields are refused though another method comes first") {
    Door door({api_keys("key"), tokens("idp")});
    CHECK(door.look(fields({{"X-Api-Key", "key-of-alice"},
                            {"Authorization", "Digest a"},
                            {"authorization", "Digest b"}})) == Result::ambiguous);
    Door keys({api_keys("key")});  // no method here reads it
    CHECK(keys.look(fields({{"X-Api-Key", "key-of-alice"},
                            {"Authorization", "Digest a"},
                            {"authorization", "Digest b"}})) == Result::user);
}

TEST_CASE("authenticator: a credential that another request has had checked meanwhile is known") {
    Door door({tokens()});
    const std::string line = "Bearer " + signed_with(JwsAlgorithm::hs256);
    REQUIRE(door.look(bearer(line)) == Result::unchecked);
    Authentication waiting = door.found;
    CHECK_FALSE(door.authenticator.recall(waiting, kNow));
    CHECK(waiting.result == Result::unchecked);
    door.authenticator.check(door.found, kNow);
    CHECK(door.authenticator.recall(waiting, kNow));
    CHECK(waiting.result == Result::user);
    CHECK(waiting.user == "alice");
}

TEST_CASE("authenticator: the first method that finds a credential decides, right or wrong") {
    Door door({api_keys("key"), tokens("idp"), headers("gate")});
    const std::string token = "Bearer " + signed_with(JwsAlgorithm::hs256);
    CHECK(door.look(fields({{"Authorization", token}, {"X-Api-Key", "key-of-alice"}})) ==
          Result::user);
    CHECK(door.found.method == 0);
    CHECK(door.look(fields({{"Authorization", token}, {"X-Api-Key", "wrong"}})) == Result::refused);
    CHECK(door.found.method == 0);
    CHECK(door.look(fields({{"Authorization", token}, {"X-User-Id", "bob"}}), true) ==
          Result::unchecked);
    CHECK(door.found.method == 1);
    CHECK(door.look(fields({{"X-User-Id", "bob"}}), true) == Result::user);
    CHECK(door.found.user == "gate:bob");
}

TEST_CASE("authenticator: without a namespace no user can pass for one of another method's") {
    // The key of `key:bob` is one of a method without a namespace.
    Door open({api_keys(), tokens("key")});
    CHECK(open.look(fields({{"x-api-key", "key-of-nobody"}})) == Result::refused);
    CHECK(open.found.fault == CredentialFault::foreign_space);
    CHECK(open.look(fields({{"x-api-key", "key-of-alice"}})) == Result::user);
    // A token is not remembered either then.
    Door other({tokens(), api_keys("alice")});
    const std::string line =
        "Bearer " + signed_with(JwsAlgorithm::hs256, R"({"sub":"alice:x","exp":1700000060})");
    for (int i = 0; i < 2; ++i) CHECK(other.look_and_check(bearer(line)) == Result::refused);
    // With a namespace of its own it is another name.
    Door spaced({api_keys("a"), tokens("key")});
    CHECK(spaced.look(fields({{"x-api-key", "key-of-nobody"}})) == Result::user);
    CHECK(spaced.found.user == "a:key:bob");
}

std::string challenges(const std::vector<UserMethod>& methods, std::uint32_t guilty,
                       CredentialFault fault = CredentialFault::signature) {
    Authentication authentication;
    authentication.result = Authentication::Result::refused;
    authentication.method = guilty;
    authentication.fault = fault;
    std::string out;
    append_challenges(methods, authentication, out);
    return out;
}

const UserMethod kToken{"", JwtMethod{}};
const UserMethod kBasic{"", BasicMethod{}};
const UserMethod kHeader{"", HeaderMethod{"x-user-id", ""}};

TEST_CASE("challenges: each configured method has a challenge") {
    JwtMethod cookie_token;
    cookie_token.cookie = "sid";
    CHECK(challenges({kToken,
                      {"", ApiKeyMethod{"x-api-key", nullptr}},
                      kBasic,
                      kHeader,
                      {"", CookieMethod{"session"}},
                      {"", cookie_token}},
                     2) ==
          "WWW-Authenticate: Bearer realm=\"tidegate\"\r\n"
          "WWW-Authenticate: ApiKey realm=\"tidegate\", header=\"x-api-key\"\r\n"
          "WWW-Authenticate: Basic realm=\"tidegate\", charset=\"UTF-8\"\r\n"
          "WWW-Authenticate: Cookie realm=\"tidegate\", cookie=\"session\"\r\n"
          "WWW-Authenticate: JWT realm=\"tidegate\", cookie=\"sid\"\r\n");
}

TEST_CASE("challenges: the challenge of a refused token has the reason") {
    CHECK(challenges({kToken}, 0) ==
          "WWW-Authenticate: Bearer realm=\"tidegate\", error=\"invalid_token\", "
          "error_description=\"The credentials are not valid.\"\r\n");
    CHECK(challenges({kToken}, 0, CredentialFault::expired).find("has expired") !=
          std::string::npos);
    CHECK(challenges({kToken, kBasic}, 1, CredentialFault::wrong_password).find("invalid_token") ==
          std::string::npos);
}

TEST_CASE("challenges: without a right signature the reason is always the same") {
    for (const CredentialFault fault :
         {CredentialFault::malformed, CredentialFault::unsafe_user, CredentialFault::foreign_space,
          CredentialFault::not_json, CredentialFault::critical_extension,
          CredentialFault::algorithm, CredentialFault::unknown_key, CredentialFault::signature,
          CredentialFault::unknown_secret, CredentialFault::wrong_password}) {
        CHECK(public_reason(fault) == "The credentials are not valid.");
    }
}

TEST_CASE("challenges: there is a challenge even if only trusted peers name users") {
    CHECK(challenges({kHeader}, 0) == "WWW-Authenticate: Tidegate realm=\"tidegate\"\r\n");
}

}  // namespace

}  // namespace tidegate::identity::authenticator_test
