#include "usage/request.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/text.hpp"
#include "usage/event_stream.hpp"

namespace tidegate::usage {
namespace {

__extension__ using Wide = __int128;

const std::vector<std::string> kFurtherPointers = {
    "",  // the document itself
    "/model",
    "/messages",
    "/stream",
    "/stream_options",
    "/stream_options/include_usage",
    "/n",
    "/best_of",
    "/generationConfig/candidateCount",
    "/generationConfig/candidate_count",
    "/generation_config/candidateCount",
    "/generation_config/candidate_count",
    "/prompt",
    "/prompt/0",
    "/input",
    "/contents",
};
enum class Further : std::size_t {
    document,
    model,
    messages,
    stream,
    stream_options,
    include_usage,
    n,
    best_of,
    candidates,
    candidates_snake,
    candidates_mixed,
    candidates_proto,
    prompt,
    first_prompt,
    input,
    contents
};

// Protocol buffers take both spellings of a name, and Gemini's API is one of them.
const std::vector<std::string> kGeminiMax = {
    "/generationConfig/maxOutputTokens",
    "/generationConfig/max_output_tokens",
    "/generation_config/maxOutputTokens",
    "/generation_config/max_output_tokens",
};

// APIs whose requests bound their output by other members. Anthropic's is a chat, too.
enum class Api : std::size_t { chat, responses, gemini, converse };
constexpr Api kApis[] = {Api::chat, Api::responses, Api::gemini, Api::converse};
constexpr Provider kProviderOf[] = {Provider::openai, Provider::openai_responses, Provider::gemini,
                                    Provider::bedrock};

// The members that bound the output of a request to this API.
std::vector<std::string> output_max_of_api(Api api) {
    switch (api) {
        case Api::chat:
            return {"/max_completion_tokens", "/max_tokens"};
        case Api::responses:
            return {"/max_output_tokens"};
        case Api::gemini:
            return kGeminiMax;
        case Api::converse:
            return {"/inferenceConfig/maxTokens"};
    }
    return {};
}

// Whether a request to this provider may be one of that API.
bool has_api(Provider provider, Api api) {
    const Provider owner = kProviderOf[static_cast<std::size_t>(api)];
    return provider == Provider::automatic || provider == owner ||
           (provider == Provider::openai && owner == Provider::openai_responses);
}

std::vector<std::string> output_max_of_apis(Provider provider) {
    std::vector<std::string> all;
    for (const Api api : kApis) {
        if (!has_api(provider, api)) continue;
        for (std::string& pointer : output_max_of_api(api)) all.push_back(std::move(pointer));
    }
    return all;
}

bool is_present(const JsonMember& member) {
    return member.kind != JsonMember::Kind::absent || member.ambiguous;
}

// Whether the client leaves the member to the server.
bool is_open(const JsonMember& member) {
    return !member.ambiguous &&
           (member.kind == JsonMember::Kind::absent || member.kind == JsonMember::Kind::null);
}

// The largest that the member was given: which of two an upstream believes is not known. One above
// the most is as if absent where it is the only one; else it stands for the most, as it hides the
// others.
std::optional<std::int64_t> count_of(const JsonMember& member) {
    if (!member.largest || *member.largest <= kTokensMax) return member.largest;
    return member.ambiguous ? std::optional(kTokensMax) : std::nullopt;
}

// The answers that a request asks for: so many times it may take its maximum. The Completions API
// answers each prompt of a list; a list of numbers is one prompt.
template <class MemberOf>
std::int64_t answers_of(const MemberOf& further) {
    std::int64_t answers = 1;
    for (const Further which :
         {Further::n, Further::best_of, Further::candidates, Further::candidates_snake,
          Further::candidates_mixed, Further::candidates_proto}) {
        answers = std::max(answers, count_of(further(which)).value_or(1));
    }
    const JsonMember& prompt = further(Further::prompt);
    if (prompt.ambiguous) return kTokensMax;
    const bool is_list = prompt.kind == JsonMember::Kind::array &&
                         further(Further::first_prompt).kind != JsonMember::Kind::number;
    if (is_list) answers *= std::max<std::int64_t>(prompt.size, 1);
    return std::min(answers, kTokensMax);
}

// LiteLLM asks each model of a list with commas, and answers with a list.
std::int64_t models_in(std::string_view model) {
    return 1 + std::count(model.begin(), model.end(), ',');
}

std::string without_percents(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int byte =
            text[i] == '%' && i + 2 < text.size() ? hex_byte(text[i + 1], text[i + 2]) : -1;
        out += byte >= 0 ? static_cast<char>(byte) : text[i];
        if (byte >= 0) i += 2;
    }
    return out;
}

// Whether the path has `part`, with its escapes or without.
bool has_part(std::string_view path, std::string_view part) {
    if (path.find('%') == path.npos) return path.find(part) != path.npos;
    return without_percents(path).find(part) != std::string::npos;
}

// Azure's deployments, also behind the prefix of a gateway. A deployment has one model, and its
// name is that of the model unless the operator chose another one.
constexpr std::string_view kAzure = "/openai/deployments/";

bool calls_converse(std::string_view path) {
    return path.starts_with("/model/") &&
           (path.ends_with("/converse") || path.ends_with("/converse-stream"));
}

// The position behind the white space at `at`. The text is sound JSON.
std::size_t skip_space(std::string_view text, std::size_t at) {
    return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// The position behind the text that begins at `at`.
std::size_t skip_text(std::string_view text, std::size_t at) {
    for (++at; text[at] != '"'; ++at) {
        if (text[at] == '\\') ++at;
    }
    return at + 1;
}

// The position behind the value that begins at `at`.
std::size_t skip_value(std::string_view text, std::size_t at) {
    if (text[at] != '{' && text[at] != '[') {
        if (text[at] == '"') return skip_text(text, at);
        return std::min(text.find_first_of(",}] \t\r\n", at), text.size());
    }
    std::size_t depth = 0;
    do {
        const char c = text[at];
        if (c == '"') {
            at = skip_text(text, at);
            continue;
        }
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        ++at;
    } while (depth > 0);
    return at;
}

// Where the value of the last member `name` of an object begins, whose `{` is at `at`. The name is
// written without escapes; npos: there is none.
std::size_t value_of(std::string_view text, std::size_t at, std::string_view name) {
    std::size_t found = text.npos;
    at = skip_space(text, at + 1);
    while (text[at] != '}') {
        const std::size_t name_end = skip_text(text, at);
        const bool is_wanted = text.substr(at + 1, name_end - at - 2) == name;
        at = skip_space(text, skip_space(text, name_end) + 1);
        if (is_wanted) found = at;
        at = skip_space(text, skip_value(text, at));
        if (text[at] == ',') at = skip_space(text, at + 1);
    }
    return found;
}

// `text` with a member of the object from the `{` at `begin` to the `}` at `end`: in place of its
// value where it has one, such as null, as many servers refuse a name that is there twice.
std::string with_member(std::string_view text, std::size_t begin, std::size_t end,
                        std::string_view name, std::string_view value) {
    std::string changed;
    changed.reserve(text.size() + name.size() + value.size() + 4);
    const std::size_t old = contains(text, name) ? value_of(text, begin, name) : text.npos;
    if (old != text.npos) {
        changed.append(text.substr(0, old)).append(value);
        return changed.append(text.substr(skip_value(text, old)));
    }
    changed.append(text.substr(0, end));
    if (text[text.find_last_not_of(" \t\r\n", end - 1)] != '{') changed += ',';
    changed.append("\"").append(name).append("\":").append(value);
    return changed.append(text.substr(end));
}

}  // namespace

std::int64_t Estimate::cost(const Rates& rates) const {
    const Wide divisor = Wide{Rates::kUnit} * bytes_per_token;
    // Whether the provider's cache has the input, or takes it, is not known.
    const Wide sum =
        Wide{input_bytes} * rates.dearest_input() +
        (Wide{output} * rates.output + Wide{of_any} * rates.dearest()) * bytes_per_token;
    const Wide cost = (sum + divisor - 1) / divisor;
    return static_cast<std::int64_t>(std::min<Wide>(cost, std::int64_t{1} << 62));
}

void RequestFacts::reset() {
    is_json = is_chat = streams = has_stream_options = has_usage_asked = false;
    answers = 1;
    output_max.clear();
    members.clear();
    model.clear();
}

void RequestFacts::forget_members() {
    // Some have a text as long as the body; the others' room is small.
    members.clear();
}

RequestReader::RequestReader(std::vector<EstimateRule> rules,
                             const std::vector<std::string>& pointers)
    : rules_(std::move(rules)),
      all_(kFurtherPointers),  // the first ones: the number of each is its place
      wanted_(places_of(pointers)),
      pointers_({}) {
    for (EstimateRule& rule : rules_) {
        is_by_api_.push_back(rule.output_max.empty());
        if (rule.output_max.empty()) rule.output_max = output_max_of_apis(rule.provider);
        output_max_.push_back(places_of(rule.output_max));
    }
    for (const Api api : kApis) api_max_.push_back(places_of(output_max_of_api(api)));
    pointers_ = JsonPointers(all_, JsonPointers::Case::ignored);
}

std::size_t RequestReader::place_of(const std::string& pointer) {
    const auto found = std::find(all_.begin(), all_.end(), pointer);
    const auto place = static_cast<std::size_t>(found - all_.begin());
    if (found == all_.end()) all_.push_back(pointer);
    return place;
}

RequestReader::Places RequestReader::places_of(const std::vector<std::string>& pointers) {
    Places places;
    places.reserve(pointers.size());
    for (const std::string& pointer : pointers) places.push_back(place_of(pointer));
    return places;
}

// A body that was read, and the path that it was sent to.
struct RequestReader::Reading {
    const JsonReader::Members& members;
    std::string_view path;

