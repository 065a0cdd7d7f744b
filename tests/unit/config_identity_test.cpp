// `identity`: the methods that identify users, and the files that they read.
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "config/config.hpp"
#include "identity/api_key.hpp"
#include "identity/basic.hpp"
#include "identity/jwk.hpp"
#include "identity/key_source.hpp"
#include "places.hpp"

namespace tidegate::config_identity_test {

using namespace std::chrono_literals;
using config::Loaded;
using identity::JwsAlgorithm;

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";
// printf %s alice-key | sha256sum
const std::string kAlicesDigest =
    "72ee9d4355ccb9d3a4c9dbf37382e38e75c1b1a225b5bd1f729ee91bbda30c20";
const std::string kOtherDigest(64, 'a');
const std::string kSha256Crypt = "$5$rounds=1000$salt$gdEupGonUIiJCMc1vfHpiFjFhRA3Jf3USQ7IYKjZitD";

// RFC 7515 appendix A.3.1, the public part.
const std::string kPublicKeys = R"({"keys":[{"kty":"EC","crv":"P-256","kid":"e",)"
                                R"("x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
                                R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})";

// A configuration with files beside it, in a folder of their own.
class Beside {
  public:
    explicit Beside(const std::string& config) {
        std::string name = std::filesystem::temp_directory_path() / "tidegate-identity-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path_ = name;
        with("tidegate.yaml", config);
    }
    ~Beside() { std::filesystem::remove_all(path_); }
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;

    Beside& with(const std::string& name, const std::string& text) {
        std::ofstream(path(name), std::ios::binary) << text;
        return *this;
    }
    std::string path(const std::string& name) const { return path_ + "/" + name; }
    Loaded load() const { return config::load_file(path("tidegate.yaml")); }

  private:
    std::string path_;
};

std::string identity_of(const std::string& settings) {
    return kUpstream + "identity: {" + settings + "}\n";
}

std::string user_of(const std::string& methods, const std::string& more = "") {
    return identity_of("user: [" + methods + "]" + more);
}

std::vector<std::string> texts(const std::vector<config::Diagnostic>& diagnostics) {
    std::vector<std::string> out;
    for (const auto& diagnostic : diagnostics) out.push_back(diagnostic.to_string());
    return out;
}

// Each file a method could name is there.
std::shared_ptr<const config::Config> loaded(const std::string& text) {
    Beside files(text);
    files.with("p.jwks", kPublicKeys).with("k.keys", kAlicesDigest + ": {user: alice}\n");
    files.with("h.htpasswd", "carol:" + kSha256Crypt + "\n");
    Loaded result = files.load();
    CAPTURE(texts(result.errors));
    REQUIRE(result.config != nullptr);
    return result.config;
}

bool one_begins(const std::vector<std::string>& list, std::string_view beginning) {
    return list.size() == 1 && list[0].starts_with(beginning);
}

template <class Method>
const Method& method_of(const config::Config& config, std::size_t position = 0) {
    return dynamic_cast<const Method&>(*config.user_methods.at(position).how);
}

const std::string kJwt =
    "{jwt: {jwks: p.jwks, algorithms: [ES256], issuer: i, audience: a, namespace: j}}";

}  // namespace

TEST_CASE("config: a token's method has all its settings") {
    const auto config = loaded(user_of(
        "{jwt: {header: X-Token, jwks: p.jwks, algorithms: [ES256], issuer: 'https://idp.example',"
        " audience: [api, web], claim: email, tier_claim: plan, leeway: 1min, namespace: idp}}"));
    CHECK(config->user_methods.at(0).space == "idp");
    const auto& jwt = method_of<identity::JwtMethod>(*config);
    CHECK(jwt.field == "x-token");
    CHECK(jwt.cookie.empty());
    CHECK(jwt.algorithms == std::vector{JwsAlgorithm::es256});
    CHECK(jwt.issuer == "https://idp.example");
    CHECK(jwt.audience == std::vector<std::string>{"api", "web"});
    CHECK(jwt.claim == "email");
    CHECK(jwt.tier_claim == "plan");
    CHECK(jwt.leeway == 60s);
    CHECK(jwt.keys->url().empty());
    CHECK(jwt.keys->keys()->size() == 1);
}

