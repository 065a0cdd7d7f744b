#include <random>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "unit/usage_answers.hpp"
#include "usage/answer.hpp"

namespace tidegate::usage::answer_test {
namespace {

using Form = AnswerReader::Form;
using Json = nlohmann::json;

}  // namespace

TEST_CASE("usage: a stream has come to its last event, in one piece and in many") {
    const auto is_over = [](std::string_view body, std::size_t piece) {
        const UsageSource source(Provider::automatic);
        AnswerReader reader(source, Form::server_sent_events);
        for (std::size_t at = 0; at < body.size(); at += std::min(piece, body.size() - at)) {
            reader.read(body.substr(at, piece));
        }
        return reader.has_last_event();
    };
    const std::string chat =
        event(R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}})");
    const std::string created =
        event(R"({"type":"response.created","response":{"model":"m-1","usage":null}})");
    const std::string completed =
        "event: response.completed\n" +
        event(
            R"({"type":"response.completed","response":{"model":"m-1","output":[],"usage":{"input_tokens":50,"output_tokens":9,"total_tokens":59}}})");
    for (const std::size_t piece : {std::string_view::npos, std::size_t{1}, std::size_t{7}}) {
        CAPTURE(piece);
        CHECK_FALSE(is_over(chat, piece));
        CHECK(is_over(chat + event("[DONE]"), piece));
        CHECK(is_over(event(R"({"type":"message_stop"})"), piece));
        CHECK_FALSE(is_over(created, piece));
        CHECK(is_over(created + completed, piece));
    }
}

TEST_CASE("usage: zero is a usage, and a total without its parts is output of any kind") {
    check_tokens(Provider::openai, Form::json,
                 R"({"model":"m-1","usage":{"prompt_tokens":0,"completion_tokens":0}})", {});
    check_tokens(Provider::openai, Form::json, R"({"model":"m-1","usage":{"total_tokens":7}})",
                 with_any({0, 0, 0, 7}, 7));
    check_tokens(Provider::gemini, Form::json,
                 R"({"modelVersion":"m-1","usageMetadata":{"totalTokenCount":7}})",
                 with_any({0, 0, 0, 7}, 7));
}

TEST_CASE("usage: a provider's own names are read, and no other's") {
    const char* const openai = R"({"usage":{"prompt_tokens":1,"completion_tokens":1}})";
    for (const Provider provider :
         {Provider::openai_responses, Provider::anthropic, Provider::gemini, Provider::bedrock}) {
        CHECK_FALSE(found_in(UsageSource(provider), Form::json, openai).usage);
    }
}

TEST_CASE("usage: what a client can make the upstream echo does not count") {
    const UsageSource source(Provider::automatic);
    for (const char* const body :
         {R"({"choices":[{"usage":{"prompt_tokens":1,"completion_tokens":1}}]})",
          R"({"choices":[{"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":1}}}]})",
          R"({"content":{"usage":{"input_tokens":1,"output_tokens":1}}})",
          R"({"text":"{\"usage\":{\"prompt_tokens\":1}}"})", R"({"usage":"{\"prompt_tokens\":1}"})",
          R"({"usage":{"prompt_tokens":"1","completion_tokens":null,"total_tokens":-1}})",
          R"({"usage":[{"prompt_tokens":1}]})", R"({"usage.prompt_tokens":1})",
          R"({"usage":{"prompt_tokens":1.5,"completion_tokens":4294967296}})", R"({"usage":null})",
          R"({"usage":{}})", "{}"}) {
        CAPTURE(body);
        const Found found = found_in(source, Form::json, body);
        CHECK_FALSE(found.usage);
        CHECK(found.reason == UnknownUsage::no_usage);
        CHECK_FALSE(found_in(source, Form::server_sent_events, event(body)).usage);
    }
}

