#include "usage/answer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.hpp"

namespace tidegate::usage {
namespace {

using Members = JsonReader::Members;

// Of the model's name. Names are up to about 60 bytes long.
constexpr std::size_t kTextMax = 128;

// Where one kind of answer says what it took. Places are indexes of kPointers; kNowhere: it has
// none.
struct Shape {
    Provider provider;
    int input;
    int cached;
    int cache_write;
    int output;
    int further_input;
    int further_output;
    int total;
    bool input_includes_cached;
    // A later event that repeats some kinds leaves the others as they were.
    bool merges;
};

constexpr int kNowhere = -1;

enum Place : int {
    prompt_tokens,
    prompt_cached,
    completion_tokens,
    usage_total,
    groq_prompt,
    groq_cached,
    groq_completion,
    groq_total,
    input_tokens,
    input_cached,
    output_tokens,
    response_input,
    response_cached,
    response_output,
    response_total,
    cache_read,
    cache_creation,
    message_input,
    message_cache_read,
    message_cache_creation,
    message_output,
    prompt_count,
    cached_count,
    candidates_count,
    thoughts_count,
    tool_use_count,
    count_total,
    bedrock_input,
    bedrock_cache_read,
    bedrock_cache_write,
    bedrock_output,
    bedrock_total,
    model,
    response_model,
    message_model,
    model_version,
};

const std::vector<std::string>& provider_pointers() {
    static const std::vector<std::string> kPointers = {
        "/usage/prompt_tokens",
        "/usage/prompt_tokens_details/cached_tokens",
        "/usage/completion_tokens",
        "/usage/total_tokens",
        "/x_groq/usage/prompt_tokens",
        "/x_groq/usage/prompt_tokens_details/cached_tokens",
        "/x_groq/usage/completion_tokens",
        "/x_groq/usage/total_tokens",
        "/usage/input_tokens",
        "/usage/input_tokens_details/cached_tokens",
        "/usage/output_tokens",
        "/response/usage/input_tokens",
        "/response/usage/input_tokens_details/cached_tokens",
        "/response/usage/output_tokens",
        "/response/usage/total_tokens",
        "/usage/cache_read_input_tokens",
        "/usage/cache_creation_input_tokens",
        "/message/usage/input_tokens",
        "/message/usage/cache_read_input_tokens",
        "/message/usage/cache_creation_input_tokens",
        "/message/usage/output_tokens",
        "/usageMetadata/promptTokenCount",
        "/usageMetadata/cachedContentTokenCount",
        "/usageMetadata/candidatesTokenCount",
        "/usageMetadata/thoughtsTokenCount",
        "/usageMetadata/toolUsePromptTokenCount",
        "/usageMetadata/totalTokenCount",
        "/usage/inputTokens",
        "/usage/cacheReadInputTokens",
        "/usage/cacheWriteInputTokens",
        "/usage/outputTokens",
        "/usage/totalTokens",
        "/model",
        "/response/model",
        "/message/model",
        "/modelVersion",
    };
    return kPointers;
}

// Of several that an event has, the first with tokens counts.
constexpr Shape kShapes[] = {
    {Provider::openai, prompt_tokens, prompt_cached, kNowhere, completion_tokens, kNowhere,
     kNowhere, usage_total, true, false},
    // The last chunk of Groq's streams, also where the client has not asked for usage.
    {Provider::openai, groq_prompt, groq_cached, kNowhere, groq_completion, kNowhere, kNowhere,
     groq_total, true, false},
    {Provider::openai_responses, input_tokens, input_cached, kNowhere, output_tokens, kNowhere,
     kNowhere, usage_total, true, false},
    {Provider::openai_responses, response_input, response_cached, kNowhere, response_output,
     kNowhere, kNowhere, response_total, true, false},
    {Provider::anthropic, input_tokens, cache_read, cache_creation, output_tokens, kNowhere,
     kNowhere, kNowhere, false, true},
    {Provider::anthropic, message_input, message_cache_read, message_cache_creation, message_output,
     kNowhere, kNowhere, kNowhere, false, true},
    {Provider::gemini, prompt_count, cached_count, kNowhere, candidates_count, tool_use_count,
     thoughts_count, count_total, true, false},
    {Provider::bedrock, bedrock_input, bedrock_cache_read, bedrock_cache_write, bedrock_output,
     kNowhere, kNowhere, bedrock_total, false, false},
};

// A count of tokens; a member of another type, or that no provider would say, is as if it were
// absent.
std::optional<std::int64_t> count_at(const Members& members, int place) {
    if (place == kNowhere) return std::nullopt;
    const auto& whole = members[static_cast<std::size_t>(place)].whole;
    return whole && *whole <= kTokensMax ? whole : std::nullopt;
}

// Anthropic's answers and those of OpenAI's Responses API have two names in common.
bool is_of_responses_api(const Members& members) {
    return count_at(members, input_cached) || count_at(members, usage_total);
}

bool may_be(const Shape& shape, Provider provider, const Members& members) {
    if (provider != Provider::automatic) return shape.provider == provider;
    if (shape.input != input_tokens) return true;
    return is_of_responses_api(members) == (shape.provider == Provider::openai_responses);
}

void add(std::optional<std::int64_t>& to, std::optional<std::int64_t> more) {
    if (more) to = std::min(to.value_or(0) + *more, kTokensMax);
}

// What `members` say in this shape. `before` is what earlier events said.
std::optional<Tokens> tokens_of(const Shape& shape, const Members& members, const Tokens& before) {
    auto input = count_at(members, shape.input);
    add(input, count_at(members, shape.further_input));
    const auto cached = count_at(members, shape.cached);
    const auto cache_write = count_at(members, shape.cache_write);
    auto output = count_at(members, shape.output);
    add(output, count_at(members, shape.further_output));
    if (!input && !cached && !cache_write && !output) return std::nullopt;
    Tokens tokens = shape.merges ? before : Tokens{};
    // The last event of some relays of Anthropic's API says 0 for all input.
    if (input.value_or(0) > 0 || cached.value_or(0) > 0 || cache_write.value_or(0) > 0) {
        if (input) tokens.input = *input;
        if (cached) tokens.cached = *cached;
        if (cache_write) tokens.cache_write = *cache_write;
    }
    if (output) tokens.output = *output;
    if (shape.input_includes_cached)
        tokens.input = std::max<std::int64_t>(tokens.input - tokens.cached, 0);
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
    if (zero) return zero;
    // A total without its parts: all of it is taken for output, the dearest kind.
    for (const Shape& shape : kShapes) {
        if (!may_be(shape, provider, members)) continue;
        if (const auto total = count_at(members, shape.total)) return Tokens{0, 0, 0, *total};
    }
    return std::nullopt;
}

std::string_view model_of(const Members& members) {
    for (const int place : {model, response_model, message_model, model_version}) {
        const JsonMember& member = members[static_cast<std::size_t>(place)];
        if (member.kind == JsonMember::Kind::text && !member.too_long && !member.text.empty()) {
            return member.text;
        }
    }
    return {};
}

// The first name of a pointer as it begins in the text of a document; empty if JSON may escape it.
std::string mark_of(std::string_view pointer) {
    const std::string_view name = pointer.substr(1, pointer.find('/', 1) - 1);
    const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
        return is_alphanumeric(c) || c == '_' || c == '-' || c == '.';
    });
    return is_plain ? '"' + std::string(name) : "";
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

std::vector<std::string> pointers_of(const std::vector<UsageSource::Member>& members) {
    std::vector<std::string> pointers;
    pointers.reserve(members.size());
    for (const auto& member : members) pointers.push_back(member.pointer);
    return pointers;
}

std::vector<double> weights_of(const std::vector<UsageSource::Member>& members) {
    std::vector<double> weights;
    weights.reserve(members.size());
    for (const auto& member : members) weights.push_back(member.weight);
    return weights;
}

bool contains(std::string_view text, std::string_view part) {
    return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

// Whether `mark` is in `event` with another value than null behind it. OpenAI's events of a stream
// whose client asked for usage all have `"usage":null` but the last.
bool has_value(std::string_view event, std::string_view mark) {
    const char* const end = event.data() + event.size();
    const char* at = event.data();
    while (at != end) {
        const void* const found =
            ::memmem(at, static_cast<std::size_t>(end - at), mark.data(), mark.size());
        if (found == nullptr) return false;
        at = static_cast<const char*>(found) + mark.size();
        std::string_view rest(at, static_cast<std::size_t>(end - at));
        if (!rest.starts_with("\":")) return true;
        rest.remove_prefix(2);
        if (!trimmed(rest.substr(0, 16)).starts_with("null")) return true;
    }
    return false;
}

// `lower` has no capitals.
bool folds_to_type(std::string_view text, std::string_view lower) {
    if (text == lower) return true;
    return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                      [](char a, char b) { return to_lower(a) == b; });
}

// OpenAI's last event is no JSON; Anthropic's is as short as its type.
bool is_last_event(std::string_view event) {
    constexpr std::size_t kBytesMax = 64;
    return event.size() <= kBytesMax &&
           (trimmed(event) == "[DONE]" || event.find("\"message_stop\"") != event.npos);
}

}  // namespace

