// The usage that each provider's answers have.
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "amazon_message.hpp"
#include "unit/usage_answers.hpp"
#include "usage/answer.hpp"

namespace tidegate::usage::providers_test {
namespace {

using Form = AnswerReader::Form;

std::string base64_of(std::string_view bytes) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            group = group << 8 |
                    (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
        }
        for (std::size_t i = 0; i < 4; ++i) {
            text += at + i > bytes.size() ? '=' : kDigits[group >> (18 - 6 * i) & 63];
        }
    }
    return text;
}

}  // namespace

TEST_CASE("usage: openai's chat completion, with what its cache had") {
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":1}"}}],
                     "usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
                     "prompt_tokens_details":{"cached_tokens":30},
                     "completion_tokens_details":{"reasoning_tokens":15}}})",
        {70, 30, 0, 20});
}

TEST_CASE("usage: openai's embeddings have no output") {
    check_tokens(Provider::openai, Form::json,
                 R"({"model":"m-1","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}})",
                 {8, 0, 0, 0});
}

TEST_CASE("usage: openai's stream says it in its last event, and null in the others") {
    check_tokens(
        Provider::openai, Form::server_sent_events,
        event(R"({"model":"m-1","choices":[{"delta":{"content":"a"}}],"usage":null})") +
            event(R"({"model":"m-1","choices":[],"usage" : null})") +
            event(
                R"({"model":"m-1","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}})") +
            event("[DONE]"),
        {5, 0, 0, 7});
}

TEST_CASE("usage: a name with escapes is that name, in one piece and in many") {
    check_tokens(
        Provider::openai, Form::server_sent_events,
        event(
            R"({"model":"m-1","us\u0061ge":{"prompt_tokens":5,"completion_\u0074okens":7},"choices":[]})"),
        {5, 0, 0, 7});
}

TEST_CASE("usage: of events of openai with choices and usage the last counts") {
    check_tokens(
        Provider::openai, Form::server_sent_events,
        event(
            R"({"model":"m-1","choices":[{}],"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":3}}})") +
            event(
                R"({"model":"m-1","choices":[{}],"usage":{"prompt_tokens":5,"completion_tokens":2}})"),
        {5, 0, 0, 2});
}

TEST_CASE("usage: groq's stream says it in `x_groq` of its last chunk, asked for or not") {
    const std::string begin =
        event(R"({"model":"m-1","choices":[{"delta":{"content":""}}],"x_groq":{"id":"req_1"}})");
    const std::string groq =
        R"("x_groq":{"id":"req_1","usage":{"queue_time":0.09,"prompt_tokens":38,"prompt_time":0.01,"completion_tokens":4,"total_tokens":42,"prompt_tokens_details":{"cached_tokens":8}}})";
    const std::string last =
        R"({"model":"m-1","choices":[{"delta":{},"finish_reason":"stop"}],)" + groq;
    check_tokens(Provider::openai, Form::server_sent_events,
                 begin + event(last + "}") + event("[DONE]"), {30, 8, 0, 4});
    check_tokens(Provider::openai, Form::server_sent_events,
                 begin + event(last + R"(,"usage":null})") + event("[DONE]"), {30, 8, 0, 4});
    // What every client of OpenAI's API reads counts before it.
    check_tokens(Provider::openai, Form::server_sent_events,
                 begin + event(last + R"(,"usage":{"prompt_tokens":38,"completion_tokens":5}})"),
                 {38, 0, 0, 5});
    check_tokens(
        Provider::openai, Form::server_sent_events,
        begin + event(last + "}") +
            event(
                R"({"model":"m-1","choices":[],"usage":{"prompt_tokens":38,"completion_tokens":6}})"),
        {38, 0, 0, 6});
}