TEST_CASE("config: settings of jwt that are not written have their defaults") {
    const auto config = loaded(user_of("{jwt: {jwks: p.jwks, algorithms: ES256}}"));
    const auto& jwt = method_of<identity::JwtMethod>(*config);
    CHECK(config->user_methods[0].space.empty());
    CHECK(jwt.field == "authorization");
    CHECK(jwt.claim == "sub");
    CHECK(jwt.issuer.empty());
    CHECK(jwt.audience.empty());
    CHECK(jwt.tier_claim.empty());
    CHECK(jwt.leeway == 30s);
    const auto none = loaded(user_of("{jwt: {jwks: p.jwks, algorithms: ES256, leeway: 0s}}"));
    CHECK(method_of<identity::JwtMethod>(*none).leeway == 0s);
    const auto most = loaded(user_of("{jwt: {jwks: p.jwks, algorithms: ES256, leeway: 5min}}"));
    CHECK(method_of<identity::JwtMethod>(*most).leeway == 5min);
}

TEST_CASE("config: all algorithms of RFC 7518 section 3.1 but `none` have their names") {
    const auto config = loaded(user_of(
        "{jwt: {jwks: 'https://idp.example/keys', algorithms: [RS256, RS384, RS512, PS256, PS384, "
        "PS512, ES256, ES384, ES512]}}"));
    CHECK(method_of<identity::JwtMethod>(*config).algorithms ==
          std::vector{JwsAlgorithm::rs256, JwsAlgorithm::rs384, JwsAlgorithm::rs512,
                      JwsAlgorithm::ps256, JwsAlgorithm::ps384, JwsAlgorithm::ps512,
                      JwsAlgorithm::es256, JwsAlgorithm::es384, JwsAlgorithm::es512});
}

TEST_CASE("config: EdDSA is an algorithm of its own (RFC 8037)") {
    const auto config =
        loaded(user_of("{jwt: {jwks: 'https://idp.example/keys', algorithms: [EdDSA]}}"));
    CHECK(method_of<identity::JwtMethod>(*config).algorithms == std::vector{JwsAlgorithm::eddsa});
}

TEST_CASE("config: discovery implies the issuer, and is another location than a URL of keys") {
    const auto config = loaded(
        user_of("{jwt: {discovery: 'https://idp.example/one', algorithms: [ES256]}},"
                "{jwt: {cookie: a, discovery: 'https://idp.example/one', issuer: "
                "'https://idp.example/one', algorithms: [ES256]}},"
                "{jwt: {cookie: b, jwks: 'https://idp.example/one', algorithms: [ES256]}},"
                "{jwt: {cookie: c, discovery: 'http://127.0.0.1:8080', algorithms: [ES256]}}"));
    const auto& first = method_of<identity::JwtMethod>(*config, 0);
    CHECK(first.issuer == "https://idp.example/one");
    CHECK(first.keys->location() == identity::KeyLocation{"https://idp.example/one", true});
    CHECK(method_of<identity::JwtMethod>(*config, 1).keys == first.keys);
    CHECK(method_of<identity::JwtMethod>(*config, 1).issuer == first.issuer);
    CHECK(method_of<identity::JwtMethod>(*config, 2).keys != first.keys);
    CHECK(method_of<identity::JwtMethod>(*config, 2).issuer.empty());
    CHECK(method_of<identity::JwtMethod>(*config, 3).issuer == "http://127.0.0.1:8080");
}

TEST_CASE("config: `ca` belongs to where keys are fetched from") {
    Beside files(user_of(
        "{jwt: {jwks: 'https://idp.example/keys', ca: ca.pem, algorithms: [ES256]}},"
        "{jwt: {cookie: a, jwks: 'https://idp.example/keys', algorithms: [ES256]}},"
        "{jwt: {cookie: b, discovery: 'https://idp.example', ca: ca.pem, algorithms: [ES256]}}"));
    const test::Authority authority;
    files.with("ca.pem", authority.pem());
    const Loaded read = files.load();
    REQUIRE(read.config);
    const auto& first = method_of<identity::JwtMethod>(*read.config, 0);
    CHECK(first.keys->location().ca == authority.pem());
    CHECK(method_of<identity::JwtMethod>(*read.config, 1).keys != first.keys);
    CHECK(method_of<identity::JwtMethod>(*read.config, 2).keys->location().ca == authority.pem());
}

