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

// What somebody else wrote: as it is, if it cannot be taken for anything but a word.
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

void add_request(const Explanation& told, Facts& facts) {
    if (!told.method.empty()) {
        facts.push_back({"request", shown(told.method) + " " + shown(told.path),
                         told.host.empty() ? "" : "for host " + shown(told.host)});
    }
    std::string why = "not trusted: its forwarding fields are ignored";
    if (told.trusted) {
        why = told.trusted_network.empty()
                  ? "trusted: its listener has `trusted: on`"
                  : "trusted: in " + told.trusted_network + " of trusted_proxies";
    }
    facts.push_back({"peer", told.peer.empty() ? "a Unix socket" : told.peer, why});
}

// Where the client's address is from.
std::string source_of(const Explanation& told) {
    using Kind = identity::Hop::Kind;
    if (!told.trusted) return "the peer itself";
    if (told.hops.empty()) return "the peer itself: there is no " + told.chain_field;
    const bool named = std::any_of(told.hops.begin(), told.hops.end(), [](const auto& hop) {
        return hop.kind == Kind::trusted || hop.kind == Kind::client;
    });
    return named ? "the last good hop of " + told.chain_field
                 : "the peer itself: " + told.chain_field + " names no client";
}

void add_client(const Explanation& told, Facts& facts) {
    for (const Explanation::Hop& hop : told.hops) {
        facts.push_back({"hop", shown(hop.text), std::string(words_of(hop.kind).reason)});
    }
    facts.push_back({"client", told.client.value_or("nobody"),
                     told.client ? source_of(told) : "no address is known"});
}

void add_user(const Explanation& told, Facts& facts) {
    std::string_view by;
    for (const Explanation::Method& method : told.methods) {
        std::string why(words_of(method.outcome).reason);
        if (method.outcome == Explanation::Method::Outcome::valid) by = method.text;
        if (!method.fault.empty()) why += fmt::format(": {}", method.fault);
        facts.push_back({"method", method.text, why});
    }
    for (const std::string& identifier : told.guess) {
        facts.push_back(
            {"guess", identifier, "charged to failed_credentials, refunded if it is right"});
    }
    if (told.user) {
        facts.push_back({"user", shown(told.user->name), fmt::format("by {}", by)});
        if (told.user->tier.empty()) return;
        facts.push_back({"tier", shown(told.user->tier),
                         told.user->tier_listed ? "by identity.users" : "by the credential"});
        return;
    }
    std::string_view why = "no method found a user";
    if (told.methods.empty()) why = "no method is configured";
    if (told.is_preflight) why = "a preflight needs no user";
    const bool unproved = std::any_of(told.methods.begin(), told.methods.end(), [](const auto& m) {
        using Outcome = Explanation::Method::Outcome;
        return m.outcome == Outcome::refused || m.outcome == Outcome::ambiguous ||
               m.outcome == Outcome::unavailable;
    });
    if (unproved) why = "the credential was not accepted";
    if (told.goes_on_anonymous) why = "on_invalid_credentials: anonymous";
    facts.push_back({"user", "none", std::string(why)});
}

void add_forwarding(const Explanation& told, Facts& facts) {
    if (!told.strip_prefix.empty() && !told.upstream_path.empty()) {
        facts.push_back({"sends", shown(told.upstream_path), "without " + told.strip_prefix});
    }
    facts.push_back(
        {"timeouts",
         fmt::format("response {}, stream_idle {}", format_duration(told.response_timeout),
                     format_duration(told.stream_idle)),
         told.has_own_timeouts ? "of the route" : "of the upstream"});
}

void add_route(const Explanation& told, Facts& facts) {
    for (const Explanation::PassedRoute& passed : told.passed) {
        facts.push_back({"no route", passed.name, std::string(words_of(passed.because).reason)});
    }
    for (const Explanation::Reading& reading : told.readings) {
        std::string why = reading.route.empty() ? "no route" : "route " + reading.route;
        for (const std::string& capture : reading.captures) why += ", " + shown(capture);
        if (reading.ignoring_case) why += ", if case is ignored";
        facts.push_back({"reading", shown(reading.path), why});
    }
    if (told.route) {
        facts.push_back({"route", *told.route, "to upstream " + told.upstream});
        add_forwarding(told, facts);
        if (!told.need_of_user.why.empty()) {
            facts.push_back({"  user", told.need_of_user.is_needed ? "required" : "optional",
                             std::string(told.need_of_user.why)});
        }
    } else if (told.other_paths != 0) {
        facts.push_back(
            {"route", "none", "not for the paths of " + counted(told.other_paths, "route")});
    } else {
        facts.push_back({"route", "none"});
    }
}

void add_policy(const Explanation::Policy& policy, Facts& facts) {
    std::string why(policy.left_out ? "does not count it: it does not accept the moment"
                                    : words_of(policy.outcome).reason);
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

void add_result(const Explanation& told, Facts& facts) {
    if (told.refusal != 0) {
        facts.push_back({"result", std::to_string(told.refusal), told.refusal_reason});
    } else if (!told.cost) {
        facts.push_back({"result", "forwarded", "no limit applies"});
    } else {
        facts.push_back({"cost", std::to_string(told.cost->units), std::string(told.cost->why)});
        facts.push_back({"result", "forwarded if the limits admit it",
                         counted(told.limits, "limit") + " for " +
                             counted(told.identifiers, "identifier") + "; nothing was charged"});
    }
}

}  // namespace

std::string explanation_text(const Explanation& told) {
    Facts facts;
    add_request(told, facts);
    if (told.is_identified) {
        add_client(told, facts);
        add_user(told, facts);
        add_route(told, facts);
    }
    for (const Explanation::Policy& policy : told.policies) add_policy(policy, facts);
    add_result(told, facts);
    return aligned(facts);
}

}  // namespace tidegate::cli
