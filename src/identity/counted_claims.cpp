#include "identity/counted_claims.hpp"

#include <algorithm>
#include <limits>

#include "identity/identifier.hpp"

namespace tidegate::identity {

// The number of claims, the length of each identifier, then the identifiers: a byte is enough for
// each number.
static_assert(kIdentifierBytesMax <= std::numeric_limits<unsigned char>::max());
static_assert(kCountedClaimsMax <= std::numeric_limits<unsigned char>::max());

std::string pack_claims(std::span<const std::string> names, std::span<const std::string> values,
                        std::string_view space) {
    const auto is_absent = [](const std::string& value) { return value.empty(); };
    if (std::all_of(values.begin(), values.end(), is_absent)) return {};
    std::string packed(1 + values.size(), '\0');
    packed.front() = static_cast<char>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i].empty()) continue;
        std::string value(space);
        if (!space.empty()) value += ':';
        value += values[i];
        const std::size_t begin = packed.size();
        append_named_identifier("claim", names[i], value, packed);
        packed[1 + i] = static_cast<char>(packed.size() - begin);
    }
    return packed;
}

std::string_view claim_identifier(std::string_view packed, std::size_t position) {
    if (packed.empty()) return {};
    const auto number_at = [&](std::size_t i) -> std::size_t {
        return static_cast<unsigned char>(packed[i]);
    };
    const std::size_t count = number_at(0);
    if (position >= count) return {};
    std::size_t begin = 1 + count;
    for (std::size_t i = 0; i < position; ++i) begin += number_at(1 + i);
    return packed.substr(begin, number_at(1 + position));
}

}  // namespace tidegate::identity