TEST_CASE("config: keys behind a URL are not there yet, and are fetched once for all methods") {
    const auto config = loaded(
        user_of("{jwt: {jwks: 'https://idp.example/keys?v=1', algorithms: [ES256]}},"
                "{jwt: {cookie: token, jwks: 'https://idp.example/keys?v=1', algorithms: [RS256]}},"
                "{jwt: {header: x-t, jwks: 'https://idp.example/other', algorithms: [RS256]}}"));
    const auto& first = method_of<identity::JwtMethod>(*config, 0);
    const auto& second = method_of<identity::JwtMethod>(*config, 1);
    CHECK(first.keys->url() == "https://idp.example/keys?v=1");
    CHECK(first.keys->version() == 0);
    CHECK(first.keys->keys() == nullptr);
    CHECK(second.cookie == "token");
    CHECK(second.keys == first.keys);
    CHECK(method_of<identity::JwtMethod>(*config, 2).keys != first.keys);
}

TEST_CASE("config: methods stay in the order they are written") {
    const auto config = loaded(user_of(
        "{cookie: {name: __Host-Session, namespace: c}}, {header: {name: X-User, tier_header: "
        "X-Plan}}, {api_key: {keys: k.keys, namespace: key}}, {basic: {htpasswd: h.htpasswd}}, "
        "{api_key: {header: Authorization, keys: k.keys}}"));
    REQUIRE(config->user_methods.size() == 5);
    CHECK(method_of<identity::CookieMethod>(*config, 0).name == "__Host-Session");
    CHECK(config->user_methods[0].space == "c");
    CHECK(method_of<identity::HeaderMethod>(*config, 1).field == "x-user");
    CHECK(method_of<identity::HeaderMethod>(*config, 1).tier_field == "x-plan");
    const auto& keys = method_of<identity::ApiKeyMethod>(*config, 2);
    CHECK(keys.field == "x-api-key");
    REQUIRE(keys.keys->size() == 1);
    CHECK(method_of<identity::BasicMethod>(*config, 3).users->size() == 1);
    CHECK(method_of<identity::ApiKeyMethod>(*config, 4).field == "authorization");
    CHECK(method_of<identity::ApiKeyMethod>(*config, 4).keys == keys.keys);
}

TEST_CASE("config: several trusted fields may share one that names the tier") {
    const auto config = loaded(user_of(
        "{header: {name: x-user, tier_header: x-plan}}, {header: {name: x-service, tier_header: "
        "x-plan}}"));
    CHECK(method_of<identity::HeaderMethod>(*config, 1).tier_field == "x-plan");
}

TEST_CASE("config: cookies differ by case, header fields do not") {
    CHECK(loaded(user_of("{cookie: {name: a}}, {cookie: {name: A}}"))->user_methods.size() == 2);
    CHECK(
        config::load_text(user_of("{header: {name: a}}, {header: {name: A}}"), "f").errors.size() ==
        1);
}

TEST_CASE("config: a field of a credential is known as one, however long its name is") {
    const std::string field = "x-customer-api-key-of-ours";
    const auto config =
        loaded(user_of("{api_key: {header: " + field + ", keys: k.keys}}, " + kJwt));
    const auto& fields = config->credential_fields;
    CHECK(std::find(fields.begin(), fields.end(), field) != fields.end());
}

TEST_CASE("config: failed credentials are limited by a policy of their own") {
    const auto config = loaded(identity_of("failed_credentials: 20/min"));
    REQUIRE(config->failed_credentials != nullptr);
    const config::PolicySettings& policy = *config->failed_credentials;
    CHECK(policy.name == "failed_credentials");
    CHECK(policy.key == std::vector{limit::single_key(limit::KeyPart::Kind::ip)});
    CHECK(policy.on_store_failure == limit::OnStoreFailure::local);
    CHECK_FALSE(policy.shadow);
    REQUIRE(policy.limits.size() == 1);
    CHECK(policy.limits[0].quota == 20);
    CHECK(policy.limits[0].duration == 1min);
    CHECK(policy.limits[0].count == limit::Count::by_status);
    CHECK(policy.limits[0].keeps(401));
    CHECK_FALSE(policy.limits[0].keeps(200));
    CHECK_FALSE(policy.limits[0].keeps(403));
    REQUIRE(config->policies.size() == 1);
    CHECK(config->policies[0].get() == &policy);
    CHECK(config->limit_lists.at(policy.index).policy == &policy);
    CHECK(config->limit_lists[policy.index].settles);
}

