// What a policy reserves of a request, and how that is settled by its answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "usage/answer.hpp"
#include "usage/cost.hpp"

namespace tidegate::config {

// `cost` of a policy: what a request takes of its limits, in place of the route's cost. It is
// reserved before the request is sent, and settled when its answer has ended.
struct PolicyCost {
    static constexpr std::size_t kNoRule = SIZE_MAX;

    // What is reserved: `reserved` units, or what Config::body_reader estimates by this rule.
    std::size_t rule = kNoRule;
    std::int64_t reserved = 1;

    enum class Settle : std::uint8_t {
        never,   // what is reserved stays
        usage,   // as the answer's body says
        header,  // as a field of the answer says
        time,    // of the upstream, from the request to the end of the answer
        bytes,   // of the answer's body
    };
    Settle settle = Settle::never;
    std::shared_ptr<const usage::UsageSource> usage;  // of `usage`; never null then
    std::string header;                               // of `header`; lower case
    // Units of one of the header's or of the members that the configuration names, which is 1 but
    // in money, where these state dollars; of a millisecond; of a byte.
    double each = 1;

    // What a token costs, but in money. In millionths of a unit.
    usage::Rates weights;
    // Counts millionths of a dollar, and tokens cost what Config::prices says.
    bool in_money = false;
    bool asks_usage = false;  // `ask_usage`
    bool writes_cap = false;  // `write_cap`
    std::int64_t cap = 0;     // what is written: the rule's `default`
    std::chrono::milliseconds settle_after_leaving{0};

    // Whether the request's body has to be read first.
    bool reads_body() const { return rule != kNoRule; }
    // Whether the answer says what was spent.
    bool settles() const { return settle != Settle::never; }
    // Whether a token costs what Config::prices says of its model.
    bool needs_price() const {
        return in_money && (reads_body() || (usage != nullptr && usage->is_by_provider()));
    }
};

}  // namespace tidegate::config