TEST_CASE("usage: openai's Responses API, as an answer and as the event that ends it") {
    check_tokens(
        Provider::openai_responses, Form::json,
        R"({"model":"m-1","usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":10},"output_tokens":9,"total_tokens":59}})",
        {40, 10, 0, 9});
    for (const char* const type :
         {"response.completed", "response.incomplete", "response.failed"}) {
        check_tokens(
            Provider::openai_responses, Form::server_sent_events,
            "event: response.created\n" +
                event(R"({"type":"response.created","response":{"model":"m-1","usage":null}})") +
                "event: " + type + "\n" +
                event(
                    R"({"type":")" + std::string(type) +
                    R"(","response":{"model":"m-1","usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":60},"output_tokens":9,"total_tokens":59}}})"),
            {0, 60, 0, 9});
    }
}

TEST_CASE("usage: openai has both of its APIs behind one address, and none of anthropic") {
    const std::string usage =
        R"("model":"m-1","usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":10},"output_tokens":9,"total_tokens":59}})";
    check_tokens(Provider::openai, Form::json, "{" + usage, {40, 10, 0, 9});
    check_tokens(Provider::openai, Form::server_sent_events,
                 event(R"({"type":"response.created","response":{"model":"m-1","usage":null}})") +
                     event(R"({"type":"response.completed","response":{)" + usage + "}"),
                 {40, 10, 0, 9});
    check_tokens(Provider::openai, Form::server_sent_events,
                 event(R"({"type":"image_generation.completed","b64_json":"x",)" + usage),
                 {40, 10, 0, 9});
    const UsageSource source(Provider::openai);
    AnswerReader reader(source, Form::server_sent_events);
    reader.read(event(R"({"type":"response.completed","response":{)" + usage + "}"));
    CHECK(reader.has_last_event());
    CHECK_FALSE(
        found_in(
            UsageSource(Provider::openai), Form::json,
            R"({"model":"m-1","usage":{"input_tokens":10,"cache_read_input_tokens":200,"output_tokens":4}})")
            .usage);
}

TEST_CASE("usage: openai's server makes images beside the usage of a response") {
    const std::string body =
        R"({"model":"m-1","usage":{"input_tokens":50,"output_tokens":9,"total_tokens":59},"tool_usage":{"image_gen":{"input_tokens":30,"output_tokens":1056,"total_tokens":1086}}})";
    for (const Provider provider : {Provider::openai, Provider::openai_responses}) {
        check_tokens(provider, Form::json, body, {80, 0, 0, 1065});
        check_tokens(provider, Form::server_sent_events,
                     event(R"({"type":"response.completed","response":)" + body + "}"),
                     {80, 0, 0, 1065});
    }
    // A response that is still at work: its usage is not known.
    CHECK_FALSE(
        found_in(
            UsageSource(Provider::openai), Form::json,
            R"({"model":"m-1","usage":null,"tool_usage":{"image_gen":{"input_tokens":0,"output_tokens":0}}})")
            .usage);
}

