// The claims of a token that policies count by, each as its identifier (`claim:tenant=acme`), in
// one string: a cache keeps it beside the user, and a request copies it as a whole. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tidegate::identity {

// Claims that the policies of a configuration may count by, all together.
inline constexpr std::size_t kCountedClaimsMax = 32;

// `values` belong to `names`, of which there are at most kCountedClaimsMax; an empty value is
// absent. `space` is the namespace of the method: it comes before each value, with a colon. Returns
// at most 1 + 129 * kCountedClaimsMax bytes, and nothing if all values are absent.
std::string pack_claims(std::span<const std::string> names, std::span<const std::string> values,
                        std::string_view space);

// The identifier of the claim at `position` of the names; empty if it is absent. The view goes into
// `packed`, which pack_claims() has returned.
std::string_view claim_identifier(std::string_view packed, std::size_t position);

}  // namespace tidegate::identity
