#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_policies_test {

using namespace std::chrono_literals;
using config::Loaded;
using limit::Algorithm;
using limit::OnMissing;
using Kind = limit::KeyPart::Kind;

namespace {

const std::string kBegin = "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n";

std::shared_ptr<const config::Config> read(const std::string& text) {
    const Loaded loaded = config::load_text(text, "test.yaml");
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded.config;
}

std::shared_ptr<const config::Config> with_policy(const std::string& policy) {
    return read(kBegin + "policies:\n  p: {" + policy +
                "}\nroutes: [{match: {path: \"/{id}\"}, policies: [p]}]\n");
}

limit::Limit the_limit(const std::string& limit) {
    return with_policy("key: [ip], limits: [" + limit + "]")->policies[0]->limits.at(0);
}

// A configuration and a users' file beside it, in a folder of their own.
struct Beside {
    std::string path;

    Beside(const std::string& config, const std::string& users) {
        std::string name = std::filesystem::temp_directory_path() / "tidegate-users-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
        std::ofstream(path + "/tidegate.yaml", std::ios::binary) << config;
        std::ofstream(path + "/users.yaml", std::ios::binary) << users;
    }
    ~Beside() { std::filesystem::remove_all(path); }
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;

    Loaded load() const { return config::load_file(path + "/tidegate.yaml"); }
};

const std::string kWithUsers = kBegin +
                               "identity: {users: users.yaml}\n"
                               "policies: {p: {key: [user, ip], limits: [10/s], "
                               "tiers: {pro: [99/s, 1000/min], staff: unlimited}}}\n"
                               "routes: [{policies: [p]}]\n";

}  // namespace

TEST_CASE("config: every algorithm has its name and its settings") {
    CHECK(the_limit("{quota: 1, per: 1s, algorithm: sliding_log}").algorithm ==
          Algorithm::sliding_log);
    const limit::Limit bucket = the_limit("{quota: 5, per: 1s, algorithm: token_bucket, burst: 9}");
    CHECK(bucket.algorithm == Algorithm::gcra);
    CHECK(bucket.burst == 9);
    const limit::Limit leaky =
        the_limit("{quota: 5, per: 1s, algorithm: leaky_bucket, max_delay: 1500ms}");
    CHECK(leaky.algorithm == Algorithm::leaky_bucket);
    CHECK(leaky.burst == 5);
    CHECK(leaky.max_delay == 1500ms);
    const limit::Limit slots = the_limit("{quota: 5, algorithm: concurrency}");
    CHECK(slots.algorithm == Algorithm::concurrency);
    CHECK(slots.duration == limit::kSlotTime);
}

TEST_CASE("config: a limit counts all requests, admitted ones, or by status") {
    CHECK(the_limit("{quota: 1, per: 1s}").count == limit::Count::admitted);
    CHECK(the_limit("{quota: 1, per: 1s, count: admitted}").count == limit::Count::admitted);
    CHECK(the_limit("{quota: 1, per: 1s, count: all}").count == limit::Count::all);
    const limit::Limit by_status = the_limit("{quota: 1, per: 1s, count: [403, 401]}");
    CHECK(by_status.count == limit::Count::by_status);
    CHECK(by_status.keeps(401));
    CHECK_FALSE(by_status.keeps(402));
}

TEST_CASE("config: a schedule has `at`, `horizon` and `past`") {
    const auto config = with_policy(
        "key: [\"query:to\", ip], limits: ["
        "{quota: 1, per: 1min, algorithm: schedule, at: {header: X-Send-At}, horizon: 7day},"
        "{quota: 10, algorithm: schedule, at: {header: x-send-at}, window: utc_day, past: "
        "forward}]");
    const config::MomentSource source{config::MomentSource::In::header, "x-send-at"};
    CHECK(config->policies[0]->moment == source);
    CHECK(config->routes[0].moment == source);
    const auto& limits = config->policies[0]->limits;
    CHECK(limits[0].horizon == 7 * 24h);
    CHECK_FALSE(limits[0].forward_past);
    CHECK(limits[1].utc_day);
    CHECK(limits[1].duration == 24h);
    CHECK(limits[1].forward_past);
    REQUIRE(config->limit_lists.size() == 1);
    CHECK(config->limit_lists[0].schedules);
    CHECK(config->limit_lists[0].horizon == 7 * 24h);
    CHECK_FALSE(config->limit_lists[0].settles);
}