TEST_CASE("usage: what LiteLLM says is written to a cache is a part of the prompt") {
    const std::string begin =
        R"({"model":"m-1","usage":{"prompt_tokens":98805,"completion_tokens":5120,"total_tokens":103925,)";
    const Tokens expected{10, 66'360, 32'435, 5120};
    check_tokens(
        Provider::openai, Form::json,
        begin +
            R"("prompt_tokens_details":{"cached_tokens":66360,"cache_creation_tokens":32435},"cache_creation_input_tokens":32435,"cache_read_input_tokens":66360}})",
        expected);
    check_tokens(Provider::openai, Form::json,
                 begin + R"("prompt_tokens_details":{"cached_tokens":66360},)"
                         R"("cache_creation_input_tokens":32435,"cache_read_input_tokens":66360}})",
                 expected);
    check_tokens(Provider::openai, Form::json,
                 begin + R"("cache_creation_input_tokens":98805,"cache_read_input_tokens":0}})",
                 {0, 0, 98'805, 5120});
    // On top of the prompt, as Portkey writes it.
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":10,"completion_tokens":5120,"total_tokens":103925,"cache_read_input_tokens":66360,"cache_creation_input_tokens":32435}})",
        expected);
}

TEST_CASE("usage: what openai's servers write to their cache is a part of the input") {
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":2600,"completion_tokens":300,"total_tokens":2900,"prompt_tokens_details":{"cached_tokens":2000,"cache_write_tokens":400}}})",
        {200, 2000, 400, 300});
    const std::string usage =
        R"({"model":"m-1","usage":{"input_tokens":18014,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":18011},"output_tokens":9,"total_tokens":18023}})";
    check_tokens(Provider::openai_responses, Form::json, usage, {3, 0, 18'011, 9});
    check_tokens(Provider::openai_responses, Form::server_sent_events,
                 event(R"({"type":"response.completed","response":)" + usage + "}"),
                 {3, 0, 18'011, 9});
}

TEST_CASE("usage: deepseek and moonshot have names of their own for what their cache had") {
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109,"prompt_cache_hit_tokens":80,"prompt_cache_miss_tokens":20}})",
        {20, 80, 0, 9});
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109,"cached_tokens":80}})",
        {20, 80, 0, 9});
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":100,"completion_tokens":9,"prompt_cache_hit_tokens":80,"prompt_tokens_details":{"cached_tokens":80}}})",
        {20, 80, 0, 9});
}

TEST_CASE("usage: what a total has above its parts is of any kind, such as the thoughts of grok") {
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94}}})",
        with_any({26, 6, 0, 103}, 94));
    check_tokens(
        Provider::openai, Form::server_sent_events,
        event(
            R"({"model":"m-1","choices":[],"usage":{"prompt_tokens":758,"completion_tokens":102,"total_tokens":1725}})") +
            event("[DONE]"),
        with_any({758, 0, 0, 967}, 865));
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":21,"completion_tokens":0,"total_tokens":81}})",
        with_any({21, 0, 0, 60}, 60));
    check_tokens(
        Provider::openai_responses, Form::json,
        R"({"model":"m-1","usage":{"input_tokens":50,"output_tokens":9,"total_tokens":70}})",
        with_any({50, 0, 0, 20}, 11));
    check_tokens(
        Provider::gemini, Form::json,
        R"({"modelVersion":"m-1","usageMetadata":{"promptTokenCount":21,"totalTokenCount":81}})",
        with_any({21, 0, 0, 60}, 60));
    // What Anthropic's cache had, beside the prompt in place of in it.
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":368,"completion_tokens":19,"total_tokens":10923,"cache_read_input_tokens":10536,"cache_creation_input_tokens":0}})",
        {368, 10'536, 0, 19});
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":500,"completion_tokens":19,"total_tokens":519,"cache_read_input_tokens":100,"prompt_tokens_details":{"cached_tokens":100}}})",
        {400, 100, 0, 19});
    // All parts are 0.
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":7}})",
        with_any({0, 0, 0, 7}, 7));
}

TEST_CASE("usage: anthropic counts its cache beside the input") {
    check_tokens(
        Provider::anthropic, Form::json,
        R"({"type":"message","model":"m-1","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":30,"output_tokens":4}})",
        {10, 200, 30, 4});
}

TEST_CASE("usage: anthropic's stream: each kind is what the last event says of it") {
    check_tokens(
        Provider::anthropic, Form::server_sent_events,
        "event: message_start\n" +
            event(
                R"({"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":10,"cache_read_input_tokens":200,"output_tokens":1}}})") +
            event(
                R"({"type":"content_block_delta","delta":{"text":"\"usage\":{\"output_tokens\":9999}"}})") +
            event(R"({"type":"message_delta","usage":{"output_tokens":15}})") +
            event(R"({"type":"message_delta","usage":{"output_tokens":40}})") +
            event(R"({"type":"message_stop"})"),
        {10, 200, 0, 40});
    check_tokens(
        Provider::anthropic, Form::server_sent_events,
        event(
            R"({"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":10,"output_tokens":1}}})") +
            event(
                R"({"type":"message_delta","usage":{"input_tokens":11,"cache_read_input_tokens":3,"output_tokens":40}})"),
        {11, 3, 0, 40});
}