    const JsonMember& operator()(Further which) const {
        return members[static_cast<std::size_t>(which)];
    }

    // Whether a server of that API may answer the request: none does without the members that it
    // requires. Bedrock's Converse has the path and a chat's `messages`.
    bool may_be_for(Api api) const {
        const JsonMember& prompt = (*this)(Further::prompt);
        // The Responses API takes an object: a stored prompt.
        const bool is_stored = prompt.kind == JsonMember::Kind::object;
        switch (api) {
            case Api::chat:
                return !calls_converse(path) &&
                       (is_present((*this)(Further::messages)) ||
                        (is_present(prompt) && (!is_stored || prompt.ambiguous)));
            case Api::responses:
                return is_present((*this)(Further::input)) || is_stored;
            case Api::gemini:
                return is_present((*this)(Further::contents));
            case Api::converse:
                return is_present((*this)(Further::messages)) && has_part(path, "/model/");
        }
        return true;
    }

    // The largest number that is stated at `at`, in members that are not ambiguous. A text is no
    // statement, as not every server reads it; nor is 0, which some take for no maximum.
    std::optional<std::int64_t> stated(const Places& at) const {
        std::optional<std::int64_t> largest;
        for (const std::size_t place : at) {
            if (members[place].ambiguous || members[place].whole.value_or(0) == 0) continue;
            largest = std::max(largest, count_of(members[place]));
        }
        return largest;
    }
};

void RequestReader::read(std::string_view body, std::string_view path, RequestFacts& facts) const {
    facts.reset();
    const auto take_members = [&](const JsonReader::Members& members) {
        take({members, path}, facts);
    };
    // By reference: std::function allocates room for what is larger than two pointers.
    JsonReader reader(
        pointers_,
        {.text_max = body.size(), .keeps_number_texts = !wanted_.empty(), .counts_texts = true},
        std::cref(take_members));
    reader.read(body);
    if (reader.end() != JsonReader::Fault::none) facts.reset();
}

void RequestReader::take(const Reading& reading, RequestFacts& facts) const {
    if (reading(Further::document).kind != JsonMember::Kind::object) return;
    facts.is_json = true;
    for (const std::size_t place : wanted_) facts.members.push_back(reading.members[place]);
    const JsonMember& model = reading(Further::model);
    const std::string_view path = reading.path;
    const std::int64_t models =
        std::max(models_in(model.text),
                 path.find('%') == path.npos ? models_in(path) : models_in(without_percents(path)));
    facts.answers = std::min(answers_of(reading) * models, kTokensMax);
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        facts.output_max.push_back(output_max_of_rule(rule, reading, facts.answers));
    }
    // Which of two names the upstream takes is not known, and no model has so long a name.
    if (model.kind == JsonMember::Kind::text && !model.ambiguous &&
        model.text.size() <= kModelBytesMax && models_in(model.text) == 1) {
        facts.model = model.text;
    }
    const JsonMember& messages = reading(Further::messages);
    facts.is_chat = messages.kind == JsonMember::Kind::array || messages.ambiguous;
    facts.streams = reading(Further::stream).kind == JsonMember::Kind::boolean &&
                    reading(Further::stream).text == "true";
    const JsonMember& options = reading(Further::stream_options);
    facts.has_stream_options = options.kind == JsonMember::Kind::object;
    facts.has_usage_asked =
        !(facts.has_stream_options ? is_open(reading(Further::include_usage)) : is_open(options)) ||
        options.ambiguous;
}

