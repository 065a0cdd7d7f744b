#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "app/shared_state.hpp"
#include "store/charge_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::app::shared_state_test {

namespace {

using Scripts = std::vector<const redis::Script*>;

constexpr const char* kRedis = "store: {redis: {url: 'redis://127.0.0.1:1'}}\n";
constexpr const char* kCluster = "store: {redis: {cluster: ['redis://127.0.0.1:1']}}\n";

Scripts scripts_of(const std::string& yaml) {
    auto loaded = config::load_text(
        "replicas: 1\nupstreams: {api: {servers: ['http://127.0.0.1:1']}}\n" + yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return preloaded_scripts(*loaded.config);
}

const redis::Script* general() {
    return &store::charge_script({});
}

const redis::Script* windows() {
    limit::Policy policy;
    policy.limits.resize(1);
    const limit::ChargeItem item{&policy, "ip:192.0.2.1"};
    return &store::charge_script({{&item, 1}, 1});
}

const std::string kOne = "routes: [{name: all, upstream: api, policies: [p]}]\n";
const std::string kBoth = "routes: [{name: all, upstream: api, policies: [p, q]}]\n";
const std::string kTwoAndThree =
    "policies: {p: {key: [ip], limits: [1/s, 2/min]}, "
    "q: {key: [user], limits: [1/s, 2/min, 3/h]}}\n"
    "identity: {user: [{header: {name: x-user, from: trusted_proxies}}]}\n";
const std::string kWindowAndBucket =
    "policies: {p: {key: [ip], limits: [2/min]}, "
    "q: {key: [user], limits: [{algorithm: gcra, quota: 5, per: 1s}]}}\n"
    "identity: {user: [{header: {name: x-user, from: trusted_proxies}}]}\n";

}  // namespace

TEST_CASE("script_preload: it loads the general script and those of the routes") {
    CHECK(
        scripts_of(kRedis + std::string("routes: [{name: all, upstream: api, policies: []}]\n")) ==
        Scripts{general()});
    CHECK(scripts_of(kRedis + ("policies: {p: {key: [ip], limits: [1/s, 2/min]}}\n" + kOne)) ==
          Scripts{general(), windows()});
    // Several policies of one request are one charge.
    CHECK(scripts_of(kRedis + kTwoAndThree + kBoth) == Scripts{general(), windows()});
    CHECK(scripts_of(kRedis + kWindowAndBucket + kBoth) == Scripts{general()});
}

TEST_CASE("script_preload: in a cluster each identifier is asked about apart") {
    CHECK(scripts_of(kCluster + kTwoAndThree + kBoth) == Scripts{general(), windows()});
    CHECK(scripts_of(kCluster + kWindowAndBucket + kBoth) == Scripts{general(), windows()});
}

TEST_CASE("script_preload: the give_back script is loaded when limits may be given back") {
    const auto scripts = scripts_of(
        kRedis +
        ("policies: {p: {key: [ip], limits: [{quota: 5, per: 1h, count: [200]}]}}\n" + kOne));
    CHECK(scripts == Scripts{general(), &store::give_back_script()});
}

}  // namespace tidegate::app::shared_state_test
