#include "ask/identify.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "identity/client_ip.hpp"
#include "telemetry/error_log.hpp"

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
        const auto& method = config.user_methods[decision.authentication->method];
        is_authenticated = method.how->traits().authenticates;
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
            decision.refuse(Fault::bad_credentials, identity::public_reason(authentication.fault));
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

namespace {

constexpr int kPrefixV4 = 24;
constexpr int kPrefixV6 = 64;

using telemetry::Level;

std::string_view field_of(const Facts& facts) {
    for (const http::Field& field : facts.head.fields) {
        if (field.id == http::FieldName::x_forwarded_for) return "X-Forwarded-For";
    }
    return "Forwarded";
}

}  // namespace

IpNetwork noticed_network(const IpAddress& address) {
    const int prefix = address.v4 ? kPrefixV4 : kPrefixV6;
    return {masked(address, prefix), prefix};
}

bool NetworkNotices::is_due(const std::optional<IpAddress>& peer, Time now) {
    std::optional<IpAddress> network;
    if (peer) network = noticed_network(*peer).address;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    auto* const end = notices_.begin() + size_;
    auto* notice = std::find_if(notices_.begin(), end,
                                [&](const Notice& one) { return one.network == network; });
    if (notice != end) {
        if (now < notice->next) return false;
    } else if (size_ < notices_.size()) {
        ++size_;
    } else {
        notice =
            std::find_if(notices_.begin(), end, [&](const Notice& one) { return one.next <= now; });
        if (notice == end) return false;
    }
    *notice = {network, now + kEvery};
    return true;
}

void log_ignored_forwarding(const Facts& facts) {
    static NetworkNotices notices;
    const auto& peer = facts.peer.address;
    if (!notices.is_due(peer, std::chrono::steady_clock::now())) return;
    if (!peer) {
        telemetry::log(Level::warn,
                       "a peer on a Unix socket sends {}, and Tidegate ignores it: if the peer is "
                       "your proxy, write `trusted: on` beside the address of the listener. "
                       "Counted in tidegate_forwarding_ignored_total; logged once an hour",
                       field_of(facts));
        return;
    }
    const IpNetwork network = noticed_network(*peer);
    const std::string address = peer->to_string();
    telemetry::log(Level::warn,
                   "{} sends {}, and Tidegate ignores it, as {} is not in trusted_proxies: all its "
                   "requests count as the client {}. If it is your proxy, write `identity: "
                   "{{client_ip: {{trusted_proxies: [{}]}}}}`; if it is a client, do nothing. "
                   "Counted in tidegate_forwarding_ignored_total; logged once an hour for {}/{}",
                   address, field_of(facts), address, address, address, network.address.to_string(),
                   network.prefix);
}

}  // namespace tidegate::ask
