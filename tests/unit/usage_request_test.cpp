#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "usage/request.hpp"

namespace tidegate::usage::request_test {
namespace {

constexpr std::string_view kPath = "/v1/chat/completions";

// By the names of all APIs but Anthropic's, each believed.
EstimateRule of_all() {
    EstimateRule rule;
    for (const Provider provider :
         {Provider::openai, Provider::openai_responses, Provider::gemini, Provider::bedrock}) {
        for (std::string& pointer : output_max_of(provider)) {
            rule.output_max.push_back(std::move(pointer));
        }
    }
    return rule;
}

RequestFacts facts_of(std::string_view body, EstimateRule rule = of_all()) {
    RequestFacts facts;
    RequestReader({std::move(rule)}, {}).read(body, kPath, facts);
    return facts;
}

std::optional<std::int64_t> output_max(std::string_view body, EstimateRule rule = of_all()) {
    const RequestFacts facts = facts_of(body, std::move(rule));
    return facts.is_json ? facts.output_max[0].stated : std::nullopt;
}

// The tokens of output that are reserved, of 1,000 where none are stated.
std::int64_t output_of(std::string_view body, EstimateRule rule = {},
                       std::string_view path = kPath) {
    const RequestReader reader({std::move(rule)}, {});
    RequestFacts facts;
    reader.read(body, path, facts);
    return reader.estimate(0, facts, 0).output;
}

std::string with_usage(std::string_view body) {
    const RequestFacts facts = facts_of(body);
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
    CHECK(output_max(R"({"max_tokens":100,"n":3})") == 300);
    CHECK(output_max(R"({"max_tokens":100,"n":2,"best_of":5})") == 500);
    CHECK(output_max(R"({"generationConfig":{"maxOutputTokens":10,"candidateCount":4}})") == 40);
    CHECK(output_max(R"({"max_tokens":100,"n":0})") == 100);
    // Some servers take 0 for no maximum.
    CHECK_FALSE(output_max(R"({"max_tokens":0})"));
    CHECK(output_max(R"({"max_tokens":0,"max_completion_tokens":5})") == 5);
    // LiteLLM asks each model of a list.
    CHECK(output_max(R"({"model":"a,b,c","max_tokens":100})") == 300);
    CHECK(model_of_path("/openai/deployments/a,b/chat/completions").empty());
    CHECK(model_of_path("/openai/deployments/a%2Cb/chat/completions").empty());
}

TEST_CASE(
    "request: a rule of one API takes no maximum of another, which its server does not read") {
    const EstimateRule anthropic{.output_max = output_max_of(Provider::anthropic)};
    CHECK(output_max(R"({"max_tokens":100})", anthropic) == 100);
    CHECK_FALSE(output_max(R"({"max_output_tokens":1})", anthropic));
    CHECK_FALSE(output_max(R"({"generationConfig":{"maxOutputTokens":1}})", anthropic));
    CHECK_FALSE(output_max(R"({"inferenceConfig":{"maxTokens":1}})", anthropic));
}

TEST_CASE("request: to openai, a maximum is that of the API that the body may be for") {
    EstimateRule openai;
    openai.provider = Provider::openai;
    CHECK(output_of(R"({"input":"x","max_output_tokens":5000})", openai) == 5'000);
    CHECK(output_of(R"({"input":"x","max_output_tokens":50})", openai) == 50);
    CHECK(output_of(R"({"prompt":{"id":"p"},"max_output_tokens":50})", openai) == 50);
    CHECK(output_of(R"({"messages":[],"max_completion_tokens":50})", openai) == 50);
    CHECK(output_of(R"({"prompt":"x","max_tokens":50})", openai) == 50);
    // The server passes over the members of the other API.
    CHECK(output_of(R"({"messages":[],"max_output_tokens":1})", openai) == 1'000);
    CHECK(output_of(R"({"input":"x","max_tokens":1})", openai) == 1'000);
    CHECK(output_of(R"({"input":"x","messages":[],"max_tokens":1})", openai) == 1'000);
    CHECK(output_of(R"({"previous_response_id":"r","max_tokens":1})", openai) == 1'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":50,"max_output_tokens":9000})", openai) ==
          9'000);
    // No API of OpenAI has these.
    CHECK(output_of(R"({"contents":[],"generationConfig":{"maxOutputTokens":9000}})", openai) ==
          1'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":50,"inferenceConfig":{"maxTokens":9}})",
                    openai) == 50);
    CHECK(RequestReader({openai}, {}).rule(0).output_max == output_max_of(Provider::openai));
}

TEST_CASE("request: a path begins a batch of requests") {
    CHECK(begins_batch("/v1beta/models/m:batchGenerateContent"));
    CHECK(begins_batch("/v1beta/models/m%3AbatchGenerateContent"));
    CHECK(begins_batch("/v1/messages/batches"));
    CHECK(begins_batch("/v1/messages/batches/"));
    CHECK_FALSE(begins_batch("/v1/messages/batches/b/cancel"));
    CHECK_FALSE(begins_batch("/v1beta/models/m:asyncBatchEmbedContent"));
    CHECK_FALSE(begins_batch("/v1/batches"));
    CHECK_FALSE(begins_batch(""));
}

TEST_CASE("request: Gemini's names count in both spellings") {
    const EstimateRule gemini{.output_max = output_max_of(Provider::gemini)};
    for (const EstimateRule& rule : {gemini, of_all()}) {
        CHECK(output_max(R"({"generation_config":{"max_output_tokens":50,"candidate_count":2}})",
                         rule) == 100);
        CHECK(output_max(R"({"generationConfig":{"max_output_tokens":50,"candidate_count":2}})",
                         rule) == 100);
        CHECK(output_max(R"({"generation_config":{"maxOutputTokens":50,"candidateCount":2}})",
                         rule) == 100);
    }
}

TEST_CASE("request: the default is multiplied by the answers, too") {
    const RequestReader reader({{}}, {});
    RequestFacts facts;
    const auto output = [&](std::string_view body) {
        reader.read(body, kPath, facts);
        return reader.estimate(0, facts, body.size()).output;
    };
    CHECK(output(R"({"n":5})") == 5'000);
    CHECK(output("{}") == 1'000);
}

TEST_CASE("request: each prompt of a list has its answer; a list of tokens is one prompt") {
    CHECK(output_max(R"({"max_tokens":100,"prompt":"one"})") == 100);
    CHECK(output_max(R"({"max_tokens":100,"prompt":["one","two","three"]})") == 300);
    CHECK(output_max(R"({"max_tokens":100,"n":2,"prompt":[[1,2],[3,4]]})") == 400);
    CHECK(output_max(R"({"max_tokens":100,"prompt":[1,2,3]})") == 100);
    CHECK(output_max(R"({"max_tokens":100,"prompt":[]})") == 100);
}

TEST_CASE("request: a maximum that is there twice reserves the largest, and at least the default") {
    for (const EstimateRule& rule : {EstimateRule{}, of_all()}) {
        CHECK(output_of(R"({"messages":[],"max_tokens":5000,"max_tokens":1})", rule) == 5'000);
        CHECK(output_of(R"({"messages":[],"max_tokens":1,"max_tokens":5000})", rule) == 5'000);
        CHECK(output_of(R"({"messages":[],"max_tokens":5,"max_tokens":null})", rule) == 1'000);
        CHECK(output_of(R"({"messages":[],"max_tokens":5,"max_tokens":7})", rule) == 1'000);
    }
    CHECK(output_of(R"({"contents":[],"generationConfig":{"maxOutputTokens":5},
                        "generationConfig":{}})") == 1'000);
}

TEST_CASE("request: a maximum in another case reserves the largest, and at least the default") {
    for (const EstimateRule& rule : {EstimateRule{}, of_all()}) {
        // A server that ignores case takes the last, others the one that is written as usual.
        CHECK(output_of(R"({"messages":[],"max_tokens":5,"Max_Tokens":9000})", rule) == 9'000);
        CHECK(output_of(R"({"messages":[],"Max_Tokens":9000,"max_tokens":5})", rule) == 9'000);
        CHECK(output_of(R"({"messages":[],"max_tokens":9000,"MAX_TOKENS":5})", rule) == 9'000);
        CHECK(output_of(R"({"messages":[],"max_tokens":5,"MAX_TOKENS":5})", rule) == 1'000);
        CHECK(output_of(R"({"messages":[],"Max_Tokens":5})", rule) == 1'000);
        CHECK(output_of("{\"messages\":[],\"max_tokens\":5,\"max_to\u212Aen\u017F\":9000}", rule) ==
              9'000);
        CHECK(output_of(R"({"contents":[],"generationConfig":{"maxOutputTokens":5},
                            "GenerationConfig":{"maxOutputTokens":9000}})",
                        rule) == 9'000);
        CHECK(output_of(R"({"contents":[],"GenerationConfig":{"maxOutputTokens":5}})", rule) ==
              1'000);
    }
    CHECK(output_of(R"({"messages":[],"max_tokens":100,"N":30})") == 3'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":100,"n":1,"N":30})") == 3'000);
}

TEST_CASE("request: prompts that are ambiguous may be as many as the cap allows") {
    CHECK(output_of(R"({"max_tokens":100,"prompt":["a","b"],"prompt":"c"})") == 32'000);
    CHECK(output_of(R"({"max_tokens":100,"prompt":"c","Prompt":["a","b"]})") == 32'000);
}

TEST_CASE("request: of any API, a maximum of another API never reserves less than the default") {
    CHECK(output_of(R"({"messages":[],"max_tokens":50})") == 50);
    CHECK(output_of(R"({"messages":[],"max_completion_tokens":50})") == 50);
    CHECK(output_of(R"({"prompt":"x","max_tokens":50})") == 50);
    CHECK(output_of(R"({"input":"x","max_output_tokens":50})") == 50);
    CHECK(output_of(R"({"prompt":{"id":"p"},"max_output_tokens":50})") == 50);
    CHECK(output_of(R"({"contents":[],"generationConfig":{"maxOutputTokens":50}})") == 50);
    for (const char* const foreign :
         {R"("max_output_tokens":1)", R"("generationConfig":{"maxOutputTokens":1})",
          R"("inferenceConfig":{"maxTokens":1})"}) {
        CAPTURE(foreign);
        CHECK(output_of(std::string(R"({"messages":[],)") + foreign + "}") == 1'000);
        CHECK(output_of(std::string(R"({"prompt":"x",)") + foreign + "}") == 1'000);
        CHECK(output_of(std::string(R"({"messages":[],"max_tokens":50,)") + foreign + "}") == 50);
    }
    for (const char* const required : {"input", "contents"}) {
        CAPTURE(required);
        const std::string begin = std::string("{\"") + required + "\":[],";
        CHECK(output_of(begin + R"("max_tokens":1})") == 1'000);
        CHECK(output_of(begin + R"("messages":[],"max_tokens":1})") == 1'000);
    }
    CHECK(output_of(R"({"Messages":[],"input":"x","max_output_tokens":1})") == 1'000);
    // What no API requires: any server may take it.
    CHECK(output_of(R"({"question":"x","max_tokens":1})") == 1'000);
}

TEST_CASE("request: of any API, a larger maximum of another API reserves more") {
    CHECK(output_of(R"({"messages":[],"max_output_tokens":9000})") == 9'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":50,"max_output_tokens":9000})") == 9'000);
    CHECK(output_of(R"({"question":"x","max_tokens":9000})") == 9'000);
}

TEST_CASE("request: of any API, the path tells a call of Converse from a chat") {
    const char* const own = R"({"messages":[],"inferenceConfig":{"maxTokens":50}})";
    const char* const foreign = R"({"messages":[],"max_tokens":1})";
    for (const char* const path : {"/model/m/converse", "/model/m/converse-stream"}) {
        CAPTURE(path);
        CHECK(output_of(own, {}, path) == 50);
        CHECK(output_of(foreign, {}, path) == 1'000);
    }
    // The server may read a path differently.
    for (const char* const path :
         {"/model/m/converse/", "/aws/model/m/converse", "/%6dodel/m/converse"}) {
        CAPTURE(path);
        CHECK(output_of(own, {}, path) == 1'000);
        CHECK(output_of(foreign, {}, path) == 1'000);
    }
    CHECK(output_of(own) == 1'000);
}

TEST_CASE("request: embeddings reserve the default, as their body may be one of a response") {
    CHECK(output_of(R"({"model":"m","input":"x"})") == 1'000);
    CHECK(output_of(R"({"model":"m","input":"x"})", {}, "/v1/embeddings") == 1'000);
    CHECK(output_of(R"({"model":"m","input":"x"})", {.output_max = output_max_of(Provider::openai)},
                    "/v1/embeddings") == 1'000);
}

TEST_CASE("request: a model named twice, or by a text that is no name, is none") {
    CHECK(facts_of(R"({"model":"gpt-x"})").model == "gpt-x");
    CHECK(facts_of(R"({"model":"cheap","Model":"dear"})").model.empty());
    CHECK(facts_of(R"({"MODEL":"dear","model":"cheap"})").model.empty());
    CHECK(facts_of(R"({"Model":"dear"})").model.empty());
    CHECK(facts_of(R"({"model":"dear","model":"cheap"})").model.empty());
    CHECK(facts_of(R"({"model":")" + std::string(kModelBytesMax, 'x') + R"("})").model.size() ==
          kModelBytesMax);
    CHECK(facts_of(R"({"model":")" + std::string(kModelBytesMax + 1, 'x') + R"("})").model.empty());
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

TEST_CASE(
    "request: a text that is a number reserves as the number would, and at least the default") {
    // Servers whose reader is not strict take it, such as those with Pydantic.
    for (const char* const text : {"9000", " 9000 ", "+9000", "9_000", "9000.0", "9e3"}) {
        CAPTURE(text);
        const std::string quoted = '"' + std::string(text) + '"';
        for (const EstimateRule& rule : {EstimateRule{}, of_all()}) {
            CHECK(output_of(R"({"messages":[],"max_tokens":)" + quoted + "}", rule) == 9'000);
            CHECK(output_of(R"({"messages":[],"max_tokens":)" + quoted + R"(,"max_tokens":5})",
                            rule) == 9'000);
            CHECK(output_of(R"({"messages":[],"max_tokens":5,"Max_Tokens":)" + quoted + "}",
                            rule) == 9'000);
        }
    }
    // White space of any kind, and zeros.
    for (const std::string& text : {std::string(64, ' ') + "9000", std::string(61, '0') + "9000",
                                    "9000." + std::string(70, '0'), std::string("\\f9000"),
                                    std::string("\\u00a09000"), std::string("\\u30009000")}) {
        CAPTURE(text);
        CHECK(output_of(R"({"messages":[],"max_tokens":")" + text + R"("})") == 9'000);
    }
    // One above the most hides no other.
    CHECK(output_of(R"({"messages":[],"max_tokens":9000,"Max_Tokens":"3000000000"})") >= 9'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":"3000000000","max_tokens":9000})") >= 9'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":9000,"Max_Tokens":3000000000})") >= 9'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":100,"n":30,"N":"3000000000"})") >= 3'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":"5"})") == 1'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":100,"n":"30"})") == 3'000);
    CHECK(output_of(R"({"messages":[],"max_tokens":100,"n":1,"n":"30"})") == 3'000);
    for (const char* const text : {"", "nine", "9000 tokens", "-9000", "2147483649", "9000.5"}) {
        CAPTURE(text);
        CHECK(output_of(R"({"messages":[],"max_tokens":")" + std::string(text) + R"("})") == 1'000);
        CHECK(output_of(R"({"messages":[],"max_tokens":100,"n":")" + std::string(text) + R"("})") ==
              100);
    }
}

TEST_CASE("request: broken JSON, and JSON that is no object, say nothing") {
    for (const char* const body :
         {"", "{", R"({"max_tokens":5)", R"({"max_tokens":5}x)", R"([{"max_tokens":5}])", "5"}) {
        CAPTURE(body);
        const RequestFacts facts = facts_of(body);
        CHECK_FALSE(facts.is_json);
        CHECK(facts.output_max.empty());
    }
}

TEST_CASE("request: the estimate is input by the body's length, and output, up to the maximum") {
    const auto cost = [](RequestFacts facts, std::size_t bytes, EstimateRule rule = {}) {
        return RequestReader({std::move(rule)}, {}).estimate(0, facts, bytes).cost({});
    };
    const auto asking = [](std::int64_t max) {
        RequestFacts facts;
        facts.is_json = true;
        facts.output_max = {{.stated = max}};
        return facts;
    };
    CHECK(cost({}, 400) == 1100);
    CHECK(cost({}, 401) == 1101);
    CHECK(cost(asking(50), 400) == 150);
    CHECK(cost(asking(kTokensMax), 400) == 32'000);
    CHECK(cost(asking(kTokensMax), 1u << 30) == 32'000);
    CHECK(RequestReader({{}}, {}).largest(0).cost({}) == 32'000);
    CHECK(cost({}, 400, {.output_max = {}, .plus_body = 0}) == 1000);
    CHECK(cost({}, 400, {.output_max = {}, .plus_body = 1}) == 1400);
}

TEST_CASE("request: the estimate is rounded up once") {
    const RequestReader reader({{.output_max = {}, .fallback = 1}}, {});
    // 1/4 token of input at 2, and 1 of output at 0.5: 1 in all.
    CHECK(reader.estimate(0, {}, 1).cost({2'000'000, 0, 0, 500'000}) == 1);
    CHECK(reader.estimate(0, {}, 2).cost({2'000'000, 0, 0, 500'000}) == 2);
}

TEST_CASE("request: members of a rule take the place of the providers' own") {
    CHECK(output_max(R"({"limits":{"tokens":7},"max_tokens":9})",
                     {.output_max = {"/limits/tokens"}}) == 7);
}

TEST_CASE(
    "request: each rule has its own maximum, and the caller's members are found beside them") {
    const RequestReader reader({of_all(), {.output_max = {"/limits/tokens"}}},
                               {"/params/name", "/absent", "/max_tokens"});
    RequestFacts facts;
    const std::string name(5'000, 'x');
    reader.read(R"({"limits":{"tokens":7},"max_tokens":9,"params":{"name":")" + name + R"("}})",
                kPath, facts);
    CHECK(facts.output_max[0].stated == 9);
    CHECK(facts.output_max[1].stated == 7);
    CHECK(facts.members[0].text == name);
    CHECK_FALSE(facts.members[0].too_long);
    CHECK(facts.members[1].kind == JsonMember::Kind::absent);
    CHECK(facts.members[2].whole == 9);
    reader.read("[]", kPath, facts);
    CHECK_FALSE(facts.is_json);
    CHECK(facts.members.empty());
}

TEST_CASE("request: input reserves the dearest kind, as a cache may take all of it") {
    const RequestReader reader({{.output_max = {}, .plus_body = 1}}, {});
    const Estimate estimate = reader.estimate(0, {}, 100);
    CHECK(estimate.cost({1'000'000, 100'000, 1'250'000, 0}) == 125);
    Rates rates{1'000'000, 100'000, 1'250'000, 0};
    rates.cache_write_1h = 2'000'000;
    CHECK(estimate.cost(rates) == 200);
    CHECK(estimate.cost({1'000'000, 100'000, 1'000'000, 0}) == 100);
}

TEST_CASE("request: a body that is not read reserves the dearest kind") {
    const RequestReader reader({{.output_max = {}, .max = 5'000}}, {});
    CHECK(reader.largest(0).cost({1'000'000, 0, 0, 0}) == 5'000);
    CHECK(reader.largest(0).cost({1'000'000, 0, 0, 4'000'000}) == 20'000);
}

TEST_CASE("request: a path names the model of Bedrock and of Gemini") {
    CHECK(model_of_path("/model/anthropic.claude-v2%3A1/converse") == "anthropic.claude-v2:1");
    CHECK(model_of_path("/model/x/converse-stream") == "x");
    CHECK(model_of_path("/v1beta/models/gemini-pro:generateContent") == "gemini-pro");
    CHECK(model_of_path("/v1/projects/p/publishers/google/models/g:streamGenerateContent") == "g");
    CHECK(model_of_path("/v1/chat/completions").empty());
    CHECK(model_of_path("/model/").empty());
}

TEST_CASE("request: a path names a deployment of Azure, which decides the model") {
    CHECK(model_of_path("/openai/deployments/gpt-x%2Dmini/chat/completions") == "gpt-x-mini");
    CHECK(model_of_path("/llm/openai/deployments/gpt-x/embeddings") == "gpt-x");
    CHECK(model_of_path("/openai/deployments/a/extensions/models/b:c") == "a");
    CHECK(path_decides_model("/openai/deployments/gpt-x/chat/completions"));
    CHECK_FALSE(path_decides_model("/openai/v1/chat/completions"));
    CHECK_FALSE(path_decides_model("/openai/deployments"));
}

TEST_CASE("request: calls of Bedrock and Gemini take the model from the path") {
    CHECK(path_decides_model("/model/anthropic.claude-v2%3A1/converse"));
    CHECK(path_decides_model("/model/x/converse-stream"));
    CHECK(path_decides_model("/model/x/invoke"));
    CHECK(path_decides_model("/model/x/invoke-with-response-stream"));
    CHECK(path_decides_model("/v1beta/models/gemini-pro:generateContent"));
    CHECK_FALSE(path_decides_model("/models/v1/chat/completions"));
    CHECK_FALSE(path_decides_model("/v1/models/gpt-x"));
    CHECK_FALSE(path_decides_model("/v1/chat/completions"));
}

TEST_CASE("request: a list of messages is a chat") {
    CHECK(facts_of(R"({"messages":[]})").is_chat);
    CHECK(facts_of(R"({"messages":[{"role":"user","content":"x"}]})").is_chat);
    CHECK(facts_of(R"({"Messages":[]})").is_chat);
    CHECK_FALSE(facts_of(R"({"messages":"x"})").is_chat);
    CHECK_FALSE(facts_of(R"({"input":[{"messages":[]}]})").is_chat);
    CHECK_FALSE(facts_of("[]").is_chat);
}

TEST_CASE("request: usage is asked for where the client streams and has left it open") {
    const auto asked = [](std::string_view body) {
        const RequestFacts facts = facts_of(body);
        return facts.streams && !facts.has_usage_asked;
    };
    CHECK(asked(R"({"stream":true})"));
    CHECK(asked(R"({"stream":true,"stream_options":{}})"));
    CHECK(asked(R"({"stream":true,"stream_options":null})"));
    CHECK(asked(R"({"stream":true,"stream_options":{"include_usage":null}})"));
    CHECK_FALSE(asked(R"({"stream":false})"));
    CHECK_FALSE(asked(R"({"stream":"true"})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":{"include_usage":false}})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":{"include_usage":true}})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":7})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":{},"stream_options":{}})"));
    CHECK_FALSE(asked(R"({"stream":true,"Stream_Options":{}})"));
    CHECK_FALSE(asked(R"({"stream":true,"stream_options":{"Include_Usage":false}})"));
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
    CHECK(with_usage(R"({"stream_options" : {"x":[1,{"y":"}"}]} , "stream" : true } )") ==
          R"({"stream_options" : {"x":[1,{"y":"}"}],"include_usage":true} , "stream" : true } )");
    CHECK(write_output_max("{}", 1000) == R"({"max_completion_tokens":1000})");
    CHECK(write_output_max(R"({"x":{"max_completion_tokens":1},"max_completion_tokens": null})",
                           7) == R"({"x":{"max_completion_tokens":1},"max_completion_tokens": 7})");
    CHECK(write_output_max(R"({"max_completion_tokens":[1,"]"],"a":"max_completion_tokens"})", 7) ==
          R"({"max_completion_tokens":7,"a":"max_completion_tokens"})");
    CHECK(with_usage(R"({"stream_options":null,"stream":true})") ==
          R"({"stream_options":{"include_usage":true},"stream":true})");
    CHECK(with_usage(R"({"stream":true,"stream_options":{"include_usage":null,"x":1}})") ==
          R"({"stream":true,"stream_options":{"include_usage":true,"x":1}})");
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