TEST_CASE("config: failed credentials may have several limits, whatever the store's failure does") {
    const auto config = loaded("on_store_failure: deny\n" +
                               identity_of("failed_credentials: [{quota: 5, per: 1min, algorithm: "
                                           "gcra}, 100/day]") +
                               "limits: [10/s]\n");
    REQUIRE(config->policies.size() == 2);
    const config::PolicySettings& policy = *config->failed_credentials;
    CHECK(policy.on_store_failure == limit::OnStoreFailure::local);
    REQUIRE(policy.limits.size() == 2);
    CHECK(policy.limits[0].algorithm == limit::Algorithm::gcra);
    CHECK(policy.limits[0].count == limit::Count::by_status);
    CHECK(policy.limits[1].count == limit::Count::by_status);
    // It is met by no route, and leaves the others their places.
    REQUIRE(config->routes.at(0).policies.size() == 1);
    CHECK(config->routes[0].policies[0]->name == "default");
    CHECK(config->limit_lists.at(config->routes[0].policies[0]->index).policy ==
          config->routes[0].policies[0]);
}

TEST_CASE(
    "config: by default, invalid credentials are rejected, without a limit and without a field "
    "upstream") {
    const auto config = loaded(kUpstream);
    CHECK(config->user_methods.empty());
    CHECK_FALSE(config->anonymous_on_invalid);
    CHECK(config->failed_credentials == nullptr);
    CHECK(config->policies.empty());
    CHECK(config->forward_as.user.empty());
    CHECK(config->forward_as.tier.empty());
    CHECK(config->forward_as.client_ip.empty());
}

TEST_CASE("config: invalid credentials may make a request anonymous") {
    CHECK(loaded(identity_of("on_invalid_credentials: anonymous"))->anonymous_on_invalid);
    CHECK_FALSE(loaded(identity_of("on_invalid_credentials: reject"))->anonymous_on_invalid);
}

TEST_CASE("config: forward_as takes any field name without another meaning") {
    const auto config =
        loaded(identity_of("forward_as: {user: X-Auth-User, tier: plan, client_ip: X-Real-IP}"));
    CHECK(config->forward_as.user == "x-auth-user");
    CHECK(config->forward_as.tier == "plan");
    CHECK(config->forward_as.client_ip == "x-real-ip");
    for (const char* name : {"Cookie", "set-cookie", "connection", "content_length", "via",
                             "forwarded", "accept", "x-forwarded-user", "x_real_ip", "if-match",
                             "te", "X_Request_Id", "proxy-authorization"}) {
        CAPTURE(name);
        const Loaded refused =
            config::load_text(identity_of("forward_as: {user: " + std::string(name) + "}"), "f");
        CHECK(one_begins(texts(refused.errors), "f:2:31: identity.forward_as.user: `"));
    }
}

TEST_CASE("config: forward_as may use the name of a trusted field") {
    const auto config = loaded(user_of("{header: {name: x-user}}", ", forward_as: {user: x-user}"));
    CHECK(config->forward_as.user == "x-user");
}

TEST_CASE("config: mistakes among API keys have their places, and show no key") {
    Beside files(user_of("{api_key: {keys: k.keys}}"));
    files.with("k.keys", "hunter2: {user: alice}\n" +                           // 1: the key itself
                             kAlicesDigest + ": alice\n" +                      // 2
                             kOtherDigest + ": {tier: pro}\n" +                 // 3
                             std::string(64, 'b') + ": {user: ''}\n" +          // 4
                             std::string(64, 'c') + ": {user: a, name: b}\n" +  // 5
                             std::string(64, 'd') + ": {user: a, tier: a b}\n" +  // 6
                             std::string(64, 'e') + ": {user: \"a\\tb\"}\n" +     // 7
                             std::string(64, 'f') + ": {user: a}\n" + std::string(64, 'F') +
                             ": {user: a}\n" +                         // 9
                             std::string(64, 'f') + ": {user: b}\n" +  // 10
                             "hunter3:\n");                            // 11
    const Loaded refused = files.load();
    CHECK(refused.config == nullptr);
    const auto errors = texts(refused.errors);
    const std::string file = files.path("k.keys");
    const std::vector<std::string> places{":10:1: ", ":1:1: ",  ":2:67: ", ":3:67: ", ":4:74: ",
                                          ":5:77: ", ":6:83: ", ":7:1: ",  ":9:1: ",  ":11:1: "};
    REQUIRE(errors.size() == places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        CAPTURE(errors[i]);
        CHECK(errors[i].starts_with(file + places[i]));
        CHECK(errors[i].find("hunter") == std::string::npos);
        CHECK(errors[i].find(kAlicesDigest) == std::string::npos);
        CHECK(errors[i].find("ffff") == std::string::npos);
    }
}

