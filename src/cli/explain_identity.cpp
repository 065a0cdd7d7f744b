// The client's address, hop by hop, and its user, method by method.
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ask/charge_list.hpp"
#include "ask/identify.hpp"
#include "cli/explain_request.hpp"
#include "identity/authenticator.hpp"
#include "identity/certificate_user.hpp"
#include "identity/client_ip.hpp"
#include "identity/credentials.hpp"
#include "identity/htpasswd.hpp"
#include "identity/user_tiers.hpp"

namespace tidegate::cli {

namespace {

using identity::Authentication;
using Method = Explanation::Method;

bool is_absent(const http::Fields& fields, std::string_view name) {
    return std::none_of(fields.begin(), fields.end(), [&](const http::Field& field) {
        return http::equal_as_variable(field.name, name);
    });
}

void explain_client(const ExplainedRequest& request, Explanation& out) {
    const identity::ClientIpSettings& settings = request.config().client_ip;
    out.chain_field = identity::field_of(settings);
    std::vector<identity::Hop> hops;
    const http::Fields& fields = request.facts.head.fields;
    const auto client = identity::client_address(request.facts.peer, fields, settings, &hops);
    // Without the field that holds one address there is a hop without text: no hop at all.
    if (hops.size() == 1 && hops.front().text.empty() && is_absent(fields, out.chain_field)) {
        hops.clear();
    }
    for (const identity::Hop& hop : hops) {
        out.hops.push_back(
            {std::string(hop.text), hop.address ? hop.address->to_string() : "", hop.kind});
    }
    if (client) out.client = client->to_string();
}

// A method in the words of the configuration, with the place of its credential.
struct Text {
    std::string operator()(const identity::JwtMethod& method) const {
        return method.cookie.empty() ? "jwt in " + method.field : "jwt in cookie " + method.cookie;
    }
    std::string operator()(const identity::ApiKeyMethod& method) const {
        return "api_key in " + method.field;
    }
    std::string operator()(const identity::BasicMethod&) const { return "basic in authorization"; }
    std::string operator()(const identity::CookieMethod& method) const {
        return "cookie " + method.name;
    }
    std::string operator()(const identity::HeaderMethod& method) const {
        return "header " + method.field;
    }
    std::string operator()(const identity::CertificateMethod& method) const {
        return "client_certificate " + std::string(identity::to_string(method.subject));
    }
};

Method::Outcome outcome_of(const Authentication& authentication) {
    switch (authentication.result) {
        case Authentication::Result::user:
            return Method::Outcome::valid;
        case Authentication::Result::refused:
            return Method::Outcome::refused;
        case Authentication::Result::ambiguous:
            return Method::Outcome::ambiguous;
        case Authentication::Result::unchecked:
        case Authentication::Result::key_missing:
        case Authentication::Result::unavailable:
            return Method::Outcome::unavailable;
        case Authentication::Result::anonymous:
            break;
    }
    return Method::Outcome::absent;
}

// Methods before the one that decided found nothing; the authenticator did not try those after it.
void explain_methods(const ExplainedRequest& request, Explanation& out) {
    const Authentication& authentication = *request.decision.authentication;
    const auto& methods = request.config().user_methods;
    for (std::size_t i = 0; i < methods.size(); ++i) {
        Method method{std::visit(Text{}, methods[i].how)};
        const bool decided = authentication.result != Authentication::Result::anonymous;
        if (decided && i == authentication.method) {
            method.outcome = outcome_of(authentication);
            method.fault = identity::to_string(authentication.fault);
        } else if (decided && i > authentication.method) {
            method.outcome = Method::Outcome::not_tried;
        } else if (std::holds_alternative<identity::HeaderMethod>(methods[i].how) &&
                   !request.facts.peer.trusted) {
            method.outcome = Method::Outcome::disbelieved;
        }
        out.methods.push_back(std::move(method));
    }
}

void explain_user(const ExplainedRequest& request, Explanation& out) {
    const ask::Decision& decision = request.decision;
    const bool refused = decision.authentication->result == Authentication::Result::refused;
    out.goes_on_anonymous = refused && request.config().anonymous_on_invalid;
    if (!decision.user) return;
    const bool listed = !identity::tier_of(decision.user, request.config().user_tiers).empty();
    out.user = {std::string(*decision.user), std::string(decision.tier), listed};
}

void explain_guess(ExplainedRequest& request, Explanation& out) {
    ask::Decision& decision = request.decision;
    if (!ask::list_failed_credentials(request.config(), request.facts, decision)) return;
    for (const limit::ChargeItem& item : decision.charge.items) {
        out.guess.emplace_back(item.identifier);
    }
    ask::clear_charge(decision);
}

void check_token(ExplainedRequest& request, const FetchKeys& fetch_keys) {
    identity::Authenticator& authenticator = *request.rules.authenticator;
    Authentication& authentication = *request.decision.authentication;
    const auto& how = authenticator.methods()[authentication.method].how;
    const auto& source = std::get<identity::JwtMethod>(how).keys;
    if (source->keys() == nullptr) fetch_keys(source);
    authenticator.check_token(authentication, request.facts.began_at);
    // Keys were fetched just now: there is no such key.
    if (authentication.result == Authentication::Result::key_missing && source->keys() != nullptr) {
        identity::Authenticator::refuse_missing_key(authentication);
    }
}

void check_password(ExplainedRequest& request) {
    Authentication& authentication = *request.decision.authentication;
    identity::Authenticator& authenticator = *request.rules.authenticator;
    identity::BasicLogin login;
    authentication.fault = login.read(authentication.credential);
    if (authentication.fault != identity::CredentialFault::none) {
        authentication.result = Authentication::Result::refused;
        return;
    }
    const bool is_right =
        authenticator.password_method(authentication).users->verify(login.user(), login.password());
    authenticator.conclude_password(authentication, login.user(), is_right, request.facts.began_at);
}

}  // namespace

void explain_identity(ExplainedRequest& request, const FetchKeys& fetch_keys, Explanation& out) {
    ask::Decision& decision = request.decision;
    ask::identify(request.rules, request.facts, decision);
    out.is_identified = true;
    explain_client(request, out);
    if (decision.is_preflight) return;
    if (ask::needs_proof(decision)) {
        explain_guess(request, out);
        if (decision.authentication->result == Authentication::Result::unchecked) {
            if (request.rules.authenticator->is_token(*decision.authentication)) {
                check_token(request, fetch_keys);
            } else {
                check_password(request);
            }
        }
        ask::conclude_identity(request.config(), decision);
    }
    explain_methods(request, out);
    explain_user(request, out);
}

}  // namespace tidegate::cli
