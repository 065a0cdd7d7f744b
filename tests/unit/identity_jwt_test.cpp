#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "identity_tokens.hpp"

namespace tidegate::identity::jwt_test {

namespace {

using namespace std::chrono_literals;

// ---- valid tokens

TEST_CASE("JWT: a signed token names its user, with every algorithm") {
    for (const JwsAlgorithm algorithm : kAll) {
        CAPTURE(to_string(algorithm));
        const auto verdict = verdict_of(signed_with(algorithm), method_of({algorithm}));
        CHECK(verdict.fault == CredentialFault::none);
        CHECK(!verdict.keys_missing);
        CHECK(verdict.claims.user == "alice");
        CHECK(verdict.claims.tier.empty());
        CHECK(verdict.claims.expires == kNow + 60s);
    }
}

TEST_CASE("JWT: a kid chooses among keys, and without one those that fit are tried") {
    for (const std::string_view more : {R"("kid":"r",)", R"("kid":"\u0072",)", ""})
        CHECK(fault_of(signed_with(JwsAlgorithm::ps512, kGood, more)) == CredentialFault::none);
    const auto several = set_of({other_rsa().jwk(), p256().jwk(), rsa().jwk()});
    CHECK(fault_of(signed_with(JwsAlgorithm::rs256), any_algorithm(), *several) ==
          CredentialFault::none);
    const auto same_kid = set_of({other_rsa().jwk(R"("kid":"a",)"), rsa().jwk(R"("kid":"a",)")});
    CHECK(fault_of(signed_with(JwsAlgorithm::rs256, kGood, R"("kid":"a",)"), any_algorithm(),
                   *same_kid) == CredentialFault::none);
}

TEST_CASE("JWT: a fifth key without a kid is not tried") {
    std::vector<std::string> keys;
    for (char c = 'a'; c < 'd'; ++c) keys.push_back(SigningKey::secret(std::string(64, c)).jwk());
    keys.push_back(secret().jwk());
    CHECK(fault_of(signed_with(JwsAlgorithm::hs256), any_algorithm(), *set_of(keys)) ==
          CredentialFault::none);
    keys.insert(keys.begin(), SigningKey::secret(std::string(64, 'd')).jwk());
    CHECK(fault_of(signed_with(JwsAlgorithm::hs256), any_algorithm(), *set_of(keys)) ==
          CredentialFault::signature);
}

TEST_CASE("JWT: one set serves several threads at once") {
    std::vector<std::string> tokens;
    for (const JwsAlgorithm algorithm : kAll) tokens.push_back(signed_with(algorithm));
    const auto several = set_of(
        {secret().jwk(), rsa().jwk(), p256().jwk(), p384().jwk(), p521().jwk(), ed25519().jwk()});
    std::vector<int> good(4);
    std::vector<std::thread> threads;
    for (int& count : good) {
        threads.emplace_back([&] {
            for (int round = 0; round < 4; ++round)
                for (const std::string& token : tokens)
                    if (fault_of(token, any_algorithm(), *several) == CredentialFault::none)
                        ++count;
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const int count : good) CHECK(count == 4 * static_cast<int>(std::size(kAll)));
}

// ---- what is missing

TEST_CASE("JWT: without keys, or without its key, nothing can be said of a token") {
    const std::string token = signed_with(JwsAlgorithm::es256, kGood, R"("kid":"new",)");
    const auto none = verify_token(token, any_algorithm(), nullptr, kNow);
    CHECK(none.fault == CredentialFault::unknown_key);
    CHECK(none.keys_missing);
    const auto other = verdict_of(token);
    CHECK(other.fault == CredentialFault::unknown_key);
    CHECK(other.keys_missing);
    const auto no_kid =
        verdict_of(signed_with(JwsAlgorithm::es256), any_algorithm(), *set_of({rsa().jwk()}));
    CHECK(no_kid.fault == CredentialFault::unknown_key);
    CHECK(no_kid.keys_missing);
    const auto empty = verdict_of(token, any_algorithm(), *set_of({}));
    CHECK(empty.keys_missing);
}

TEST_CASE("JWT: a token that is wrong with any key asks for none") {
    for (const std::string& token :
         {std::string("a.b.c"), signed_with(JwsAlgorithm::es256, kGood, R"("crit":[],)"),
          signed_with(JwsAlgorithm::es256, kGood, R"("kid":7,"typ":"x",)"),
          signed_with(JwsAlgorithm::es256, kGood, R"("kid":"r",)")}) {
        CHECK(verdict_of(token).fault != CredentialFault::none);
        CHECK(!verdict_of(token).keys_missing);
    }
    const auto not_allowed = verify_token(signed_with(JwsAlgorithm::es256),
                                          method_of({JwsAlgorithm::rs256}), nullptr, kNow);
    CHECK(not_allowed.fault == CredentialFault::algorithm);
    CHECK(!not_allowed.keys_missing);
}

TEST_CASE("JWT: claims are looked at only when the signature is right") {
    const Parts wrong = parts_of(signed_with(JwsAlgorithm::es256, "not JSON"));
    CHECK(fault_of(wrong.input + "." + wrong.signature) == CredentialFault::not_json);
    const Parts other = parts_of(signed_with(JwsAlgorithm::es256, R"({"sub":"alice","exp":1})"));
    CHECK(fault_of(other.input + "." + wrong.signature) == CredentialFault::signature);
    CHECK(fault_of(wrong.input + "." + other.signature) == CredentialFault::signature);
}

TEST_CASE("JWT: claims are a strict JSON object") {
    for (const std::string_view payload :
         {R"([])", R"("alice")", R"({"sub":"alice","exp":1700000060}})",
          R"({"sub":"alice","exp":1700000060} {})",
          R"({"sub":"alice","sub":"root","exp":1700000060})",
          R"({"sub":"alice","exp":1,"exp":1700000060})",
          R"({"sub":"alice","exp":1700000060,"\u0073ub":"root"})",
          R"({"sub":"alice","exp":1700000060,"x":{"a":[{"b":1,"b":2}]}})",
          R"({"sub":"alice","exp":1700000060,"x":"\ud800"})",
          "{\"sub\":\"al\xff\",\"exp\":1700000060}",
          "\xef\xbb\xbf{\"sub\":\"a\",\"exp\":1700000060}", R"({"sub":"alice","exp":017})",
          R"({"sub":"alice","exp":+1})"}) {
        CAPTURE(payload);
        CHECK(fault_of_claims(payload) == CredentialFault::not_json);
    }
    CHECK(fault_of_claims(R"({"sub":"alice","exp":1700000060,"x":)" + std::string(16, '[') +
                          std::string(16, ']') + "}") == CredentialFault::not_json);
    CHECK(fault_of_claims(R"( {"sub":"alice","exp":1700000060,"x":[[[{"y":null}]]]} )") ==
          CredentialFault::none);
}

// ---- time

std::string with_times(std::string_view times) {
    return "{\"sub\":\"alice\"," + std::string(times) + "}";
}

TEST_CASE("JWT: exp is needed, a number, and within the years that there are") {
    CHECK(fault_of_claims(R"({"sub":"alice"})") == CredentialFault::time_claim);
    for (const std::string_view exp :
         {R"("1700000060")", "null", "true", "[1700000060]", R"({"a":1})", "-1", "-1e300", "1e300",
          "1.7976931348623157e308", "253402300800", "1700000060000", "9223372036854775807",
          "9223372036854775808", "123456789012345678901234567890", R"("")"}) {
        CAPTURE(exp);
        CHECK(fault_of_claims(with_times("\"exp\":" + std::string(exp))) ==
              CredentialFault::time_claim);
    }
    for (const std::string_view exp : {"1e999", "-1e999"}) {  // no double holds them
        CAPTURE(exp);
        CHECK(fault_of_claims(with_times("\"exp\":" + std::string(exp))) ==
              CredentialFault::not_json);
    }
    for (const std::string_view exp : {"0", "-0", "0.5", "1", "1699999970", "1.69999997e9"}) {
        CAPTURE(exp);
        CHECK(fault_of_claims(with_times("\"exp\":" + std::string(exp))) ==
              CredentialFault::expired);
    }
    for (const std::string_view exp :
         {"1700000060", "1700000060.75", "1.70000006e9", "9999999999", "253402300799"}) {
        CAPTURE(exp);
        CHECK(fault_of_claims(with_times("\"exp\":" + std::string(exp))) == CredentialFault::none);
    }
}

TEST_CASE("JWT: a token is good until exp and the leeway beyond, and not at its end") {
    JwtMethod method = method_of({JwsAlgorithm::hs256});
    const std::string token = signed_with(JwsAlgorithm::hs256);
    for (const auto leeway : {0s, 30s, 300s}) {
        method.leeway = leeway;
        const Time end = kNow + 60s + leeway;
        CHECK(fault_of(token, method, all_keys(), end - 1us) == CredentialFault::none);
        CHECK(fault_of(token, method, all_keys(), end) == CredentialFault::expired);
        CHECK(fault_of(token, method, all_keys(), end + 24h) == CredentialFault::expired);
    }
    // The memory goes by exp itself, without the leeway.
    CHECK(verdict_of(token, method, all_keys(), kNow + 61s).claims.expires == kNow + 60s);
}

TEST_CASE("JWT: fractions of seconds count") {
    const auto verdict =
        verdict_of(signed_with(JwsAlgorithm::hs256, R"({"sub":"alice","exp":1700000060.25})"));
    CHECK(verdict.claims.expires == kNow + 60s + 250ms);
}

TEST_CASE("JWT: a token for ever ends before our clock, which can still be added to") {
    for (const std::string_view exp : {"9800000000", "253402300799"}) {
        const auto verdict =
            verdict_of(signed_with(JwsAlgorithm::hs256, with_times("\"exp\":" + std::string(exp))));
        CHECK(verdict.fault == CredentialFault::none);
        CHECK(verdict.claims.expires > kNow + 24h * 365 * 100);
        CHECK(verdict.claims.expires < Time::max() - 24h * 365);
    }
}

TEST_CASE("JWT: nbf and iat may not lie ahead by more than the leeway") {
    for (const std::string_view name : {"nbf", "iat"}) {
        CAPTURE(name);
        const auto fault = [&](std::string_view value, Time now = kNow) {
            return fault_of_claims(with_times("\"exp\":1800000000,\"" + std::string(name) +
                                              "\":" + std::string(value)),
                                   any_algorithm(), now);
        };
        CHECK(fault("0") == CredentialFault::none);
        CHECK(fault("1700000000") == CredentialFault::none);
        CHECK(fault("1700000030") == CredentialFault::none);
        CHECK(fault("1700000030", kNow - 1us) == CredentialFault::not_yet_valid);
        CHECK(fault("1700000031") == CredentialFault::not_yet_valid);
        CHECK(fault("1900000000") == CredentialFault::not_yet_valid);
        for (const std::string_view value :
             {R"("1700000000")", "null", "-1", "[]", "1e300", "1700000000000"})
            CHECK(fault(value) == CredentialFault::time_claim);
    }
    // One valid claim does not excuse the other.
    CHECK(fault_of_claims(with_times(R"("exp":1800000000,"nbf":1900000000,"iat":1)")) ==
          CredentialFault::not_yet_valid);
    CHECK(fault_of_claims(with_times(R"("exp":1800000000,"nbf":1,"iat":1900000000)")) ==
          CredentialFault::not_yet_valid);
}

// ---- issuer and audience

TEST_CASE("JWT: iss is exactly the configured one") {
    JwtMethod method = any_algorithm();
    const auto fault = [&](std::string_view iss) {
        return fault_of_claims(R"({"sub":"alice","exp":1700000060)" + std::string(iss) + "}",
                               method);
    };
    CHECK(fault(R"(,"iss":"https://other.example")") == CredentialFault::none);
    CHECK(fault(R"(,"iss":7)") == CredentialFault::none);
    method.issuer = "https://idp.example";
    CHECK(fault(R"(,"iss":"https://idp.example")") == CredentialFault::none);
    CHECK(fault("") == CredentialFault::issuer);
    for (const std::string_view iss :
         {R"("https://idp.example/")", R"("HTTPS://idp.example")", R"("https://idp.example.evil")",
          R"("idp.example")", R"("")", "null", "7", R"(["https://idp.example"])"}) {
        CAPTURE(iss);
        CHECK(fault(",\"iss\":" + std::string(iss)) == CredentialFault::issuer);
    }
}

TEST_CASE("JWT: aud is one of the configured ones, alone or in a list of strings") {
    JwtMethod method = any_algorithm();
    const auto fault = [&](std::string_view aud) {
        return fault_of_claims(R"({"sub":"alice","exp":1700000060)" + std::string(aud) + "}",
                               method);
    };
    CHECK(fault(R"(,"aud":"other")") == CredentialFault::none);
    method.audience = {"api", "https://api.example"};
    CHECK(fault(R"(,"aud":"api")") == CredentialFault::none);
    CHECK(fault(R"(,"aud":["other","https://api.example"])") == CredentialFault::none);
    CHECK(fault("") == CredentialFault::audience);
    for (const std::string_view aud :
         {R"("API")", R"("api ")", R"("other")", R"([])", R"(["other"])", R"([["api"]])",
          R"(["api",7])", R"({"api":1})", "null", R"("")", R"("api,other")", R"("api other")"}) {
        CAPTURE(aud);
        CHECK(fault(",\"aud\":" + std::string(aud)) == CredentialFault::audience);
    }
}

// ---- names

TEST_CASE("JWT: the user is text or a number that can be named safely") {
    const auto with_user = [](std::string_view user) {
        return fault_of_claims("{\"exp\":1700000060,\"sub\":" + std::string(user) + "}");
    };
    CHECK(fault_of_claims(R"({"exp":1700000060})") == CredentialFault::user_claim);
    for (const std::string_view user :
         {"null", "true", R"({"name":"a"})", R"(["a"])", "[7]", "18446744073709551616", "1e300"}) {
        CAPTURE(user);
        CHECK(with_user(user) == CredentialFault::user_claim);
    }
    for (const std::string_view user :
         {R"("")", R"("a\nb")", R"("a\u0000b")", R"("\r\nx-admin: 1")", R"("a\tb")",
          R"("\u001b[31m")", R"("\u007f")", R"("\u0085")"}) {
        CAPTURE(user);
        CHECK(with_user(user) == CredentialFault::unsafe_user);
    }
    CHECK(with_user("\"" + std::string(256, 'a') + "\"") == CredentialFault::none);
    CHECK(with_user("\"" + std::string(257, 'a') + "\"") == CredentialFault::unsafe_user);
    CHECK(with_user(R"("alice@example.com")") == CredentialFault::none);
}

TEST_CASE("JWT: a number names the user that its text names, however the token writes it") {
    const auto user = [](std::string_view number) {
        const auto verdict =
            verdict_of(signed_with(JwsAlgorithm::hs256,
                                   R"({"exp":1700000060,"sub":)" + std::string(number) + "}"),
                       any_algorithm());
        CHECK(verdict.fault == CredentialFault::none);
        return verdict.claims.user;
    };
    for (const std::string_view same : {"42", "42.0", "4.2e1", "\"42\""}) CHECK(user(same) == "42");
    CHECK(user("0") == "0");
    CHECK(user("-7") == "-7");
    CHECK(user("1.5") == "1.5");
    CHECK(user("9007199254740993") == "9007199254740993");
    CHECK(user("18446744073709551615") == "18446744073709551615");
}

TEST_CASE("JWT: the claims that name user and tier are configured; a name is not a path") {
    JwtMethod method = any_algorithm();
    method.claim = "https://example.com/user.id";
    method.tier_claim = "plan";
    const auto verdict = verdict_of(
        signed_with(
            JwsAlgorithm::hs256,
            R"({"exp":1700000060,"sub":"x","https://example.com/user.id":"bob","plan":"pro"})"),
        method);
    CHECK(verdict.fault == CredentialFault::none);
    CHECK(verdict.claims.user == "bob");
    CHECK(verdict.claims.tier == "pro");
    method.claim = "user.id";
    CHECK(fault_of_claims(R"({"exp":1700000060,"user":{"id":"bob"}})", method) ==
          CredentialFault::user_claim);
}

TEST_CASE("JWT: a name that begins with a slash is a path to a nested claim (RFC 6901)") {
    JwtMethod method = any_algorithm();
    method.claim = "/user/id";
    method.tier_claim = "/app_metadata/plan";
    method.claims = {"/app_metadata/org", "/a~1b/m~0n", "/roles/1", "/app_metadata/none", "/user"};
    const auto verdict =
        verdict_of(signed_with(JwsAlgorithm::hs256,
                               R"({"exp":1700000060,"user":{"id":7},)"
                               R"("app_metadata":{"plan":"pro","org":["acme","b"]},)"
                               R"("a/b":{"m~n":"deep"},"roles":["x","y"],"/user/id":"flat"})"),
                   method);
    CHECK(verdict.fault == CredentialFault::none);
    CHECK(verdict.claims.user == "7");
    CHECK(verdict.claims.tier == "pro");
    CHECK(verdict.claims.counted == std::vector<std::string>{"acme", "deep", "y", "", ""});
    for (const std::string_view absent :
         {R"({"exp":1700000060,"sub":"x"})", R"({"exp":1700000060,"user":"id"})",
          R"({"exp":1700000060,"user":["id"]})", R"({"exp":1700000060,"user":{"id":null}})",
          R"({"exp":1700000060,"user":null,"/user/id":"flat"})"}) {
        CAPTURE(absent);
        CHECK(fault_of_claims(absent, method) == CredentialFault::user_claim);
    }
}

TEST_CASE("claims: positions in a list are written as RFC 6901 has them") {
    const auto object = parse_json_object(R"({"l":["a",["b"]],"o":{"0":"c"}})");
    REQUIRE(object.has_value());
    CHECK(text_of(*find_claim(*object, "/l/0")) == "a");
    CHECK(text_of(*find_claim(*object, "/l/1/0")) == "b");
    CHECK(text_of(*find_claim(*object, "/o/0")) == "c");
    for (const char* none : {"/l/2", "/l/00", "/l/01", "/l/-", "/l/-1", "/l/1/0/0", "/l/ 0",
                             "/l/99999999999999999999", "/x", "/o/00", "/l/0x0"}) {
        CAPTURE(none);
        CHECK(find_claim(*object, none) == nullptr);
    }
}

TEST_CASE("claims: a path that no token can have is a fault") {
    for (const char* good : {"sub", "a//b", "https://example.com/plan", "~", "/a", "/a/b/c",
                             "/~0/~1", "/a/b/c/d/e/f/g/h"}) {
        CAPTURE(good);
        CHECK(fault_of_claim_name(good).empty());
    }
    for (const char* bad :
         {"/", "//", "/a/", "/a//b", "/a~", "/a~2", "/~~0", "/a/b/c/d/e/f/g/h/i"}) {
        CAPTURE(bad);
        CHECK_FALSE(fault_of_claim_name(bad).empty());
    }
}

TEST_CASE("claims: a name with dots that is neither a URL nor a domain is likely a path") {
    CHECK(likely_pointer("app_metadata.plan") == "/app_metadata/plan");
    CHECK(likely_pointer("resource_access.api.roles") == "/resource_access/api/roles");
    for (const char* name :
         {"sub", "https://example.com/plan", "urn:example:plan.tier", "com.example.plan",
          "plan.example.com", "/a.b/c", ".plan", "plan.", "a..b", "a b.c"}) {
        CAPTURE(name);
        CHECK(likely_pointer(name).empty());
    }
}

TEST_CASE("JWT: a tier is a name; whatever else the claim holds is no tier") {
    JwtMethod method = any_algorithm();
    method.tier_claim = "plan";
    const auto tier = [&](std::string_view plan) {
        const auto verdict = verdict_of(
            signed_with(JwsAlgorithm::hs256,
                        R"({"sub":"alice","exp":1700000060,"plan":)" + std::string(plan) + "}"),
            method);
        CHECK(verdict.fault == CredentialFault::none);
        CHECK(verdict.claims.user == "alice");
        return verdict.claims.tier;
    };
    CHECK(tier(R"("pro-2.x_y")") == "pro-2.x_y");
    const std::string longer = "\"" + std::string(65, 'a') + "\"";
    for (const std::string_view plan :
         {"null", "7", "true", R"(["pro"])", "[]", "{}", R"([{"pro":1}])", R"("")", R"("a b")",
          R"("a\n")", R"("é")", R"("a/b")", longer.c_str()}) {
        CAPTURE(plan);
        CHECK(tier(plan).empty());
    }
}

TEST_CASE("JWT: of a list of tiers the first that some policy knows is the tier") {
    JwtMethod method = any_algorithm();
    method.tier_claim = "roles";
    method.known_tiers = {"internal", "pro"};
    const auto tier = [&](std::string_view roles) {
        const auto verdict = verdict_of(
            signed_with(JwsAlgorithm::hs256,
                        R"({"sub":"alice","exp":1700000060,"roles":)" + std::string(roles) + "}"),
            method);
        CHECK(verdict.fault == CredentialFault::none);
        return verdict.claims.tier;
    };
    CHECK(tier(R"(["offline_access","pro","internal"])") == "pro");
    CHECK(tier(R"(["a b",7,null,["internal"],"internal"])") == "internal");
    CHECK(tier(R"(["offline_access"])").empty());
    CHECK(tier("[]").empty());
    // One text needs no policy that knows it: the upstream may get it.
    CHECK(tier(R"("gold")") == "gold");
}

TEST_CASE("JWT: of the claims only those that policies count by are kept, as text") {
    JwtMethod method = any_algorithm();
    method.claims = {"tenant", "https://example.com/org", "missing"};
    const auto counted = [&](std::string_view tenant) {
        const auto verdict = verdict_of(
            signed_with(JwsAlgorithm::hs256, R"({"sub":"alice","exp":1700000060,"other":"o",)"
                                             R"("https://example.com/org":"x","tenant":)" +
                                                 std::string(tenant) + "}"),
            method);
        CHECK(verdict.fault == CredentialFault::none);
        REQUIRE(verdict.claims.counted.size() == 3);
        CHECK(verdict.claims.counted[1] == "x");
        CHECK(verdict.claims.counted[2].empty());
        return verdict.claims.counted[0];
    };
    CHECK(counted(R"("acme")") == "acme");
    CHECK(counted(R"(["acme","b"])") == "acme");
    CHECK(counted("[7,8]") == "7");
    CHECK(counted("-12") == "-12");
    CHECK(counted("18446744073709551615") == "18446744073709551615");
    for (const std::string_view seven : {"7", "7.0", "70e-1", R"("7")"}) {
        CAPTURE(seven);
        CHECK(counted(seven) == "7");
    }
    CHECK(counted("-0.0") == "0");
    CHECK(counted("0.5") == "0.5");
    // As quotas are written.
    CHECK(counted("0.0001") == "0.0001");
    CHECK(counted("1e-6") == "0.000001");
    CHECK(counted("0.1234567") == "0.1234567");
    CHECK(counted("1e16") == "10000000000000000");
    CHECK(counted("9223372036854775808") == "9223372036854775808");
    CHECK(counted("1e300") == "1e+300");
    for (const std::string_view none :
         {"null", "true", "{}", "[]", R"("")", R"([""])", R"([["acme"]])", "[null,1]"}) {
        CAPTURE(none);
        CHECK(counted(none).empty());
    }
}

TEST_CASE("JWT: a refused token names no user") {
    JwtMethod method = any_algorithm();
    method.claims = {"tenant"};
    const auto verdict = verdict_of(
        signed_with(JwsAlgorithm::hs256, R"({"sub":true,"exp":1700000060,"tenant":"acme"})"),
        method);
    CHECK(verdict.fault == CredentialFault::user_claim);
    CHECK(verdict.claims.user.empty());
    CHECK(verdict.claims.counted.empty());
    CHECK(verdict.claims.expires == Time{});
}

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

}  // namespace tidegate::identity::jwt_test
