#include "usage/answer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/base64.hpp"
#include "base/text.hpp"

namespace tidegate::usage {
namespace {

using Members = JsonReader::Members;

// Of the model's name. Names are up to about 60 bytes long.
constexpr std::size_t kTextMax = 128;

// What the event in a chunk of Bedrock's InvokeModel may have. Those with usage are short.
constexpr std::size_t kChunkMax = std::size_t{64} * 1024;

// The last chunk says the usage in this member.
constexpr std::string_view kInvocationMark = "\"amazon-bedrock-invocationMetrics\"";

constexpr int kNowhere = -1;

// Where one kind of answer says what it took. Places are indexes of kPointers; kNowhere: it has
// none.
struct Shape {
    Provider provider;
    int input = kNowhere;
    // The servers of one API write what their cache had under several names.
    std::array<int, 3> cached = {kNowhere, kNowhere, kNowhere};
    std::array<int, 2> cache_write = {kNowhere, kNowhere};
    int cache_write_1h = kNowhere;  // a part of `cache_write`
    int output = kNowhere;
    int further_input = kNowhere;
    int further_output = kNowhere;
    int total = kNowhere;
    bool input_includes_cache = false;
    // A later event that repeats some kinds leaves the others as they were.
    bool merges = false;
    // An event that says less than an earlier one takes nothing back.
    bool keeps_larger = false;
};

// Where answers have what is read, and the models' names.
constexpr std::string_view kPointers[] = {
    "/usage/prompt_tokens",
    "/usage/prompt_tokens_details/cached_tokens",
    "/usage/prompt_cache_hit_tokens",
    "/usage/cached_tokens",
    "/usage/prompt_tokens_details/cache_write_tokens",
    "/usage/prompt_tokens_details/cache_creation_tokens",
    "/usage/completion_tokens",
    "/usage/total_tokens",
    "/x_groq/usage/prompt_tokens",
    "/x_groq/usage/prompt_tokens_details/cached_tokens",
    "/x_groq/usage/completion_tokens",
    "/x_groq/usage/total_tokens",
    "/usage/input_tokens",
    "/usage/input_tokens_details/cached_tokens",
    "/usage/input_tokens_details/cache_write_tokens",
    "/usage/output_tokens",
    "/response/usage/input_tokens",
    "/response/usage/input_tokens_details/cached_tokens",
    "/response/usage/input_tokens_details/cache_write_tokens",
    "/response/usage/output_tokens",
    "/response/usage/total_tokens",
    "/usage/cache_read_input_tokens",
    "/usage/cache_creation_input_tokens",
    "/usage/cache_creation/ephemeral_1h_input_tokens",
    "/message/usage/input_tokens",
    "/message/usage/cache_read_input_tokens",
    "/message/usage/cache_creation_input_tokens",
    "/message/usage/cache_creation/ephemeral_1h_input_tokens",
    "/message/usage/output_tokens",
    "/usageMetadata/promptTokenCount",
    "/usageMetadata/cachedContentTokenCount",
    "/usageMetadata/candidatesTokenCount",
    "/usageMetadata/thoughtsTokenCount",
    "/usageMetadata/toolUsePromptTokenCount",
    "/usageMetadata/totalTokenCount",
    "/usage/total_input_tokens",
    "/usage/total_cached_tokens",
    "/usage/total_output_tokens",
    "/usage/total_thought_tokens",
    "/usage/total_tool_use_tokens",
    "/interaction/usage/total_input_tokens",
    "/interaction/usage/total_cached_tokens",
    "/interaction/usage/total_output_tokens",
    "/interaction/usage/total_thought_tokens",
    "/interaction/usage/total_tool_use_tokens",
    "/interaction/usage/total_tokens",
    "/usage/inputTokens",
    "/usage/cacheReadInputTokens",
    "/usage/cacheWriteInputTokens",
    "/usage/outputTokens",
    "/usage/totalTokens",
    "/amazon-bedrock-invocationMetrics/inputTokenCount",
    "/amazon-bedrock-invocationMetrics/cacheReadInputTokenCount",
    "/amazon-bedrock-invocationMetrics/cacheWriteInputTokenCount",
    "/amazon-bedrock-invocationMetrics/outputTokenCount",
    "/model",
    "/response/model",
    "/message/model",
    "/modelVersion",
    "/interaction/model",
    "/tool_usage/image_gen/input_tokens",
    "/tool_usage/image_gen/output_tokens",
    "/response/tool_usage/image_gen/input_tokens",
    "/response/tool_usage/image_gen/output_tokens",
    "/usage/citation_tokens",
    "/usage/reasoning_tokens",
    "/choices",
    "/embedding",
    "/embeddings",
    "/response/status",
};

// The place of a pointer in kPointers, found by the compiler.
consteval int at(std::string_view pointer) {
    const auto* const found = std::find(std::begin(kPointers), std::end(kPointers), pointer);
    if (found == std::end(kPointers)) throw "no such pointer";
    return static_cast<int>(found - std::begin(kPointers));
}

// What each of Anthropic's iterations says, behind the places above and in this order.
enum IterationPlace : int {
    iteration_type,
    iteration_input,
    iteration_cache_read,
    iteration_cache_creation,
    iteration_output,
    iteration_places,
};
constexpr int kFirstIteration = static_cast<int>(std::size(kPointers));
constexpr int kIterations = 4;

std::vector<std::string> provider_pointers() {
    std::vector<std::string> pointers(std::begin(kPointers), std::end(kPointers));
    for (int i = 0; i < kIterations; ++i) {
        const std::string iteration = "/usage/iterations/" + std::to_string(i);
        for (const char* const name : {"/type", "/input_tokens", "/cache_read_input_tokens",
                                       "/cache_creation_input_tokens", "/output_tokens"}) {
            pointers.push_back(iteration + name);
        }
    }
    return pointers;
}

// Of several that an event has, the first with tokens counts.
constexpr Shape kShapes[] = {
    // DeepSeek and Moonshot have names of their own for what their cache had.
    {.provider = Provider::openai,
     .input = at("/usage/prompt_tokens"),
     .cached = {at("/usage/prompt_tokens_details/cached_tokens"),
                at("/usage/prompt_cache_hit_tokens"), at("/usage/cached_tokens")},
     .cache_write = {at("/usage/prompt_tokens_details/cache_write_tokens"),
                     at("/usage/prompt_tokens_details/cache_creation_tokens")},
     .output = at("/usage/completion_tokens"),
     .total = at("/usage/total_tokens"),
     .input_includes_cache = true},
    // The last chunk of Groq's streams, also where the client has not asked for usage.
    {.provider = Provider::openai,
     .input = at("/x_groq/usage/prompt_tokens"),
     .cached = {at("/x_groq/usage/prompt_tokens_details/cached_tokens"), kNowhere, kNowhere},
     .output = at("/x_groq/usage/completion_tokens"),
     .total = at("/x_groq/usage/total_tokens"),
     .input_includes_cache = true},
    {.provider = Provider::openai_responses,
     .input = at("/usage/input_tokens"),
     .cached = {at("/usage/input_tokens_details/cached_tokens"), kNowhere, kNowhere},
     .cache_write = {at("/usage/input_tokens_details/cache_write_tokens"), kNowhere},
     .output = at("/usage/output_tokens"),
     .total = at("/usage/total_tokens"),
     .input_includes_cache = true},
    {.provider = Provider::openai_responses,
     .input = at("/response/usage/input_tokens"),
     .cached = {at("/response/usage/input_tokens_details/cached_tokens"), kNowhere, kNowhere},
     .cache_write = {at("/response/usage/input_tokens_details/cache_write_tokens"), kNowhere},
     .output = at("/response/usage/output_tokens"),
     .total = at("/response/usage/total_tokens"),
     .input_includes_cache = true},
    {.provider = Provider::anthropic,
     .input = at("/usage/input_tokens"),
     .cached = {at("/usage/cache_read_input_tokens"), kNowhere, kNowhere},
     .cache_write = {at("/usage/cache_creation_input_tokens"), kNowhere},
     .cache_write_1h = at("/usage/cache_creation/ephemeral_1h_input_tokens"),
     .output = at("/usage/output_tokens"),
     .merges = true},
    {.provider = Provider::anthropic,
     .input = at("/message/usage/input_tokens"),
     .cached = {at("/message/usage/cache_read_input_tokens"), kNowhere, kNowhere},
     .cache_write = {at("/message/usage/cache_creation_input_tokens"), kNowhere},
     .cache_write_1h = at("/message/usage/cache_creation/ephemeral_1h_input_tokens"),
     .output = at("/message/usage/output_tokens"),
     .merges = true},
    {.provider = Provider::gemini,
     .input = at("/usageMetadata/promptTokenCount"),
     .cached = {at("/usageMetadata/cachedContentTokenCount"), kNowhere, kNowhere},
     .output = at("/usageMetadata/candidatesTokenCount"),
     .further_input = at("/usageMetadata/toolUsePromptTokenCount"),
     .further_output = at("/usageMetadata/thoughtsTokenCount"),
     .total = at("/usageMetadata/totalTokenCount"),
     .input_includes_cache = true,
     .keeps_larger = true},
    // Gemini's Interactions API, as an answer and as the event that ends its stream.
    {.provider = Provider::gemini,
     .input = at("/usage/total_input_tokens"),
     .cached = {at("/usage/total_cached_tokens"), kNowhere, kNowhere},
     .output = at("/usage/total_output_tokens"),
     .further_input = at("/usage/total_tool_use_tokens"),
     .further_output = at("/usage/total_thought_tokens"),
     .total = at("/usage/total_tokens"),
     .input_includes_cache = true},
    {.provider = Provider::gemini,
     .input = at("/interaction/usage/total_input_tokens"),
     .cached = {at("/interaction/usage/total_cached_tokens"), kNowhere, kNowhere},
     .output = at("/interaction/usage/total_output_tokens"),
     .further_input = at("/interaction/usage/total_tool_use_tokens"),
     .further_output = at("/interaction/usage/total_thought_tokens"),
     .total = at("/interaction/usage/total_tokens"),
     .input_includes_cache = true},
    {.provider = Provider::bedrock,
     .input = at("/usage/inputTokens"),
     .cached = {at("/usage/cacheReadInputTokens"), kNowhere, kNowhere},
     .cache_write = {at("/usage/cacheWriteInputTokens"), kNowhere},
     .output = at("/usage/outputTokens"),
     .total = at("/usage/totalTokens")},
    // The last chunk of a stream of InvokeModel, whatever the model.
    {.provider = Provider::bedrock,
     .input = at("/amazon-bedrock-invocationMetrics/inputTokenCount"),
     .cached = {at("/amazon-bedrock-invocationMetrics/cacheReadInputTokenCount"), kNowhere,
                kNowhere},
     .cache_write = {at("/amazon-bedrock-invocationMetrics/cacheWriteInputTokenCount"), kNowhere},
     .output = at("/amazon-bedrock-invocationMetrics/outputTokenCount"),
     .merges = true},
};

// A count of tokens; a member of another type, or that no provider would say, is as if it were
// absent.
std::optional<std::int64_t> count_at(const Members& members, int place) {
    if (place == kNowhere) return std::nullopt;
    const auto& whole = members[static_cast<std::size_t>(place)].whole;
    return whole && *whole <= kTokensMax ? whole : std::nullopt;
}

std::optional<std::int64_t> largest_at(const Members& members, std::span<const int> places) {
    std::optional<std::int64_t> largest;
    for (const int place : places) largest = std::max(largest, count_at(members, place));
    return largest;
}

// Anthropic's answers and those of OpenAI's Responses API have two names in common.
bool is_of_responses_api(const Members& members) {
    return count_at(members, at("/usage/input_tokens_details/cached_tokens")) ||
           count_at(members, at("/usage/total_tokens"));
}

bool may_be(const Shape& shape, Provider provider, const Members& members) {
    // Both of OpenAI's APIs are behind one address, and a gateway may have Anthropic's there, too.
    if (provider == Provider::openai && shape.provider == Provider::openai_responses) {
        return shape.input != at("/usage/input_tokens") || is_of_responses_api(members);
    }
    if (provider != Provider::automatic) return shape.provider == provider;
    if (shape.input != at("/usage/input_tokens")) return true;
    return is_of_responses_api(members) == (shape.provider == Provider::openai_responses);
}

void add(std::optional<std::int64_t>& to, std::optional<std::int64_t> more) {
    if (more) to = std::min(to.value_or(0) + *more, kTokensMax);
}

// What the event says of input, cached and written tokens, into `tokens`.
void take_input(const Shape& shape, const Members& members, Tokens& tokens) {
    auto input = count_at(members, shape.input);
    add(input, count_at(members, shape.further_input));
    const auto cached = largest_at(members, shape.cached);
    const auto cache_write = largest_at(members, shape.cache_write);
    // Later events of some relays of Anthropic's API say 0 where the first one had a number.
    const bool says_less = input.value_or(tokens.input) + cached.value_or(tokens.cached) +
                               cache_write.value_or(tokens.cache_write) <
                           tokens.input + tokens.cached + tokens.cache_write;
    const auto take = [says_less](std::int64_t& count, std::optional<std::int64_t> said) {
        if (said && (*said > 0 || !says_less)) count = *said;
    };
    take(tokens.input, input);
    take(tokens.cached, cached);
    take(tokens.cache_write, cache_write);
    take(tokens.cache_write_1h, count_at(members, shape.cache_write_1h));
    tokens.cache_write_1h = std::min(tokens.cache_write_1h, tokens.cache_write);
    if (shape.input_includes_cache) {
        tokens.input = std::max<std::int64_t>(tokens.input - tokens.cached - tokens.cache_write, 0);
    }
}

bool has_any_count(const Shape& shape, const Members& members) {
    const auto is_there = [&](int place) { return count_at(members, place).has_value(); };
    return is_there(shape.input) || is_there(shape.further_input) || is_there(shape.output) ||
           is_there(shape.further_output) || largest_at(members, shape.cached) ||
           largest_at(members, shape.cache_write);
}

// Whether a count is there that is no count, such as 7.5, or may have been left out: a client of
// Gemini chooses by `fields` what the answer has, but the total has what it leaves out. Embeddings
// have no total.
bool hides_a_count(const Shape& shape, const Members& members) {
    for (const int place : {shape.input, shape.further_input, shape.output, shape.further_output}) {
        if (place == kNowhere || count_at(members, place)) continue;
        const JsonMember::Kind kind = members[static_cast<std::size_t>(place)].kind;
        if (kind != JsonMember::Kind::absent && kind != JsonMember::Kind::null) return true;
    }
    const bool embeds = members[at("/embedding")].kind == JsonMember::Kind::object ||
                        members[at("/embeddings")].kind == JsonMember::Kind::array;
    return shape.provider == Provider::gemini && !embeds && !count_at(members, shape.total);
}

// What Anthropic's names beside OpenAI's say of the cache. Where the total has room for them, they
// are on top of the prompt, as Portkey writes them. Else what was written is a part of the prompt,
// as LiteLLM writes it; its cached tokens have OpenAI's name, too. Returns what is on top.
std::int64_t take_cache_beside(const Members& members, std::int64_t rest, Tokens& tokens) {
    const std::int64_t cached = count_at(members, at("/usage/cache_read_input_tokens")).value_or(0);
    const std::int64_t cache_write =
        count_at(members, at("/usage/cache_creation_input_tokens")).value_or(0);
    if (tokens.cached + tokens.cache_write == 0 && cached + cache_write <= rest) {
        tokens.cached = cached;
        tokens.cache_write = cache_write;
        return cached + cache_write;
    }
    if (tokens.cache_write == 0) {
        tokens.cache_write = std::min(cache_write, tokens.input);
        tokens.input -= tokens.cache_write;
    }
    return 0;
}

// What the total has above its parts. xAI, and Gemini where it speaks OpenAI's API, leave the
// tokens of reasoning out of the output. Other servers may leave out another kind.
void take_rest(const Shape& shape, const Members& members, Tokens& tokens) {
    const std::int64_t sum = tokens.sum();
    std::int64_t rest = std::max<std::int64_t>(count_at(members, shape.total).value_or(0) - sum, 0);
    if (sum == 0) return;
    if (shape.input == at("/usage/prompt_tokens")) rest -= take_cache_beside(members, rest, tokens);
    tokens.output += rest;
    tokens.of_any += rest;
}

void keep_larger(const Tokens& before, Tokens& tokens) {
    if (before.input + before.cached > tokens.input + tokens.cached) {
        tokens.input = before.input;
        tokens.cached = before.cached;
    }
    if (before.output > tokens.output) {
        tokens.output = before.output;
        tokens.of_any = before.of_any;
    }
}

// What `members` say in this shape. `before` is what earlier events said.
std::optional<Tokens> tokens_of(const Shape& shape, const Members& members, const Tokens& before) {
    if (!has_any_count(shape, members) || hides_a_count(shape, members)) return std::nullopt;
    Tokens tokens = shape.merges ? before : Tokens{};
    take_input(shape, members, tokens);
    auto output = count_at(members, shape.output);
    add(output, count_at(members, shape.further_output));
    if (output && (*output > 0 || !shape.merges)) {
        tokens.output = *output;
        tokens.of_any = 0;
    }
    take_rest(shape, members, tokens);
    if (shape.keeps_larger) keep_larger(before, tokens);
    return tokens;
}

std::optional<Tokens> tokens_in(const Members& members, Provider provider, const Tokens& before) {
    // Some gateways write the names of several APIs, with 0 where another one's have the usage.
    std::optional<Tokens> zero;
    for (const Shape& shape : kShapes) {
        if (!may_be(shape, provider, members)) continue;
        const auto tokens = tokens_of(shape, members, before);
        if (tokens && *tokens != Tokens{}) return tokens;
        if (tokens) zero = tokens;
    }
    // A total without its parts, such as that of a reranker: it is shown as output.
    for (const Shape& shape : kShapes) {
        if (!may_be(shape, provider, members)) continue;
        const auto total = count_at(members, shape.total);
        if (total && (*total > 0 || !zero)) return Tokens{.output = *total, .of_any = *total};
    }
    return zero;
}

// What Anthropic's server took beside the message: to compact the conversation, or to ask another
// model for advice. The members beside `iterations` leave that out. Nothing: the event has no
// iterations.
std::optional<Tokens> tokens_beside_message(const Members& members) {
    std::optional<Tokens> beside;
    for (int i = 0; i < kIterations; ++i) {
        const int first = kFirstIteration + i * iteration_places;
        const JsonMember& type = members[static_cast<std::size_t>(first) + iteration_type];
        if (type.kind != JsonMember::Kind::text) break;
        if (!beside) beside.emplace();
        if (type.text != "compaction" && type.text != "advisor_message") continue;
        const auto add_to = [&](std::int64_t& count, int place) {
            count = std::min(count + count_at(members, first + place).value_or(0), kTokensMax);
        };
        add_to(beside->input, iteration_input);
        add_to(beside->cached, iteration_cache_read);
        add_to(beside->cache_write, iteration_cache_creation);
        add_to(beside->output, iteration_output);
    }
    return beside;
}

// What OpenAI's server took to make images: the Responses API leaves that out of `usage`.
std::optional<Tokens> tokens_of_image_tool(const Members& members) {
    constexpr std::array kInput{at("/tool_usage/image_gen/input_tokens"),
                                at("/response/tool_usage/image_gen/input_tokens")};
    constexpr std::array kOutput{at("/tool_usage/image_gen/output_tokens"),
                                 at("/response/tool_usage/image_gen/output_tokens")};
    const Tokens tokens{.input = largest_at(members, kInput).value_or(0),
                        .output = largest_at(members, kOutput).value_or(0)};
    return tokens == Tokens{} ? std::nullopt : std::optional(tokens);
}

// What Perplexity's server read and thought beside `total_tokens`. Other servers repeat there a
// part of the output.
std::optional<Tokens> tokens_of_search(const Members& members) {
    const auto count = [&members](int place) { return count_at(members, place).value_or(0); };
    const std::int64_t output = count(at("/usage/completion_tokens"));
    const std::int64_t reasoning = count(at("/usage/reasoning_tokens"));
    const std::int64_t beside =
        count(at("/usage/citation_tokens")) + (reasoning > output ? reasoning : 0);
    const bool is_in_total =
        count(at("/usage/total_tokens")) > count(at("/usage/prompt_tokens")) + output;
    if (beside == 0 || is_in_total) return std::nullopt;
    return Tokens{.output = beside, .of_any = beside};
}

// What the provider's server took beside the message. Nothing: the event does not say it.
std::optional<Tokens> tokens_beside(const Members& members, Provider provider) {
    const auto is = [provider](Provider one) {
        return provider == one || provider == Provider::automatic;
    };
    std::optional<Tokens> beside;
    if (is(Provider::anthropic)) beside = tokens_beside_message(members);
    const bool is_openai = is(Provider::openai) || provider == Provider::openai_responses;
    if (!beside && is_openai) beside = tokens_of_image_tool(members);
    return beside || !is_openai ? beside : tokens_of_search(members);
}

// Of an event of the Responses API, which repeats the response as far as it is.
bool ends_response(const Members& members) {
    const std::string& status = members[at("/response/status")].text;
    return count_at(members, at("/response/usage/output_tokens")) && status != "in_progress" &&
           status != "queued";
}

// Whether the server says more in this event than a placeholder before it knows the usage. Streams
// of Anthropic's API begin with an output of 1, or of 0 for all behind a relay, and other relays
// write 0 into each event before the last.
bool says_usage(const Members& members, bool has_any) {
    const auto output = count_at(members, at("/usage/output_tokens"));
    if (has_any) {
        // Some gateways write the names of Anthropic's API with 0 beside OpenAI's.
        const bool is_openai = count_at(members, at("/usage/prompt_tokens")).value_or(0) > 0;
        const bool is_start = count_at(members, at("/message/usage/input_tokens")) ||
                              count_at(members, at("/message/usage/output_tokens"));
        return !is_start && (is_openai || output.value_or(1) > 0);
    }
    const JsonMember& list = members[at("/choices")];
    const bool is_empty = list.kind == JsonMember::Kind::array && list.size == 0;
    return output || is_empty || ends_response(members);
}

std::string_view model_of(const Members& members) {
    for (const int place : {at("/model"), at("/response/model"), at("/message/model"),
                            at("/modelVersion"), at("/interaction/model")}) {
        const JsonMember& member = members[static_cast<std::size_t>(place)];
        if (member.kind == JsonMember::Kind::text && !member.too_long && !member.text.empty()) {
            return member.text;
        }
    }
    return {};
}

std::vector<std::string> marks_of(const std::vector<UsageSource::Member>& members) {
    std::vector<std::string> marks;
    for (const auto& member : members) {
        std::string mark = mark_of(member.pointer);
        if (mark.empty()) return {};
        if (std::find(marks.begin(), marks.end(), mark) == marks.end())
            marks.push_back(std::move(mark));
    }
    return marks;
}

}  // namespace

UsageSource::UsageSource(Provider provider)
    : provider_(provider), pointers_(provider_pointers()), marks_{"\"usage"} {}

UsageSource::UsageSource(const std::vector<Member>& members)
    : pointers_({}), marks_(marks_of(members)) {
    std::vector<std::string> pointers;
    for (const Member& member : members) {
        pointers.push_back(member.pointer);
        weights_.push_back(member.weight);
    }
    pointers_ = JsonPointers(pointers);
}

std::optional<AnswerReader::Form> AnswerReader::form_of(std::string_view content_type) {
    // As most are written.
    if (content_type == "application/json") return Form::json;
    const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
    constexpr std::string_view kSuffix = "+json";
    const auto folds_to = [](std::string_view text, std::string_view lower) {
        return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                          [](char a, char b) { return to_lower(a) == b; });
    };
    const auto is = [&](std::string_view name) { return folds_to(type, name); };
    if (is("application/json")) return Form::json;
    if (is("text/event-stream")) return Form::server_sent_events;
    if (is("application/vnd.amazon.eventstream")) return Form::amazon_events;
    if (is("application/x-ndjson")) return Form::json_lines;
    const std::size_t stem = type.size() - std::min(type.size(), kSuffix.size());
    if (folds_to(type.substr(stem), kSuffix)) return Form::json;
    return std::nullopt;
}