OutputMax RequestReader::output_max_of_rule(std::size_t rule, const Reading& reading,
                                            std::int64_t answers) const {
    OutputMax max;
    for (const std::size_t place : output_max_[rule]) {
        max.largest = std::max(max.largest, count_of(reading.members[place]).value_or(0) * answers);
    }
    max.stated = is_by_api_[rule] ? stated_to_apis(rules_[rule].provider, reading)
                                  : reading.stated(output_max_[rule]);
    if (max.stated) *max.stated *= answers;
    return max;
}

// The upstream's server takes the maximum of one API and passes over those of the others. So each
// API that the request may be for has to have one.
std::optional<std::int64_t> RequestReader::stated_to_apis(Provider provider,
                                                          const Reading& reading) const {
    std::optional<std::int64_t> largest;
    for (const Api api : kApis) {
        if (!has_api(provider, api) || !reading.may_be_for(api)) continue;
        const auto stated = reading.stated(api_max_[static_cast<std::size_t>(api)]);
        if (!stated) return std::nullopt;
        largest = std::max(largest, stated);
    }
    return largest;
}

Estimate RequestReader::estimate(std::size_t rule, const RequestFacts& facts,
                                 std::size_t bytes) const {
    const EstimateRule& by = rules_[rule];
    Estimate estimate;
    estimate.bytes_per_token = std::max<std::int64_t>(by.plus_body, 1);
    const std::int64_t input_max = by.max * estimate.bytes_per_token;
    if (by.plus_body > 0) {
        estimate.input_bytes = static_cast<std::int64_t>(
            std::min<std::uint64_t>(bytes, static_cast<std::uint64_t>(input_max)));
    }
    // What is left of the maximum for output, in whole tokens.
    const std::int64_t left = (input_max - estimate.input_bytes) / estimate.bytes_per_token;
    const OutputMax max = facts.is_json ? facts.output_max[rule] : OutputMax{};
    const std::int64_t output = max.stated.value_or(by.fallback * facts.answers);
    estimate.output = std::min(std::max(output, max.largest), left);
    return estimate;
}

