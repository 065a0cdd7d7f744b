#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "ask/policy_cost.hpp"

namespace tidegate::ask::policy_cost_test {
namespace {

using config::PolicyCost;
using End = AnswerFacts::End;
using Settle = PolicyCost::Settle;

PolicyCost by_usage(usage::Provider provider = usage::Provider::automatic) {
    PolicyCost cost;
    cost.settle = Settle::usage;
    cost.usage = std::make_shared<usage::UsageSource>(provider);
    return cost;
}

PolicyCost by(Settle settle, double each) {
    PolicyCost cost;
    cost.settle = settle;
    cost.each = each;
    return cost;
}

config::Config with_prices() {
    usage::PriceList prices;
    prices.add("gpt-x*", {1'250'000, 125'000, 1'250'000, 10'000'000});
    config::Config config;
    config.prices = std::make_shared<const usage::PriceList>(std::move(prices));
    return config;
}

}  // namespace

TEST_CASE("policy cost: usage counts whole, and the larger of reserve and usage where it was cut") {
    const config::Config config;
    const PolicyCost cost = by_usage();
    const usage::Usage used{.tokens = {100, 0, 0, 20}, .units = 0, .model = {}};
    AnswerFacts answer{.end = End::whole, .status = 200, .usage = &used, .header = {}};
    CHECK(settled_units(config, cost, 500, "", answer) == 120);
    answer.end = End::cut;
    CHECK(settled_units(config, cost, 500, "", answer) == 500);
    CHECK(settled_units(config, cost, 50, "", answer) == 120);
}

TEST_CASE("policy cost: what is unknown stays reserved, and errors without usage cost nothing") {
    const config::Config config;
    const PolicyCost cost = by_usage();
    AnswerFacts answer{.end = End::whole, .status = 200, .header = {}};
    CHECK_FALSE(settled_units(config, cost, 500, "", answer));
    answer.end = End::cut;
    CHECK_FALSE(settled_units(config, cost, 500, "", answer));
    answer.status = 302;
    CHECK_FALSE(settled_units(config, cost, 500, "", answer));
    answer.status = 429;
    CHECK(settled_units(config, cost, 500, "", answer) == 0);
    answer.status = 500;
    answer.end = End::whole;
    CHECK(settled_units(config, cost, 500, "", answer) == 0);
    const usage::Usage used{.tokens = {7, 0, 0, 0}, .units = 0, .model = {}};
    answer.usage = &used;
    CHECK(settled_units(config, cost, 500, "", answer) == 7);
}

TEST_CASE("policy cost: what a gateway gave up waiting for stays reserved, as it may go on") {
    const config::Config config;
    const PolicyCost cost = by_usage();
    AnswerFacts answer{.end = End::whole, .status = 0, .header = {}};
    const usage::Usage used{.tokens = {7, 0, 0, 0}, .units = 0, .model = {}};
    for (const int status : {408, 504, 524}) {
        CAPTURE(status);
        answer.status = status;
        answer.usage = nullptr;
        answer.end = End::whole;
        CHECK_FALSE(settled_units(config, cost, 500, "", answer));
        answer.end = End::cut;
        CHECK_FALSE(settled_units(config, cost, 500, "", answer));
        answer.end = End::whole;
        answer.usage = &used;
        CHECK(settled_units(config, cost, 500, "", answer) == 7);
    }
    answer.usage = nullptr;
    for (const int status : {400, 499, 502, 503, 529}) {
        CAPTURE(status);
        answer.status = status;
        CHECK(settled_units(config, cost, 500, "", answer) == 0);
    }
}

TEST_CASE("policy cost: a total alone is not free where output has no price") {
    const config::Config config;
    PolicyCost cost = by_usage();
    cost.weights.output = 0;
    usage::AnswerReader reader(*cost.usage, usage::AnswerReader::Form::json);
    reader.read(R"({"model":"rerank","results":[],"usage":{"total_tokens":700}})");
    reader.end();
    REQUIRE(reader.usage());
    const AnswerFacts answer{
        .end = End::whole, .status = 200, .usage = &*reader.usage(), .header = {}};
    CHECK(settled_units(config, cost, 500, "", answer) == 700);
}

TEST_CASE("policy cost: a request that was not sent costs nothing; one without an answer, all") {
    const config::Config config;
    AnswerFacts answer;
    answer.time = std::chrono::seconds{3};
    for (const PolicyCost& cost : {by_usage(), by(Settle::header, 1), by(Settle::time, 1)}) {
        answer.end = End::not_sent;
        CHECK(settled_units(config, cost, 500, "", answer) == 0);
        answer.end = End::unanswered;
        CHECK_FALSE(settled_units(config, cost, 500, "", answer));
    }
}

TEST_CASE("policy cost: a field, the time and the bytes of an answer, rounded up") {
    const config::Config config;
    AnswerFacts answer{.end = End::whole,
                       .status = 200,
                       .header = 2.5,
                       .time = std::chrono::microseconds{1'500},
                       .bytes = 2'049};
    CHECK(settled_units(config, by(Settle::header, 1), 9, "", answer) == 3);
    CHECK(settled_units(config, by(Settle::header, 1'000'000), 9, "", answer) == 2'500'000);
    CHECK(settled_units(config, by(Settle::time, 1), 9, "", answer) == 2);
    CHECK(settled_units(config, by(Settle::bytes, 1.0 / 1024), 9, "", answer) == 3);
    answer.header = 0.1;
    CHECK(settled_units(config, by(Settle::header, 1'000'000), 9, "", answer) == 100'000);
    answer.header = 1e300;
    CHECK(settled_units(config, by(Settle::header, 1), 9, "", answer) == std::int64_t{1} << 52);
}

TEST_CASE(
    "policy cost: money by the model of the request, or by the answer's if that has a price") {
    const config::Config config = with_prices();
    PolicyCost cost = by_usage();
    cost.in_money = true;
    CHECK(rates_of(config, cost, "gpt-x-mini") != nullptr);
    CHECK(rates_of(config, cost, "other") == nullptr);
    CHECK(rates_of(config, cost, "") == nullptr);
    const usage::Usage used{.tokens = {1'000, 0, 0, 100}, .units = 0, .model = {}};
    AnswerFacts answer{.end = End::whole, .status = 200, .usage = &used, .header = {}};
    const auto settled = [&](const std::string& model, const std::string& answer_model) {
        Decision decision;
        decision.model = model;
        answer.price_row = settled_row(config, decision, answer_model);
        return settled_units(config, cost, 9, model, answer);
    };
    CHECK(settled("gpt-x", "gpt-x-2026") == 1'250 + 1'000);
    CHECK(settled("other", "gpt-x-2026") == 1'250 + 1'000);
    CHECK(settled("gpt-x", "unpriced") == 1'250 + 1'000);
    CHECK(settled("", "gpt-x") == 1'250 + 1'000);
    CHECK_FALSE(settled("other", ""));
}

TEST_CASE("policy cost: the price of unknown models is for those that have a name") {
    config::Config config;
    usage::PriceList prices;
    prices.set_unknown({1'000'000, 0, 0, 0});
    config.prices = std::make_shared<const usage::PriceList>(std::move(prices));
    PolicyCost cost = by_usage();
    cost.in_money = true;
    CHECK(rates_of(config, cost, "any") != nullptr);
    CHECK(rates_of(config, cost, "") == nullptr);
}

TEST_CASE("policy cost: the row of the request's price is looked for once") {
    const config::Config config = with_prices();
    Decision decision;
    decision.model = "gpt-x";
    CHECK(settled_row(config, decision, "gpt-x") == 0);
    decision.price_row = 7;  // as if found before
    CHECK(settled_row(config, decision, "gpt-x") == 7);
    CHECK(settled_row(config, decision, "unpriced") == 7);
    CHECK(settled_row(config, decision, "gpt-x-2") == 0);
    CHECK(settled_row(config::Config(), decision, "gpt-x") == usage::PriceList::kNoRow);
}

TEST_CASE(
    "policy cost: the reserve is the estimate of the body, the largest where it is not read") {
    config::Config config;
    config.body_reader = std::make_shared<const usage::RequestReader>(
        std::vector<usage::EstimateRule>{{}}, std::vector<std::string>{});
    PolicyCost cost = by_usage();
    Facts facts;
    CHECK(reserved_units(config, cost, facts, cost.weights) == 1);
    cost.rule = 0;
    CHECK(reserved_units(config, cost, facts, cost.weights) == 32'000);
    InspectedBody body;
    body.is_whole = true;
    body.text = R"({"messages":[],"max_tokens":100})";
    body.bytes = body.text.size();
    config.body_reader->read(body.text, "/v1/chat/completions", body.json);
    facts.body = &body;
    CHECK(reserved_units(config, cost, facts, cost.weights) == 108);
    cost.weights.output = 4'000'000;
    CHECK(reserved_units(config, cost, facts, cost.weights) == 408);
}

TEST_CASE("policy cost: the body names the model, but of a call whose path does") {
    Facts facts;
    facts.head.path = "/model/claude/converse";
    CHECK(model_of(facts) == "claude");
    InspectedBody body;
    body.json.model = "gpt-x";
    facts.body = &body;
    CHECK(model_of(facts) == "claude");
    facts.head.path = "/v1/chat/completions";
    CHECK(model_of(facts) == "gpt-x");
}

TEST_CASE("policy cost: the path of a call to Bedrock or Gemini names the model, not the body") {
    InspectedBody body;
    body.json.model = "cheap";
    Facts facts;
    facts.body = &body;
    facts.head.path = "/model/dear/converse";
    CHECK(model_of(facts) == "dear");
    facts.head.path = "/v1beta/models/dear:generateContent";
    CHECK(model_of(facts) == "dear");
    facts.head.path = "/v1/chat/completions";
    CHECK(model_of(facts) == "cheap");
}

TEST_CASE("policy cost: where a body does not say what it may take, the most is reserved") {
    config::Config config;
    config.body_reader = std::make_shared<const usage::RequestReader>(
        std::vector<usage::EstimateRule>{
            {.output_max = usage::output_max_of(usage::Provider::openai)}},
        std::vector<std::string>{});
    PolicyCost cost = by_usage(usage::Provider::openai);
    cost.rule = 0;
    InspectedBody body;
    Facts facts;
    const auto reserved = [&](std::string_view text) {
        body.reset();
        body.is_whole = true;
        body.bytes = text.size();
        config.body_reader->read(text, "/v1/chat/completions", body.json);
        facts.body = &body;
        return reserved_units(config, cost, facts, cost.weights);
    };
    CHECK(reserved("") == 1'000);
    CHECK(reserved("{ } ") == 1'001);
    CHECK(reserved(R"({"max_tokens":5,"x":NaN})") == 32'000);
    CHECK(reserved("\xef\xbb\xbf{}") == 32'000);
    CHECK(reserved("[]") == 32'000);
    // A batch has a request in each of its members.
    facts.head.path = "/v1/messages/batches";
    CHECK(reserved(R"({"requests":[{"params":{"max_tokens":9000}}]})") == 32'000);
    CHECK(reserved("") == 1'000);  // lists them
    facts.head.path = "/v1/chat/completions";
    // A signed body does not get the maximum of `write_cap`.
    facts.head.fields.push_back({http::FieldName::other, "Digest", "x"});
    CHECK(reserved("{ } ") == 1'001);
    cost.writes_cap = true;
    CHECK(reserved("{ } ") == 32'000);
    CHECK(reserved(R"({"max_tokens":96})") == 101);
    CHECK(reserved(R"({"Max_Tokens":96})") == 32'000);
}

}  // namespace tidegate::ask::policy_cost_test