AnswerReader::AnswerReader(const UsageSource& source, Form form)
    : source_(source),
      form_(form),
      // Gemini's streams are one array by default, with an event in each element.
      json_(source.pointers_,
            {.text_max = kTextMax,
             .elements_are_documents = form == Form::json,
             .keeps_number_texts = false},
            [this](const Members& members) { take(members); }) {
    if (form == Form::server_sent_events) events_.emplace<ServerSentEvents>();
    if (form == Form::amazon_events) events_.emplace<AmazonEvents>("metadata", "chunk");
}

void AnswerReader::read(std::string_view piece) {
    if (form_ == Form::json) {
        json_.read(piece);
    } else if (form_ == Form::json_lines) {
        read_lines(piece);
    } else {
        read_events(piece);
    }
}

bool AnswerReader::is_placeholder() const {
    return source_.is_by_provider() && usage_ && !has_said_usage_;
}

void AnswerReader::end() {
    if (form_ == Form::json_lines) json_.end();
    // Some servers end their body without the empty line that ends its last event.
    if (form_ == Form::server_sent_events) read_events("\n\n");
    if (form_ != Form::json) return;
    switch (json_.end()) {
        case JsonReader::Fault::none:
            break;
        case JsonReader::Fault::not_json:
            reason_ = UnknownUsage::unreadable;
            break;
        case JsonReader::Fault::too_deep:
            reason_ = UnknownUsage::too_deep;
            break;
    }
}

