#include "identity/claim_name.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/quote.hpp"

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

}  // namespace tidegate::identity