TEST_CASE("config: plus binds tighter than bar, and fields are in lower case") {
    const auto config = with_policy(
        "key: [\"user|ip\", \"header:X-Tenant+route|query:t+path:id+constant:all\"], limits: "
        "[1/s]");
    const auto& keys = config->policies[0]->key;
    REQUIRE(keys.size() == 2);
    CHECK(keys[0].choices == decltype(keys[0].choices){{{Kind::user, {}}}, {{Kind::ip, {}}}});
    CHECK(keys[1].choices ==
          decltype(keys[1].choices){
              {{Kind::header, "x-tenant"}, {Kind::route, {}}},
              {{Kind::query, "t"}, {Kind::capture, "id"}, {Kind::constant, "all"}}});
    CHECK(config->routes[0].captures == std::vector<std::string>{"id"});
}

TEST_CASE("config: keys from clients are required, a missing user is skipped") {
    const auto on_missing = [](const std::string& key, const std::string& more = "") {
        return with_policy("key: [\"" + key + "\"], limits: [1/s]" + more)
            ->policies[0]
            ->key[0]
            .on_missing;
    };
    for (const char* key : {"ip", "user", "user|ip", "route", "constant:all"}) {
        CHECK(on_missing(key) == OnMissing::skip);
    }
    for (const char* key : {"header:a", "query:a", "path:id", "ip+user", "user|header:a"}) {
        CHECK(on_missing(key) == OnMissing::reject);
    }
    CHECK(on_missing("header:a", ", on_missing: skip") == OnMissing::skip);
    CHECK(on_missing("ip", ", on_missing: reject") == OnMissing::reject);
    CHECK(on_missing("user", ", on_missing: shared") == OnMissing::shared);
}

TEST_CASE("config: fields and parameters that hold secrets are known by their names") {
    const auto secret = [](const std::string& key) {
        return with_policy("key: [\"" + key + "\"], limits: [1/s]")
            ->policies[0]
            ->key[0]
            .choices[0][0]
            .secret;
    };
    for (const char* key : {"header:Authorization", "header:cookie", "header:X-Api-Key",
                            "query:access_Token", "query:sig"}) {
        CHECK_MESSAGE(secret(key), key);
    }
    for (const char* key : {"header:x-tenant", "query:q", "path:id", "constant:token"}) {
        CHECK_MESSAGE(!secret(key), key);
    }
}

TEST_CASE("config: a field in which identity.user reads a token is a secret, whatever its name") {
    const std::string policies =
        "policies: {p: {key: [\"header:x-ticket\", \"header:x-tenant\"], limits: [1/s]}}\n"
        "routes: [{policies: [p]}]\n";
    const std::string user =
        "identity: {user: [{jwt: {header: X-Ticket, jwks: \"https://idp.example/keys\", "
        "algorithms: [ES256], issuer: \"https://idp.example\", audience: api}}]}\n";
    const auto is_secret = [&](const std::string& yaml, std::size_t key) {
        const auto config = read(kBegin + yaml + policies);
        // Where tokens are checked, guesses have a policy, too.
        return config->routes[0].policies[0]->key.at(key).choices[0][0].secret;
    };
    CHECK_FALSE(is_secret("", 0));
    CHECK(is_secret(user, 0));
    CHECK_FALSE(is_secret(user, 1));
}

