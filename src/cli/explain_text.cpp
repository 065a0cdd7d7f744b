// An explanation for people.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "cli/explain.hpp"
#include "cli/explain_check.hpp"
#include "cli/explain_words.hpp"

namespace tidegate::cli {

namespace {

using ask::ChargeNotes;

// A longer value does not push the reasons of all others to the right.
constexpr std::size_t kAlignedMax = 40;

struct Fact {
    std::string_view what;
    std::string value;
    std::string why{};
};

using Facts = std::vector<Fact>;

std::string aligned(const Facts& facts) {
    std::size_t what_width = 0;
    std::size_t value_width = 0;
    for (const Fact& fact : facts) {
        what_width = std::max(what_width, fact.what.size());
        if (fact.value.size() <= kAlignedMax)
            value_width = std::max(value_width, fact.value.size());
    }
    std::string text;
    for (const Fact& fact : facts) {
        std::string line = fmt::format("{:<{}}  ", fact.what, what_width);
        line += fact.why.empty() ? fact.value
                                 : fmt::format("{:<{}}  {}", fact.value, value_width, fact.why);
        text += displayable(line) + '\n';
    }
    return text;
}

// Text of a client or a file: as it is, if it cannot be taken for anything but a word.
std::string shown(std::string_view text) {
    constexpr std::size_t kPlainMax = 60;
    const bool plain = !text.empty() && text.size() <= kPlainMax &&
                       std::all_of(text.begin(), text.end(),
                                   [](char c) { return c > ' ' && c <= '~' && c != '`'; });
    return plain ? std::string(text) : quote(text);
}

std::string counted(std::size_t count, std::string_view one) {
    return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

void add_request(const Explanation& explanation, Facts& facts) {
    // An item that names a policy is no request.
    if (explanation.is_call && explanation.method.empty()) return;
    if (!explanation.method.empty()) {
        facts.push_back({"request", shown(explanation.method) + " " + shown(explanation.path),
                         explanation.host.empty() ? "" : "for host " + shown(explanation.host)});
    }
    if (explanation.version == HttpVersion::http_2) {
        facts.push_back({"protocol", std::string(name_of(explanation.version)),
                         explanation.is_gateway ? "of the gateway's question" : ""});
    }
    std::string why = "not trusted: its forwarding fields are ignored";
    if (explanation.is_gateway) why = "a gateway: the address chain that it sends is read";
    if (explanation.trusted) {
        why = explanation.trusted_network.empty()
                  ? "trusted: its listener has `trusted: on`"
                  : "trusted: in " + explanation.trusted_network + " of trusted_proxies";
    }
    if (explanation.is_call && explanation.peer.empty()) {
        return facts.push_back({"peer", "none", "the item has no `from`"});
    }
    facts.push_back({"peer", explanation.peer.empty() ? "a Unix socket" : explanation.peer, why});
}

// Where the client's address is from.
std::string source_of(const Explanation& explanation) {
    using Kind = identity::Hop::Kind;
    if (!explanation.trusted && !explanation.is_gateway) return "the peer itself";
    if (explanation.hops.empty()) return "the peer itself: there is no " + explanation.chain_field;
    const bool named = std::any_of(
        explanation.hops.begin(), explanation.hops.end(),
        [](const auto& hop) { return hop.kind == Kind::trusted || hop.kind == Kind::client; });
    return named ? "the last good hop of " + explanation.chain_field
                 : "the peer itself: " + explanation.chain_field + " names no client";
}

void add_client(const Explanation& explanation, Facts& facts) {
    for (const Explanation::Hop& hop : explanation.hops) {
        const bool is_unclear = hop.text.empty() && explanation.hops.size() == 1;
        facts.push_back({"hop", shown(hop.text),
                         is_unclear ? explanation.chain_field + " " +
                                          std::string(describe(identity::ChainFault::repeated))
                                    : std::string(words_of(hop.kind).reason)});
    }
    std::string why = "no address is known";
    if (explanation.trusted && explanation.hops.empty())
        why = "there is no " + explanation.chain_field;
    if (explanation.client) why = source_of(explanation);
    facts.push_back({"client", explanation.client.value_or("nobody"), why});
}

void add_user(const Explanation& explanation, Facts& facts) {
    std::string_view by;
    for (const Explanation::Method& method : explanation.methods) {
        std::string why(words_of(method.outcome).reason);
        if (method.outcome == Explanation::Method::Outcome::valid) by = method.text;
        if (!method.fault.empty()) why += fmt::format(": {}", method.fault);
        facts.push_back({"method", method.text, why});
    }
    for (const std::string& identifier : explanation.guess) {
        facts.push_back(
            {"guess", identifier,
             "would be charged to `failed_credentials`, and given back if the credential is "
             "right"});
    }
    if (explanation.user) {
        facts.push_back({"user", shown(explanation.user->name), fmt::format("by {}", by)});
        if (explanation.user->tier.empty()) return;
        facts.push_back(
            {"tier", shown(explanation.user->tier),
             explanation.user->tier_listed ? "by identity.users" : "by the credential"});
        return;
    }
    std::string_view why = "no method found a user";
    if (explanation.methods.empty()) why = "no method is configured";
    if (explanation.is_preflight) why = "a preflight needs no user";
    const bool unproved =
        std::any_of(explanation.methods.begin(), explanation.methods.end(), [](const auto& m) {
            using Outcome = Explanation::Method::Outcome;
            return m.outcome == Outcome::refused || m.outcome == Outcome::ambiguous ||
                   m.outcome == Outcome::unavailable;
        });
    if (unproved) why = "the credential was not accepted";
    if (explanation.goes_on_anonymous) why = "on_invalid_credentials: anonymous";
    facts.push_back({"user", "none", std::string(why)});
}

void add_forwarding(const Explanation& explanation, Facts& facts) {
    if (!explanation.strip_prefix.empty() && !explanation.upstream_path.empty()) {
        facts.push_back(
            {"sends", shown(explanation.upstream_path), "without " + explanation.strip_prefix});
    }
    if (explanation.upstream.empty()) return;
    facts.push_back(
        {"timeouts",
         fmt::format("response {}, stream_idle {}", format_duration(explanation.response_timeout),
                     format_duration(explanation.stream_idle)),
         explanation.has_own_timeouts ? "of the route" : "of the upstream"});
}

void add_route(const Explanation& explanation, Facts& facts) {
    for (const Explanation::PassedRoute& passed : explanation.passed) {
        facts.push_back({"no route", passed.name, std::string(words_of(passed.because).reason)});
    }
    for (const Explanation::Reading& reading : explanation.readings) {
        std::string why = reading.route.empty() ? "no route" : "route " + reading.route;
        for (const std::string& capture : reading.captures) why += ", " + shown(capture);
        if (reading.ignoring_case) why += ", if case is ignored";
        facts.push_back({"reading", shown(reading.path), why});
    }
    if (explanation.route) {
        facts.push_back(
            {"route", *explanation.route,
             explanation.upstream.empty() ? "" : "to upstream " + explanation.upstream});
        add_forwarding(explanation, facts);
        if (!explanation.need_of_user.why.empty()) {
            facts.push_back({"  user", explanation.need_of_user.is_needed ? "required" : "optional",
                             std::string(explanation.need_of_user.why)});
        }
    } else if (explanation.other_paths != 0) {
        facts.push_back(
            {"route", "none", "not for the paths of " + counted(explanation.other_paths, "route")});
    } else {
        facts.push_back({"route", "none"});
    }
}

void add_policy(const Explanation::Policy& policy, Facts& facts) {
    std::string why(words_of(policy.outcome).reason);
    if (policy.left_out) why = "does not count it: it does not accept the moment";
    if (policy.outcome == ChargeNotes::Outcome::no_user && policy.lacks_address) {
        why = "cannot count it: the request has neither a client address nor a user to count by";
    }
    if (!policy.listed_as.empty()) why += " as " + quote(policy.listed_as);
    if (!policy.tier.empty()) why += ", tier " + policy.tier;
    if (policy.shadow) why += "; shadow: refuses no request";
    facts.push_back({"policy", policy.name, why});
    for (const Explanation::Key& key : policy.keys) {
        if (key.outcome != ChargeNotes::KeyOutcome::counted) {
            facts.push_back({"  key", key.text, std::string(words_of(key.outcome).reason)});
        }
        for (const std::string& identifier : key.identifiers) {
            facts.push_back({"  counts", identifier, "by key " + key.text});
        }
    }
    if (policy.outcome != ChargeNotes::Outcome::counted || policy.left_out) return;
    for (const Explanation::Limit& limit : policy.limits) {
        facts.push_back({"  limit", limit.name, described(limit.limit)});
    }
}

void add_result(const Explanation& explanation, Facts& facts) {
    if (explanation.refusal != 0) {
        facts.push_back(
            {"result", std::to_string(explanation.refusal), explanation.refusal_reason});
    } else if (!explanation.cost) {
        const bool is_asked = explanation.is_call || explanation.is_gateway;
        facts.push_back({"result", is_asked ? "admitted" : "forwarded", "no limit applies"});
    } else {
        facts.push_back(
            {"cost", std::to_string(explanation.cost->units), std::string(explanation.cost->why)});
        facts.push_back({"result",
                         explanation.upstream.empty() ? "admitted if the limits admit it"
                                                      : "forwarded if the limits admit it",
                         counted(explanation.limits, "limit") + " for " +
                             counted(explanation.identifiers, "identifier") +
                             "; nothing was charged"});
    }
}

}  // namespace

std::string explanation_text(const CallExplanation& explanation) {
    using Form = faces::CheckCall::Form;
    if (explanation.form == Form::one && explanation.items.size() == 1) {
        return explanation_text(explanation.items.front());
    }
    const std::string name = explanation.form == Form::all ? "all" : "each";
    std::string text;
    for (std::size_t i = 0; i < explanation.items.size(); ++i) {
        text += fmt::format("{}[{}]\n", name, i) + explanation_text(explanation.items[i]) + "\n";
    }
    if (explanation.refusal != 0) {
        return text +
               displayable(
                   fmt::format("result  {}  {}", explanation.refusal, explanation.refusal_reason)) +
               "\n";
    }
    if (explanation.form == Form::each)
        return text + "result  200  each item has a result of its own\n";
    return text + fmt::format("result  all or nothing  {} for {}; nothing was charged\n",
                              counted(explanation.limits, "limit"),
                              counted(explanation.identifiers, "identifier"));
}

std::string explanation_text(const Explanation& explanation) {
    Facts facts;
    add_request(explanation, facts);
    if (explanation.is_identified) {
        add_client(explanation, facts);
        add_user(explanation, facts);
        add_route(explanation, facts);
    }
    for (const Explanation::Policy& policy : explanation.policies) add_policy(policy, facts);
    add_result(explanation, facts);
    return aligned(facts);
}

}  // namespace tidegate::cli