TEST_CASE("usage: the last event of the Responses API may be as long as the whole answer") {
    const std::string output(300'000, 'x');
    check_tokens(
        Provider::openai_responses, Form::server_sent_events,
        event(R"({"type":"response.completed","response":{"model":"m-1","output":[{"text":")" +
              output +
              R"("}],"usage":{"input_tokens":100,"output_tokens":20,"total_tokens":120}}})"),
        {100, 0, 0, 20});
}

TEST_CASE("usage: an event that says 0 takes back nothing that an earlier one said") {
    check_tokens(Provider::openai, Form::server_sent_events,
                 event(R"({"model":"m-1","usage":{"prompt_tokens":100,"completion_tokens":20}})") +
                     event(R"({"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}})"),
                 {100, 0, 0, 20});
    const std::string start = event(
        R"({"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":50,"cache_read_input_tokens":5,"output_tokens":1}}})");
    check_tokens(
        Provider::anthropic, Form::server_sent_events,
        start +
            event(
                R"({"type":"message_delta","usage":{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":7}})"),
        {50, 5, 0, 7});
    // The last event tells apart what the first one has as input.
    check_tokens(
        Provider::anthropic, Form::server_sent_events,
        start +
            event(
                R"({"type":"message_delta","usage":{"input_tokens":0,"cache_read_input_tokens":55,"output_tokens":7}})"),
        {0, 55, 0, 7});
}

TEST_CASE("usage: of kinds of input, a later 0 is believed only where the whole is no less") {
    const std::string start = event(
        R"({"type":"message_start","message":{"model":"m-1","usage":{"input_tokens":10,"cache_read_input_tokens":900,"cache_creation_input_tokens":30,"output_tokens":1}}})");
    check_tokens(
        Provider::anthropic, Form::server_sent_events,
        start +
            event(
                R"({"type":"message_delta","usage":{"input_tokens":10,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":50}})"),
        {10, 900, 30, 50});
    check_tokens(
        Provider::anthropic, Form::server_sent_events,
        start + event(R"({"type":"message_delta","usage":{"output_tokens":150}})") +
            event(R"({"type":"message_delta","usage":{"input_tokens":10,"output_tokens":0}})"),
        {10, 900, 30, 150});
}

TEST_CASE("usage: what begins a stream is a placeholder until an event says more") {
    const auto is_placeholder = [](const std::string& body, Provider provider,
                                   Form form = Form::server_sent_events) {
        const UsageSource source(provider);
        AnswerReader reader(source, form);
        reader.read(body);
        reader.end();
        CHECK(reader.usage());
        return reader.is_placeholder();
    };
    const std::string start = event(
        R"({"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}})");
    const std::string chunk =
        event(R"({"choices":[{"delta":{}}],"usage":{"prompt_tokens":0,"completion_tokens":0}})");
    const std::string created = event(
        R"({"response":{"status":"in_progress","usage":{"input_tokens":0,"output_tokens":0}}})");
    for (const bool is_automatic : {false, true}) {
        const auto by = [is_automatic](Provider provider) {
            return is_automatic ? Provider::automatic : provider;
        };
        const Provider anthropic = by(Provider::anthropic);
        const Provider openai = by(Provider::openai);
        CHECK(is_placeholder(start, anthropic));
        CHECK(is_placeholder(start + event(R"({"type":"message_stop"})"), anthropic));
        CHECK(is_placeholder(start + event(R"({"usage":{"output_tokens":0}})"), anthropic));
        CHECK_FALSE(is_placeholder(start + event(R"({"usage":{"output_tokens":2}})"), anthropic));
        CHECK(is_placeholder(chunk + chunk + event("[DONE]"), openai));
        CHECK_FALSE(is_placeholder(
            chunk + event(R"({"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}})"),
            openai));
        CHECK_FALSE(is_placeholder(
            chunk + event(R"({"choices":[{}],"usage":{"prompt_tokens":1,"completion_tokens":0}})"),
            openai));
        CHECK_FALSE(is_placeholder(
            event(
                R"({"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":5,"input_tokens":0,"output_tokens":0}})"),
            openai));
        CHECK(is_placeholder(created, openai));
        CHECK_FALSE(is_placeholder(
            created +
                event(
                    R"({"response":{"status":"failed","usage":{"input_tokens":0,"output_tokens":0}}})"),
            openai));
        CHECK_FALSE(is_placeholder(R"({"usage":{"prompt_tokens":0,"completion_tokens":0}})", openai,
                                   Form::json));
    }
    const UsageSource source(Provider::openai);
    AnswerReader reader(source, Form::server_sent_events);
    reader.read(created);
    CHECK_FALSE(reader.has_last_event());
}