TEST_CASE("usage: anthropic tells apart what its cache keeps for an hour") {
    Tokens tokens{10, 200, 130, 4};
    tokens.cache_write_1h = 100;
    check_tokens(
        Provider::anthropic, Form::json,
        R"({"type":"message","model":"m-1","usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":130,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":100},"output_tokens":4}})",
        tokens);
    const std::string start = event(
        R"({"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":130,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":100},"output_tokens":1}}})");
    check_tokens(
        Provider::anthropic, Form::server_sent_events,
        start +
            event(
                R"({"type":"message_delta","usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":130,"output_tokens":4}})"),
        tokens);
    // Never more than was written.
    tokens = {10, 200, 7, 4};
    tokens.cache_write_1h = 7;
    check_tokens(
        Provider::anthropic, Form::server_sent_events,
        start +
            event(
                R"({"type":"message_delta","usage":{"cache_creation_input_tokens":7,"output_tokens":4}})"),
        tokens);
}

TEST_CASE("usage: anthropic says beside the message what its server took to compact it") {
    check_tokens(
        Provider::anthropic, Form::json,
        R"({"model":"m-1","usage":{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,"cache_read_input_tokens":40,"cache_creation_input_tokens":6,"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}})",
        {203'000, 40, 6, 4500});
    // On demand: the message itself took nothing.
    const std::string on_demand =
        R"("usage":{"input_tokens":0,"output_tokens":0,"iterations":[{"type":"compaction","input_tokens":2930,"output_tokens":1313}]}})";
    check_tokens(Provider::anthropic, Form::json, R"({"model":"m-1",)" + on_demand,
                 {2930, 0, 0, 1313});
    const std::string start = event(
        R"({"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":500,"output_tokens":1}}})");
    const std::string delta = event(
        R"({"type":"message_delta","usage":{"output_tokens":50,"iterations":[{"type":"compaction","input_tokens":80000,"output_tokens":300},{"type":"message","input_tokens":500,"output_tokens":50},{"type":"advisor_message","input_tokens":7,"output_tokens":3}]}})");
    check_tokens(Provider::anthropic, Form::server_sent_events, start + delta + delta,
                 {80'507, 0, 0, 353});
    // A model that declined is not charged, and the message counts once.
    check_tokens(
        Provider::anthropic, Form::json,
        R"({"model":"m-1","usage":{"input_tokens":5,"output_tokens":6,"iterations":[{"type":"fallback_message","input_tokens":9,"output_tokens":9},{"type":"message","input_tokens":5,"output_tokens":6}]}})",
        {5, 0, 0, 6});
}

TEST_CASE("usage: gemini's Interactions API, as an answer and as the event that ends it") {
    const std::string body =
        R"({"id":"i","model":"m-1","usage":{"total_input_tokens":10,"total_cached_tokens":3,"total_output_tokens":4,"total_thought_tokens":2,"total_tool_use_tokens":5,"total_tokens":21}})";
    check_tokens(Provider::gemini, Form::json, body, {12, 3, 0, 6});
    check_tokens(
        Provider::gemini, Form::server_sent_events,
        event(R"({"event_type":"interaction.created","interaction":{"id":"i","model":"m-1"}})") +
            event(R"({"event_type":"interaction.completed","interaction":)" + body + "}") +
            event("[DONE]"),
        {12, 3, 0, 6});
}

TEST_CASE("usage: gemini counts thoughts beside candidates, and the last event wins") {
    const std::string first =
        R"({"modelVersion":"m-1","candidates":[{}],"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":1,"thoughtsTokenCount":50,"totalTokenCount":71}})";
    const std::string last =
        R"({"modelVersion":"m-1","usageMetadata":{"promptTokenCount":20,"cachedContentTokenCount":5,"candidatesTokenCount":8,"thoughtsTokenCount":60,"toolUsePromptTokenCount":2,"totalTokenCount":90}})";
    check_tokens(Provider::gemini, Form::json, last, {17, 5, 0, 68});
    check_tokens(Provider::gemini, Form::server_sent_events, event(first) + event(last),
                 {17, 5, 0, 68});
    check_tokens(Provider::gemini, Form::json, "[" + first + "\n,\n" + last + "]", {17, 5, 0, 68});
    // What a later event says less of is not taken back.
    check_tokens(Provider::gemini, Form::json, "[" + last + "," + first + "]", {17, 5, 0, 68});
    check_tokens(
        Provider::gemini, Form::server_sent_events,
        event(
            R"({"modelVersion":"m-1","usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":50,"totalTokenCount":60}})") +
            event(
                R"({"modelVersion":"m-1","usageMetadata":{"promptTokenCount":10,"totalTokenCount":10}})"),
        {10, 0, 0, 50});
}

TEST_CASE("usage: bedrock's Converse, as an answer and as its event metadata") {
    const std::string usage =
        R"({"usage":{"inputTokens":12,"outputTokens":34,"totalTokens":46,"cacheReadInputTokens":5,"cacheWriteInputTokens":6}})";
    check_tokens(Provider::bedrock, Form::json, usage, {12, 5, 6, 34}, "");
    check_tokens(Provider::bedrock, Form::amazon_events,
                 amazon_message("contentBlockDelta", R"({"usage":{"inputTokens":1}})") +
                     amazon_message("metadata", usage),
                 {12, 5, 6, 34}, "");
}

TEST_CASE(
    "usage: bedrock's InvokeModel streams events of the model's API, and counts in the last") {
    const auto chunk = [](std::string_view json) {
        return amazon_message("chunk", R"({"p":"abc","bytes":")" + base64_of(json) + "\"}");
    };
    const std::string start = chunk(
        R"({"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":30,"output_tokens":1}}})");
    const std::string text = chunk(
        R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"\"usage\":{\"output_tokens\":9999}"}})");
    const std::string delta = chunk(R"({"type":"message_delta","usage":{"output_tokens":40}})");
    const std::string stop = chunk(
        R"({"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":10,"outputTokenCount":40,"invocationLatency":1313,"firstByteLatency":1007,"cacheReadInputTokenCount":200,"cacheWriteInputTokenCount":30}})");
    check_tokens(Provider::anthropic, Form::amazon_events, start + text + delta + stop,
                 {10, 200, 30, 40});
    check_tokens(Provider::bedrock, Form::amazon_events,
                 chunk(R"({"generation":"a"})") + chunk(std::string(100'000, 'x')) + stop,
                 {10, 200, 30, 40}, "");
    const UsageSource source(Provider::automatic);
    for (const char* const data :
         {R"({"bytes":"*"})", R"({"bytes":7})", "{}", "no JSON", R"({"bytes":"e30="})"}) {
        CAPTURE(data);
        CHECK_FALSE(found_in(source, Form::amazon_events, amazon_message("chunk", data)).usage);
    }
}

TEST_CASE("usage: perplexity counts what it read and thought beside the total") {
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":108,"completion_tokens":3256,"total_tokens":3364,"citation_tokens":7299,"reasoning_tokens":73248}})",
        with_any({108, 0, 0, 83'803}, 80'547));
    // As a part of the output, or of the total.
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":10,"completion_tokens":60,"total_tokens":70,"reasoning_tokens":50}})",
        {10, 0, 0, 60});
    check_tokens(
        Provider::openai, Form::json,
        R"({"model":"m-1","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":65,"reasoning_tokens":50}})",
        with_any({10, 0, 0, 55}, 50));
}

}  // namespace tidegate::usage::providers_test
