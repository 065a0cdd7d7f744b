// Costs of policies, what is counted of bodies, and prices.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_costs_test {

using namespace std::chrono_literals;
using config::Loaded;
using config::PolicyCost;
using Kind = limit::KeyPart::Kind;
using Settle = PolicyCost::Settle;

namespace {

const std::string kBegin = "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n";

std::shared_ptr<const config::Config> read(const std::string& text) {
    const Loaded loaded = config::load_text(text, "test.yaml");
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded.config;
}

std::shared_ptr<const config::Config> with_policies(const std::string& policies,
                                                    const std::string& names = "p") {
    return read(kBegin + "policies: {" + policies + "}\nroutes: [{policies: [" + names + "]}]\n");
}

// The cost of a policy whose key is an address.
PolicyCost cost_of(const std::string& cost) {
    const auto config = with_policies("p: {key: ip, limits: [99999/s], cost: " + cost + "}");
    REQUIRE(config->policies.at(0)->cost != nullptr);
    return *config->policies.at(0)->cost;
}

// A configuration and its file of prices, in a folder of their own.
struct WithPrices {
    std::string path;

    explicit WithPrices(const std::string& prices, const std::string& config) {
        std::string name = std::filesystem::temp_directory_path() / "tidegate-prices-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
        write("prices.yaml", prices);
        write("tidegate.yaml", kBegin + "prices: prices.yaml\n" + config);
    }
    ~WithPrices() { std::filesystem::remove_all(path); }
    WithPrices(const WithPrices&) = delete;
    WithPrices& operator=(const WithPrices&) = delete;

    void write(const std::string& file, const std::string& text) const {
        std::ofstream(path + "/" + file, std::ios::binary) << text;
    }
    Loaded load() const { return config::load_file(path + "/tidegate.yaml"); }
};

const std::string kBudget =
    "policies: {p: {key: ip, limits: [{quota: 5.25, unit: usd, per: 1h}],\n"
    "               cost: {settle: auto, unit: usd}}}\n"
    "routes: [{policies: [p]}]\n";

}  // namespace

TEST_CASE("costs: a policy without `cost` has the route's") {
    const auto config = with_policies("p: {key: ip, limits: [9/s]}");
    CHECK(config->policies.at(0)->cost == nullptr);
    CHECK(config->body_reader == nullptr);
    CHECK_FALSE(config->routes.at(0).reads_body);
    CHECK_FALSE(config->routes.at(0).settles_costs);
}

TEST_CASE("costs: an empty cost estimates the tokens of a request, and leaves them taken") {
    const PolicyCost cost = cost_of("{}");
    CHECK(cost.rule == 0);
    CHECK(cost.settle == Settle::never);
    CHECK(cost.cap == 1000);
    CHECK_FALSE(cost.in_money);
}

TEST_CASE("costs: a fixed cost needs no body") {
    const auto config = with_policies("p: {key: ip, limits: [9/s], cost: {reserve: 5}}");
    const PolicyCost& cost = *config->policies.at(0)->cost;
    CHECK(cost.rule == PolicyCost::kNoRule);
    CHECK(cost.reserved == 5);
    CHECK(config->body_reader == nullptr);
    CHECK_FALSE(config->routes.at(0).reads_body);
}

TEST_CASE("costs: a settlement that is no provider's reserves one unit") {
    const PolicyCost header = cost_of("{settle: {header: X-Cost}}");
    CHECK(header.settle == Settle::header);
    CHECK(header.header == "x-cost");
    CHECK(header.reserved == 1);
    CHECK(header.each == 1);
    CHECK_FALSE(header.reads_body());
    const PolicyCost time = cost_of("{settle: {upstream_ms: 10}}");
    CHECK(time.settle == Settle::time);
    CHECK(time.each == doctest::Approx(0.1));
    const PolicyCost bytes = cost_of("{settle: {bytes_out: 1KiB}}");
    CHECK(bytes.settle == Settle::bytes);
    CHECK(bytes.each == doctest::Approx(1.0 / 1024));
}

TEST_CASE("costs: members of the answer are named by dots or by pointers") {
    const PolicyCost cost = cost_of("{settle: {json: {usage.total_tokens: 0.5, /usage/x~1y: 2}}}");
    CHECK(cost.settle == Settle::usage);
    REQUIRE(cost.usage != nullptr);
    CHECK_FALSE(cost.usage->is_by_provider());
    usage::AnswerReader reader(*cost.usage, usage::AnswerReader::Form::json);
    reader.read(R"({"usage": {"total_tokens": 10, "x/y": 3}})");
    reader.end();
    REQUIRE(reader.usage().has_value());
    CHECK(reader.usage()->units == doctest::Approx(11));
}

