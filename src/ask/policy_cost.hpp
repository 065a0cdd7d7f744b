// What policies with a cost of their own take of a request: what is reserved when it is decided,
// and what it has cost once its answer has ended. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ask/decision.hpp"
#include "config/config.hpp"
#include "config/policy_cost.hpp"
#include "http/field.hpp"
#include "usage/answer.hpp"
#include "usage/cost.hpp"

namespace tidegate::ask {

// Whether a field signs the body, or names its hash: a change would break it.
bool signs_body(const http::Fields& fields);

// The model that a request is for: by its path, where that is a call of Bedrock or Gemini, else by
// its body, else by its path. Empty: it names none.
std::string model_of(const Facts& facts);

// What a token of `model` costs by this policy. Null: it counts money, and the price list has no
// price for the model.
const usage::Rates* rates_of(const config::Config& config, const config::PolicyCost& cost,
                             std::string_view model);

// The same by the row of the price list that has the model.
const usage::Rates* rates_at(const config::Config& config, const config::PolicyCost& cost,
                             std::string_view model, std::size_t row);

// The row of the price list that a request is settled by: that of the answer's model if it has a
// price, else that of the request's. PriceList::kNoRow: neither has.
std::size_t settled_row(const config::Config& config, const Decision& decision,
                        std::string_view answer_model);

// Whether a request reserves its rule's `max`, as what it may take is not known: its body was not
// read, is too long to be read or is no JSON object, it is a batch, or `write_cap` may not change
// it. Requires a cost that reads_body().
bool reserves_most(const config::PolicyCost& cost, const Facts& facts);

// The units that a request reserves, with the rates of its model.
std::int64_t reserved_units(const config::Config& config, const config::PolicyCost& cost,
                            const Facts& facts, const usage::Rates& rates);

// How the answer to a request ended, and what is known of its cost.
struct AnswerFacts {
    enum class End : std::uint8_t {
        not_sent,    // nothing of the request was sent
        unanswered,  // some was, and no head of an answer came
        cut,         // inside the answer: by the upstream, or as the client left
        whole,
    };
    End end = End::not_sent;
    int status = 0;                       // from `cut` on
    const usage::Usage* usage = nullptr;  // of a policy that settles by usage; null: unknown
    std::size_t price_row = usage::PriceList::kNoRow;  // with `usage`: settled_row()
    std::optional<double> header;  // of one that settles by a field: the field's number
    // Of one that settles by time: from the request to the end of its answer.
    std::chrono::nanoseconds time{0};
    std::uint64_t bytes = 0;  // of the answer's body
};

// The units that the request has cost, for an item that reserved `reserved`. Nothing: it is not
// known, and what is reserved stays. `model` is that of the request. Requires a policy that
// settles.
std::optional<std::int64_t> settled_units(const config::Config& config,
                                          const config::PolicyCost& cost, std::int64_t reserved,
                                          std::string_view model, const AnswerFacts& answer);

}  // namespace tidegate::ask
