// These functions read the questions of `/api/inspect` and `/api/reset` and write their answers.
// Pure.
//
// Both take the identifier from the query (`?identifier=user%3Aalice`, percent-encoded, a `+` as
// `%2B`), and answer a JSON object. Members may be added to it, and none is taken away or renamed;
// times are from now on, and null where there is none or it is not known.
#pragma once

#include <cstddef>
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

// Holds what a query for an identifier means: the name under which it is counted.
struct Meant {
    std::string identifier;  // canonical; safe to print, and nothing in it is secret
    // Of a descriptor of `rls`: all that count it. Empty: items_of() knows.
    std::vector<const limit::Policy*> policies{};
    std::string note{};  // to show where nothing is counted; may be empty
};

// All that `text` means, at least one: of a descriptor see descriptors_meant(), of any other
// identifier identifiers_meant(). Or a sentence that says what would be right.
Result<std::vector<Meant>, std::string> all_meant(std::string_view text,
                                                  const config::Config& config);
// The items of `meant`, which they point to.
std::vector<limit::ChargeItem> items_of(const Meant& meant, const config::Config& config);

// Whether `text` is about a descriptor of Envoy's rate limit service.
bool is_descriptor(std::string_view text);
// Finds what a descriptor means: `descriptor:DOMAIN/KEY=VALUE/KEY=VALUE`, with `%2F`, `%3D` and
// `%25` for signs that stand for themselves, or as the access log has it, then of any domain. Or
// why no limit counts it, with what the files of `rls` have instead.
Result<std::vector<Meant>, std::string> descriptors_meant(std::string_view text,
                                                          const config::Config& config);

// The parts of a joined identifier, `17:header:x-tenant=a+12:route:search`; none if `text` is
// nothing like that.
std::vector<std::string_view> joined_parts(std::string_view text);
// `#` and SHA-256 in hexadecimal.
bool is_hash(std::string_view text);
// `%41` is `A`, with capital digits; any other `%` stays.
std::string unescaped(std::string_view text);

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

// Holds what is counted for one identifier. The items point into a configuration, and to the
// identifier.
struct Inspected {
    std::string_view identifier;
    std::string_view known_tier;  // see known_tier()
    std::vector<limit::ChargeItem> items;
    store::Counts counts;  // in the order of the items
    // Likewise: units in leases of this process, which are counted. Empty: not known.
    std::vector<std::int64_t> leased{};
    std::string_view note{};  // see Meant
};

// `store` is `memory` or `redis`.
AdminAnswer answer_to_inspect(const std::vector<Inspected>& all, const config::Config& config,
                              std::string_view store);

// A limit as it is configured, for programs; of money with `"unit": "usd"` and dollars. `name`:
// `POLICY-LIMIT`, as RateLimit fields have it.
Doc::Json limit_json(const limit::Limit& limit, std::string_view name);

struct Forgotten {
    std::string_view identifier;
    std::vector<limit::ChargeItem> items;
    std::vector<bool> any;    // in the order of the items: whether something was counted
    std::string_view note{};  // see Meant
};

AdminAnswer answer_to_reset(const std::vector<Forgotten>& all, std::string_view store);

}  // namespace tidegate::admin
