// What a request's JSON body says before it is sent: how much it may take at most, for which model;
// and the two members that Tidegate writes into it where it may. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "usage/answer.hpp"
#include "usage/cost.hpp"
#include "usage/json_reader.hpp"

namespace tidegate::usage {

// How the tokens of a request are estimated.
struct EstimateRule {
    // Members whose number is the maximum of output; none: those of `provider`, of which a request
    // is believed only those of the APIs that its other members may be for.
    //
    // Of several, the largest counts: the upstream may know another one than the client's first.
    std::vector<std::string> output_max;
    std::int64_t plus_body = 4;    // bytes of the body a token of input; 0: input is not counted
    std::int64_t fallback = 1000;  // tokens of output of a request that names no maximum
    std::int64_t max = 32'000;     // tokens of input and output together
    Provider provider = Provider::automatic;  // with more than one API

    bool operator==(const EstimateRule&) const = default;
};

// Bytes of a model's name; names are up to about 60 bytes long.
inline constexpr std::size_t kModelBytesMax = 256;

// The members of a request to this provider's API that bound its output; none: any provider's. A
// member of another API bounds nothing: its server does not read it.
std::vector<std::string> output_max_of(Provider provider);

// Whether the path begins a batch of requests that are all in its body: Gemini's
// `:batchGenerateContent`, Anthropic's `/messages/batches`.
bool begins_batch(std::string_view path);

// Tokens before the request is sent. The input is a fraction: it is rounded with the cost, once.
struct Estimate {
    std::int64_t input_bytes = 0;
    std::int64_t bytes_per_token = 1;
    std::int64_t output = 0;
    std::int64_t of_any = 0;  // of a kind that is not known: each costs as much as the dearest

    // Rounded up. Each token of input costs as much as the dearest kind of input.
    std::int64_t cost(const Rates& rates) const;
};

// The maximum of output that a request states, with the number of answers multiplied in.
struct OutputMax {
    // Nothing: the request states none that its server is sure to keep to.
    std::optional<std::int64_t> stated;
    // The largest that the body has in any of the rule's members, however their names are written;
    // 0: none. The server may take that one.
    std::int64_t largest = 0;

    bool operator==(const OutputMax&) const = default;
};

// What a whole body says.
struct RequestFacts {
    bool is_json = false;               // an object of JSON; otherwise all below is empty
    std::vector<OutputMax> output_max;  // by rule, in the order of the reader's
    std::vector<JsonMember> members;    // in the order of the reader's pointers
    // `model`; empty: it is absent, ambiguous, a list with commas, or longer than kModelBytesMax.
    std::string model;
    // Answers asked for, 1 or more: each may take the maximum, also one that is not stated.
    std::int64_t answers = 1;
    bool is_chat = false;             // `messages` is a list, or ambiguous
    bool streams = false;             // `stream` is true
    bool has_stream_options = false;  // `stream_options` is an object
    // `stream_options` says whether the client wants usage, or cannot be added to.
    bool has_usage_asked = false;

    // Forgets the body. Strings and vectors keep their capacity.
    void reset();
    // Gives back the room of `members`, whose texts may be as long as the body.
    void forget_members();
};

// Reads bodies: made once from the configuration, shared by all threads.
class RequestReader {
  public:
    // `pointers` are of members that the caller wants (is_json_pointer()).
    RequestReader(std::vector<EstimateRule> rules, const std::vector<std::string>& pointers);

    // Of a whole body without a coding, sent to `path`. Texts are whole, however long they are.
    void read(std::string_view body, std::string_view path, RequestFacts& facts) const;
    // For a body of `bytes`, by the rule at that place. A request that asks for more than `max` is
    // estimated as `max`.
    Estimate estimate(std::size_t rule, const RequestFacts& facts, std::size_t bytes) const;
    // For a body that is not read: the rule's `max`.
    Estimate largest(std::size_t rule) const;
    // The rule at that place, with the members of the providers where it names none.
    const EstimateRule& rule(std::size_t position) const { return rules_[position]; }

  private:
    // A place in the list of all pointers, in which each stands once.
    using Places = std::vector<std::size_t>;
    struct Reading;

    std::size_t place_of(const std::string& pointer);
    Places places_of(const std::vector<std::string>& pointers);
    void take(const Reading& reading, RequestFacts& facts) const;
    OutputMax output_max_of_rule(std::size_t rule, const Reading& reading,
                                 std::int64_t answers) const;
    std::optional<std::int64_t> stated_to_apis(Provider provider, const Reading& reading) const;

    std::vector<EstimateRule> rules_;
    std::vector<bool> is_by_api_;  // by rule: it names no members
    std::vector<std::string> all_;
    Places wanted_;                   // by the caller
    std::vector<Places> output_max_;  // by rule
    std::vector<Places> api_max_;     // by API that a body may be for
    JsonPointers pointers_;           // made of all_
};

// The model that a path names: Bedrock's `/model/NAME/converse`, Gemini's
// `/models/NAME:generateContent`, the deployment in Azure's
// `/openai/deployments/NAME/chat/completions`. Percent-decoded; empty: the path names none.
std::string model_of_path(std::string_view path);
// Whether the path is a call of Bedrock, Gemini or a deployment of Azure, whose servers take the
// model from there and pass over a `model` in the body.
bool path_decides_model(std::string_view path);

// `body` with `"stream_options":{"include_usage":true}`. Requires facts of this body that stream
// and have no usage asked.
std::string ask_for_usage(std::string_view body, const RequestFacts& facts);

// `body` with `"max_completion_tokens":max`. Requires facts of this body that state no maximum, and
// JSON.
std::string write_output_max(std::string_view body, std::int64_t max);

}  // namespace tidegate::usage