// A line that is no JSON is one without usage.
void AnswerReader::read_lines(std::string_view piece) {
    for (;;) {
        const std::size_t size = std::min(piece.find('\n'), piece.size());
        json_.read(piece.substr(0, size));
        if (size == piece.size()) return;
        json_.end();
        piece.remove_prefix(size + 1);
    }
}

void AnswerReader::read_events(std::string_view piece) {
    for (;;) {
        const EventPart part = form_ == Form::server_sent_events
                                   ? std::get<ServerSentEvents>(events_).next(piece)
                                   : std::get<AmazonEvents>(events_).next(piece);
        if (part.kind == EventPart::Kind::none) return;
        read_event(part);
    }
}

void AnswerReader::read_event(const EventPart& part) {
    switch (part.kind) {
        case EventPart::Kind::none:
            break;
        case EventPart::Kind::data:
            if (is_chunk()) return keep_of_chunk(part.data);
            json_.read(part.data);
            short_event_.append(part.data.substr(0, kLastEventMax + 1 - short_event_.size()));
            break;
        case EventPart::Kind::whole:
            has_last_event_ = is_last_event(part.data);
            if (!may_have_usage(part.data)) break;
            json_.read(part.data);
            json_.end();
            break;
        // What is no JSON, as OpenAI's last event `[DONE]`, is an event without usage.
        case EventPart::Kind::end:
            if (is_chunk()) return read_chunk();
            has_last_event_ = is_last_event(short_event_);
            short_event_.clear();
            json_.end();
            break;
        case EventPart::Kind::unreadable:
            json_.forget();
            short_event_.clear();
            chunk_.clear();
            reason_ =
                form_ == Form::amazon_events ? UnknownUsage::unreadable : UnknownUsage::too_long;
            break;
    }
}

