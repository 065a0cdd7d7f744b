#include "identity/jwt.hpp"

#include <cjose/header.h>
#include <cjose/jws.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>
#include <openssl/err.h>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "http/field.hpp"
#include "identity/authenticator.hpp"
#include "identity/identifier.hpp"
#include "identity/jwk.hpp"
#include "identity/key_source.hpp"

namespace tidegate::identity {

namespace {

struct JwsRelease {
    void operator()(cjose_jws_t* jws) const { cjose_jws_release(jws); }
};
using ImportedJws = std::unique_ptr<cjose_jws_t, JwsRelease>;

struct Parts {
    std::string_view head;
    std::string_view payload;
    std::string_view signature;
};

std::optional<Parts> split(std::string_view token) {
    const auto first = token.find('.');
    if (first == token.npos) return std::nullopt;
    const auto second = token.find('.', first + 1);
    // A third dot is no digit of base64url.
    if (second == token.npos) return std::nullopt;
    const Parts parts{token.substr(0, first), token.substr(first + 1, second - first - 1),
                      token.substr(second + 1)};
    if (parts.head.empty() || parts.payload.empty() || parts.signature.empty()) return std::nullopt;
    return parts;
}

// RFC 7515 section 4.1.9: a media type, compared without case, `application/` left out or not.
// RFC 9068 section 2.1 names access tokens so.
bool is_token_type(std::string_view type) {
    constexpr std::array<std::string_view, 4> kTypes{"jwt", "at+jwt", "application/jwt",
                                                     "application/at+jwt"};
    return std::any_of(kTypes.begin(), kTypes.end(), [&](std::string_view known) {
        return http::equal_ignoring_case(type, known);
    });
}

CredentialFault read_head(const JsonValue& head, Jws& jws) {
    const auto algorithm = parse_jws_algorithm(string_member(head, "alg").value_or(""));
    if (!algorithm) return CredentialFault::algorithm;
    jws.algorithm = *algorithm;
    if (head.contains("crit") || head.contains("zip")) return CredentialFault::critical_extension;
    if (head.contains("typ")) {
        const auto type = string_member(head, "typ");
        if (!type) return CredentialFault::malformed;
        if (!is_token_type(*type)) return CredentialFault::token_type;
    }
    jws.kid.reset();
    if (head.contains("kid")) {
        const auto kid = string_member(head, "kid");
        if (!kid || kid->size() > kKeyIdBytesMax) return CredentialFault::malformed;
        jws.kid = std::string(*kid);
    }
    return CredentialFault::none;
}

// cjose reads the head again, with a parser of its own, and verifies by the `alg` that it finds:
// nothing unless that is ours.
ImportedJws import(const Jws& jws) {
    ImportedJws imported(cjose_jws_import(jws.text.data(), jws.text.size(), nullptr));
    if (!imported) return nullptr;
    const char* algorithm =
        cjose_header_get(cjose_jws_get_protected(imported.get()), CJOSE_HDR_ALG, nullptr);
    if (algorithm == nullptr || algorithm != to_string(jws.algorithm)) return nullptr;
    return imported;
}

// The part of the token that is signed (RFC 7515 section 5.1). cjose knows no EdDSA (RFC 8037).
std::string_view signed_part(const Jws& jws) {
    return jws.text.substr(0, jws.text.rfind('.'));
}

}  // namespace

CredentialFault read_jws(std::string_view token, Jws& jws) {
    if (token.size() > kTokenBytesMax) return CredentialFault::malformed;
    const auto parts = split(token);
    if (!parts) return CredentialFault::malformed;
    const auto head = decode_base64url(parts->head);
    auto payload = decode_base64url(parts->payload);
    auto signature = decode_base64url(parts->signature);
    if (!head || !payload || !signature) return CredentialFault::malformed;
    const auto object = parse_json_object(*head);
    if (!object) return CredentialFault::not_json;
    jws.text = token;
    jws.payload = *std::move(payload);
    jws.signature = *std::move(signature);
    return read_head(*object, jws);
}

bool is_signed_by(const Jws& jws, std::span<const Jwk* const> keys) {
    ImportedJws imported;
    // What a wrong signature leaves with OpenSSL would be found by TLS on this thread.
    ERR_set_mark();
    const bool good = std::any_of(keys.begin(), keys.end(), [&](const Jwk* key) {
        if (!key->may_have_signed(jws.signature, jws.algorithm)) return false;
        if (key->ed25519)
            return is_signed_with_ed25519(*key->ed25519, signed_part(jws), jws.signature);
        if (!imported) imported = import(jws);
        return imported && cjose_jws_verify(imported.get(), key->handle.get(), nullptr);
    });
    ERR_pop_to_mark();
    return good;
}

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

// Leaves a margin to the end of the clock's type, for additions.
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

// Without an exponent, as quotas are written, unless that takes many digits.
void append_decimal(double value, std::string& out) {
    char digits[32];
    const auto written =
        std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed);
    if (written.ec != std::errc()) return append_number(value, out);
    out.append(digits, static_cast<std::size_t>(written.ptr - digits));
}

// Writes a number in one way, however the token writes it: `7`, `7.0` and `7e0` are one number.
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
            append_decimal(value, out);
        }
    }
    return out;
}

