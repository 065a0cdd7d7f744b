// Who asks: the client's address, hop by hop, and its user, method by method.
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/explain_stage.hpp"
#include "identity/authenticator.hpp"
#include "identity/client_ip.hpp"
#include "identity/credentials.hpp"
#include "identity/htpasswd.hpp"
#include "identity/user_tiers.hpp"

namespace tidegate::cli {

namespace {

using identity::Finding;
using proxy::Exchange;
using Method = Explanation::Method;

void explain_client(const Stage& stage, Explanation& out) {
    const identity::ClientIpSettings& settings = stage.config().client_ip;
    out.chain_field = identity::field_of(settings);
    std::vector<identity::Hop> hops;
    const auto client = identity::client_address(stage.client.peer(), stage.exchange.request.fields,
                                                 settings, &hops);
    for (const identity::Hop& hop : hops) {
        out.hops.push_back(
            {std::string(hop.text), hop.address ? hop.address->to_string() : "", hop.kind});
    }
    if (client) out.client = client->to_string();
}

// A method as the configuration has it, and where it looks.
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
};

Method::Outcome outcome_of(const Finding& who) {
    switch (who.result) {
        case Finding::Result::user:
            return Method::Outcome::valid;
        case Finding::Result::refused:
            return Method::Outcome::refused;
        case Finding::Result::ambiguous:
            return Method::Outcome::ambiguous;
        case Finding::Result::unchecked:
        case Finding::Result::unavailable:
            return Method::Outcome::unavailable;
        case Finding::Result::nobody:
            break;
    }
    return Method::Outcome::absent;
}

// All methods before the one that decided found nothing, and those after it were not asked.
void explain_methods(const Stage& stage, Explanation& out) {
    const Finding& who = stage.exchange.who;
    const auto& methods = stage.config().user_methods;
    for (std::size_t i = 0; i < methods.size(); ++i) {
        Method method{std::visit(Text{}, methods[i].how)};
        const bool decided = who.result != Finding::Result::nobody;
        if (decided && i == who.method) {
            method.outcome = outcome_of(who);
            method.fault = identity::to_string(who.fault);
        } else if (decided && i > who.method) {
            method.outcome = Method::Outcome::not_tried;
        } else if (std::holds_alternative<identity::HeaderMethod>(methods[i].how) &&
                   !stage.client.peer().trusted) {
            method.outcome = Method::Outcome::disbelieved;
        }
        out.methods.push_back(std::move(method));
    }
}

void explain_user(const Stage& stage, Explanation& out) {
    const Exchange& exchange = stage.exchange;
    const bool refused = exchange.who.result == Finding::Result::refused;
    out.goes_on_anonymous = refused && stage.config().anonymous_on_invalid;
    if (!exchange.user) return;
    const bool listed = !identity::tier_of(exchange.user, stage.config().user_tiers).empty();
    out.user = {std::string(*exchange.user), std::string(exchange.tier), listed};
}

void explain_guess(Exchange& exchange, Explanation& out) {
    if (!list_guess(exchange)) return;
    for (const limit::ChargeItem& item : exchange.decision.items) {
        out.guess.emplace_back(item.identifier);
    }
    forget_question(exchange);
}

void check_token(Exchange& exchange, const FetchKeys& fetch_keys) {
    identity::Authenticator& authenticator = *exchange.generation->authenticator;
    const auto& how = authenticator.methods()[exchange.who.method].how;
    const auto& source = std::get<identity::JwtMethod>(how).keys;
    if (source->keys() == nullptr) {
        fetch_keys(source);
        // A key that is not there now is not there: nobody will look again.
        source->allow_wanting(false);
    }
    authenticator.check_token(exchange.who, exchange.began_at);
}

void check_password(Exchange& exchange) {
    Finding& who = exchange.who;
    identity::Authenticator& authenticator = *exchange.generation->authenticator;
    identity::BasicLogin login;
    who.fault = login.read(who.credential);
    if (who.fault != identity::CredentialFault::none) {
        who.result = Finding::Result::refused;
        return;
    }
    const bool is_right =
        authenticator.password_method(who).users->verify(login.user(), login.password());
    authenticator.conclude_password(who, login.user(), is_right, exchange.began_at);
}

}  // namespace

void explain_identity(Stage& stage, const FetchKeys& fetch_keys, Explanation& out) {
    Exchange& exchange = stage.exchange;
    identify(stage.client, exchange);
    out.is_identified = true;
    explain_client(stage, out);
    if (is_unproved(exchange)) {
        explain_guess(exchange, out);
        if (exchange.who.result == Finding::Result::unchecked) {
            if (exchange.generation->authenticator->is_token(exchange.who)) {
                check_token(exchange, fetch_keys);
            } else {
                check_password(exchange);
            }
        }
        conclude_identity(exchange);
    }
    explain_methods(stage, out);
    explain_user(stage, out);
}

}  // namespace tidegate::cli
