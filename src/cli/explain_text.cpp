#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/described_enum.hpp"
#include "base/json.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/explain.hpp"

namespace tidegate::cli {

namespace {

struct Words {
    std::string_view name;    // `trusted`, for programs
    std::string_view reason;  // a clause, for people
};

constexpr EnumTable<identity::HopKind, Words> kHops(
    {{identity::HopKind::trusted, {"trusted", "trusted: the entry before it counts"}},
     {identity::HopKind::client, {"client", "not trusted: the entries before it do not count"}},
     {identity::HopKind::unreadable, {"unreadable", "not an address: the chain ends here"}},
     {identity::HopKind::unspecified, {"nobody", "not a client's address: the chain ends here"}}});

constexpr EnumTable<MethodOutcome, Words> kMethods(
    {{MethodOutcome::absent, {"absent", "absent"}},
     {MethodOutcome::disbelieved, {"disbelieved", "ignored: the peer is not trusted"}},
     {MethodOutcome::valid, {"valid", "valid"}},
     {MethodOutcome::refused, {"refused", "refused"}},
     {MethodOutcome::ambiguous, {"ambiguous", "refused: the request has more than one"}},
     {MethodOutcome::unavailable, {"unavailable", "cannot be checked: there are no keys"}},
     {MethodOutcome::not_tried, {"not_tried", "not tried: an earlier method decided"}}});

constexpr EnumTable<routing::Mismatch, Words> kMismatches(
    {{routing::Mismatch::none, {"none", "takes it"}},
     {routing::Mismatch::path, {"path", "the path does not match"}},
     {routing::Mismatch::host, {"host", "the path matches; the host does not"}},
     {routing::Mismatch::method, {"method", "the path matches; the method does not"}},
     {routing::Mismatch::headers, {"headers", "the path matches; the headers do not"}}});

constexpr EnumTable<ask::PolicyOutcome, Words> kPolicies(
    {{ask::PolicyOutcome::counted, {"counted", "counts it"}},
     {ask::PolicyOutcome::exempt, {"exempt", "does not count it: `exempt` names the client"}},
     {ask::PolicyOutcome::unlimited, {"unlimited", "does not count it: the tier is unlimited"}},
     {ask::PolicyOutcome::denied, {"denied", "refuses it: `deny` names the client"}},
     {ask::PolicyOutcome::skipped,
      {"skipped",
       "does not count it: the request has no value to count by, and the policy has "
       "`on_missing: skip`"}},
     {ask::PolicyOutcome::no_identifier,
      {"nobody", "cannot count it: the request has no value to count by"}},
     {ask::PolicyOutcome::no_user,
      {"no_user", "cannot count it: the policy needs a user, and the request has none"}},
     {ask::PolicyOutcome::unclear,
      {"unclear", "cannot count it: a value to count by can be read in more than one way"}}});

constexpr EnumTable<ask::KeyOutcome, Words> kKeys(
    {{ask::KeyOutcome::counted, {"counted", "found"}},
     {ask::KeyOutcome::skipped, {"skipped", "missing: skipped"}},
     {ask::KeyOutcome::shared, {"shared", "missing: counted with all requests that lack it"}},
     {ask::KeyOutcome::rejected, {"rejected", "missing, and required"}},
     {ask::KeyOutcome::unclear, {"unclear", "can be read in more than one way"}}});

Words words_of(identity::HopKind kind) {
    return kHops[kind];
}

Words words_of(MethodOutcome outcome) {
    return kMethods[outcome];
}

Words words_of(routing::Mismatch mismatch) {
    return kMismatches[mismatch];
}

Words words_of(ask::PolicyOutcome outcome) {
    return kPolicies[outcome];
}

Words words_of(ask::KeyOutcome outcome) {
    return kKeys[outcome];
}

std::string window_of(const limit::Limit& limit) {
    switch (limit.anchor) {
        case limit::Anchor::utc_day:
            return "a day of UTC";
        case limit::Anchor::utc_week:
            return "a week of UTC, from Monday on";
        case limit::Anchor::utc_month:
            return "a month of UTC";
        case limit::Anchor::day:
            return "a day of " + limit.time_zone;
        case limit::Anchor::week:
            return "a week of " + limit.time_zone + ", from Monday on";
        case limit::Anchor::month:
            return "a month of " + limit.time_zone;
        default:
            return format_duration(limit.duration);
    }
}

// `10 in 1s, sliding_window, burst 20`
std::string described(const limit::Limit& limit) {
    std::string text = limit.is_concurrency()
                           ? fmt::format("{} at once", limit.quota)
                           : fmt::format("{} in {}", limit.quota, window_of(limit));
    text += fmt::format(", {}", limit.traits().name);
    if (limit.is_bucket()) text += fmt::format(", burst {}", limit.burst);
    if (limit.strict) text += ", strict";
    if (limit.count == limit::Count::all) text += ", counts refused requests too";
    if (limit.count == limit::Count::by_status) {
        std::vector<std::string> statuses;
        for (const std::uint16_t one : limit.statuses) statuses.push_back(limit::status_text(one));
        text += fmt::format(", counts answers with {}", fmt::join(statuses, ", "));
    }
    return text;
}

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

namespace {

using Json = nlohmann::ordered_json;

// Null for what is not there.
Json optional_text(std::string_view text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

Json client_json(const Explanation& explanation) {
    Json hops = Json::array();
    for (const Explanation::Hop& hop : explanation.hops) {
        hops.push_back({{"text", hop.text},
                        {"address", optional_text(hop.address)},
                        {"kind", words_of(hop.kind).name}});
    }
    return {{"address", optional_text(explanation.client.value_or(""))},
            {"field", explanation.chain_field},
            {"hops", hops}};
}

Json methods_json(const Explanation& explanation) {
    Json methods = Json::array();
    for (const Explanation::Method& method : explanation.methods) {
        methods.push_back({{"method", method.text},
                           {"outcome", words_of(method.outcome).name},
                           {"fault", optional_text(method.fault)}});
    }
    return methods;
}

Json user_json(const Explanation& explanation) {
    if (!explanation.user) return nullptr;
    return {{"name", explanation.user->name}, {"tier", optional_text(explanation.user->tier)}};
}

Json timeouts_json(const Explanation& explanation) {
    if (!explanation.route) return nullptr;
    return {{"response_ms", explanation.response_timeout.count()},
            {"stream_idle_ms", explanation.stream_idle.count()}};
}

Json route_json(const Explanation& explanation) {
    Json passed = Json::array();
    for (const Explanation::PassedRoute& route : explanation.passed) {
        passed.push_back({{"name", route.name}, {"because", words_of(route.because).name}});
    }
    Json readings = Json::array();
    for (const Explanation::Reading& reading : explanation.readings) {
        readings.push_back({{"path", reading.path},
                            {"route", optional_text(reading.route)},
                            {"captures", reading.captures},
                            {"ignoring_case", reading.ignoring_case}});
    }
    return {{"name", optional_text(explanation.route.value_or(""))},
            {"upstream", optional_text(explanation.upstream)},
            {"user_needed", explanation.need_of_user.is_needed},
            {"passed", passed},
            {"readings", readings},
            {"upstream_path", optional_text(explanation.upstream_path)},
            {"timeouts", timeouts_json(explanation)}};
}

Json limit_json(const Explanation::Limit& each) {
    const limit::Limit& limit = each.limit;
    Json json = {{"name", each.name}, {"algorithm", limit.traits().name}};
    json["quota"] = limit.quota;
    if (limit::has_period(limit.anchor)) json["anchor"] = to_string(limit.anchor);
    if (!limit.time_zone.empty()) json["time_zone"] = limit.time_zone;
    if (limit.has_one_duration()) json["duration_us"] = limit.duration.count();
    if (limit.burst != 0) json["burst"] = limit.burst;
    return json;
}

Json policy_json(const Explanation::Policy& policy) {
    Json keys = Json::array();
    for (const Explanation::Key& key : policy.keys) {
        keys.push_back({{"key", key.text},
                        {"outcome", words_of(key.outcome).name},
                        {"identifiers", key.identifiers}});
    }
    Json limits = Json::array();
    for (const Explanation::Limit& limit : policy.limits) limits.push_back(limit_json(limit));
    return {{"name", policy.name},
            {"outcome", policy.left_out ? "left_out" : words_of(policy.outcome).name},
            {"mode", policy.shadow ? "shadow" : "enforce"},
            {"tier", optional_text(policy.tier)},
            {"listed_as", optional_text(policy.listed_as)},
            {"keys", keys},
            {"limits", limits}};
}

Json result_json(const Explanation& explanation) {
    if (explanation.refusal != 0) {
        return {{"outcome", "refused"},
                {"status", explanation.refusal},
                {"reason", explanation.refusal_reason}};
    }
    return {{"outcome", explanation.cost ? "limited" : "unlimited"},
            {"identifiers", explanation.identifiers},
            {"limits", explanation.limits}};
}

Json whole_json(const Explanation& explanation) {
    Json json;
    if (!explanation.is_call || !explanation.method.empty()) {
        json["request"] = {{"method", optional_text(explanation.method)},
                           {"path", optional_text(explanation.path)},
                           {"host", optional_text(explanation.host)}};
        if (!explanation.is_call) json["request"]["protocol"] = name_of(explanation.version);
        if (explanation.is_preflight) json["preflight"] = true;
        json["peer"] = {{"address", optional_text(explanation.peer)},
                        {"trusted", explanation.trusted},
                        {"network", optional_text(explanation.trusted_network)}};
    }
    if (explanation.is_identified) {
        json["client"] = client_json(explanation);
        json["methods"] = methods_json(explanation);
        json["guess"] = explanation.guess;
        json["user"] = user_json(explanation);
        json["route"] = route_json(explanation);
    }
    if (explanation.is_identified || explanation.is_call) {
        json["policies"] = Json::array();
        for (const Explanation::Policy& policy : explanation.policies) {
            json["policies"].push_back(policy_json(policy));
        }
    }
    if (explanation.cost)
        json["cost"] = {{"units", explanation.cost->units}, {"why", explanation.cost->why}};
    json["result"] = result_json(explanation);
    return json;
}

Json call_json(const CallExplanation& explanation) {
    using Form = faces::CheckCall::Form;
    if (explanation.form == Form::one && explanation.items.size() == 1) {
        return whole_json(explanation.items.front());
    }
    Json items = Json::array();
    for (const Explanation& item : explanation.items) items.push_back(whole_json(item));
    Json json;
    if (explanation.form != Form::one) {
        json[explanation.form == Form::all ? "all" : "each"] = std::move(items);
    }
    if (explanation.refusal != 0) {
        json["result"] = {{"outcome", "refused"},
                          {"status", explanation.refusal},
                          {"reason", explanation.refusal_reason}};
    } else if (explanation.form == Form::all) {
        json["result"] = {{"outcome", explanation.identifiers != 0 ? "limited" : "unlimited"},
                          {"identifiers", explanation.identifiers},
                          {"limits", explanation.limits}};
    } else {
        json["result"] = {{"outcome", "answered"}};
    }
    return json;
}

std::string text_of_json(const Json& json) {
    return json_text(json, {.indent = 2, .ascii = true}) + "\n";
}

}  // namespace

std::string explanation_json(const Explanation& explanation) {
    return text_of_json(whole_json(explanation));
}

std::string explanation_json(const CallExplanation& explanation) {
    return text_of_json(call_json(explanation));
}

}  // namespace tidegate::cli
