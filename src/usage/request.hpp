// What a request's JSON body says before it is sent: how much it may take at most, for which model;
// and the two members that Tidegate writes into it where it may. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "usage/cost.hpp"
#include "usage/json_reader.hpp"

namespace tidegate::usage {

// How the tokens of a request are estimated.
struct EstimateRule {
    // Members whose number is the maximum of output; none: those of the five providers.
    //
    // Of several, the largest counts: the upstream may know another one than the client's first.
    std::vector<std::string> output_max;
    std::int64_t plus_body = 4;    // bytes of the body a token of input; 0: input is not counted
    std::int64_t fallback = 1000;  // tokens of output of a request that names no maximum
    std::int64_t max = 32'000;     // tokens of input and output together
};

// Tokens before the request is sent. The input is a fraction: it is rounded with the cost, once.
struct Estimate {
    std::int64_t input_bytes = 0;
    std::int64_t bytes_per_token = 1;
    std::int64_t output = 0;

    // Rounded up.
    std::int64_t cost(const Rates& rates) const;
};

struct RequestFacts {
    bool is_json = false;                    // an object of JSON; otherwise all below is empty
    std::optional<std::int64_t> output_max;  // with the number of answers multiplied in
    std::string model;
    bool streams = false;             // `stream` is true
    bool has_stream_options = false;  // `stream_options` is an object
    // `stream_options` says whether the client wants usage, or cannot be added to.
    bool has_usage_asked = false;
};

// Reads bodies for one rule: made once from the configuration, shared by all threads.
class RequestReader {
  public:
    explicit RequestReader(EstimateRule rule);

    // Of a whole body without a coding.
    RequestFacts read(std::string_view body) const;
    // For a body of `bytes`. A request that asks for more than `max` is estimated as `max`.
    Estimate estimate(const RequestFacts& facts, std::size_t bytes) const;
    // For a body that is too long to be held.
    Estimate largest() const;

  private:
    EstimateRule rule_;
    JsonPointers pointers_;
};

// `body` with `"stream_options":{"include_usage":true}`. Requires facts of this body that stream
// and have no usage asked.
std::string ask_for_usage(std::string_view body, const RequestFacts& facts);

// `body` with `"max_completion_tokens":max`. Requires facts of this body without output_max, and
// JSON.
std::string write_output_max(std::string_view body, std::int64_t max);

}  // namespace tidegate::usage