UsageSource::UsageSource(Provider provider)
    : provider_(provider), pointers_(provider_pointers()), marks_{"\"usage"} {}

UsageSource::UsageSource(const std::vector<Member>& members)
    : weights_(weights_of(members)), pointers_(pointers_of(members)), marks_(marks_of(members)) {}

std::optional<AnswerReader::Form> AnswerReader::form_of(std::string_view content_type) {
    // As most are written.
    if (content_type == "application/json") return Form::json;
    const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
    constexpr std::string_view kSuffix = "+json";
    const auto is = [type](std::string_view name) { return folds_to_type(type, name); };
    if (is("application/json")) return Form::json;
    if (is("text/event-stream")) return Form::server_sent_events;
    if (is("application/vnd.amazon.eventstream")) return Form::amazon_events;
    if (is("application/x-ndjson")) return Form::json_lines;
    const std::size_t stem = type.size() - std::min(type.size(), kSuffix.size());
    if (folds_to_type(type.substr(stem), kSuffix)) return Form::json;
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
    if (form == Form::amazon_events) events_.emplace<AmazonEvents>("metadata");
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

void AnswerReader::end() {
    if (form_ == Form::json_lines) json_.end();
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
            json_.read(part.data);
            break;
        case EventPart::Kind::whole:
            has_last_event_ = is_last_event(part.data);
            if (!may_have_usage(part.data)) break;
            json_.read(part.data);
            [[fallthrough]];
        // What is no JSON, as OpenAI's last event `[DONE]`, is an event without usage.
        case EventPart::Kind::end:
            json_.end();
            break;
        case EventPart::Kind::unreadable:
            json_.forget();
            reason_ =
                form_ == Form::amazon_events ? UnknownUsage::unreadable : UnknownUsage::too_long;
            break;
    }
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
        if (has_any) usage_ = Usage{{}, std::max(units, 0.0), {}};
        return;
    }
    const auto tokens = tokens_in(members, source_.provider_, usage_ ? usage_->tokens : Tokens{});
    if (!tokens) return;
    // An event that says 0 takes back nothing that an earlier one said.
    if (usage_ && *tokens == Tokens{}) return;
    if (!usage_) usage_.emplace();
    usage_->tokens = *tokens;
    if (const auto name = model_of(members); !name.empty()) usage_->model = name;
}

}  // namespace tidegate::usage