// Empty: none.
std::string counted_value(const JsonValue& object, const std::string& name) {
    const JsonValue* claim = find_claim(object, name);
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
    const JsonValue* const claim = find_claim(object, name);
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
        method.tier_claim.empty() ? nullptr : find_claim(object, method.tier_claim);
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

// The first name of a pointer, escapes undone (RFC 6901 section 4), which is taken off.
std::string take_name(std::string_view& pointer) {
    pointer.remove_prefix(1);
    std::string_view written = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(written.size());
    std::string name;
    while (!written.empty()) {
        const bool is_escape = written.front() == '~' && written.size() > 1;
        if (is_escape) written.remove_prefix(1);
        name += !is_escape ? written.front() : written.front() == '0' ? '~' : '/';
        written.remove_prefix(1);
    }
    return name;
}

// The item of a list that `name` is the position of; null: there is none.
const JsonValue* find_item(const JsonValue& list, std::string_view name) {
    const auto position = parse_number<std::size_t>(name);
    const bool is_plain = name == "0" || !name.starts_with('0');
    return position && is_plain && *position < list.size() ? &list[*position] : nullptr;
}

}  // namespace

std::string fault_of_claim_name(std::string_view name) {
    if (!name.starts_with('/')) return {};
    for (std::size_t at = name.find('~'); at != name.npos; at = name.find('~', at + 1)) {
        const std::string_view next = name.substr(at + 1, 1);
        if (next != "0" && next != "1") {
            return "in a path to a nested claim, write `~0` for `~` and `~1` for `/`";
        }
    }
    if (name.ends_with('/') || name.find("//") != name.npos) {
        return "a path to a nested claim has an empty name: write it like `/app_metadata/plan`, "
               "and `~1` for a slash in a name";
    }
    if (std::count(name.begin(), name.end(), '/') > std::ptrdiff_t{kClaimDepthMax}) {
        return "a path to a nested claim has at most " + std::to_string(kClaimDepthMax) + " names";
    }
    return {};
}

std::string likely_pointer(std::string_view name) {
    constexpr std::string_view kTopLevel = " com org net io dev edu gov ";
    const auto is_word = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-';
    };
    const auto is_domain = [&](std::string_view label) {
        return kTopLevel.find(" " + std::string(label) + " ") != kTopLevel.npos;
    };
    if (name.find('.') == name.npos) return {};
    std::string pointer = "/";
    for (const char c : name) {
        if (c == '.' && pointer.ends_with('/')) return {};
        if (c != '.' && !is_word(c)) return {};
        pointer += c == '.' ? '/' : c;
    }
    const bool is_name = pointer.ends_with('/') || is_domain(name.substr(0, name.find('.'))) ||
                         is_domain(name.substr(name.rfind('.') + 1));
    return is_name ? std::string() : pointer;
}

const JsonValue* find_claim(const JsonValue& claims, std::string_view name) {
    if (!name.starts_with('/')) return find_member(claims, name);
    const JsonValue* found = &claims;
    while (found != nullptr && !name.empty()) {
        const std::string next = take_name(name);
        if (found->is_object()) {
            found = find_member(*found, next);
        } else {
            found = found->is_array() ? find_item(*found, next) : nullptr;
        }
    }
    return found;
}

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

CredentialPlace JwtMethod::place() const {
    if (!cookie.empty()) return {CredentialPlace::In::cookie, cookie};
    return CredentialPlace::of_secret(field);
}

std::string JwtMethod::to_string() const {
    return cookie.empty() ? "jwt in " + field : "jwt in cookie " + cookie;
}

void JwtMethod::look(const Presented& request, Authentication& found) const {
    const Credential token =
        cookie.empty() ? find_secret(request.fields, field) : find_cookie(request.fields, cookie);
    if (found.take(token)) found.present(token.text);
}

void JwtMethod::append_challenge(std::string_view detail, std::string& out) const {
    if (place().in == CredentialPlace::In::bearer) {
        append_bearer_challenge(detail, out);
    } else if (cookie.empty()) {
        identity::append_challenge("JWT", "header", field, out);
    } else {
        identity::append_challenge("JWT", "cookie", cookie, out);
    }
}

bool JwtMethod::is_same_authority(const IdentityMethod& other) const {
    const auto* const method = dynamic_cast<const JwtMethod*>(&other);
    return method != nullptr && method->keys == keys && method->issuer == issuer &&
           method->claim == claim;
}

std::shared_ptr<const IdentityMethod> JwtMethod::keeping(std::span<const std::string> counted,
                                                         std::span<const std::string> tiers) const {
    auto method = std::make_shared<JwtMethod>(*this);
    method->claims.assign(counted.begin(), counted.end());
    method->known_tiers.assign(tiers.begin(), tiers.end());
    return method;
}

IdentityMethod::Checked JwtMethod::check(std::string_view space, Time now,
                                         Authentication& found) const {
    // Both come before the keys: keys that come in between are newer than the remembered ones.
    if (keys->is_fetched()) found.fetches = keys->fetches();
    const std::uint64_t version = keys->version();
    const auto set = keys->keys();
    const TokenVerdict verdict = verify_token(found.credential, *this, set.get(), now);
    if (verdict.keys_missing && keys->is_fetched()) {
        found.result = Authentication::Result::key_missing;
    } else if (verdict.fault != CredentialFault::none) {
        found.refuse(verdict.fault);
    } else {
        found.name(verdict.claims.user, verdict.claims.tier);
        // The namespace holds for claims, too: issuers do not share the counts of their tenants.
        if (!verdict.claims.counted.empty())
            found.claims = pack_claims(claims, verdict.claims.counted, space);
    }
    return {verdict.claims.expires, version};
}

bool JwtMethod::lacks_key(Authentication& found) const {
    if (!keys->is_fetched()) return false;
    found.fetches = keys->fetches();
    const auto set = keys->keys();
    if (!is_key_missing(found.credential, *this, set.get())) return false;
    found.result = Authentication::Result::key_missing;
    return true;
}

}  // namespace tidegate::identity
