// What requests to models and their answers say of usage. A body that Tidegate writes into is JSON
// as before, but for that member; and no cut between the pieces of an answer changes what is read
// from it, or what the client gets of it.
//
// The first byte of an input chooses the part, the second where cuts are.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "fuzz_check.hpp"
#include "usage/answer.hpp"
#include "usage/cost.hpp"
#include "usage/event_stream.hpp"
#include "usage/request.hpp"

namespace {

using namespace tidegate::usage;
using Json = nlohmann::json;

constexpr std::size_t kRules = 3;
constexpr std::string_view kPath = "/v1/chat/completions";

const RequestReader& request_reader() {
    static const RequestReader kReader(
        {EstimateRule{}, EstimateRule{{"/a/max", "/n"}, 1, 7, 100}, EstimateRule{{}, 0, 0, 1}},
        {"/model", "/a/max", "/messages/0", "/a~1b"});
    return kReader;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Whether a number may be too large for nlohmann's reader, which refuses what has no double.
bool may_overflow(std::string_view text) {
    std::size_t digits = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        digits = is_digit(text[i]) ? digits + 1 : 0;
        const bool is_exponent = text[i] == 'e' || text[i] == 'E';
        if (digits > 200 || (is_exponent && i > 0 && is_digit(text[i - 1]))) return true;
    }
    return false;
}

void check_facts(const RequestFacts& facts, const Json& json) {
    FUZZ_CHECK(facts.output_max.size() == kRules && facts.members.size() == 4);
    const auto model = json.find("model");
    const bool names_model = model != json.end() && model->is_string();
    // One that is there twice, or too long for a name, is none.
    FUZZ_CHECK(facts.model.empty() || (names_model && facts.model == model->get<std::string>()));
    FUZZ_CHECK(facts.model.size() <= kModelBytesMax && facts.answers >= 1);
    const auto stream = json.find("stream");
    FUZZ_CHECK(facts.streams == (stream != json.end() && *stream == true));
    const auto max = json.find("max_tokens");
    if (max != json.end() && max->is_number_unsigned() && *max <= kTokensMax) {
        FUZZ_CHECK(facts.output_max[0].largest >= max->get<std::int64_t>());
    }
    for (const OutputMax& one : facts.output_max) {
        FUZZ_CHECK(!one.stated || *one.stated <= one.largest);
        FUZZ_CHECK(one.largest >= 0 && one.largest <= kTokensMax * kTokensMax);
    }
}

// A name in another case never makes a request reserve less: neither less than without a maximum,
// nor less than the maximum that a server finds there which ignores case.
void check_other_case(std::string_view body, const RequestFacts& facts) {
    if (body.find("\\u") != body.npos) return;  // a letter that would stay as it is
    std::string capitals(body);
    bool in_escape = false;
    for (char& c : capitals) {
        const bool is_letter = c >= 'a' && c <= 'z';
        if (is_letter && !in_escape) c = static_cast<char>(c - 'a' + 'A');
        in_escape = c == '\\' && !in_escape;
    }
    for (const std::string_view word : {"TRUE", "FALSE", "NULL"}) {
        for (std::size_t at = 0; (at = capitals.find(word, at)) != capitals.npos; ++at) {
            for (std::size_t i = 0; i < word.size(); ++i) {
                capitals[at + i] = static_cast<char>(word[i] - 'A' + 'a');
            }
        }
    }
    RequestFacts other;
    request_reader().read(capitals, kPath, other);
    if (!other.is_json) return;
    for (std::size_t rule = 0; rule < kRules; ++rule) {
        FUZZ_CHECK(request_reader().estimate(rule, other, 0).output >=
                   request_reader().estimate(rule, RequestFacts{}, 0).output);
        FUZZ_CHECK(other.output_max[rule].largest >= facts.output_max[rule].largest);
    }
}

void check_estimates(const RequestFacts& facts, std::size_t bytes) {
    for (std::size_t rule = 0; rule < kRules; ++rule) {
        const Estimate estimate = request_reader().estimate(rule, facts, bytes);
        FUZZ_CHECK(estimate.input_bytes >= 0 && estimate.output >= 0);
        FUZZ_CHECK(estimate.bytes_per_token >= 1);
        const std::int64_t cost = estimate.cost(Rates{});
        FUZZ_CHECK(cost >= 0 && cost <= request_reader().largest(rule).cost(Rates{}));
    }
}

// Of two members with one name both readers take the last.
void check_rewritten(std::string_view body, const RequestFacts& facts, const Json& json) {
    RequestFacts again;
    if (facts.streams && !facts.has_usage_asked) {
        const std::string asking = ask_for_usage(body, facts);
        if (asking != body) {
            Json expected = json;
            expected["stream_options"]["include_usage"] = true;
            FUZZ_CHECK(Json::parse(asking) == expected);
            request_reader().read(asking, kPath, again);
            FUZZ_CHECK(again.is_json && again.has_usage_asked && again.model == facts.model);
        }
    }
    if (facts.output_max[0].stated) return;
    const std::string capped = write_output_max(body, 4096);
    Json expected = json;
    expected["max_completion_tokens"] = 4096;
    FUZZ_CHECK(Json::parse(capped) == expected);
    request_reader().read(capped, kPath, again);
    FUZZ_CHECK(again.is_json && again.output_max[0].largest >= 4096);
}

void check_request(std::string_view body) {
    RequestFacts facts;
    request_reader().read(body, kPath, facts);
    check_estimates(facts, body.size());
    if (!facts.is_json) {
        FUZZ_CHECK(facts.output_max.empty() && facts.members.empty() && facts.model.empty());
        FUZZ_CHECK(!facts.streams);
        return;
    }
    if (may_overflow(body)) return;
    const Json json = Json::parse(body, nullptr, false);
    FUZZ_CHECK(json.is_object());
    check_facts(facts, json);
    check_rewritten(body, facts, json);
    check_other_case(body, facts);
    FUZZ_CHECK(model_of_path(body).size() <= body.size());
}

// Sizes of pieces, the same ones for one seed: many small ones or a few large ones.
class Cuts {
  public:
    explicit Cuts(std::uint8_t seed) : state_(seed * 2654435761u + 1), longest_(1u << (seed % 8)) {}

