#include "identity/jwt.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "base/strict_json.hpp"
#include "base/utf8.hpp"
#include "identity/jws.hpp"
#include "identity/name_rules.hpp"

namespace tidegate::identity {
namespace {

// The clock's own type ends in 2262; tokens that are to last for ever name later years.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;
using std::chrono::system_clock;

// The last second of 9999. It finds milliseconds, too, which would never expire.
constexpr double kSecondsMax = 253'402'300'799.0;

// RFC 7519 section 2: NumericDate, perhaps with a fraction.
std::optional<WallTime> read_time(const JsonValue& value) {
    if (!value.is_number()) return std::nullopt;
    const auto seconds = value.get<double>();
    if (!std::isfinite(seconds) || seconds < 0 || seconds > kSecondsMax) return std::nullopt;
    // Whole seconds and fraction apart: together they are more than a double holds.
    const double whole = std::floor(seconds);
    const auto fraction = static_cast<std::int64_t>(std::floor((seconds - whole) * 1e6));
    return WallTime(std::chrono::seconds(static_cast<std::int64_t>(whole)) +
                    std::chrono::microseconds(fraction));
}

// With a margin to the end of the clock's type, for additions.
system_clock::time_point clock_time(WallTime time) {
    constexpr WallTime kLast = std::chrono::sys_days(std::chrono::year(2200) / 1 / 1);
    return std::min(time, kLast);
}

CredentialFault check_times(const JsonValue& claims, std::chrono::seconds leeway, WallTime now,
                            system_clock::time_point& expires) {
    const JsonValue* end = find_member(claims, "exp");
    const auto exp = end != nullptr ? read_time(*end) : std::nullopt;
    if (!exp) return CredentialFault::time_claim;
    bool ahead = false;
    for (const char* name : {"nbf", "iat"}) {
        const JsonValue* claim = find_member(claims, name);
        if (claim == nullptr) continue;
        const auto from = read_time(*claim);
        if (!from) return CredentialFault::time_claim;
        ahead = ahead || *from - leeway > now;
    }
    if (*exp + leeway <= now) return CredentialFault::expired;
    if (ahead) return CredentialFault::not_yet_valid;
    expires = clock_time(*exp);
    return CredentialFault::none;
}

bool is_issued_by(const JsonValue& claims, const std::string& issuer) {
    return issuer.empty() || string_member(claims, "iss") == issuer;
}

// RFC 7519 section 4.1.3: one audience, or a list of them. A list that holds anything but strings
// is none.
bool is_meant_for(const JsonValue& claims, const std::vector<std::string>& wanted) {
    if (wanted.empty()) return true;
    const auto is_wanted = [&](const JsonValue& audience) {
        return std::find(wanted.begin(), wanted.end(), text_of(audience)) != wanted.end();
    };
    const JsonValue* claim = find_member(claims, "aud");
    if (claim == nullptr) return false;
    if (claim->is_string()) return is_wanted(*claim);
    if (!claim->is_array()) return false;
    bool found = false;
    for (const JsonValue& audience : *claim) {
        if (!audience.is_string()) return false;
        found = found || is_wanted(audience);
    }
    return found;
}

bool is_one_of(const std::vector<std::string>& sorted, std::string_view text) {
    return std::binary_search(sorted.begin(), sorted.end(), text, std::less<>{});
}

// Empty: none.
std::string_view tier_in(const JsonValue& claim, const JwtMethod& method) {
    if (claim.is_string()) return is_tier_name(text_of(claim)) ? text_of(claim) : "";
    if (!claim.is_array()) return {};
    for (const JsonValue& tier : claim) {
        if (tier.is_string() && is_one_of(method.known_tiers, text_of(tier))) return text_of(tier);
    }
    return {};
}

constexpr double kExactMax = 9'007'199'254'740'992.0;  // doubles hold all integers up to here

// In one way, however the token writes it: `7`, `7.0` and `7e0` are one number.
std::string text_of_number(const JsonValue& number) {
    std::string out;
    if (number.is_number_unsigned()) {
        append_number(number.get<std::uint64_t>(), out);
    } else if (number.is_number_integer()) {
        append_number(number.get<std::int64_t>(), out);
    } else {
        const auto value = number.get<double>();
        if (std::abs(value) <= kExactMax && std::floor(value) == value) {
            append_number(static_cast<std::int64_t>(value), out);
        } else {
            append_number(value, out);
        }
    }
    return out;
}

// Empty: none.
std::string counted_value(const JsonValue& object, const std::string& name) {
    const JsonValue* claim = find_member(object, name);
    if (claim == nullptr) return {};
    if (claim->is_array() && !claim->empty()) claim = &claim->front();
    if (claim->is_string()) return std::string(without_outer_blanks(text_of(*claim)));
    return claim->is_number() ? text_of_number(*claim) : std::string();
}

// A number beyond what a double holds exactly could be that of several users.
bool is_exact(const JsonValue& number) {
    return number.is_number_integer() || std::abs(number.get<double>()) < kExactMax;
}

std::optional<std::string> user_in(const JsonValue& object, const std::string& name) {
    const JsonValue* const claim = find_member(object, name);
    if (claim == nullptr) return std::nullopt;
    if (claim->is_string()) return std::string(text_of(*claim));
    if (!claim->is_number() || !is_exact(*claim)) return std::nullopt;
    return text_of_number(*claim);
}

CredentialFault read_names(const JsonValue& object, const JwtMethod& method, TokenClaims& claims) {
    auto user = user_in(object, method.claim);
    if (!user) return CredentialFault::user_claim;
    if (!is_safe_user(*user)) return CredentialFault::unsafe_user;
    claims.user = std::move(*user);
    for (const std::string& name : method.claims) {
        claims.counted.push_back(counted_value(object, name));
    }
    const JsonValue* tier =
        method.tier_claim.empty() ? nullptr : find_member(object, method.tier_claim);
    if (tier != nullptr) claims.tier = tier_in(*tier, method);
    return CredentialFault::none;
}

// Requires a payload that one of our keys signed.
CredentialFault read_claims(const std::string& payload, const JwtMethod& method, WallTime now,
                            TokenClaims& claims) {
    const auto object = parse_json_object(payload);
    if (!object) return CredentialFault::not_json;
    const CredentialFault fault = check_times(*object, method.leeway, now, claims.expires);
    if (fault != CredentialFault::none) return fault;
    if (!is_issued_by(*object, method.issuer)) return CredentialFault::issuer;
    if (!is_meant_for(*object, method.audience)) return CredentialFault::audience;
    return read_names(*object, method, claims);
}

TokenVerdict refused(CredentialFault fault, bool keys_missing = false) {
    return {fault, keys_missing, {}};
}

// The checks before the signature. Without a fault there are keys that may have signed `jws`.
TokenVerdict find_keys(std::string_view token, const JwtMethod& method, const JwkSet* keys,
                       Jws& jws, JwkSet::Candidates& candidates) {
    const CredentialFault fault = read_jws(token, jws);
    if (fault != CredentialFault::none) return refused(fault);
    const auto& allowed = method.algorithms;
    if (std::find(allowed.begin(), allowed.end(), jws.algorithm) == allowed.end())
        return refused(CredentialFault::algorithm);
    if (keys == nullptr) return refused(CredentialFault::unknown_key, true);
    candidates = keys->candidates(jws.kid, jws.algorithm);
    if (!candidates.keys().empty()) return {};
    // The key is there, and for another algorithm: the token may not choose.
    if (candidates.kid_is_known()) return refused(CredentialFault::algorithm);
    return refused(CredentialFault::unknown_key, true);
}

}  // namespace

bool is_key_missing(std::string_view token, const JwtMethod& method, const JwkSet* keys) {
    Jws jws;
    JwkSet::Candidates candidates;
    return find_keys(token, method, keys, jws, candidates).keys_missing;
}

TokenVerdict verify_token(std::string_view token, const JwtMethod& method, const JwkSet* keys,
                          system_clock::time_point now) {
    Jws jws;
    JwkSet::Candidates candidates;
    TokenVerdict verdict = find_keys(token, method, keys, jws, candidates);
    if (verdict.fault != CredentialFault::none) return verdict;
    if (!is_signed_by(jws, candidates.keys())) return refused(CredentialFault::signature);

    verdict.fault = read_claims(jws.payload, method,
                                std::chrono::floor<std::chrono::microseconds>(now), verdict.claims);
    if (verdict.fault != CredentialFault::none) verdict.claims = {};
    return verdict;
}

}  // namespace tidegate::identity