Estimate RequestReader::largest(std::size_t rule) const {
    return {.of_any = rules_[rule].max};
}

std::vector<std::string> output_max_of(Provider provider) {
    switch (provider) {
        case Provider::automatic:
            break;
        case Provider::anthropic:
            return {"/max_tokens"};
        case Provider::openai:
        case Provider::openai_responses:
        case Provider::gemini:
        case Provider::bedrock:
            return output_max_of_apis(provider);
    }
    return {};
}

bool begins_batch(std::string_view path) {
    const auto ends = [](std::string_view text) {
        text = text.substr(0, text.find_last_not_of('/') + 1);
        return text.ends_with(":batchGenerateContent") || text.ends_with("/messages/batches");
    };
    return path.find('%') == path.npos ? ends(path) : ends(without_percents(path));
}

std::string model_of_path(std::string_view path) {
    constexpr std::string_view kBedrock = "/model/";
    constexpr std::string_view kGemini = "/models/";
    std::string_view name;
    if (const std::size_t azure = path.find(kAzure); azure != path.npos) {
        name = path.substr(azure + kAzure.size());
        name = name.substr(0, name.find('/'));
    } else if (const std::size_t at = path.rfind(kGemini); at != path.npos) {
        name = path.substr(at + kGemini.size());
        name = name.substr(0, std::min(name.find(':'), name.find('/')));
    } else if (path.starts_with(kBedrock)) {
        name = path.substr(kBedrock.size());
        name = name.substr(0, name.find('/'));
    }
    std::string model = without_percents(name);
    return models_in(model) == 1 ? model : std::string();
}

bool path_decides_model(std::string_view path) {
    if (path.find(kAzure) != path.npos) return true;
    if (const std::size_t at = path.rfind("/models/"); at != path.npos) {
        const std::string_view rest = path.substr(at);
        return rest.find('/', std::string_view("/models/").size()) == rest.npos &&
               rest.find(':') != rest.npos;
    }
    constexpr std::string_view kCalls[] = {"/converse", "/converse-stream", "/invoke",
                                           "/invoke-with-response-stream"};
    return path.starts_with("/model/") &&
           std::any_of(std::begin(kCalls), std::end(kCalls),
                       [&](std::string_view call) { return path.ends_with(call); });
}

std::string ask_for_usage(std::string_view body, const RequestFacts& facts) {
    const std::size_t begin = skip_space(body, 0);
    if (!facts.has_stream_options) {
        return with_member(body, begin, body.rfind('}'), "stream_options",
                           "{\"include_usage\":true}");
    }
    const std::size_t options = value_of(body, begin, "stream_options");
    // The name is written with escapes, which no client does.
    if (options == body.npos) return std::string(body);
    return with_member(body, options, skip_value(body, options) - 1, "include_usage", "true");
}

std::string write_output_max(std::string_view body, std::int64_t max) {
    std::string number;
    append_number(max, number);
    return with_member(body, skip_space(body, 0), body.rfind('}'), "max_completion_tokens", number);
}

}  // namespace tidegate::usage
