#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "usage/request.hpp"

namespace tidegate::usage::request_test {
namespace {

std::optional<std::int64_t> output_max(std::string_view body) {
    return RequestReader({}).read(body).output_max;
}

std::string with_usage(std::string_view body) {
    const RequestFacts facts = RequestReader({}).read(body);
    REQUIRE(facts.streams);
    REQUIRE_FALSE(facts.has_usage_asked);
    return ask_for_usage(body, facts);
}

}  // namespace

TEST_CASE("request: the maximum of output by each provider's name") {
    CHECK(output_max(R"({"max_completion_tokens":100})") == 100);
    CHECK(output_max(R"({"max_tokens":100})") == 100);
    CHECK(output_max(R"({"max_output_tokens":100})") == 100);
    CHECK(output_max(R"({"generationConfig":{"maxOutputTokens":100}})") == 100);
    CHECK(output_max(R"({"inferenceConfig":{"maxTokens":100}})") == 100);
    CHECK_FALSE(output_max(R"({"messages":[{"max_tokens":100}],"x":{"max_tokens":5}})"));
}

TEST_CASE("request: of several maxima the largest counts, and each is multiplied by the answers") {
    CHECK(output_max(R"({"max_completion_tokens":1,"max_tokens":100})") == 100);
    CHECK(output_max(R"({"max_tokens":100,"max_tokens":1})") == 100);
    CHECK(output_max(R"({"max_tokens":100,"n":3})") == 300);
    CHECK(output_max(R"({"max_tokens":100,"n":2,"best_of":5})") == 500);
    CHECK(output_max(R"({"generationConfig":{"maxOutputTokens":10,"candidateCount":4}})") == 40);
    CHECK(output_max(R"({"max_tokens":100,"n":0})") == 100);
    CHECK(output_max(R"({"max_tokens":0})") == 0);
}

TEST_CASE("request: what is no whole number of tokens is as if absent") {
    for (const char* const value :
         {"-1", "1.5", "\"7\"", "null", "true", "[7]", "2147483649", "1e99"}) {
        CAPTURE(value);
        CHECK_FALSE(output_max(std::string(R"({"max_tokens":)") + value + "}"));
    }
    CHECK(output_max(R"({"max_tokens":2147483648})") == 2147483648);
    CHECK(output_max(R"({"max_tokens":1e2})") == 100);
}

TEST_CASE("request: broken JSON, and JSON that is no object, say nothing") {
    for (const char* const body :
         {"", "{", R"({"max_tokens":5)", R"({"max_tokens":5}x)", R"([{"max_tokens":5}])", "5"}) {
        CAPTURE(body);
        const RequestFacts facts = RequestReader({}).read(body);
        CHECK_FALSE(facts.is_json);
        CHECK_FALSE(facts.output_max);
    }
}

TEST_CASE("request: the estimate is input by the body's length, and output, up to the maximum") {
    const RequestReader reader({});
    RequestFacts facts;
    CHECK(reader.estimate(facts, 400).cost({}) == 1100);
    CHECK(reader.estimate(facts, 401).cost({}) == 1101);
    facts.output_max = 50;
    CHECK(reader.estimate(facts, 400).cost({}) == 150);
    facts.output_max = kTokensMax;
    CHECK(reader.estimate(facts, 400).cost({}) == 32'000);
    CHECK(reader.estimate(facts, 1u << 30).cost({}) == 32'000);
    CHECK(reader.largest().cost({}) == 32'000);
    CHECK(
        RequestReader(EstimateRule{.output_max = {}, .plus_body = 0}).estimate({}, 400).cost({}) ==
        1000);
    CHECK(
        RequestReader(EstimateRule{.output_max = {}, .plus_body = 1}).estimate({}, 400).cost({}) ==
        1400);
}

TEST_CASE("request: the estimate is rounded up once") {
    const RequestReader reader({.output_max = {}, .fallback = 1});
    // 1/4 token of input at 2, and 1 of output at 0.5: 1 in all.
    CHECK(reader.estimate({}, 1).cost({2'000'000, 0, 0, 500'000}) == 1);
    CHECK(reader.estimate({}, 2).cost({2'000'000, 0, 0, 500'000}) == 2);
}

TEST_CASE("request: members of a rule take the place of the providers' own") {
    const RequestReader reader({.output_max = {"/limits/tokens"}});
    CHECK(reader.read(R"({"limits":{"tokens":7},"max_tokens":9})").output_max == 7);
}

TEST_CASE("request: usage is asked for where the client streams and has left it open") {
    const auto asked = [](std::string_view body) {
        const RequestFacts facts = RequestReader({}).read(body);
        return facts.streams && !facts.has_usage_asked;
    };
    CHECK(asked(R"({"stream":true})"));
    CHECK(asked(R"({"stream":true,"stream_options":{}})"));
    CHECK(asked(R"({"stream":true,"stream_options":null})"));
    CHECK_FALSE(asked(R"({"stream":false})"));
    CHECK_FALSE(asked(R"({"stream":"true"})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":{"include_usage":false}})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":{"include_usage":true}})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":7})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":{},"stream_options":{}})"));
}

TEST_CASE("request: a member is added, and every other byte stays") {
    CHECK(with_usage(R"({"stream":true})") ==
          R"({"stream":true,"stream_options":{"include_usage":true}})");
    CHECK(with_usage(" { \"stream\" : true } \n") ==
          " { \"stream\" : true ,\"stream_options\":{\"include_usage\":true}} \n");
    CHECK(with_usage(R"({"stream_options" : {},"stream":true,"a":"}"})") ==
          R"({"stream_options" : {"include_usage":true},"stream":true,"a":"}"})");
    CHECK(
        with_usage(
            R"({"a":{"stream_options":{}},"b":"\"stream_options\":{","stream":true,"stream_options":{"x":[{}]}})") ==
        R"({"a":{"stream_options":{}},"b":"\"stream_options\":{","stream":true,"stream_options":{"x":[{}],"include_usage":true}})");
    CHECK(write_output_max("{}", 1000) == R"({"max_completion_tokens":1000})");
    CHECK(write_output_max(R"({"a":[1]} )", 7) == R"({"a":[1],"max_completion_tokens":7} )");
}

TEST_CASE("request: what was added is what a JSON parser reads") {
    for (
        const char* const body :
        {R"({"stream":true,"stream_options":null,"x":1})",
         R"({"stream":true,"stream_options":{ }})",
         R"({"stream":true,"stream_options":{"include_obfuscation":false,"e":"\\"},"m":"é\u00e9"})"}) {
        CAPTURE(body);
        const auto changed = nlohmann::json::parse(with_usage(body));
        CHECK(changed["stream_options"]["include_usage"] == true);
        auto expected = nlohmann::json::parse(body);
        expected["stream_options"]["include_usage"] = true;
        CHECK(changed == expected);
    }
}

}  // namespace tidegate::usage::request_test
