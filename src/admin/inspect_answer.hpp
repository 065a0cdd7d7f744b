// What `/api/inspect` and `/api/reset` are asked and answer. Pure.
//
// Both take the identifier from the query (`?identifier=user%3Aalice`, percent-encoded, a `+` as
// `%2B`), and answer a JSON object. Members may be added to it, and none is taken away or renamed;
// times are from now on, and null where there is none or it is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "admin/answer.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "limit/charge.hpp"
#include "store/counts.hpp"

namespace tidegate::admin {

// What the query says; or the refusal.
Result<std::string, AdminAnswer> identifier_asked_for(std::string_view target);

// What is counted for one identifier. The items point into a configuration, and to the identifier.
struct Inspected {
    std::string_view identifier;
    std::string_view known_tier;  // see known_tier()
    std::vector<limit::ChargeItem> items;
    store::Counts counts;  // in the order of the items
};

// `store` is `memory` or `redis`.
AdminAnswer answer_to_inspect(const std::vector<Inspected>& all, const config::Config& config,
                              std::string_view store);

struct Forgotten {
    std::string_view identifier;
    std::vector<limit::ChargeItem> items;
    std::vector<bool> any;  // in the order of the items: whether something was counted
};

AdminAnswer answer_to_reset(const std::vector<Forgotten>& all, std::string_view store);

}  // namespace tidegate::admin
