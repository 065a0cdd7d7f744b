// The questions and answers of `/api/inspect` and `/api/reset`. Pure.
//
// Both take the identifier from the query (`?identifier=user%3Aalice`, percent-encoded, a `+` as
// `%2B`), and answer a JSON object. Members may be added to it, and none is taken away or renamed;
// times are from now on, and null where there is none or it is not known.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/answer.hpp"
#include "base/doc.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "limit/charge.hpp"
#include "store/inspector.hpp"

namespace tidegate::admin {

inline constexpr std::size_t kIdentifierTextMax = 1'024;

// The identifiers, canonical, that `text` means; or a sentence that says what would be right. It
// may be as the log has it, or as people write it: an address alone, without the prefix that it is
// counted by (then one identifier for each of ClientIpSettings::prefixes), a user with
// letters that identifiers do not have, a field's or parameter's value that is counted by its hash.
// At least one; safe to print, and nothing in it is secret.
Result<std::vector<std::string>, std::string> identifiers_meant(std::string_view text,
                                                                const config::Config& config);

// Lists all of the configuration that could count `identifier`, which is canonical: for each policy
// its own limits, then each tier's that has some. The items point to the two arguments.
std::vector<limit::ChargeItem> items_of(std::string_view identifier, const config::Config& config);

// The tier that the operator has given to the user whose identifier this is (`identity.users`).
// Empty: none, or it is no user's. The view goes into `config`.
std::string_view known_tier(std::string_view identifier, const config::Config& config);

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

// A limit as it is configured, for programs. `name`: `POLICY-LIMIT`, as RateLimit fields have it.
Doc::Json limit_json(const limit::Limit& limit, std::string_view name);

struct Forgotten {
    std::string_view identifier;
    std::vector<limit::ChargeItem> items;
    std::vector<bool> any;  // in the order of the items: whether something was counted
};

AdminAnswer answer_to_reset(const std::vector<Forgotten>& all, std::string_view store);

}  // namespace tidegate::admin