bool AnswerReader::is_chunk() const {
    return form_ == Form::amazon_events && std::get<AmazonEvents>(events_).is_further();
}

// One byte more than is read marks a chunk that is too long to have usage.
void AnswerReader::keep_of_chunk(std::string_view piece) {
    chunk_.append(piece.substr(0, kChunkMax + 1 - chunk_.size()));
}

// A chunk of InvokeModel has an event of the model's own API, in base64.
void AnswerReader::read_chunk() {
    static const JsonPointers kBytes({"/bytes"});
    std::string event;
    if (chunk_.size() <= kChunkMax) {
        JsonReader reader(kBytes, {.text_max = chunk_.size()}, [&](const Members& members) {
            if (members[0].kind != JsonMember::Kind::text) return;
            event.resize(members[0].text.size());
            event.resize(decode_base64(members[0].text, event.data()).value_or(0));
        });
        reader.read(chunk_);
        reader.end();
    }
    chunk_.clear();
    if (!may_have_usage(event) && !contains(event, kInvocationMark)) return;
    json_.read(event);
    json_.end();
}

bool AnswerReader::may_have_usage(std::string_view event) const {
    // A letter of a name may be written as an escape.
    if (source_.marks_.empty() || contains(event, "\\u00")) return true;
    return std::any_of(source_.marks_.begin(), source_.marks_.end(),
                       [&](const std::string& mark) { return has_value(event, mark); });
}

