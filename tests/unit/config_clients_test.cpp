// `identity.require`, lists of clients, and claims in keys.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_clients_test {

namespace {

const std::string kUpstreams = "upstreams: {a: {servers: [http://a]}}\n";
const std::string kTrusting = "client_ip: {trusted_proxies: [10.0.0.0/8]}";
const std::string kHeader = "{header: {name: x-user}}";
const std::string kTiers = "{header: {name: x-user, tier_header: x-tier}}";
// Keys at a URL are not fetched when a configuration is read.
const std::string kJwt =
    "{jwt: {jwks: 'https://idp.example/keys', algorithms: [ES256], issuer: i, audience: a, "
    "namespace: j, tier_claim: roles}}";

std::string users_by(const std::string& methods, const std::string& more = "") {
    return "identity: {" + kTrusting + ", user: [" + methods + "]" + more + "}\n";
}

std::shared_ptr<const config::Config> read(const std::string& yaml) {
    const auto loaded = config::load_text(yaml, "w");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return loaded.config;
}

const config::PolicySettings& policy_of(const config::Config& config, const std::string& name) {
    for (const auto& policy : config.policies) {
        if (policy->name == name) return *policy;
    }
    FAIL("no policy " << name);
    return *config.policies[0];
}

// One route with these policies.
std::string routed(const std::string& who, const std::string& policies, const std::string& names) {
    return who + kUpstreams + "response: {cors: off}\npolicies: {" + policies +
           "}\nroutes: [{name: all, policies: [" + names + "]}]\n";
}

}  // namespace

TEST_CASE("config: identity.require holds for every route that says nothing else") {
    const std::string routes =
        "routes: [{match: {path: /a}, policies: []}, {match: {path: /b}, identity: optional, "
        "policies: []}, {match: {path: /c}, identity: required, policies: []}]\n";
    const auto needs = [&](const std::string& require) {
        std::string out;
        const auto config = read(users_by(kHeader, require) + kUpstreams + routes);
        for (const auto& route : config->routes) {
            out += route.needs_user ? "1" : "0";
        }
        return out;
    };
    CHECK(needs("") == "001");
    CHECK(needs(", require: off") == "001");
    CHECK(needs(", require: on") == "101");
    CHECK(read(users_by(kHeader, ", require: on") + "upstream: http://a\n")->routes[0].needs_user);
}

TEST_CASE("config: lists of clients have networks, users, tiers and two words") {
    const auto config = read(
        routed(users_by(kTiers),
               "p: {key: [ip], limits: [1/s], exempt: [10.0.0.0/8, 'user:b', 'user:a', 'tier:z', "
               "'tier:internal', authenticated], deny: anonymous}",
               "p"));
    const auto& exempt = config->policies[0]->exempt;
    CHECK(exempt.networks.size() == 1);
    CHECK(exempt.users == std::vector<std::string>{"a", "b"});
    CHECK(exempt.tiers == std::vector<std::string>{"internal", "z"});
    CHECK(exempt.authenticated);
    CHECK_FALSE(exempt.anonymous);
    CHECK(exempt.by_user);
    CHECK(config->policies[0]->deny.anonymous);
    const auto networks =
        read(routed("", "p: {key: [ip], limits: [1/s], exempt: [10.0.0.0/8]}", "p"));
    CHECK_FALSE(networks->policies[0]->exempt.by_user);
}

TEST_CASE("config: each claim of a key is known once, to every method that reads tokens") {
    const auto config = read(
        users_by(kJwt + ", " + kHeader) + kUpstreams +
        "policies:\n"
        "  p: {key: ['claim:tenant', 'claim:https://example.com/org+route'], limits: [1/s], "
        "tiers: {pro: [2/s]}}\n"
        "  q: {key: ['claim:plan%2Bsize|claim:tenant'], limits: [1/s], exempt: ['tier:internal'], "
        "deny: ['tier:banned']}\n"
        "routes: [{policies: [p, q, {key: ['claim:plan'], limits: [1/s], tiers: {free: "
        "[1/s]}}]}]\n");
    const std::vector<std::string> claims{"tenant", "https://example.com/org", "plan+size", "plan"};
    CHECK(config->claims == claims);
    const auto& jwt = dynamic_cast<const identity::JwtMethod&>(*config->user_methods[0].how);
    CHECK(jwt.claims == claims);
    CHECK(jwt.known_tiers == std::vector<std::string>{"banned", "free", "internal", "pro"});
    const limit::KeyPart& last = policy_of(*config, "q").key[0].choices[1][0];
    CHECK(last.kind == limit::KeyPart::Kind::claim);
    CHECK(last.claim == 0);
    CHECK_FALSE(last.secret);
}

TEST_CASE("config: policies count by at most 32 claims") {
    const auto with = [](int claims) {
        std::string policies;
        for (int i = 0; i < claims; ++i) {
            const std::string number = std::to_string(i);
            policies += "  p" + number + ": {key: ['claim:c" + number + "'], limits: [1/s]}\n";
        }
        return config::load_text(
            users_by(kJwt) + kUpstreams + "policies:\n" + policies + "routes: [{policies: []}]\n",
            "w");
    };
    CHECK(with(32).config != nullptr);
    const auto more = with(33);
    REQUIRE(more.errors.size() == 1);
    CHECK(more.errors[0].message ==
          "policies.p32.key[0]: policies count by more than 32 different claims");
}

TEST_CASE("config: a key that a client can leave out is required unless skip is written") {
    using limit::OnMissing;
    const auto on_missing = [](const std::string& key) {
        const auto config =
            read(routed(users_by(kJwt), "p: {key: ['" + key + "'], limits: [1/s]}", "p"));
        CHECK_FALSE(policy_of(*config, "p").may_skip);
        return policy_of(*config, "p").key[0].on_missing;
    };
    for (const char* key : {"claim:tenant", "cookie:cart", "host", "user+method"}) {
        CHECK_MESSAGE(on_missing(key) == OnMissing::reject, key);
    }
    for (const char* key : {"ip", "user", "method", "user|method"}) {
        CHECK_MESSAGE(on_missing(key) == OnMissing::skip, key);
    }
    const auto written = read(
        routed(users_by(kJwt), "p: {key: ['claim:tenant'], on_missing: skip, limits: [1/s]}", "p"));
    CHECK(policy_of(*written, "p").may_skip);
    CHECK(policy_of(*written, "p").key[0].on_missing == OnMissing::skip);
}

}  // namespace tidegate::config_clients_test
