#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/inspect_reset_answer.hpp"
#include "base/described_enum.hpp"
#include "base/doc.hpp"
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

// `in_money`: millionths of a dollar.
std::string units_text(std::int64_t units, bool in_money) {
    return in_money ? shortest_decimal(units) + " USD" : std::to_string(units);
}

// `10 in 1s, sliding_window, burst 20`
std::string described(const limit::Limit& limit, bool in_money) {
    const std::string quota = units_text(limit.quota, in_money);
    std::string text = limit.traits().has(limit::kPer)
                           ? fmt::format("{} in {}", quota, window_of(limit))
                           : fmt::format("{} at once", quota);
    text += fmt::format(", {}", limit.traits().name);
    if (limit.burst != 0) text += fmt::format(", burst {}", units_text(limit.burst, in_money));
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

using Json = Doc::Json;

// Text of a client or a file: as it is, if it cannot be taken for anything but a word.
std::string shown(std::string_view text) {
    constexpr std::size_t kPlainMax = 60;
    const bool plain = !text.empty() && text.size() <= kPlainMax &&
                       std::all_of(text.begin(), text.end(),
                                   [](char c) { return c > ' ' && c <= '~' && c != '`'; });
    return plain ? std::string(text) : quote(text);
}

void add_request(const Explanation& explanation, Doc& doc) {
    // An item that names a policy is no request.
    if (explanation.is_call && explanation.method.empty()) return;
    Json& request = doc.json["request"];
    request = {{"method", optional_text(explanation.method)},
               {"path", optional_text(explanation.path)},
               {"host", optional_text(explanation.host)}};
    if (!explanation.is_call) request["protocol"] = name_of(explanation.version);
    if (explanation.is_preflight) doc.json["preflight"] = true;
    if (!explanation.method.empty()) {
        doc.fact("request", shown(explanation.method) + " " + shown(explanation.path),
                 explanation.host.empty() ? "" : "for host " + shown(explanation.host));
    }
    if (explanation.version == HttpVersion::http_2) {
        doc.fact("protocol", std::string(name_of(explanation.version)),
                 explanation.is_gateway ? "of the gateway's question" : "");
    }
}

void add_peer(const Explanation& explanation, Doc& doc) {
    if (explanation.is_call && explanation.method.empty()) return;
    doc.json["peer"] = {{"address", optional_text(explanation.peer)},
                        {"trusted", explanation.trusted},
                        {"network", optional_text(explanation.trusted_network)}};
    std::string why = "not trusted: its forwarding fields are ignored";
    if (explanation.is_gateway) why = "a gateway: the address chain that it sends is read";
    if (explanation.trusted) {
        why = explanation.trusted_network.empty()
                  ? "trusted: its listener has `trusted: on`"
                  : "trusted: in " + explanation.trusted_network + " of trusted_proxies";
    }
    if (explanation.is_call && explanation.peer.empty()) {
        return doc.fact("peer", "none", "the item has no `from`");
    }
    doc.fact("peer", explanation.peer.empty() ? "a Unix socket" : explanation.peer, why);
}

// Says where the client's address is from.
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

void add_client(const Explanation& explanation, Doc& doc) {
    Json hops = Json::array();
    for (const Explanation::Hop& hop : explanation.hops) {
        hops.push_back({{"text", hop.text},
                        {"address", optional_text(hop.address)},
                        {"kind", kHops[hop.kind].name}});
        const bool is_unclear = hop.text.empty() && explanation.hops.size() == 1;
        doc.fact("hop", shown(hop.text),
                 is_unclear ? explanation.chain_field + " " +
                                  std::string(describe(identity::ChainFault::repeated))
                            : std::string(kHops[hop.kind].reason));
    }
    std::string why = "no address is known";
    if (explanation.trusted && explanation.hops.empty())
        why = "there is no " + explanation.chain_field;
    if (explanation.client) why = source_of(explanation);
    doc.fact("client", explanation.client.value_or("nobody"), why);
    doc.json["client"] = {{"address", optional_text(explanation.client.value_or(""))},
                          {"field", explanation.chain_field},
                          {"hops", hops}};
}

void add_methods(const Explanation& explanation, Doc& doc) {
    Json& methods = doc.json["methods"] = Json::array();
    for (const Explanation::Method& method : explanation.methods) {
        const Words words = kMethods[method.outcome];
        methods.push_back({{"method", method.text},
                           {"outcome", words.name},
                           {"fault", optional_text(method.fault)}});
        doc.fact("method", method.text,
                 method.fault.empty() ? std::string(words.reason)
                                      : fmt::format("{}: {}", words.reason, method.fault));
    }
    for (const std::string& identifier : explanation.guess) {
        doc.fact("guess", identifier,
                 "would be charged to `failed_credentials`, and given back if the credential is "
                 "right");
    }
    doc.json["guess"] = explanation.guess;
}

std::string_view why_no_user(const Explanation& explanation) {
    using Outcome = Explanation::Method::Outcome;
    if (explanation.goes_on_anonymous) return "on_invalid_credentials: anonymous";
    for (const Explanation::Method& method : explanation.methods) {
        if (method.outcome == Outcome::refused || method.outcome == Outcome::ambiguous ||
            method.outcome == Outcome::unavailable) {
            return "the credential was not accepted";
        }
    }
    if (explanation.is_preflight) return "a preflight needs no user";
    return explanation.methods.empty() ? "no method is configured" : "no method found a user";
}

void add_user(const Explanation& explanation, Doc& doc) {
    doc.json["user"] = nullptr;
    if (!explanation.user) {
        return doc.fact("user", "none", std::string(why_no_user(explanation)));
    }
    const Explanation::User& user = *explanation.user;
    doc.json["user"] = {{"name", user.name}, {"tier", optional_text(user.tier)}};
    std::string_view by;
    for (const Explanation::Method& method : explanation.methods) {
        if (method.outcome == Explanation::Method::Outcome::valid) by = method.text;
    }
    doc.fact("user", shown(user.name), fmt::format("by {}", by));
    if (user.tier.empty()) return;
    doc.fact("tier", shown(user.tier),
             user.tier_listed ? "by identity.users" : "by the credential");
}

Json passed_routes(const Explanation& explanation, Doc& doc) {
    Json passed = Json::array();
    for (const Explanation::PassedRoute& route : explanation.passed) {
        const Words words = kMismatches[route.because];
        passed.push_back({{"name", route.name}, {"because", words.name}});
        doc.fact("no route", route.name, std::string(words.reason));
    }
    return passed;
}

Json readings(const Explanation& explanation, Doc& doc) {
    Json readings = Json::array();
    for (const Explanation::Reading& reading : explanation.readings) {
        readings.push_back({{"path", reading.path},
                            {"route", optional_text(reading.route)},
                            {"captures", reading.captures},
                            {"ignoring_case", reading.ignoring_case}});
        std::string why = reading.route.empty() ? "no route" : "route " + reading.route;
        for (const std::string& capture : reading.captures) why += ", " + shown(capture);
        if (reading.ignoring_case) why += ", if case is ignored";
        doc.fact("reading", shown(reading.path), why);
    }
    return readings;
}

// What the route that takes the request does with it.
void add_route_facts(const Explanation& explanation, Doc& doc) {
    doc.fact("route", *explanation.route,
             explanation.upstream.empty() ? "" : "to upstream " + explanation.upstream);
    if (!explanation.strip_prefix.empty() && !explanation.upstream_path.empty()) {
        doc.fact("sends", shown(explanation.upstream_path), "without " + explanation.strip_prefix);
    }
    if (!explanation.upstream.empty()) {
        doc.fact("timeouts",
                 fmt::format("response {}, stream_idle {}",
                             format_duration(explanation.response_timeout),
                             format_duration(explanation.stream_idle)),
                 explanation.has_own_timeouts ? "of the route" : "of the upstream");
    }
    if (explanation.need_of_user.why.empty()) return;
    doc.fact("  user", explanation.need_of_user.is_needed ? "required" : "optional",
             std::string(explanation.need_of_user.why));
}

void add_route(const Explanation& explanation, Doc& doc) {
    Json passed = passed_routes(explanation, doc);
    Json read = readings(explanation, doc);
    if (explanation.route) {
        add_route_facts(explanation, doc);
    } else {
        doc.fact("route", "none",
                 explanation.other_paths == 0
                     ? ""
                     : "not for the paths of " + counted(explanation.other_paths, "route"));
    }
    Json timeouts = nullptr;
    if (explanation.route) {
        timeouts = {{"response_ms", explanation.response_timeout.count()},
                    {"stream_idle_ms", explanation.stream_idle.count()}};
    }
    doc.json["route"] = {{"name", optional_text(explanation.route.value_or(""))},
                         {"upstream", optional_text(explanation.upstream)},
                         {"user_needed", explanation.need_of_user.is_needed},
                         {"passed", std::move(passed)},
                         {"readings", std::move(read)},
                         {"upstream_path", optional_text(explanation.upstream_path)},
                         {"timeouts", std::move(timeouts)}};
}

std::string why_of_policy(const Explanation::Policy& policy) {
    std::string why(kPolicies[policy.outcome].reason);
    if (policy.left_out) why = "does not count it: it does not accept the moment";
    if (policy.outcome == ChargeNotes::Outcome::no_user && policy.lacks_address) {
        why = "cannot count it: the request has neither a client address nor a user to count by";
    }
    if (!policy.listed_as.empty()) why += " as " + quote(policy.listed_as);
    if (!policy.tier.empty()) why += ", tier " + policy.tier;
    if (policy.has_claimed_quotas) why += ", with quotas of the user's token";
    if (policy.mode == "candidate") {
        why += "; candidate: refuses no request, and counts it if all policies but " +
               policy.candidate_of + " admit it";
    } else if (policy.mode == "shadow") {
        why += "; shadow: refuses no request";
    }
    for (std::size_t i = 0; i < policy.unenforced.size(); ++i) {
        why += (i == 0 ? "; `enforce` counts in shadow: " : ", ") + shown(policy.unenforced[i]);
    }
    if (policy.mode == "soft") why += "; soft: refuses no request, and tells the upstream";
    if (policy.lease_slack > 0) {
        why += fmt::format(
            "; leases: a thread may admit it from units that it took in advance, {:.6g}% "
            "of each quota at most",
            100 * policy.lease_slack);
    }
    return why;
}

Json keys_of(const Explanation::Policy& policy, Doc& doc) {
    Json keys = Json::array();
    for (const Explanation::Key& key : policy.keys) {
        const Words words = kKeys[key.outcome];
        keys.push_back(
            {{"key", key.text}, {"outcome", words.name}, {"identifiers", key.identifiers}});
        if (key.outcome != ChargeNotes::KeyOutcome::counted) {
            doc.fact("  key", key.text, std::string(words.reason));
        }
        for (const std::string& identifier : key.identifiers) {
            doc.fact("  counts", identifier, "by key " + key.text);
        }
    }
    return keys;
}

std::string why_reserved(const Explanation::Reserved& reserved) {
    using By = Explanation::Reserved::By;
    const usage::Estimate& tokens = reserved.tokens;
    if (reserved.by == By::number) return "a fixed number";
    if (reserved.by == By::maximum) {
        return fmt::format(
            "the most: {} tokens, as the body is longer than `inspect_body`, is no object of JSON, "
            "is a batch, or is signed and has no maximum",
            tokens.of_any);
    }
    std::string why =
        fmt::format("{} tokens of output, by {}", tokens.output,
                    reserved.stated_by.empty() ? "`default`" : shown(reserved.stated_by));
    if (reserved.answers > 1) why += fmt::format(" for each of {} answers", reserved.answers);
    if (reserved.is_capped) why += fmt::format(", capped by `max` {}", reserved.tokens_max);
    if (tokens.input_bytes == 0) return why + ", and none of input";
    return why + fmt::format(", and an estimate of input: {} bytes / {}", tokens.input_bytes,
                             tokens.bytes_per_token);
}

// Rates are millionths, as money is.
Json rates_json(const usage::Rates& rates) {
    const auto number = [](std::int64_t rate) { return amount_json({rate, true}); };
    Json json = {{"input", number(rates.input)},
                 {"cached", number(rates.cached)},
                 {"cache_write", number(rates.cache_write)}};
    if (rates.cache_write_1h) json["cache_write_1h"] = number(*rates.cache_write_1h);
    json["output"] = number(rates.output);
    return json;
}

// What a token costs, unless each costs a unit.
void add_rates(const Explanation::Reserved& reserved, Doc& doc) {
    if (!reserved.rates || (!reserved.in_money && *reserved.rates == usage::Rates{})) return;
    const usage::Rates& rates = *reserved.rates;
    const std::string hour =
        rates.cache_write_1h ? ", cache_write_1h " + shortest_decimal(*rates.cache_write_1h) : "";
    const std::string text =
        fmt::format("input {}, cached {}, cache_write {}{}, output {}",
                    shortest_decimal(rates.input), shortest_decimal(rates.cached),
                    shortest_decimal(rates.cache_write), hour, shortest_decimal(rates.output));
    if (!reserved.in_money) return doc.fact("  weights", text, "units a token");
    doc.fact("  prices", text,
             fmt::format("dollars for a million tokens of {}{}", shown(reserved.model),
                         reserved.is_unknown_model ? ", by `unknown`" : ""));
}

Json add_reserved(const Explanation::Reserved& reserved, Doc& doc) {
    using By = Explanation::Reserved::By;
    const std::string units = reserved.in_money ? shortest_decimal(reserved.units) + " USD"
                                                : std::to_string(reserved.units);
    doc.fact("  reserves", units, why_reserved(reserved));
    add_rates(reserved, doc);
    doc.fact("  settles", reserved.settled_by.empty() ? "never" : "later",
             reserved.settled_by.empty() ? "what is reserved stays" : reserved.settled_by);
    Json json = {{"unit", reserved.in_money ? "usd" : "units"},
                 {"by", reserved.by == By::number ? "number"
                        : reserved.by == By::body ? "body"
                                                  : "maximum"},
                 {"settled", optional_text(reserved.settled_by)},
                 {"model", optional_text(reserved.model)}};
    json["units"] = amount_json({reserved.units, reserved.in_money});
    if (reserved.rates) json["rates"] = rates_json(*reserved.rates);
    if (reserved.by == By::number) return json;
    json["output"] = {{"tokens", reserved.tokens.output + reserved.tokens.of_any},
                      {"stated_by", optional_text(reserved.stated_by)},
                      {"answers", reserved.answers},
                      {"capped", reserved.is_capped}};
    json["input"] = {{"bytes", reserved.tokens.input_bytes},
                     {"bytes_per_token", reserved.tokens.bytes_per_token}};
    return json;
}

void add_body(const Explanation& explanation, Doc& doc) {
    if (!explanation.body) return;
    const Explanation::Body& body = *explanation.body;
    std::string why = "not JSON";
    if (body.is_form) why = "a form";
    if (body.is_json) why = "an object of JSON";
    if (!body.is_whole) why = "longer than `inspect_body`: not read";
    if (!body.is_needed) why = "not read: no policy of the route needs it";
    doc.fact("body", counted(body.bytes, "byte"), why);
    doc.json["body"] = {{"bytes", body.bytes},
                        {"read", body.is_needed && body.is_whole},
                        {"json", body.is_json},
                        {"form", body.is_form}};
}

void add_policy(const Explanation::Policy& policy, Doc& doc) {
    doc.fact("policy", policy.name, why_of_policy(policy));
    Json keys = keys_of(policy, doc);
    const bool is_counted = policy.outcome == ChargeNotes::Outcome::counted && !policy.left_out;
    Json limits = Json::array();
    for (const Explanation::Limit& limit : policy.limits) {
        limits.push_back(admin::limit_json(limit.limit, limit.name));
        if (limit.never_passes) limits.back()["never_passes"] = true;
        if (!is_counted) continue;
        std::string why = described(limit.limit, policy.in_money);
        if (limit.never_passes) {
            why += policy.mode == "enforce" ? "; this request never passes: it asks for more"
                                            : "; this request asks for more than this limit has";
        }
        doc.fact("  limit", limit.name, std::move(why));
    }
    Json reserved = nullptr;
    if (policy.reserved) reserved = add_reserved(*policy.reserved, doc);
    doc.json["policies"].push_back(
        {{"name", policy.name},
         {"outcome", policy.left_out ? "left_out" : kPolicies[policy.outcome].name},
         {"mode", policy.mode},
         {"candidate_of", optional_text(policy.candidate_of)},
         {"unenforced", policy.unenforced},
         {"tier", optional_text(policy.tier)},
         {"listed_as", optional_text(policy.listed_as)},
         {"keys", std::move(keys)},
         {"limits", std::move(limits)},
         {"reserved", std::move(reserved)}});
    if (policy.lease_slack > 0) doc.json["policies"].back()["lease_slack"] = policy.lease_slack;
}

Json refusal_json(int status, const std::string& reason) {
    return {{"outcome", "refused"}, {"status", status}, {"reason", reason}};
}

Json charged_json(bool is_limited, std::size_t identifiers, std::size_t limits) {
    return {{"outcome", is_limited ? "limited" : "unlimited"},
            {"identifiers", identifiers},
            {"limits", limits}};
}

std::string charged_text(std::size_t identifiers, std::size_t limits) {
    return fmt::format("{} for {}; nothing was charged", counted(limits, "limit"),
                       counted(identifiers, "identifier"));
}

void add_result(const Explanation& explanation, Doc& doc) {
    const auto& cost = explanation.cost;
    if (cost) {
        doc.json["cost"] = {{"units", amount_json({cost->units, cost->in_money})},
                            {"why", cost->why}};
        if (cost->in_money) doc.json["cost"]["unit"] = "usd";
    }
    if (explanation.refusal != 0) {
        doc.json["result"] = refusal_json(explanation.refusal, explanation.refusal_reason);
        return doc.fact("result", std::to_string(explanation.refusal), explanation.refusal_reason);
    }
    doc.json["result"] =
        charged_json(cost.has_value(), explanation.identifiers, explanation.limits);
    if (!cost) {
        const bool is_asked = explanation.is_call || explanation.is_gateway;
        return doc.fact("result", is_asked ? "admitted" : "forwarded", "no limit applies");
    }
    if (cost->counts) {
        doc.fact("cost", units_text(cost->units, cost->in_money), std::string(cost->why));
    }
    doc.fact("result",
             explanation.upstream.empty() ? "admitted if the limits admit it"
                                          : "forwarded if the limits admit it",
             charged_text(explanation.identifiers, explanation.limits));
}

}  // namespace

