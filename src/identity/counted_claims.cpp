#include "identity/counted_claims.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/utf8.hpp"
#include "identity/identifier.hpp"

namespace tidegate::identity {

namespace {

using ClaimName = Result<std::string, std::string>;

ClaimName refused(std::string why) {
    return {boost::system::in_place_error, std::move(why)};
}

constexpr std::array<std::pair<char, std::string_view>, 3> kEscapes{
    {{'+', "%2B"}, {'|', "%7C"}, {'%', "%25"}}};

}  // namespace

ClaimName parse_claim_name(std::string_view written) {
    std::string name;
    while (!written.empty()) {
        if (written.front() != '%') {
            name += written.front();
            written.remove_prefix(1);
            continue;
        }
        const auto escape = std::find_if(kEscapes.begin(), kEscapes.end(), [&](const auto& each) {
            return written.starts_with(each.second);
        });
        if (escape == kEscapes.end()) {
            return refused(
                "in the name of a claim, write `%25` for `%`, `%2B` for `+` and `%7C` for `|`");
        }
        name += escape->first;
        written.remove_prefix(escape->second.size());
    }
    const bool is_visible = std::all_of(name.begin(), name.end(),
                                        [](char c) { return c > ' ' && c <= '~' && c != '='; });
    if (name.empty() || !is_visible) {
        return refused(
            quote(name) +
            " cannot be the name of a claim in a key: use visible ASCII characters but `=`");
    }
    if (name.size() > kClaimNameBytesMax) {
        return refused("the name of a claim has at most " + std::to_string(kClaimNameBytesMax) +
                       " bytes");
    }
    return {boost::system::in_place_value, std::move(name)};
}

void append_claim_name(std::string_view name, std::string& out) {
    for (const char c : name) {
        const auto* const escape = std::find_if(kEscapes.begin(), kEscapes.end(),
                                                [&](const auto& each) { return each.first == c; });
        if (escape != kEscapes.end()) {
            out += escape->second;
        } else {
            out += c;
        }
    }
}

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
