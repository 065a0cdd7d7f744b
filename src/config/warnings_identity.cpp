// Settings of `identity` that are valid but probably a mistake.
#include <algorithm>

#include "base/quote.hpp"
#include "config/read_sections.hpp"
#include "identity/jws_algorithm.hpp"

namespace tidegate::config {

namespace {

using identity::JwtMethod;
using identity::UserMethod;

void warn_at(const Declared::Method& method, const std::string& what, Context& context) {
    context.warnings.push_back({method.place, method.name + ": " + what});
}

void warn_about_token(const JwtMethod& jwt, const Declared::Method& method, Context& context) {
    const auto is_secret = [](identity::JwsAlgorithm algorithm) {
        return identity::key_kind_of(algorithm) == identity::KeyKind::secret;
    };
    const auto secrets = std::count_if(jwt.algorithms.begin(), jwt.algorithms.end(), is_secret);
    if (secrets != 0 && secrets != std::ssize(jwt.algorithms)) {
        warn_at(method,
                "this method takes shared secrets (HS) and public keys: every service that can "
                "check an HS token can sign one; use two methods",
                context);
    }
    if (jwt.issuer.empty()) {
        warn_at(method,
                "without `issuer`, Tidegate accepts tokens of every issuer that these keys signed",
                context);
    }
    if (jwt.audience.empty()) {
        warn_at(method,
                "without `audience`, Tidegate accepts tokens that were meant for other services",
                context);
    }
}

// Whether a user that both name is intended to be the same: the same keys or passwords show it.
bool is_same_authority(const UserMethod& a, const UserMethod& b) {
    if (a.how.index() != b.how.index()) return false;
    if (const auto* jwt = std::get_if<JwtMethod>(&a.how)) {
        const auto& other = std::get<JwtMethod>(b.how);
        return jwt->keys == other.keys && jwt->issuer == other.issuer && jwt->claim == other.claim;
    }
    if (const auto* key = std::get_if<identity::ApiKeyMethod>(&a.how)) {
        return key->keys == std::get<identity::ApiKeyMethod>(b.how).keys;
    }
    // A trusted peer may name the user in any field.
    return std::holds_alternative<identity::HeaderMethod>(a.how);
}

void warn_about_names(const Config& config, const Declared& declared, Context& context) {
    const auto& methods = config.user_methods;
    for (std::size_t i = 1; i < methods.size(); ++i) {
        for (std::size_t earlier = 0; earlier < i; ++earlier) {
            if (methods[i].space != methods[earlier].space ||
                is_same_authority(methods[i], methods[earlier])) {
                continue;
            }
            warn_at(declared.user_methods[i],
                    "can name the same user as " + declared.user_methods[earlier].name +
                        ", and Tidegate cannot tell them apart: give one method a `namespace`",
                    context);
            break;
        }
    }
}

bool gives_tier(const UserMethod& method) {
    if (const auto* jwt = std::get_if<JwtMethod>(&method.how)) return !jwt->tier_claim.empty();
    const auto* header = std::get_if<identity::HeaderMethod>(&method.how);
    return header != nullptr && !header->tier_field.empty();
}

}  // namespace

bool takes_any_tier(const Config& config) {
    return std::any_of(config.user_methods.begin(), config.user_methods.end(), gives_tier);
}

bool gives_tiers(const Config& config, const Declared& declared) {
    return !declared.user_tiers.empty() || takes_any_tier(config);
}

void warn_about_identity(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < config.user_methods.size(); ++i) {
        const auto& how = config.user_methods[i].how;
        const Declared::Method& method = declared.user_methods[i];
        if (std::holds_alternative<identity::HeaderMethod>(how) && !has_trusted_peers(config)) {
            warn_at(method,
                    "has no effect: only trusted peers may name a user, and there are none; see "
                    "identity.client_ip.trusted_proxies",
                    context);
        }
        if (std::holds_alternative<identity::CertificateMethod>(how) &&
            !config.asks_for_certificates()) {
            warn_at(method,
                    "has no effect: no listener asks clients for a certificate; see "
                    "`tls.client_auth` of `listen`",
                    context);
        }
        if (std::holds_alternative<identity::BasicMethod>(how) &&
            config.failed_credentials == nullptr) {
            warn_at(method,
                    "clients can try passwords without a limit, as `failed_credentials` is `off`: "
                    "remove it (the default is 60/min), or write a limit such as `20/min`",
                    context);
        }
        if (const auto* jwt = std::get_if<JwtMethod>(&how)) {
            warn_about_token(*jwt, method, context);
        }
    }
    warn_about_names(config, declared, context);
}

}  // namespace tidegate::config