Doc doc_of(const Explanation& explanation) {
    Doc doc({.indent = 2, .ascii = true});
    add_request(explanation, doc);
    add_peer(explanation, doc);
    if (explanation.is_identified) {
        add_client(explanation, doc);
        add_methods(explanation, doc);
        add_user(explanation, doc);
        add_route(explanation, doc);
        add_body(explanation, doc);
    }
    if (explanation.is_identified || explanation.is_call) doc.json["policies"] = Json::array();
    for (const Explanation::Policy& policy : explanation.policies) add_policy(policy, doc);
    add_result(explanation, doc);
    return doc;
}

Doc doc_of(const CallExplanation& explanation) {
    using Form = faces::CheckCall::Form;
    const Form form = explanation.form;
    if (form == Form::one && explanation.items.size() == 1) {
        return doc_of(explanation.items.front());
    }
    Doc doc({.indent = 2, .ascii = true});
    const std::string name = form == Form::all ? "all" : "each";
    Json items = Json::array();
    for (const Explanation& item : explanation.items) {
        Doc one = doc_of(item);
        doc.line(fmt::format("{}[{}]", name, items.size()));
        doc.append_text(one);
        doc.line("");
        items.push_back(std::move(one.json));
    }
    if (form != Form::one) doc.json[name] = std::move(items);
    Json& result = doc.json["result"];
    if (explanation.refusal != 0) {
        result = refusal_json(explanation.refusal, explanation.refusal_reason);
        doc.line(fmt::format("result  {}  {}", explanation.refusal, explanation.refusal_reason));
    } else if (form == Form::all) {
        result =
            charged_json(explanation.identifiers != 0, explanation.identifiers, explanation.limits);
        doc.line("result  all or nothing  " +
                 charged_text(explanation.identifiers, explanation.limits));
    } else {
        result = {{"outcome", "answered"}};
        doc.line("result  200  each item has a result of its own");
    }
    return doc;
}

}  // namespace tidegate::cli