TEST_CASE("usage: what a client can hide, or a server says in another form, is not known") {
    const char* const kHidden[] = {
        R"({"usageMetadata":{"promptTokenCount":5}})",
        R"({"usage":{"prompt_tokens":3,"completion_tokens":7.5}})",
        R"({"usage":{"prompt_tokens":3,"completion_tokens":99999999999}})",
        R"({"usage":{"prompt_tokens":-5,"completion_tokens":7}})",
        R"({"usage":{"input_tokens":3,"output_tokens":"7"}})",
    };
    for (const char* const body : kHidden) {
        CAPTURE(body);
        CHECK_FALSE(found_in(UsageSource(Provider::automatic), Form::json, body).usage);
    }
    check_tokens(Provider::gemini, Form::json,
                 R"({"embedding":{"values":[1]},"usageMetadata":{"promptTokenCount":5}})",
                 {5, 0, 0, 0}, "");
    check_tokens(
        Provider::gemini, Form::json,
        R"({"modelVersion":"m-1","usageMetadata":{"promptTokenCount":5,"totalTokenCount":4005}})",
        with_any({5, 0, 0, 4000}, 4000));
}

TEST_CASE("usage: an answer that is a list of answers took what all of them did") {
    check_tokens(
        Provider::openai, Form::json,
        R"([{"model":"m-1","usage":{"prompt_tokens":10,"completion_tokens":9000,"total_tokens":9010}},{"model":"m-1","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}])",
        {20, 0, 0, 9005});
    check_tokens(
        Provider::openai, Form::json,
        R"([{"model":"m-1","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"citation_tokens":7000}},{"model":"m-1","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"citation_tokens":10}}])",
        with_any({20, 0, 0, 7020}, 7010));
}

TEST_CASE("usage: of the names of several APIs those with tokens count") {
    const char* const body =
        R"({"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":120,"input_tokens":100,"output_tokens":20}})";
    const Found found = found_in(UsageSource(Provider::automatic), Form::json, body);
    REQUIRE(found.usage);
    CHECK(found.usage->tokens == Tokens{100, 0, 0, 20});
}

TEST_CASE("usage: JSON in lines is read line by line, as Ollama's own API answers") {
    const UsageSource source({{"/prompt_eval_count", 1}, {"/eval_count", 1}});
    const std::string body =
        "{\"model\":\"m\",\"response\":\"a\",\"done\":false}\nno JSON\r\n"
        "{\"done\":true,\"prompt_eval_count\":26,\"eval_count\":298}";
    for (const char* const end : {"", "\n", "\r\n\n"}) {
        for (const std::size_t piece : {std::string_view::npos, std::size_t{1}}) {
            const Found found = found_in(source, Form::json_lines, body + end, piece);
            REQUIRE(found.usage);
            CHECK(found.usage->units == 324);
        }
    }
}

TEST_CASE("usage: why there is none") {
    const UsageSource source(Provider::automatic);
    CHECK(found_in(source, Form::json, "{\"usage\":").reason == UnknownUsage::unreadable);
    CHECK(found_in(source, Form::json, "<html>").reason == UnknownUsage::unreadable);
    CHECK(found_in(source, Form::json, std::string(100, '[')).reason == UnknownUsage::too_deep);
    CHECK(found_in(source, Form::server_sent_events,
                   event(std::string(ServerSentEvents::kLineMax, 'x')))
              .reason == UnknownUsage::too_long);
    CHECK(found_in(source, Form::amazon_events, "not a stream of events").reason ==
          UnknownUsage::unreadable);
    CHECK(found_in(source, Form::server_sent_events, "").reason == UnknownUsage::no_usage);
}