    std::string_view next(std::string_view& rest) {
        state_ = state_ * 1664525 + 1013904223;
        const std::string_view piece = rest.substr(0, 1 + (state_ >> 16) % longest_);
        rest.remove_prefix(piece.size());
        return piece;
    }

  private:
    std::uint32_t state_;
    std::uint32_t longest_;
};

struct Found {
    std::optional<Usage> usage;
    UnknownUsage reason;
};

Found found_in(const UsageSource& source, AnswerReader::Form form, std::string_view body,
               std::optional<std::uint8_t> seed) {
    AnswerReader reader(source, form);
    if (seed) {
        Cuts cuts(*seed);
        while (!body.empty()) reader.read(cuts.next(body));
    } else {
        reader.read(body);
    }
    reader.end();
    return {reader.usage(), reader.reason()};
}

const std::vector<UsageSource>& sources() {
    static const std::vector<UsageSource> kSources = [] {
        std::vector<UsageSource> made;
        for (const Provider provider :
             {Provider::automatic, Provider::openai, Provider::openai_responses,
              Provider::anthropic, Provider::gemini, Provider::bedrock}) {
            made.emplace_back(provider);
        }
        made.push_back(UsageSource({{"/usage/total_tokens", 2}, {"/cost", 0.5}}));
        made.push_back(UsageSource({{"/a~1b/0", 1}}));
        return made;
    }();
    return kSources;
}

void check_answer(std::string_view body, std::uint8_t seed) {
    using Form = AnswerReader::Form;
    for (const Form form :
         {Form::json, Form::json_lines, Form::server_sent_events, Form::amazon_events}) {
        for (const UsageSource& source : sources()) {
            const Found whole = found_in(source, form, body, std::nullopt);
            const Found cut = found_in(source, form, body, seed);
            FUZZ_CHECK(whole.reason == cut.reason);
            FUZZ_CHECK(whole.usage.has_value() == cut.usage.has_value());
            if (!whole.usage) continue;
            FUZZ_CHECK(whole.usage->tokens == cut.usage->tokens);
            FUZZ_CHECK(whole.usage->units == cut.usage->units);
            FUZZ_CHECK(whole.usage->model == cut.usage->model);
            const Tokens& tokens = whole.usage->tokens;
            for (const std::int64_t count :
                 {tokens.input, tokens.cached, tokens.cache_write, tokens.output}) {
                FUZZ_CHECK(count >= 0 && count <= kTokensMax);
            }
            FUZZ_CHECK(tokens.cache_write_1h >= 0 && tokens.cache_write_1h <= tokens.cache_write);
            FUZZ_CHECK(tokens.of_any >= 0 && tokens.of_any <= tokens.output);
            FUZZ_CHECK(cost_of(tokens, Rates{}) >= 0 && whole.usage->units >= 0);
        }
    }
}

void check_filter(std::string_view stream, std::uint8_t seed) {
    UsageChunkFilter at_once;
    std::string expected;
    at_once.take(stream, expected);
    at_once.end(expected);
    FUZZ_CHECK(expected.size() <= stream.size());
    // The filter removes bytes and adds none.
    std::size_t at = 0;
    for (const char c : expected) {
        at = stream.find(c, at);
        FUZZ_CHECK(at++ != stream.npos);
    }
    UsageChunkFilter in_pieces;
    std::string out;
    Cuts cuts(seed);
    for (std::string_view rest = stream; !rest.empty();) {
        in_pieces.take(cuts.next(rest), out);
        FUZZ_CHECK(expected.starts_with(out));
    }
    in_pieces.end(out);
    FUZZ_CHECK(out == expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
    switch (data[0] % 3) {
        case 0:
            check_request(text);
            break;
        case 1:
            check_answer(text, data[1]);
            break;
        default:
            check_filter(text, data[1]);
            break;
    }
    return 0;
}