TEST_CASE("costs: weights are thousandths of a unit") {
    const PolicyCost cost =
        cost_of("{settle: anthropic, weights: {cached: 0.1, cache_write: 1.25, output: 4}}");
    CHECK(cost.weights == usage::Rates{1'000'000, 100'000, 1'250'000, 4'000'000});
    CHECK(cost.usage->is_by_provider());
}

TEST_CASE("costs: what a cache keeps for an hour weighs what is written to it, or its own weight") {
    const PolicyCost same = cost_of("{settle: anthropic, weights: {cache_write: 1.25}}");
    CHECK(same.weights.of_cache_write_1h() == 1'250'000);
    const PolicyCost own =
        cost_of("{settle: anthropic, weights: {cache_write: 1.25, cache_write_1h: 2}}");
    CHECK(own.weights.of_cache_write_1h() == 2'000'000);
}

TEST_CASE("costs: what changes requests is for OpenAI's API") {
    const PolicyCost cost = cost_of(
        "{reserve: {default: 700}, settle: openai, ask_usage: on, write_cap: on,"
        " settle_after_leaving: 30s}");
    CHECK(cost.asks_usage);
    CHECK(cost.writes_cap);
    CHECK(cost.cap == 700);
    CHECK(cost.settle_after_leaving == 30s);
    // Also with a fixed reservation the body has to be changed.
    const auto fixed = with_policies(
        "p: {key: ip, limits: [9999/s], cost: {reserve: 5, settle: openai, ask_usage: on}}");
    CHECK(fixed->routes.at(0).reads_body);
    CHECK(fixed->body_reader != nullptr);
    CHECK_FALSE(fixed->routes.at(0).needs_whole_body);
}

TEST_CASE("costs: the maximum is that of the API that settles") {
    const auto config = with_policies(
        "p: {key: ip, limits: [99999/s], cost: {settle: openai}},"
        "q: {key: user, limits: [99999/s], cost: {settle: auto}},"
        "r: {key: user, limits: [99999/min], cost: {reserve: {request_json: [x]}, settle: openai}}",
        "p, q, r");
    CHECK(config->body_reader->rule(0).output_max == usage::output_max_of(usage::Provider::openai));
    CHECK(config->body_reader->rule(0).provider == usage::Provider::openai);
    CHECK(config->body_reader->rule(1).output_max.size() == 8);
    CHECK(config->body_reader->rule(2).output_max == std::vector<std::string>{"/x"});
}

TEST_CASE(
    "costs: policies with the same estimate share one rule, and those with one API its source") {
    const auto config = with_policies(
        "p: {key: ip, limits: [99999/s], cost: {settle: openai}},"
        "q: {key: user, limits: [99999/s], cost: {reserve: {max: 500, default: 400}}},"
        "r: {key: user, limits: [99999/min], cost: {reserve: auto, settle: openai}}",
        "p, q, r");
    CHECK(config->policies.at(0)->cost->rule == 0);
    CHECK(config->policies.at(1)->cost->rule == 1);
    CHECK(config->policies.at(2)->cost->rule == 0);
    CHECK(config->policies.at(0)->cost->usage == config->policies.at(2)->cost->usage);
    REQUIRE(config->body_reader != nullptr);
    usage::RequestFacts facts;
    config->body_reader->read(R"({"messages": [], "max_tokens": 450})", "/", facts);
    CHECK(config->body_reader->estimate(0, facts, 0).output == 450);
    CHECK(config->body_reader->largest(1).of_any == 500);
    CHECK(config->routes.at(0).reads_body);
    CHECK(config->routes.at(0).settles_costs);
}

TEST_CASE("costs: keys of bodies have the position of their pointer, and secrets are hashed") {
    const auto config = with_policies(
        "p: {key: [\"body:/params/name\", \"body_lower:/email\"], limits: [9/s]},"
        "q: {key: [\"ip+body:/email\", \"form:user\", \"body:/api/key\"], limits: [9/s]}",
        "p, q");
    CHECK(config->body_pointers == std::vector<std::string>{"/params/name", "/email", "/api/key"});
    const limit::KeyPart& lower = config->policies.at(0)->key.at(1).choices.at(0).at(0);
    CHECK(lower.kind == Kind::body_lower);
    CHECK(lower.claim == 1);
    const auto& key = config->policies.at(1)->key;
    CHECK(key.at(0).choices.at(0).at(1).claim == 1);
    CHECK(key.at(1).choices.at(0).at(0).kind == Kind::form);
    CHECK(key.at(2).choices.at(0).at(0).secret);
    CHECK_FALSE(lower.secret);
    // A client can leave a member out.
    CHECK(key.at(1).on_missing == limit::OnMissing::reject);
    CHECK(config->routes.at(0).reads_body);
    CHECK(config->routes.at(0).needs_whole_body);
    CHECK(config->body_reader != nullptr);
}

TEST_CASE("costs: a route inspects bodies up to 1 MiB, and no more than it takes") {
    const auto config =
        read(kBegin +
             "policies: {p: {key: \"body:/model\", limits: [9/s]}}\n"
             "limits_on_requests: {held_bodies: 32MiB}\n"
             "routes:\n"
             "  - {match: {path: /a}, policies: [p]}\n"
             "  - {match: {path: /b}, inspect_body: 16MiB, policies: [p]}\n"
             "  - {match: {path: /c}, limits_on_requests: {body_bytes: 4KiB}, policies: [p]}\n");
    CHECK(config->limits_on_requests.held_bodies == 33'554'432);
    CHECK(config->routes.at(0).inspected_bytes == 1'048'576);
    CHECK(config->routes.at(1).inspected_bytes == 16'777'216);
    CHECK(config->routes.at(2).inspected_bytes == 4'096);
}

TEST_CASE("costs: a soft policy never refuses") {
    const auto config = with_policies("p: {key: ip, limits: [9/s], mode: soft}");
    CHECK(config->policies.at(0)->soft);
    CHECK_FALSE(config->policies.at(0)->shadow);
}

TEST_CASE("costs: dollars are counted in millionths") {
    const WithPrices files("models: {\"*\": {input: 1, output: 2}}\n", kBudget);
    const Loaded loaded = files.load();
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.warnings.empty());
    const config::PolicySettings& policy = *loaded.config->policies.at(0);
    CHECK(policy.limits.at(0).quota == 5'250'000);
    CHECK(policy.cost->in_money);
    CHECK(policy.cost->needs_price());
    const auto stated = with_policies(
        "p: {key: ip, limits: [{quota: 5, unit: usd, per: 1h, algorithm: gcra, burst: 0.5}],"
        " cost: {reserve: 0.05, settle: {header: x-cost}, unit: usd}}");
    CHECK(stated->policies.at(0)->limits.at(0).burst == 500'000);
    CHECK(stated->policies.at(0)->cost->reserved == 50'000);
    CHECK(stated->policies.at(0)->cost->each == 1'000'000);
    CHECK_FALSE(stated->routes.at(0).reads_body);
}

TEST_CASE("prices: the first pattern that matches counts, and what is not written costs as input") {
    const WithPrices files(
        "as_of: 2026-11-01\n"
        "currency: usd\n"
        "models:\n"
        "  \"gpt-x-mini\": {input: 0.25, cached: 0.025, cache_write: 0.3, output: 2}\n"
        "  \"gpt-x*\": {input: 1.25, output: 10}\n"
        "  \"claude-x\": {input: 3, cache_write: 3.75, cache_write_1h: 6, output: 15}\n"
        "unknown: {input: 0.000001, output: 1000000}\n",
        kBudget);
    const Loaded loaded = files.load();
    REQUIRE(loaded.config != nullptr);
    const usage::PriceList& prices = *loaded.config->prices;
    CHECK(*prices.rates_of("gpt-x-mini") == usage::Rates{250'000, 25'000, 300'000, 2'000'000});
    CHECK(*prices.rates_of("gpt-x-mini-2") ==
          usage::Rates{1'250'000, 1'250'000, 1'250'000, 10'000'000});
    CHECK(*prices.rates_of("other") == usage::Rates{1, 1, 1, 1'000'000'000'000});
    CHECK(prices.rates_of("gpt-x-mini")->of_cache_write_1h() == 300'000);
    CHECK(prices.rates_of("claude-x")->of_cache_write_1h() == 6'000'000);
    CHECK_FALSE(prices.names("other"));
}

TEST_CASE(
    "prices: the file is watched, and a configuration that is read again has its new prices") {
    const WithPrices files("models: {\"*\": {input: 1, output: 2}}\n", kBudget);
    const Loaded loaded = files.load();
    REQUIRE(loaded.config != nullptr);
    bool is_watched = false;
    for (const auto& file : loaded.files_read) {
        is_watched = is_watched || file.path.ends_with("/prices.yaml");
    }
    CHECK(is_watched);
    files.write("prices.yaml", "models: {\"*\": {input: 3, output: 2}}\n");
    const Loaded again = config::reread(*loaded.config);
    REQUIRE(again.config != nullptr);
    CHECK(again.config->prices->rates_of("any")->input == 3'000'000);
    files.write("prices.yaml", "models: {\"*\": {input: 3}}\n");
    CHECK(config::reread(*loaded.config).config == nullptr);
}

// Quotas in tokens.

TEST_CASE("quotas in tokens: the limit has the default, and the claim is kept of tokens") {
    const auto config = with_policies(
        "p: {key: [\"claim:org\"], limits: [9/s, {quota: {claim: rpm, default: 60, max: 1000}, "
        "per: 1min, algorithm: gcra}], on_missing: shared}");
    CHECK(config->claims == std::vector<std::string>{"rpm", "org"});
    REQUIRE(config->claimed_tiers != nullptr);
    const config::PolicySettings& policy = *config->policies.at(0);
    REQUIRE(policy.claimed_quotas.size() == 1);
    const config::ClaimedQuota& claimed = policy.claimed_quotas.at(0);
    CHECK(claimed.limit == 1);
    CHECK(claimed.claim == 0);
    CHECK(policy.limits.at(1).quota == 60);
    CHECK(policy.limits.at(1).burst == 60);
    CHECK(claimed.quota_for("700") == 700);
    CHECK(claimed.quota_for("7000") == 1000);
    CHECK(claimed.quota_for("") == 60);
    for (const std::string_view many : {"9223372036854775807", "9223372036854775808",
                                        "18446744073709551616", "1e16", "1e+16", "1e+300"}) {
        CAPTURE(many);
        CHECK(claimed.quota_for(many) == 1000);
    }
    for (const std::string_view none : {"7.5", "-7", "-1e+300", "inf", "nan", "7x", "x", "7.", "1e",
                                        "1e999", "0x7", "1e-7", "7 "}) {
        CAPTURE(none);
        CHECK(claimed.quota_for(none) == 60);
    }
    CHECK(claimed.quota_for("7.00") == 7);
    // The burst follows the quota where none is written.
    const config::ClaimedQuota* const one = &claimed;
    const std::int64_t quota = 700;
    const limit::Tier* const tier =
        config->claimed_tiers->find(policy, nullptr, {&one, 1}, {&quota, 1});
    REQUIRE(tier != nullptr);
    CHECK(tier->limits.at(1).burst == 700);
    CHECK(tier->limits.at(0).quota == 9);
    // gcra has no quota of 0: the default holds.
    const std::int64_t nothing = 0;
    CHECK(config->claimed_tiers->find(policy, nullptr, {&one, 1}, {&nothing, 1})
              ->limits.at(1)
              .quota == 60);
}

TEST_CASE("quotas in tokens: dollars have decimals, and `max` is what the algorithm counts") {
    const auto config = with_policies(
        "p: {key: ip, limits: [{quota: {claim: budget, default: 5}, unit: usd, anchor: utc_month}],"
        " cost: {reserve: 0.01, settle: {header: x-cost}, unit: usd}},"
        "q: {key: ip, limits: [{quota: {claim: n, default: 5}, per: 1s, algorithm: sliding_log}]}",
        "p, q");
    const config::ClaimedQuota& dollars = config->policies.at(0)->claimed_quotas.at(0);
    CHECK(config->policies.at(0)->limits.at(0).quota == 5'000'000);
    CHECK(dollars.quota_for("12.5") == 12'500'000);
    CHECK(dollars.quota_for("12") == 12'000'000);
    CHECK(dollars.quota_for("0.0001") == 100);
    CHECK(dollars.quota_for("0.000001") == 1);
    CHECK(dollars.quota_for("0.1234567") == 123'456);
    CHECK(dollars.quota_for("0.99999999") == 999'999);
    CHECK(dollars.quota_for("0.0000009") == 0);
    CHECK(dollars.quota_for("1e-300") == 0);
    CHECK(dollars.quota_for("18446744073709551615") == dollars.max);
    CHECK(dollars.quota_for("1e+16") == dollars.max);
    for (const std::string_view none : {"", "x", "-1", "0.1234567x", "0.", ".5", "1.5.5"}) {
        CAPTURE(none);
        CHECK(dollars.quota_for(none) == 5'000'000);
    }
    CHECK(config->policies.at(1)->claimed_quotas.at(0).quota_for("99999") == 1'000);
}

}  // namespace tidegate::config_costs_test
