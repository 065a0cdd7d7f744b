// Which limits a user gets: which source names the tier, and which source outranks the others.
#include <string>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_tiers_test {

namespace {

const std::string kLimits =
    "key: [user], limits: [10/h], tiers: {pro: [100/h], big: [1000/h], internal: unlimited}";

// Every place that a tier may come from, and what `users` says of some.
struct World {
    TemporaryFolder folder;
    std::string jwks = folder.write("keys.json", key_set({curve_key().jwk()}));
    std::string keys = folder.write("keys.yaml", api_key_file({{"plain", "alice"},
                                                               {"pro", "bob", "pro"},
                                                               {"odd", "carol", "odd"},
                                                               {"promoted", "dave", "pro"}}));
    std::string users = folder.write("users.yaml", "dave: {tier: big}\nfrank: {tier: pro}\n");
    Upstream upstream{ok()};
    Tidegate tidegate{
        identified(upstream,
                   "client_ip: {trusted_proxies: [127.0.0.1]}, users: \"" + users +
                       "\", user: [{jwt: {jwks: \"" + jwks +
                       "\", algorithms: [ES256], tier_claim: plan}}, {api_key: {keys: \"" + keys +
                       "\"}}, {header: {name: x-user-id, tier_header: x-user-tier}}]",
                   kLimits)};

    // Its quota; 0: unlimited. -1: refused.
    int quota(const std::string& fields, const std::string& from = "127.0.0.1") const {
        const Message answer = tidegate.get("/", fields, from);
        if (answer.status() != 200) return -1;
        if (!answer.has("RateLimit-Policy")) return 0;
        const auto policy = answer.field("RateLimit-Policy");
        return std::stoi(policy.substr(policy.find(";q=") + 3));
    }
    std::string told() const { return upstream.last().field("x-auth-tier"); }
};

std::string with_plan(const std::string& user, const std::string& plan) {
    return bearer(token_for(user, R"(,"plan":)" + plan));
}

}  // namespace

TEST_CASE("tiers: of a claim, a key file and a trusted header") {
    const World world;
    CHECK(world.quota(with_plan("erin", R"("pro")")) == 100);
    CHECK(world.told() == "pro");
    CHECK(world.quota(with_plan("erin", R"("internal")")) == 0);
    CHECK(world.told() == "internal");
    CHECK(world.quota(bearer(token_for("erin"))) == 10);
    CHECK(world.told() == "");
    CHECK(world.quota(line("X-Api-Key", "plain")) == 10);
    CHECK(world.quota(line("X-Api-Key", "pro")) == 100);
    CHECK(world.told() == "pro");
    CHECK(world.quota(line("X-User-Id", "erin") + line("X-User-Tier", "big")) == 1000);
    CHECK(world.told() == "big");
    CHECK(world.quota(line("X-User-Id", "erin")) == 10);
}

TEST_CASE("tiers: what is remembered keeps its tier") {
    const World world;
    const std::string erin = with_plan("erin", R"("pro")");
    for (int i = 0; i < 6; ++i) {
        CHECK(world.quota(erin) == 100);
        CHECK(world.told() == "pro");
    }
}

TEST_CASE("tiers: the list of users outranks a claim and a trusted header") {
    const World world;
    CHECK(world.quota(line("X-Api-Key", "promoted")) == 1000);
    CHECK(world.told() == "big");
    CHECK(world.quota(with_plan("dave", R"("internal")")) == 1000);
    CHECK(world.quota(bearer(token_for("frank"))) == 100);
    CHECK(world.told() == "pro");
    CHECK(world.quota(line("X-User-Id", "dave") + line("X-User-Tier", "internal")) == 1000);
}

TEST_CASE("tiers: a tier that a policy does not have leaves the policy's own limits in force") {
    const World world;
    CHECK(world.quota(line("X-Api-Key", "odd")) == 10);
    CHECK(world.told() == "odd");
    CHECK(world.quota(with_plan("erin", R"("platinum")")) == 10);
    CHECK(world.quota(line("X-User-Id", "erin") + line("X-User-Tier", "platinum")) == 10);
    // A claim that cannot be a tier is none.
    CHECK(world.quota(with_plan("erin", "7")) == 10);
    CHECK(world.told() == "");
    CHECK(world.quota(with_plan("erin", R"("pro\nX: y")")) == 10);
    CHECK(world.told() == "");
    CHECK(world.quota(line("X-User-Id", "erin") + line("X-User-Tier", "a b")) == 10);
    CHECK(world.told() == "");
}

TEST_CASE(
    "tiers: of a list in a token the first tier that a policy knows counts, also when remembered") {
    const World world;
    const std::string erin = with_plan("erin", R"(["offline_access","a b",7,"big","pro"])");
    for (int i = 0; i < 4; ++i) {
        CHECK(world.quota(erin) == 1000);
        CHECK(world.told() == "big");
    }
    CHECK(world.quota(with_plan("erin", R"(["offline_access"])")) == 10);
    CHECK(world.told() == "");
    CHECK(world.quota(with_plan("erin", "[]")) == 10);
}

TEST_CASE("tiers: a client cannot give itself a tier") {
    const World world;
    const std::string wish = line("X-User-Tier", "internal") + line("X-Auth-Tier", "internal");
    CHECK(world.quota(wish + line("X-Api-Key", "plain")) == 10);
    CHECK(world.quota(wish + line("X-Api-Key", "plain"), "127.0.0.2") == 10);
    CHECK(world.told() == "");
    CHECK(world.quota(wish + line("X-User-Id", "erin"), "127.0.0.2") == -1);  // no user: 401
    CHECK(world.quota(line("X-User-Id", "erin") + line("X-User-Tier", "pro") +
                      line("X-User-Tier", "internal")) == 10);
    CHECK(world.quota(line("X-User-Id", "erin") + line("X_User_Tier", "internal")) == 10);
}

}  // namespace tidegate::test::identity_tiers_test