TEST_CASE("config: a line of a file of keys says what it must hold") {
    Beside files(user_of("{api_key: {keys: k.keys}}"));
    files.with("k.keys", "tg_a-key: {user: alice}\n" + kAlicesDigest +
                             ": {user: alice, usr: bob}\n" + kAlicesDigest.substr(0, 63) +
                             "x: {user: bob, plan: pro}\n");
    const auto errors = texts(files.load().errors);
    const auto one_has = [&](std::string_view part) {
        return std::any_of(errors.begin(), errors.end(), [&](const std::string& error) {
            return error.find(part) != std::string::npos;
        });
    };
    CHECK(
        one_has("a line begins with the SHA-256 of an API key, 64 hexadecimal digits: make one "
                "with `tidegate keys new USER`"));
    CHECK(one_has(":2:81: unknown entry `usr`: write `user`"));
    CHECK(one_has("unknown entry `plan`: write `user` and `tier` only"));
    CHECK_FALSE(one_has("tg_a-key"));
}

TEST_CASE("config: mistakes in a password file have their line") {
    Beside files(user_of("{basic: {htpasswd: h.htpasswd}}"));
    files.with("h.htpasswd", "# people\ncarol:" + kSha256Crypt + "\ndave:hunter2\n");
    const auto errors = texts(files.load().errors);
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].starts_with(files.path("h.htpasswd") + ":3:1: "));
    CHECK(errors[0].find("hunter2") == std::string::npos);
}

TEST_CASE("config: a fault of a key set is reported once, for its file") {
    Beside files(
        user_of("{jwt: {jwks: p.jwks, algorithms: [ES256]}}, "
                "{jwt: {cookie: t, jwks: p.jwks, algorithms: [ES256]}}"));
    for (const char* text : {"", "{}", "[]", "{\"keys\": []}", "{\"keys\": [{\"kty\": \"EC\"}]}"}) {
        CAPTURE(text);
        files.with("p.jwks", text);
        const Loaded refused = files.load();
        CHECK(refused.config == nullptr);
        CHECK(one_begins(texts(refused.errors), files.path("p.jwks") + ": "));
    }
}

TEST_CASE("config: a file of keys that is no ordinary file, or too large, is refused") {
    Beside files(user_of("{api_key: {keys: k.keys}}"));
    std::filesystem::create_directory(files.path("k.keys"));
    CHECK(one_begins(texts(files.load().errors),
                     files.path("tidegate.yaml") +
                         ":2:36: identity.user[0].api_key.keys: the file `k.keys` cannot be read"));
    std::filesystem::remove(files.path("k.keys"));
    std::filesystem::create_symlink("/dev/zero", files.path("k.keys"));
    CHECK(texts(files.load().errors)
              .at(0)
              .ends_with("`k.keys` cannot be read: it is neither a file nor a pipe"));
    std::filesystem::remove(files.path("k.keys"));
    files.with("k.keys", std::string((std::size_t{16} << 20U) + 1, '#'));
    CHECK(texts(files.load().errors).at(0).ends_with("the file `k.keys` is larger than 16 MiB"));
    files.with("k.keys", std::string(std::size_t{16} << 20U, '#'));
    CHECK(files.load().errors.empty());

    Beside tokens(user_of("{jwt: {jwks: p.jwks, algorithms: [ES256]}}"));
    tokens.with("p.jwks", std::string((std::size_t{1} << 20U) + 1, ' '));
    CHECK(texts(tokens.load().errors).at(0).ends_with("the file `p.jwks` is larger than 1 MiB"));
}

TEST_CASE("config: keys are read from a pipe, if a program writes to it") {
    Beside files(user_of("{api_key: {keys: k.keys}}"));
    REQUIRE(mkfifo(files.path("k.keys").c_str(), 0600) == 0);
    std::thread writer([path = files.path("k.keys")] {
        std::ofstream(path) << kAlicesDigest + ": {user: alice}\n";
    });
    CHECK(files.load().errors.empty());
    writer.join();
    // Not an empty file of keys: what a pipe held is gone when it has been read.
    std::thread silent([path = files.path("k.keys")] { const std::ofstream none(path); });
    CHECK(texts(files.load().errors).at(0).find("`k.keys` cannot be read: this pipe is empty") !=
          std::string::npos);
    silent.join();
    // No program ever writes to it: reading it would never end.
    CHECK(texts(files.load().errors)
              .at(0)
              .ends_with("`k.keys` cannot be read: no program has written to this pipe for 2s"));
}

