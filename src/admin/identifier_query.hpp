// Which identifiers the text of `inspect` and `reset` means, and which policies count them. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "limit/charge.hpp"

namespace tidegate::admin {

inline constexpr std::size_t kIdentifierTextMax = 1'024;

// The identifiers, canonical, that `text` means; or a sentence that says what would be right. It
// may be as the log has it, or as people write it: an address alone, without the prefix that it is
// counted by (then one identifier for each of ClientIpSettings::prefixes), a user with
// letters that identifiers do not have, a field's or parameter's value that is counted by its hash.
// At least one; safe to print, and nothing in it is secret.
Result<std::vector<std::string>, std::string> identifiers_meant(std::string_view text,
                                                                const config::Config& config);

// Whatever of the configuration could count `identifier`, which is canonical: for each policy its
// own limits, then each tier's that has some. The items point to the two arguments.
std::vector<limit::ChargeItem> items_of(std::string_view identifier, const config::Config& config);

// The tier that the operator has given to the user whose identifier this is (`identity.users`).
// Empty: none, or it is no user's. The view goes into `config`.
std::string_view known_tier(std::string_view identifier, const config::Config& config);

}  // namespace tidegate::admin