TEST_CASE("config: policies and tiers number their lists of limits one by one") {
    const auto config =
        read(kBegin +
             "policies:\n"
             "  a: {key: [ip], limits: [1/s], tiers: {x: [2/s], y: unlimited}}\n"
             "  b: {key: [ip], limits: [{quota: 1, algorithm: concurrency}]}\n"
             "routes: [{policies: [a, b, {key: [ip], limits: [1/s], tiers: {x: [3/s]}}]}]\n");
    REQUIRE(config->limit_lists.size() == 6);
    for (std::size_t i = 0; i < config->limit_lists.size(); ++i) {
        const auto& list = config->limit_lists[i];
        CHECK((list.tier != nullptr ? list.tier->index : list.policy->index) == i);
    }
    CHECK(config->limit_lists[1].limits()[0].quota == 2);
    CHECK(config->limit_lists[2].limits().empty());
    CHECK(config->limit_lists[3].settles);
    CHECK(config->policies[2]->name == "/**/2");
    CHECK(config->limit_lists[5].limits()[0].quota == 3);
}

TEST_CASE("config: `enforce` gives a policy a twin in shadow, with its name and its limits") {
    const auto config = with_policy(
        "key: [ip], limits: [10/s], enforce: 25%, tiers: {pro: [9/s]}, exempt: [10.0.0.0/8]");
    REQUIRE(config->policies.size() >= 2);
    const config::PolicySettings& live = *config->policies[0];
    REQUIRE(live.unenforced != nullptr);
    const config::PolicySettings& twin = *live.unenforced;
    CHECK(config->policies[1].get() == &twin);
    CHECK(live.enforced_below == std::uint64_t{1} << 62);
    CHECK(live.is_enforced());
    CHECK_FALSE(live.is_derived());
    CHECK(twin.shadow);
    CHECK(twin.twin_of == &live);
    CHECK(twin.is_derived());
    CHECK(twin.name == "p");
    CHECK(twin.index == 2);
    CHECK(twin.tiers.at(0).index == 3);
    CHECK(twin.limits.at(0).id == live.limits.at(0).id);
    CHECK(config->routes[0].policies == std::vector<const config::PolicySettings*>{&live});
    CHECK(with_policy("key: [ip], limits: [10/s], enforce: 0.5%")->policies[0]->enforced_below ==
          92'233'720'368'547'758U);
    CHECK(with_policy("key: [ip], limits: [10/s], enforce: 100%")->policies[0]->unenforced ==
          nullptr);
}

TEST_CASE("config: a candidate is a policy of its own, with the key and the tiers of its policy") {
    const auto config = with_policy(
        "key: [ip, user], limits: [10/s], tiers: {pro: [90/s]}, enforce: 50%, deny: [10.0.0.9], "
        "candidate: {limits: [5/s, 60/min]}");
    const config::PolicySettings& live = *config->policies[0];
    REQUIRE(live.candidate != nullptr);
    const config::PolicySettings& candidate = *live.candidate;
    CHECK(live.has_candidate);
    CHECK(live.unenforced->has_candidate);
    CHECK(candidate.name == "p@candidate");
    CHECK(candidate.shadow);
    CHECK(candidate.candidate_of == &live);
    CHECK(live.is_replaced_by(candidate));
    CHECK(live.unenforced->is_replaced_by(candidate));
    CHECK(candidate.decides_for(candidate));
    CHECK_FALSE(live.decides_for(candidate));
    CHECK_FALSE(live.unenforced->decides_for(candidate));
    CHECK(with_policy("key: [ip], limits: [9/s]")->policies[0]->decides_for(candidate));
    CHECK_FALSE(
        with_policy("key: [ip], limits: [9/s], mode: soft")->policies[0]->decides_for(candidate));
    CHECK(candidate.mode() == "candidate");
    CHECK(live.mode() == "enforce");
    CHECK(live.unenforced->mode() == "shadow");
    CHECK(with_policy("key: [ip], limits: [9/s], mode: soft")->policies[0]->mode() == "soft");
    CHECK(candidate.key == live.key);
    CHECK(candidate.limits.size() == 2);
    CHECK(candidate.limits.at(0).quota == 5);
    CHECK(candidate.tiers.at(0).limits.at(0).quota == 90);
    CHECK(candidate.deny.empty());
    CHECK(candidate.index == 4);
    const auto tiers = with_policy(
        "key: [ip], limits: [10/s], tiers: {pro: [90/s]}, candidate: {limits: [5/s], tiers: {pro: "
        "unlimited, other: [7/s]}}");
    CHECK(tiers->policies[0]->candidate->tiers.at(0).limits.empty());
    CHECK(tiers->policies[0]->candidate->tiers.at(1).limits.at(0).quota == 7);
}

TEST_CASE("config: exempt and deny name networks and users") {
    const auto config = with_policy(
        "key: [ip], limits: [1/s], exempt: [10.0.0.0/8, \"user:b\", \"user:a\"], deny: 192.0.2.1");
    const config::PolicySettings& policy = *config->policies[0];
    const auto in = [](const identity::ClientList& group, const char* ip, const char* user) {
        identity::ClientIdentity client;
        if (*ip != 0) client.address = parse_ip(ip);
        if (*user != 0) client.user = user;
        return group.includes(client);
    };
    CHECK(in(policy.exempt, "10.255.0.1", ""));
    CHECK(in(policy.exempt, "11.0.0.1", "a"));
    CHECK(in(policy.exempt, "", "b"));
    CHECK_FALSE(in(policy.exempt, "11.0.0.1", "c"));
    CHECK_FALSE(in(policy.exempt, "", ""));
    CHECK(in(policy.deny, "192.0.2.1", "a"));
    CHECK_FALSE(in(policy.deny, "192.0.2.2", "a"));
}

TEST_CASE("config: a cost from a field has its bounds, and is believed of trusted proxies") {
    const auto config =
        read(kBegin +
             "routes:\n"
             "  - {cost: {header: X-Cost}, policies: []}\n"
             "  - {cost: {header: x-c, from: anyone, default: 0, min: 2, max: 9}, policies: []}\n");
    REQUIRE(config->routes[0].header_cost);
    CHECK(config->routes[0].cost == 1);
    CHECK(config->routes[0].header_cost->field == "x-cost");
    CHECK_FALSE(config->routes[0].header_cost->from_anyone);
    CHECK(config->routes[0].header_cost->min == 1);
    CHECK(config->routes[1].cost == 0);
    CHECK(config->routes[1].header_cost->from_anyone);
    CHECK(config->routes[1].header_cost->min == 2);
    CHECK(config->routes[1].header_cost->max == 9);
}

TEST_CASE("config: a lease has a share of each quota, in millionths") {
    const auto config =
        read("store: {redis: {url: \"redis://127.0.0.1\"}}\nreplicas: 2\n" + kBegin +
             "policies:\n"
             "  none: {key: [ip], limits: [9/s]}\n"
             "  off: {key: [ip], limits: [9/s], lease: off}\n"
             "  auto: {key: [ip], limits: [9/s], lease: auto}\n"
             "  empty: {key: [ip], limits: [9/s], lease: {}}\n"
             "  least: {key: [ip], limits: [9/s], lease: {slack: 0.0001%}}\n"
             "  more: {key: [ip], limits: [9/s, 9/h], lease: {slack: 12.5%}}\n"
             "  all: {key: [ip], limits: [{quota: 9, per: 1day, algorithm: "
             "fixed_window}], lease: {slack: 100%}}\n"
             "routes: [{name: all, policies: [auto]}]\n");
    std::vector<std::int64_t> slacks;
    for (const auto& policy : config->policies) slacks.push_back(policy->lease_slack);
    std::sort(slacks.begin(), slacks.end());
    CHECK(slacks == std::vector<std::int64_t>{0, 0, 1, 10'000, 10'000, 125'000, 1'000'000});
}

TEST_CASE("config: users have tiers, from a file beside the configuration") {
    const Beside files(kWithUsers, "alice: {tier: pro}\n\"b o b\": {tier: staff}\n");
    const Loaded loaded = files.load();
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    for (const auto& warning : loaded.warnings) FAIL_CHECK(warning.to_string());
    REQUIRE(loaded.config != nullptr);
    const auto& tiers = loaded.config->user_tiers;
    CHECK(identity::tier_of("alice", tiers) == "pro");
    CHECK(identity::tier_of("b o b", tiers) == "staff");
    CHECK(identity::tier_of("Alice", tiers).empty());
    CHECK(identity::tier_of(std::nullopt, tiers).empty());
}

}  // namespace tidegate::config_policies_test