TEST_CASE("config: check warns about a file of keys that every user may write") {
    Beside files(user_of("{api_key: {keys: k.keys}}"));
    files.with("k.keys", kAlicesDigest + ": {user: alice}\n");
    REQUIRE(chmod(files.path("k.keys").c_str(), 0664) == 0);
    CHECK(files.load().warnings.empty());
    REQUIRE(chmod(files.path("k.keys").c_str(), 0666) == 0);
    CHECK(one_begins(texts(files.load().warnings),
                     files.path("tidegate.yaml") +
                         ":2:36: identity.user[0].api_key.keys: every user of this machine may "));
}

TEST_CASE("config: wrong credentials are limited by default where checking them is expensive") {
    const auto limit_of = [](const std::string& methods, const std::string& more = "") {
        Beside files(user_of(methods, more));
        files.with("p.jwks", kPublicKeys)
            .with("k.keys", kAlicesDigest + ": {user: alice}\n")
            .with("h.htpasswd", "alice:" + kSha256Crypt + "\n");
        const Loaded result = files.load();
        REQUIRE(result.config != nullptr);
        const config::PolicySettings* const policy = result.config->failed_credentials;
        if (policy == nullptr) return std::string("none");
        REQUIRE(policy->limits.size() == 1);
        CHECK(policy->limits[0].keeps(401));
        CHECK_FALSE(policy->limits[0].keeps(200));
        CHECK(policy->key == std::vector{limit::single_key(limit::KeyPart::Kind::ip)});
        // A default must not keep a proxy from starting without Redis.
        CHECK((policy->on_store_failure == limit::OnStoreFailure::local) == !more.empty());
        return std::to_string(policy->limits[0].quota) + " " + policy->limits[0].name;
    };
    const std::string basic = "{basic: {htpasswd: h.htpasswd}}";
    const std::string api_key = "{api_key: {keys: k.keys}}";
    CHECK(limit_of(kJwt) == "60 1min");
    CHECK(limit_of(basic) == "60 1min");
    CHECK(limit_of(api_key + ", " + basic) == "60 1min");
    CHECK(limit_of(kJwt, ", failed_credentials: 7/h") == "7 1h");
    CHECK(limit_of(kJwt, ", failed_credentials: off") == "none");
    // These need no computation.
    CHECK(limit_of(api_key) == "none");
    CHECK(limit_of("{cookie: {name: a}}") == "none");
    CHECK(limit_of(api_key, ", failed_credentials: 7/h") == "7 1h");
}

TEST_CASE("config: names that no user can have are refused where users are named") {
    const auto fault_of = [](const std::string& policies, const std::string& users) {
        Beside files(
            "upstreams: {a: {servers: [http://a]}}\npolicies: {p: {key: [ip], limits: "
            "[1/s], exempt: [\"" +
            policies + "\"]}}\nroutes: [{policies: [p]}]\nidentity: {users: u.yaml}\n");
        files.with("u.yaml", "\"" + users + "\": {tier: pro}\n");
        const auto errors = texts(files.load().errors);
        return errors.empty() ? std::string("none") : errors[0];
    };
    CHECK(fault_of("user:alice", "alice") == "none");
    for (const std::string unsafe : {"ali\u202ece", "alice\u200b", "alice\u00a0", " alice"}) {
        CAPTURE(unsafe);
        CHECK(fault_of("user:" + unsafe, "alice").find("is not a user: names are UTF-8") !=
              std::string::npos);
        CHECK(fault_of("user:alice", unsafe).find("this is not a valid name: names are UTF-8") !=
              std::string::npos);
    }
}

TEST_CASE("config: config/identity.yaml has nothing to warn about") {
    const Loaded example = config::load_file(test::source_folder() + "/config/identity.yaml");
    CHECK(texts(example.errors).empty());
    CHECK(texts(example.warnings).empty());
    REQUIRE(example.config != nullptr);
    const auto& keys = method_of<identity::ApiKeyMethod>(*example.config, 1);
    REQUIRE(keys.keys->find("example-key-of-alice"));
    CHECK(keys.keys->find("example-key-of-alice")->tier == "pro");
    CHECK(keys.keys->find("example-key-of-bob")->user == "bob");
    const auto& people = method_of<identity::BasicMethod>(*example.config, 2);
    CHECK(people.users->verify("carol", "correct horse"));
    CHECK(people.users->verify("dave", "battery staple"));
}

}  // namespace tidegate::config_identity_test
