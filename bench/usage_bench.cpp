// The cost of reading the usage of an answer as its body passes.
#include <stdexcept>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "usage/answer.hpp"

namespace tidegate::usage {
namespace {

using Form = AnswerReader::Form;

constexpr int kEvents = 2'000;
constexpr std::size_t kEventBytes = 200;
constexpr std::size_t kAnswerBytes = 2'048;
// What the proxy hands on at once of an answer that comes fast.
constexpr std::size_t kReadBytes = std::size_t{16} * 1024;

// `begin` and `end` with so much text in between that they have `size` bytes together.
std::string filled(std::string_view begin, std::string_view end, std::size_t size) {
    constexpr std::string_view kWords = "the quick brown fox jumps over the lazy dog ";
    std::string text(begin);
    while (text.size() + end.size() < size) text += kWords[text.size() % kWords.size()];
    return text.append(end);
}

std::string stream_of(const std::string& first, const std::string& event, const std::string& last) {
    std::string stream = first;
    for (int i = 0; i < kEvents; ++i) stream += event;
    return stream + last;
}

// `usage`: behind the choices of each event but the last.
std::string openai_stream(std::string_view usage) {
    const std::string chunk =
        "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
        "\"created\":1790000000,\"model\":\"gpt-x\",\"choices\":[";
    return stream_of(
        "",
        filled(chunk + "{\"index\":0,\"delta\":{\"content\":\"",
               "\"},\"finish_reason\":null}]" + std::string(usage) + "}\n\n", kEventBytes),
        chunk +
            "],\"usage\":{\"prompt_tokens\":400,\"completion_tokens\":150,\"total_tokens\":550}}"
            "\n\ndata: [DONE]\n\n");
}

std::string anthropic_stream() {
    return stream_of(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":"
        "\"claude-x\",\"usage\":{\"input_tokens\":400,\"output_tokens\":1}}}\n\n",
        filled("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
               "\"delta\":{\"type\":\"text_delta\",\"text\":\"",
               "\"}}\n\n", kEventBytes),
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
        "\"end_turn\"},\"usage\":{\"output_tokens\":150}}\n\n");
}

void read(benchmark::State& state, Form form, const std::string& answer, std::size_t piece_bytes) {
    const UsageSource source(Provider::automatic);
    for (auto _ : state) {
        AnswerReader reader(source, form);
        for (std::string_view rest = answer; !rest.empty();) {
            const std::string_view piece = rest.substr(0, piece_bytes);
            rest.remove_prefix(piece.size());
            reader.read(piece);
        }
        reader.end();
        if (!reader.usage() || reader.usage()->tokens.output != 150) {
            throw std::runtime_error("another usage");
        }
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(answer.size()) * state.iterations());
}

void sse_null(benchmark::State& state) {
    read(state, Form::server_sent_events, openai_stream(",\"usage\":null"), kReadBytes);
}
void sse_bare(benchmark::State& state) {
    read(state, Form::server_sent_events, openai_stream(""), kReadBytes);
}
void sse_pieces(benchmark::State& state) {
    read(state, Form::server_sent_events, openai_stream(",\"usage\":null"), kEventBytes);
}
void sse_anthropic(benchmark::State& state) {
    read(state, Form::server_sent_events, anthropic_stream(), kReadBytes);
}
void json_answer(benchmark::State& state) {
    read(state, Form::json,
         filled("{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"model\":\"gpt-x\","
                "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"",
                "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":400,"
                "\"completion_tokens\":150,\"total_tokens\":550}}",
                kAnswerBytes),
         kReadBytes);
}
BENCHMARK(sse_null);
BENCHMARK(sse_bare);
BENCHMARK(sse_pieces);
BENCHMARK(sse_anthropic);
BENCHMARK(json_answer);

}  // namespace
}  // namespace tidegate::usage

BENCHMARK_MAIN();
