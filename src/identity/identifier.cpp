#include "identity/identifier.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "identity/digest.hpp"
#include "identity/jwt.hpp"

namespace tidegate::identity {

namespace {

bool is_tier_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

bool is_visible_ascii(char c) {
    return c > ' ' && c <= '~';
}

}  // namespace

bool is_plain_name(std::string_view text) {
    // Nearly all names are, and need no decoding.
    if (std::all_of(text.begin(), text.end(), is_visible_ascii)) return !text.empty();
    bool may_be_blank = false;  // neither the first nor the last
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        const char32_t character = code_point(text.substr(0, length));
        text.remove_prefix(length);
        if (is_hidden(character)) return false;
        if (is_blank(character) && (!may_be_blank || text.empty())) return false;
        may_be_blank = true;
    }
    return may_be_blank;
}

bool is_safe_user(std::string_view text) {
    return text.size() <= kUserBytesMax && is_plain_name(text);
}

bool is_tier_name(std::string_view text) {
    return !text.empty() && text.size() <= kTierBytesMax &&
           std::all_of(text.begin(), text.end(), is_tier_character);
}

namespace {

// Braces would end a Redis hash tag; the rest would not survive a log or a terminal.
bool must_be_encoded(char c) {
    return c < ' ' || c > '~' || c == '{' || c == '}' || c == '%';
}

// Appends `text` encoded; a `#` at the position `body` is encoded, too. False if it would end
// beyond `end`: then `out` has a part of it, which the caller takes away.
bool append_encoded_value(std::string_view text, std::size_t body, std::size_t end,
                          std::string& out) {
    // No text is shorter when it is encoded.
    if (out.size() + text.size() > end) return false;
    // Nearly all texts need no encoding. A `#` may be at `body`, which the loop looks at.
    if (std::none_of(text.begin(), text.end(), must_be_encoded) && !text.starts_with('#')) {
        out += text;
        return true;
    }
    for (const char c : text) {
        if (must_be_encoded(c) || (c == '#' && out.size() == body)) {
            append_percent_encoded(c, out);
        } else {
            out += c;
        }
        if (out.size() > end) return false;
    }
    return true;
}

void append_hash(std::string_view text, std::string& out) {
    out += '#';
    append_hex(sha256(text), out);
}

}  // namespace

void append_ip_identifier(const IpAddress& ip, int prefix, std::string& out) {
    out += "ip:";
    if (prefix >= ip.bits()) {
        ip.append_to(out);
        return;
    }
    masked(ip, prefix).append_to(out);
    out += '/';
    append_number(prefix, out);
}

void append_user_identifier(std::string_view user, std::string& out) {
    append_identifier("user", user, out);
}

void append_identifier(std::string_view kind, std::string_view value, std::string& out) {
    const std::size_t start = out.size();
    out.append(kind) += ':';
    const std::size_t body = out.size();
    if (append_encoded_value(value, body, start + kIdentifierBytesMax, out)) return;
    out.resize(body);
    append_hash(value, out);
}

void append_named_identifier(std::string_view kind, std::string_view name, std::string_view value,
                             std::string& out) {
    value = without_outer_blanks(value);
    const std::size_t start = out.size();
    out.append(kind) += ':';
    const std::size_t body = out.size();
    const std::size_t end = start + kIdentifierBytesMax;
    if (append_encoded_value(name, body, end, out)) {
        out += '=';
        if (append_encoded_value(value, body, end, out)) return;
    }
    out.resize(body);
    append_hash(std::string(name).append("=").append(value), out);
}

void append_secret_identifier(std::string_view kind, std::string_view name, std::string_view value,
                              std::string& out) {
    out.append(kind) += ':';
    append_encoded_value(name, out.size(), out.max_size(), out);
    out += '=';
    append_hash(without_outer_blanks(value), out);
}

void append_joined_identifier(std::span<const std::string_view> parts, std::string& out) {
    const std::size_t start = out.size();
    for (const std::string_view part : parts) {
        if (out.size() != start) out += '+';
        append_number(part.size(), out);
        out += ':';
        out += part;
    }
    if (out.size() - start <= kIdentifierBytesMax) return;
    const std::string joined = out.substr(start);
    out.resize(start);
    append_hash(joined, out);
}

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
    if (std::string fault = fault_of_claim_name(name); !fault.empty()) return refused(fault);
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

// No name of a claim has a `=`.
std::string_view claim_value(std::string_view identifier, std::string_view space) {
    const std::size_t equal = identifier.find('=');
    if (equal == identifier.npos) return {};
    identifier.remove_prefix(equal + 1);
    if (space.empty()) return identifier;
    const bool has_space = identifier.starts_with(space) && identifier.size() > space.size() &&
                           identifier[space.size()] == ':';
    return has_space ? identifier.substr(space.size() + 1) : std::string_view();
}

}  // namespace tidegate::identity