TEST_CASE("usage: a stream that is cut has what it said before") {
    const UsageSource source(Provider::automatic);
    AnswerReader reader(source, Form::server_sent_events);
    reader.read(
        event(
            R"({"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}})") +
        "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":40}}\n");
    REQUIRE(reader.usage());
    CHECK(reader.usage()->tokens == Tokens{10, 0, 0, 1});
}

TEST_CASE("usage: the end of the body ends the last event of a stream") {
    for (const char* const end : {"", "\n", "\r", "\r\n", "\n\n"}) {
        check_tokens(
            Provider::openai, Form::server_sent_events,
            event(R"({"model":"m-1","choices":[{"delta":{"content":"a"}}]})") +
                R"(data: {"model":"m-1","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}})" +
                end,
            {5, 0, 0, 7});
    }
    const UsageSource source(Provider::automatic);
    CHECK_FALSE(found_in(source, Form::server_sent_events,
                         R"(data: {"model":"m-1","usage":{"prompt_tokens":5,)")
                    .usage);
}

TEST_CASE("usage: members that the configuration names are weighed and added") {
    CHECK(found_in(
              UsageSource({{"/usage/total_tokens", 1}}), Form::server_sent_events,
              event(R"({"usage":{"total_tokens":246}})") + event(R"({"usage":{"total_tokens":0}})"))
              .usage->units == 246);
    const UsageSource source({{"/cost/units", 1}, {"/cost/images", 2.5}});
    CHECK(source.is_by_provider() == false);
    CHECK(found_in(source, Form::json, R"({"cost":{"units":3,"images":2}})").usage->units == 8);
    CHECK(found_in(source, Form::json, R"({"cost":{"images":0.4}})").usage->units == 1);
    CHECK(found_in(source, Form::json, R"({"cost":{"units":-3}})").usage->units == 0);
    CHECK_FALSE(found_in(source, Form::json, R"({"cost":{"units":"3"}})").usage);
    CHECK_FALSE(found_in(source, Form::json, R"({"cost":{"units":1e999}})").usage);
    CHECK(found_in(source, Form::json, R"({"cost":{"units":-1e999,"images":2}})").usage->units ==
          5);
    CHECK(found_in(source, Form::server_sent_events,
                   event(R"({"cost":{"units":3}})") + event(R"({"other":1})") +
                       event(R"({"cost":{"units":5}})"))
              .usage->units == 5);
}

TEST_CASE("usage: the form of an answer is that of its media type") {
    CHECK(AnswerReader::form_of("application/json") == Form::json);
    CHECK(AnswerReader::form_of("Application/JSON; charset=utf-8") == Form::json);
    CHECK(AnswerReader::form_of("application/problem+json") == Form::json);
    CHECK(AnswerReader::form_of("application/x-ndjson") == Form::json_lines);
    CHECK(AnswerReader::form_of("text/event-stream;charset=utf-8") == Form::server_sent_events);
    CHECK(AnswerReader::form_of("application/vnd.amazon.eventstream") == Form::amazon_events);
    CHECK_FALSE(AnswerReader::form_of("text/html"));
    CHECK_FALSE(AnswerReader::form_of(""));
    CHECK_FALSE(AnswerReader::form_of("text/json"));
}

