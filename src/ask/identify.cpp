#include "ask/identify.hpp"

#include <chrono>
#include <variant>

#include "ask/challenges.hpp"
#include "identity/client_list.hpp"

namespace tidegate::ask {

void identify(const Ruleset& rules, const Facts& facts, Decision& decision) {
    const config::Config& config = *rules.config;
    decision.client = identity::client_address(facts.peer, facts.head.fields, config.client_ip,
                                               nullptr, &decision.chain_fault);
    if (decision.is_preflight) return;
    if (!config.user_methods.empty()) {
        // Not facts.began_at: the head may have been on its way for longer than a token lasts.
        rules.authenticator->look(facts.peer, facts.certificate, facts.head.fields,
                                  std::chrono::system_clock::now(), *decision.authentication);
    }
    if (!needs_proof(decision)) conclude_identity(config, decision);
}

identity::ClientIdentity client_of(const config::Config& config, const Decision& decision) {
    bool is_authenticated = false;
    if (decision.authentication->result == identity::Authentication::Result::user) {
        const auto& how = config.user_methods[decision.authentication->method].how;
        is_authenticated = !std::holds_alternative<identity::CookieMethod>(how);
    }
    return {decision.client, decision.user, decision.tier, is_authenticated};
}

void conclude_identity(const config::Config& config, Decision& decision) {
    using Result = identity::Authentication::Result;
    const identity::Authentication& authentication = *decision.authentication;
    switch (authentication.result) {
        case Result::anonymous:
            break;
        case Result::user:
            decision.user = authentication.user;
            // identity.users outranks the credential.
            decision.tier = identity::tier_of(decision.user, config.user_tiers);
            if (decision.tier.empty()) decision.tier = authentication.tier;
            break;
        case Result::refused:
            if (config.anonymous_on_invalid) break;
            decision.refuse(Fault::bad_credentials, public_reason(authentication.fault));
            break;
        case Result::ambiguous:
            decision.refuse(Fault::ambiguous_credentials);
            break;
        case Result::unchecked:
        case Result::key_missing:
        case Result::unavailable:
            decision.refuse(Fault::credentials_unchecked);
            break;
    }
}

}  // namespace tidegate::ask
