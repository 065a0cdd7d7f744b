// `jwt` of `identity.user`: where a token is, and what must hold for it.
#include <algorithm>
#include <utility>

#include "base/quote.hpp"
#include "config/user_method.hpp"
#include "identity/jws_algorithm.hpp"

namespace tidegate::config {

namespace {

using identity::JwsAlgorithm;

// What a token says of itself, or the name of one of its claims.
std::optional<std::string> read_claim_text(const Value& value, std::string_view wanted) {
    constexpr std::size_t kClaimBytesMax = 1'024;
    auto text = value.text(wanted);
    if (!text) return std::nullopt;
    if (text->size() > kClaimBytesMax) {
        value.fault("longer than " + std::to_string(kClaimBytesMax) + " bytes");
        return std::nullopt;
    }
    return text;
}

std::vector<JwsAlgorithm> read_algorithms(const Value& value) {
    std::vector<JwsAlgorithm> algorithms;
    const auto items = value.one_or_more("a list of algorithms: `[RS256, ES256]`");
    if (value.is_sequence() && items.empty()) {
        value.fault("no algorithm at all: every token would be refused");
    }
    for (const Value& item : items) {
        const auto name = item.text("an algorithm such as `RS256`");
        if (!name) continue;
        const auto algorithm = identity::parse_jws_algorithm(*name);
        if (!algorithm) {
            item.fault(quote(*name) + " is not HS, RS, PS or ES with 256, 384 or 512: `RS256`");
            continue;
        }
        if (std::find(algorithms.begin(), algorithms.end(), *algorithm) != algorithms.end()) {
            item.fault(quote(*name) + " is there already");
            continue;
        }
        algorithms.push_back(*algorithm);
    }
    return algorithms;
}

std::vector<std::string> read_audience(const Value& value) {
    constexpr std::size_t kAudiencesMax = 32;
    constexpr std::string_view kAudience = "an audience such as `api`";
    std::vector<std::string> audience;
    const auto items = value.one_or_more("an audience or a list of them");
    if (value.is_sequence() && items.empty()) {
        value.fault("no audience at all: every token would be refused");
    }
    if (items.size() > kAudiencesMax) {
        value.fault("more than " + std::to_string(kAudiencesMax) + " audiences");
        return audience;
    }
    for (const Value& item : items) {
        auto name = read_claim_text(item, kAudience);
        if (!name) continue;
        if (std::find(audience.begin(), audience.end(), *name) != audience.end()) {
            item.fault(quote(*name) + " is there already");
            continue;
        }
        audience.push_back(std::move(*name));
    }
    return audience;
}

// Authorization, another field or a cookie. Nothing when it is broken.
std::optional<CredentialPlace> read_place_of_token(Section& section, identity::JwtMethod& jwt) {
    const auto header = section.find("header");
    const auto cookie = section.find("cookie");
    if (header && cookie) {
        cookie->fault("a token is read from one place: from a `header` or a `cookie`");
        return std::nullopt;
    }
    if (cookie) {
        auto name = read_cookie_name(*cookie);
        if (!name) return std::nullopt;
        jwt.cookie = std::move(*name);
        return CredentialPlace{CredentialPlace::In::cookie, jwt.cookie};
    }
    if (header) {
        auto field = read_credential_field(*header, true);
        if (!field) return std::nullopt;
        jwt.field = std::move(*field);
    }
    return place_of_secret(jwt.field);
}

void read_claims(Section& section, identity::JwtMethod& jwt) {
    constexpr milliseconds kLeewayMax = std::chrono::minutes{5};
    const auto text = [&](std::string_view key, std::string_view wanted, std::string& out) {
        const auto value = section.find(key);
        if (!value) return;
        if (auto found = read_claim_text(*value, wanted)) out = std::move(*found);
    };
    text("issuer", "an issuer such as `https://idp.example`", jwt.issuer);
    if (const auto audience = section.find("audience")) jwt.audience = read_audience(*audience);
    text("claim", "the name of a claim such as `sub`", jwt.claim);
    text("tier_claim", "the name of a claim such as `plan`", jwt.tier_claim);
    const auto leeway = section.find("leeway");
    if (!leeway) return;
    const auto time = leeway->duration({milliseconds{0}, kLeewayMax});
    if (!time) return;
    jwt.leeway = std::chrono::duration_cast<std::chrono::seconds>(*time);
    if (jwt.leeway != *time) leeway->fault("tokens know whole seconds only: `30s`");
}

}  // namespace

FoundMethod read_jwt(Section& section, Declared& declared) {
    identity::JwtMethod jwt;
    FoundMethod found;
    found.place = read_place_of_token(section, jwt);
    const auto jwks = section.need("jwks", "`jwks: keys.json`, or an https:// URL");
    if (const auto algorithms =
            section.need("algorithms", "`algorithms: [RS256]`, those that the issuer uses")) {
        jwt.algorithms = read_algorithms(*algorithms);
    }
    if (jwks) jwt.keys = read_jwks(*jwks, jwt.algorithms, declared);
    read_claims(section, jwt);
    found.complete = jwt.keys != nullptr && !jwt.algorithms.empty();
    found.how = std::move(jwt);
    return found;
}

}  // namespace tidegate::config