void AnswerReader::take(const Members& members) {
    if (!source_.is_by_provider()) {
        double units = 0;
        bool has_any = false;
        for (std::size_t i = 0; i < members.size(); ++i) {
            const double product = members[i].number * source_.weights_[i];
            // Beyond a double's numbers it is infinite, and two of these may add up to no number.
            if (members[i].kind != JsonMember::Kind::number || !std::isfinite(product)) continue;
            has_any = true;
            units += product;
        }
        if (has_any && (!usage_ || units > 0)) usage_ = Usage{{}, std::max(units, 0.0), {}};
        return;
    }
    const Provider provider = source_.provider_;
    // A list that is no stream of Gemini has a whole answer in each element.
    const bool adds = form_ == Form::json && !members[at("/usageMetadata/totalTokenCount")].whole;
    const auto tokens = tokens_in(members, provider, adds ? Tokens{} : message_);
    const auto beside = tokens_beside(members, provider);
    if (!tokens && !beside) return;
    const bool has_any = (tokens && *tokens != Tokens{}) || (beside && *beside != Tokens{});
    if (ends_response(members)) has_last_event_ = true;
    // An event that says 0 takes back nothing that an earlier one said.
    if (usage_ && usage_->tokens != Tokens{} && !has_any) return;
    has_said_usage_ = has_said_usage_ || form_ == Form::json || says_usage(members, has_any);
    if (!usage_) usage_.emplace();
    if (tokens && *tokens != Tokens{}) message_ = adds ? sum_of(message_, *tokens) : *tokens;
    if (beside) beside_message_ = adds ? sum_of(beside_message_, *beside) : *beside;
    usage_->tokens = sum_of(message_, beside_message_);
    if (const auto name = model_of(members); !name.empty()) usage_->model = name;
}

}  // namespace tidegate::usage
