// `jwt` of `identity.user`: where a token is, and what must hold for it.
#include <algorithm>
#include <utility>

#include "base/quote.hpp"
#include "config/user_method.hpp"
#include "identity/jws_algorithm.hpp"

namespace tidegate::config {

namespace {

using identity::JwsAlgorithm;

constexpr std::string_view kEmpty = "the list is empty: Tidegate would refuse every token";

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
    constexpr ListRule kAlgorithms{"a list of algorithms: `[RS256, ES256]`", "algorithms", 32,
                                   kEmpty};
    for (const Value& item : value.one_or_more(kAlgorithms)) {
        const auto name = item.text("an algorithm such as `RS256`");
        if (!name) continue;
        const auto algorithm = identity::parse_jws_algorithm(*name);
        if (!algorithm) {
            item.fault(quote(*name) +
                       " is not a supported algorithm: write HS, RS, PS or ES with 256, 384 or "
                       "512, such as `RS256`");
            continue;
        }
        add_once(item, quote(*name), *algorithm, algorithms);
    }
    return algorithms;
}

std::vector<std::string> read_audience(const Value& value) {
    constexpr ListRule kAudiences{"an audience or a list of them", "audiences", 32, kEmpty};
    std::vector<std::string> audience;
    for (const Value& item : value.one_or_more(kAudiences)) {
        const auto name = read_claim_text(item, "an audience such as `api`");
        if (name) add_once(item, quote(*name), *name, audience);
    }
    return audience;
}

// Authorization, another field or a cookie. Nothing when it is broken.
std::optional<CredentialPlace> read_place_of_token(Section& section, identity::JwtMethod& jwt) {
    const auto header = section.find("header");
    const auto cookie = section.find("cookie");
    if (header && cookie) {
        cookie->fault(
            "write either `header` or `cookie`: Tidegate reads the token from one of them");
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
    if (jwt.leeway != *time) leeway->fault("tokens have whole seconds only: write `30s`");
}

}  // namespace

FoundMethod read_jwt(Section& section, Declared& declared) {
    identity::JwtMethod jwt;
    FoundMethod found;
    found.place = read_place_of_token(section, jwt);
    const auto jwks = section.need("jwks", "`jwks: keys.json`, or an https:// URL");
    if (const auto algorithms =
            section.need("algorithms", "`algorithms: [RS256]` with those that the issuer uses")) {
        jwt.algorithms = read_algorithms(*algorithms);
    }
    if (jwks) jwt.keys = read_jwks(*jwks, jwt.algorithms, declared);
    read_claims(section, jwt);
    found.complete = jwt.keys != nullptr && !jwt.algorithms.empty();
    found.how = std::move(jwt);
    return found;
}

}  // namespace tidegate::config