namespace {

// An independent reading: whole events, a parser of whole documents, the last usage of openai.
std::optional<Tokens> read_whole(const std::vector<Json>& events) {
    std::optional<Tokens> tokens;
    for (const Json& event : events) {
        if (!event.is_object() || !event.contains("usage") || !event["usage"].is_object()) continue;
        const Json& usage = event["usage"];
        const auto count = [&](const char* name) -> std::optional<std::int64_t> {
            if (!usage.contains(name) || !usage[name].is_number_unsigned()) return std::nullopt;
            return usage[name].get<std::int64_t>();
        };
        // A count of another kind hides what was taken.
        const auto hides = [&](const char* name) {
            return usage.contains(name) && !usage[name].is_null() && !count(name);
        };
        if (hides("prompt_tokens") || hides("completion_tokens")) continue;
        const auto input = count("prompt_tokens");
        const auto output = count("completion_tokens");
        const Tokens said{input.value_or(0), 0, 0, output.value_or(0)};
        if ((input || output) && (!tokens || said != Tokens{})) tokens = said;
    }
    return tokens;
}

Json random_value(std::mt19937& random, int depth) {
    const char* const names[] = {"usage", "prompt_tokens", "completion_tokens", "x", "choices"};
    switch (random() % (depth > 0 ? 7 : 5)) {
        case 0:
            return random() % 1000;
        case 1:
            return nullptr;
        case 2:
            return R"("usage":{"prompt_tokens":1})";
        case 3:
            return "data: \n\n\\";
        case 4:
            return random() % 2 == 0;
        case 5: {
            Json array = Json::array();
            for (std::size_t i = random() % 4; i > 0; --i)
                array.push_back(random_value(random, depth - 1));
            return array;
        }
        default: {
            Json object = Json::object();
            for (std::size_t i = random() % 5; i > 0; --i)
                object[names[random() % 5]] = random_value(random, depth - 1);
            return object;
        }
    }
}

}  // namespace

TEST_CASE("usage: random streams, cut at random, are read as an independent parser reads them") {
    std::mt19937 random(20261128);
    const UsageSource source(Provider::openai);
    std::size_t with_usage = 0;
    for (int round = 0; round < 3000; ++round) {
        CAPTURE(round);
        const char* const ends[] = {"\n", "\r\n", "\r"};
        std::vector<Json> events;
        std::string text;
        for (std::size_t i = random() % 6; i > 0; --i) {
            events.push_back(random_value(random, 4));
            if (events.back().is_object() && random() % 2 == 0) {
                events.back()["usage"] = {{"prompt_tokens", random() % 1000},
                                          {"x", random_value(random, 2)}};
            }
            const std::string end = ends[random() % 3];
            if (random() % 3 == 0) text += "event: usage" + end;
            std::string data = events.back().dump(random() % 4 == 0 ? 1 : -1);
            const std::string further = end + "data: ";
            for (std::size_t at = 0; (at = data.find('\n', at)) != data.npos;
                 at += further.size()) {
                data.replace(at, 1, further);
            }
            text += (random() % 2 == 0 ? "data: " : "data:") + data + end + end;
        }
        AnswerReader reader(source, Form::server_sent_events);
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t size = 1 + random() % (random() % 2 == 0 ? 5 : 200);
            reader.read(std::string_view(text).substr(at, size));
            at += size;
        }
        reader.end();
        const auto expected = read_whole(events);
        with_usage += expected ? 1 : 0;
        CAPTURE(text);
        REQUIRE(reader.usage().has_value() == expected.has_value());
        if (expected) CHECK(reader.usage()->tokens == *expected);
    }
    CHECK(with_usage > 100);
}

TEST_CASE("answer: the last event of a stream is known by what providers write there") {
    const UsageSource source(Provider::automatic);
    const auto has_last_event = [&](std::string_view body) {
        AnswerReader reader(source, Form::server_sent_events);
        reader.read(body);
        return reader.has_last_event();
    };
    CHECK(has_last_event("data: {\"choices\":[]}\n\ndata: [DONE]\n\n"));
    CHECK(has_last_event("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    CHECK_FALSE(has_last_event("data: {\"choices\":[]}\n\n"));
    CHECK_FALSE(has_last_event("data: [DONE]\n\ndata: {\"choices\":[]}\n\n"));
    CHECK_FALSE(has_last_event("data: {\"text\":\"[DONE]\"}\n\n"));
}

}  // namespace tidegate::usage::answer_test
