// `routes`: what each matches, where it goes, how it forwards and which policies it meets. What a
// request costs is read in read_costs.cpp, the tunnels in read_response_cors_tunnels.cpp.
#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "http/query_and_method_override.hpp"
#include "identity/digest.hpp"
#include "routing/path_pattern.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kRoutePoliciesMax = 16;  // a route; each costs every request that meets it
constexpr std::size_t kPathBytesMax = 1'024;

void read_methods(const Value& value, routing::Match& match) {
    constexpr std::size_t kMethodBytesMax = 32;
    constexpr ListRule kMethods{"a list of methods: `[GET, POST]`", "methods", 32,
                                "the list is empty: no request would match"};
    for (const Value& item : value.one_or_more(kMethods)) {
        const auto method = item.text("a method such as `GET`");
        if (!method) continue;
        if (!is_token(*method) || method->size() > kMethodBytesMax) {
            item.fault(quote(*method) + " is not a method such as `GET`");
            continue;
        }
        if (http::has_lower_case(*method)) {
            item.fault(quote(*method) + " would never match, as methods have upper case: write " +
                       quote(to_upper(*method)));
            continue;
        }
        add_once(item, quote(*method), *method, match.methods);
    }
}

constexpr std::string_view kAnyLabels = "*.";

// `name`: without the `*.` that `host` may begin with. Empty: no fault.
std::string fault_of_pattern(const std::string& host, std::string_view name, bool any_labels) {
    if (host == "*" || host == "*.") {
        return quote(host) + " would match every host: remove `host`";
    }
    if (host.size() > 1 && host.starts_with('.')) {
        return quote(host) + " is not a host: write " + quote("*" + host) +
               " for every name below it, and a second route for " + quote(host.substr(1));
    }
    if (name.find('*') != name.npos) {
        return quote(host) +
               ": `*` can only be the first label, for one or more labels: `*.example.com`";
    }
    if (any_labels && (name.starts_with('[') || parse_ip(name)))
        return quote(host) + ": an address has no names below it";
    return {};
}

void read_host(const Value& value, routing::Match& match) {
    auto host = value.text("a host such as `api.example.com`");
    if (!host) return;
    std::string_view bare = *host;
    const bool any_labels = bare.starts_with(kAnyLabels);
    if (any_labels) bare.remove_prefix(kAnyLabels.size());
    if (const std::string fault = fault_of_pattern(*host, bare, any_labels); !fault.empty()) {
        value.fault(fault);
        return;
    }
    const bool bracketed = bare.size() > 2 && bare.front() == '[' && bare.back() == ']';
    if (bracketed) bare = bare.substr(1, bare.size() - 2);
    // Requests name no other address in brackets, and none of these without.
    const bool is_ipv6 = bare.find(':') != std::string_view::npos;
    if (!is_host(bare) || (bracketed && !is_ipv6)) {
        value.fault(quote(*host) + " is not a host such as `api.example.com`, without port");
        return;
    }
    if (host->ends_with('.')) host->pop_back();
    match.host = to_lower(std::move(*host));
}

void read_headers(const Value& value, routing::Match& match) {
    constexpr ListRule kHeaders{"a map of fields and values: `{x-beta: \"1\"}`", "fields", 16};
    for (const auto& [name, item] : value.named(kHeaders, false)) {
        if (!is_token(name)) {
            item.fault(quote(name) + " is not the name of a header field such as `x-beta`");
            continue;
        }
        const auto content = item.any_text("the value of a header field");
        if (!content) continue;
        if (!is_field_value(*content)) {
            // It may be a secret: the message does not repeat it.
            item.fault(
                "the text cannot be the value of a header field: it has control characters "
                "or white space around it");
            continue;
        }
        if (*content == kBlanked) {
            item.fault(std::string(kWriteTheSecret));
            continue;
        }
        const std::string field = to_lower(name);
        const auto same = [&](const auto& other) { return other.first == field; };
        if (std::any_of(match.headers.begin(), match.headers.end(), same)) {
            item.fault(quote(field) + " is listed twice, in different case");
            continue;
        }
        match.headers.emplace_back(field, *content);
    }
}

const Rows& match_keys() {
    static const auto keys =
        Rows("a map: `{path: /v1/**}`")
            .key("path", kind::written(R"({"type":"string","pattern":"^/|^regex:|\\$\\{"})"),
                 {"a path such as `/v1/**`: `*` is a segment, `**` any number of them, `{name}` "
                  "captures one",
                  "`/**`"})
            .key("methods",
                 kind::one_or_more(
                     kind::written(
                         R"({"type":"string","pattern":"^[A-Z!#$%&'*+.^_`|~0-9-]+$|\\$\\{"})"),
                     {1, 32}),
                 {"methods such as `[GET, POST]`", "any"})
            .key("host", kind::type("text"),
                 {"a host such as `api.example.com`, or `*.example.com`", "any"})
            .key(
                "headers",
                kind::written(
                    R"({"type":"object","maxProperties":16,"additionalProperties":{"$ref":"#/$defs/text"}})"),
                {"fields and their values, such as `{x-beta: \"1\"}`", "any"})
            .secret();
    return keys;
}

void add_match(const Value& place, const routing::Match& match, Config& config) {
    if (const auto added = config.router.add(match); !added) {
        place.fault(added.error());
    }
}

void note_options(const Value& place, const routing::Match& match, const Config& config,
                  Declared& declared) {
    const auto& methods = match.methods;
    if (methods.empty() || std::find(methods.begin(), methods.end(), "OPTIONS") != methods.end()) {
        return;
    }
    declared.cors.without_options[config.routes.size()] = place.place();
}

// Patterns that are valid, and hardly match what is meant.
void warn_about_path(const Value& value, std::string_view path,
                     const routing::PathPattern& pattern) {
    const std::string& beginning = pattern.beginning();
    // The target of `OPTIONS *` is no path.
    if (!beginning.empty() && beginning.front() != '/' && beginning.front() != '*') {
        path.remove_prefix(path.find(':') + 1);
        path.remove_prefix(std::min(path.find_first_not_of(" ^"), path.size()));
        value.warn("never matches: paths begin with `/`: write " +
                   quote((path.starts_with('/') ? "regex:" : "regex:/") + std::string(path)));
    } else if (pattern.kind() == routing::PathPattern::Kind::segments &&
               path.find('(') != path.npos && path.find('|') != path.npos) {
        value.warn("`(` and `|` stand for themselves here: write " +
                   quote("regex:" + std::string(path)));
    }
}

// The paths of a route; nothing when they are broken. `takes_everything`: whether it takes every
// request.
std::optional<routing::PathPattern> read_match(const Value& value, Config& config,
                                               Declared& declared, routing::Match& match,
                                               bool& takes_everything) {
    Section section(value, match_keys());
    const auto path = section.find("path");
    if (path) match.path = path->text("a path such as `/v1/**`").value_or(match.path);
    if (const auto methods = section.find("methods")) {
        read_methods(*methods, match);
        note_options(*methods, match, config, declared);
    }
    if (const auto host = section.find("host")) read_host(*host, match);
    if (const auto headers = section.find("headers")) read_headers(*headers, match);
    section.refuse_others();
    if (takes_grpc_only(match)) declared.grpc_routes.insert(config.routes.size());
    takes_everything = false;
    if (match.path.size() > kPathBytesMax) {
        path->fault("longer than " + std::to_string(kPathBytesMax) + " bytes");
        return std::nullopt;
    }
    add_match(path.value_or(value), match, config);
    auto pattern = routing::PathPattern::parse(match.path);
    if (!pattern) return std::nullopt;
    if (path) warn_about_path(*path, match.path, *pattern);
    takes_everything = pattern->takes_everything() && match.methods.empty() && match.host.empty() &&
                       match.headers.empty();
    return std::move(*pattern);
}

std::optional<routing::PathPattern> read_paths(const std::optional<Value>& match,
                                               const Value& route, Config& config,
                                               Declared& declared, routing::Match& made,
                                               bool& takes_everything) {
    if (match) return read_match(*match, config, declared, made, takes_everything);
    takes_everything = true;
    add_match(route, made, config);
    return *routing::PathPattern::parse(routing::Match{}.path);
}

void read_route_upstream(const Value& value, Route& route, Declared& declared) {
    const auto name = value.identifier();
    if (!name) return;
    const auto found = declared.upstreams.find(*name);
    if (found == declared.upstreams.end()) {
        unknown_name(value, "upstream", *name, declared.upstreams);
        return;
    }
    found->second.used = true;
    route.upstream = found->second.position.value_or(0);
}

void choose_upstream(Section& section, Route& route, Declared& declared) {
    if (const auto upstream = section.find("upstream")) {
        read_route_upstream(*upstream, route, declared);
    } else if (declared.common_upstream != nullptr) {
        declared.common_upstream->used = true;
        route.upstream = declared.common_upstream->position.value_or(0);
    } else if (declared.upstreams.size() == 1) {
        declared.upstreams.begin()->second.used = true;
    } else if (declared.upstreams.size() > 1) {
        section.need("upstream", "`upstream: NAME` with one of the upstreams");
    }
}

// Appends what `name` refers to; a policy that is broken has been reported.
void add_named(const Value& value, const std::string& name, const Config& config, Route& route,
               Declared& declared) {
    const auto found = declared.policies.find(name);
    if (found == declared.policies.end()) {
        unknown_name(value, "policy", name, declared.policies);
        return;
    }
    found->second.used = true;
    if (!found->second.position) return;
    const PolicySettings* policy = config.policies[*found->second.position].get();
    if (std::find(route.policies.begin(), route.policies.end(), policy) != route.policies.end()) {
        value.fault("the policy " + quote(name) +
                    " is on this route twice (default_policies count as well): remove one");
        return;
    }
    route.policies.push_back(policy);
}

void read_route_policies(const Value& value, Config& config, Route& route, Declared& declared) {
    const auto items = value.items({"a list of policies, or `[]` for no limit"});
    if (items.size() + route.policies.size() > kRoutePoliciesMax) {
        value.fault("more than " + std::to_string(kRoutePoliciesMax) + " policies on a route");
        return;
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (!items[i].is_map()) {
            const auto name = items[i].text("the name of a policy, or a policy");
            if (name) add_named(items[i], *name, config, route, declared);
            continue;
        }
        const std::string name = route.name + "/" + std::to_string(i);
        if (const auto position = read_policy(items[i], name, config, declared)) {
            route.policies.push_back(config.policies[*position].get());
        }
    }
}

// Each key may make an identifier for each prefix of an address, and one command asks for all.
void check_keys(const Value& value, const Route& route) {
    constexpr std::size_t kKeysMax = 31;
    std::size_t keys = 0;
    for (const PolicySettings* policy : route.policies) {
        keys += policy->key.size() * (policy->has_candidate ? 2 : 1);
    }
    if (keys <= kKeysMax) return;
    value.fault(std::to_string(keys) + " keys in the policies of this route: at most " +
                std::to_string(kKeysMax) + " are allowed");
}

// A policy that counts by a capture needs a path that has it.
void check_captures(const Value& value, const limit::Policy& policy, const Route& route) {
    const std::string name = missing_capture(policy.key, route);
    if (name.empty()) return;
    value.fault("the policy " + quote(policy.name) + " counts by `path:" + name +
                "`, but this route's path has no such capture: write `{" + name +
                "}` for one of its segments");
}

// How the policies of a route must fit it and each other.
void check_policies(const Value& value, bool path_is_known, Route& route) {
    for (const PolicySettings* policy : route.policies) {
        if (path_is_known) check_captures(value, *policy, route);
        if (!agree_on_moment(value, policy->moment, route.moment)) return;
    }
}

struct NamedRoutes {
    std::size_t count = 0;  // of routes that have the name, or would have it
    Place first;            // of these routes
};
using RouteNames = std::unordered_map<std::string, NamedRoutes>;

// Whether logs, metrics, fields and command lines show it as it is.
bool is_plain_name(std::string_view text) {
    constexpr std::string_view kPlainSigns = "/*.,:-_@";
    return std::all_of(text.begin(), text.end(), [&](char c) {
        return is_alphanumeric(c) || kPlainSigns.find(c) != kPlainSigns.npos;
    });
}

// `GET,POST:api.example.com/v1/:tenant/**`: what a route matches, but for its header fields, whose
// values may be secrets. Two matches whose texts are plain have different texts.
std::string shown_match(const routing::Match& match) {
    std::vector<std::string> methods = match.methods;
    std::sort(methods.begin(), methods.end());
    std::string text;
    for (const std::string& method : methods) text += (text.empty() ? "" : ",") + method;
    if (!text.empty()) text += ':';
    text += match.host;
    for (const char c : match.path) {
        if (c == '{') text += ':';
        if (c != '{' && c != '}') text += c;
    }
    return text;
}

// All of it, with lengths: no two matches share it.
std::string whole_match(const routing::Match& match) {
    std::vector<std::string> parts = match.methods;
    std::sort(parts.begin(), parts.end());
    parts.insert(parts.begin(), {match.path, match.host});
    auto headers = match.headers;
    std::sort(headers.begin(), headers.end());
    for (auto& [name, value] : headers) {
        parts.push_back(std::string(name).append("=").append(value));
    }
    std::string whole;
    for (const std::string& part : parts) {
        whole.append(std::to_string(part.size())).append(":").append(part);
    }
    return whole;
}

// The name of a route that has none: by what it matches and not by its position, so that a route
// that a reload adds moves no counts of others. What is not plain, or long, ends in `~` and a hash.
std::string name_by_match(const routing::Match& match) {
    constexpr std::size_t kNameBytesMax = 64;
    constexpr std::size_t kHashBytes = 6;
    std::string name = shown_match(match);
    const bool is_literal = match.path.starts_with('/') &&
                            match.path.find(':') == std::string::npos &&
                            match.host.find(':') == std::string::npos;
    if (is_literal && match.headers.empty() && is_plain_name(name) &&
        name.size() <= kNameBytesMax) {
        return name;
    }
    std::erase_if(name, [](char c) { return !is_plain_name({&c, 1}); });
    name.resize(std::min(name.size(), kNameBytesMax - 1 - 2 * kHashBytes));
    name += '~';
    const identity::Sha256 hash = identity::sha256(whole_match(match));
    append_hex(std::span(hash).first<kHashBytes>(), name);
    return name;
}

// A number tells unnamed routes with one match apart, in their order; requests meet the first.
std::string name_of(Section& section, const routing::Match& match, RouteNames& names) {
    const auto written = section.find("name");
    const Value value = written.value_or(section.value());
    std::string name = written ? written->identifier().value_or("") : name_by_match(match);
    if (name.empty()) return name;
    NamedRoutes& routes = names.try_emplace(name, NamedRoutes{0, value.place()}).first->second;
    if (++routes.count == 1) return name;
    if (!written) return name + '#' + std::to_string(routes.count);
    const bool is_here = routes.first.file == value.place().file;
    value.fault("the route " +
                (is_here ? "in line " + std::to_string(routes.first.line)
                         : "at " + value.context().shown(routes.first)) +
                " has the name " + quote(name) + " already: choose another");
    return name;
}

const Keys<Route>& route_timeouts_keys() {
    static const auto keys = Keys<Route>("a map: `{response: 2min, stream_idle: 1h}`")
                                 .duration("response", &Route::response_timeout, {},
                                           {"in place of the upstream's", "the upstream's"})
                                 .duration("stream_idle", &Route::stream_idle, {},
                                           {"in place of the upstream's", "the upstream's"});
    return keys;
}

const Keys<Route>& route_bounds_keys() {
    static const auto keys =
        Keys<Route>("a map: `{body_bytes: 100MiB}`")
            .size_or_unlimited("body_bytes", &Route::body_bytes, 0,
                               {"in place of the global one", "the global one"});
    return keys;
}

void read_strip_prefix(const Value& value, const routing::PathPattern* pattern, Route& route) {
    auto prefix = value.text("the beginning of a path such as `/api`");
    if (!prefix || pattern == nullptr) return;
    if (const auto checked = routing::check_path_prefix(*prefix, *pattern); !checked) {
        value.fault(checked.error());
    } else {
        route.strip_prefix = std::move(*prefix);
    }
}

void read_buffer(const Value& value, bool bound_is_own, Route& route) {
    const auto bytes = read_held_bytes(value);
    if (!bytes) return;
    route.buffer = *bytes;
    if (*bytes <= route.body_bytes) return;
    value.fault("is larger than the bodies that this route takes: " +
                std::string(bound_is_own ? "its " : "") + "limits_on_requests.body_bytes is " +
                std::to_string(route.body_bytes) + " bytes. Write at most that");
}

// How the route forwards. `pattern`: of its paths; null: it is broken.
void read_forwarding_keys(Section& section, const routing::PathPattern* pattern,
                          const Config& config, Route& route) {
    if (const auto timeouts = section.find("timeouts")) {
        route_timeouts_keys().read(*timeouts, route);
    }
    if (const auto bounds = section.find("limits_on_requests")) {
        route_bounds_keys().read(*bounds, route);
    }
    if (const auto prefix = section.find("strip_prefix")) {
        read_strip_prefix(*prefix, pattern, route);
    }
    if (const auto buffer = section.find("buffer")) {
        const bool bound_is_own = route.body_bytes != config.limits_on_requests.body_bytes;
        read_buffer(*buffer, bound_is_own, route);
    }
}

void read_route(const Value& value, Config& config, Declared& declared, RouteNames& names) {
    Section section(value, route_keys());
    Route route;
    const std::vector<ConfigFault>& faults = value.context().faults;
    const std::size_t faults_before_match = faults.size();
    const auto match = section.find("match");
    section.choice<bool>("encoded_slash", route.passes_encoded_slash,
                         {{"refuse", false}, {"pass", true}});
    bool takes_everything = false;
    routing::Match matched;
    matched.passes_encoded_slash = route.passes_encoded_slash;
    const auto paths = read_paths(match, value, config, declared, matched, takes_everything);
    route.name = name_of(section, matched, names);
    route.path = matched.path;
    takes_everything = takes_everything && value.is_map() && faults.size() == faults_before_match;
    if (paths) route.captures = paths->capture_names();
    choose_upstream(section, route, declared);
    set_route_defaults(config, route);
    if (paths) check_hash(section.find("upstream").value_or(value), config, route);
    read_forwarding_keys(section, paths ? &*paths : nullptr, config, route);
    read_route_tunnel(section, config, route);
    if (const auto identity = section.find("identity")) {
        read_route_identity(*identity, config, route);
    }
    const auto cost = section.find("cost");
    if (cost) read_cost(*cost, route);
    const auto defaults = section.find("default_policies");
    for (const std::string& name :
         defaults ? read_default_policies(*defaults, declared) : declared.default_policies) {
        add_named(defaults.value_or(value), name, config, route, declared);
    }
    const auto policies = section.need("policies");
    if (policies) {
        const bool is_empty = policies->is_sequence() && policies->is_empty();
        if (is_empty && !defaults) declared.empty_policies.push_back(policies->place());
        read_route_policies(*policies, config, route, declared);
    }
    read_inspect_body(section, config, route);
    check_keys(policies.value_or(value), route);
    check_policies(policies.value_or(value), paths.has_value(), route);
    if (const auto cors = section.find("cors")) {
        declared.cors.own[config.routes.size()] =
            read_cors(*cors, route.name + "/" + kPreflight, config, declared);
    }
    const std::size_t faults_before_others = faults.size();
    section.refuse_others();
    // A key that is refused may be meant for `match`: then the route does not take every request.
    if (takes_everything && faults.size() == faults_before_others && !declared.takes_everything) {
        declared.takes_everything = config.routes.size();
    }
    check_cost(cost.value_or(value), route);
    declared.routes.push_back(value.place());
    config.routes.push_back(std::move(route));
}

bool any_counts_by(const Config& config, limit::KeyPart::Kind kind) {
    return std::any_of(config.policies.begin(), config.policies.end(),
                       [&](const auto& policy) { return limit::counts_by(policy->key, kind); });
}

}  // namespace

IdleRule forwards_nothing() {
    return {[](const Config& config, const Declared&) { return config.has_face(Face::proxy); },
            "no listener has `face: proxy`, so Tidegate forwards nothing", true};
}

const Rows& route_keys() {
    static const auto keys =
        Rows("a map: `{match: {path: /v1/**}, policies: [per-client]}`")
            .key("match", kind::map(match_keys()),
                 {"`{path, methods, host, headers}`: all of them must hold", "everything",
                  "32 methods, 16 fields, a path of 1,024 bytes"})
            .key("encoded_slash", kind::word({"refuse", "pass"}),
                 {"what becomes of `%2F` in a path where a slash would lead to another route: "
                  "[matching](#matching)",
                  "`refuse`", "`refuse`, `pass`"})
            .key("name", kind::type("name"),
                 {"in metrics and logs, and of the policies written in it",
                  "[what it matches](#names-of-limits)"})
            .key("upstream", kind::type("name"),
                 {"one of `upstreams`", "the one at the top, else the only one"})
            .idle(forwards_nothing())
            .key("timeouts", kind::map(route_timeouts_keys()), {"in place of the upstream's"})
            .idle(forwards_nothing())
            .key("limits_on_requests", kind::map(route_bounds_keys()),
                 {"in place of the global bounds"})
            .key("strip_prefix", kind::type("path"),
                 {"`/api`: the upstream gets the path without it: [matching](#matching)", "none",
                  "a literal prefix of `match.path`"})
            .idle(forwards_nothing())
            .key("buffer", kind::type("held_bytes"),
                 {"how much of every body Tidegate [reads first](#bodies-that-are-held), also of "
                  "longer ones and those of unknown length",
                  "`off`", "1 B to 16 MiB, at most the route's `body_bytes`"})
            .idle(forwards_nothing())
            .key("inspect_body", kind::size(kInspectedBody),
                 {"how much of a body Tidegate [reads before it decides the "
                  "request](#bodies-that-are-inspected), where a policy has a key or a cost that "
                  "needs it",
                  "`1MiB`", "1 B to 64 MiB, at most the route's `body_bytes`"})
            .key("upgrade", kind::one_or_more(kind::word({"websocket"}), {1, 4}),
                 {"which protocols clients may change to: `[websocket]`, for "
                  "[WebSockets](tunnels.md). On other routes Tidegate drops `Upgrade`",
                  "none", "the only choice"})
            .idle(forwards_nothing())
            .key("tunnel", kind::map(tunnel_keys()), {"bounds of the WebSockets of this route"})
            .idle(forwards_nothing())
            .key("identity", kind::word({"required", "optional"}),
                 {"`required`: a request without a user gets 401; or `optional`",
                  "by `identity.require`"})
            .key("cost", kind::any({kind::integer({0, limit::kQuotaMax}), kind::map(cost_keys())}),
                 {"units that a request takes, or `{header, from, default, min, max}`: "
                  "[costs](#costs-and-moments)",
                  "`1`", "0 to 4,294,967,295"})
            .key("default_policies", kind::one_or_more(kind::type("name")),
                 {"in place of the global ones; `[]` is none", "the global ones"})
            .key("policies",
                 kind::list(kind::any({kind::type("name"), kind::map(policy_keys())}), {0, 16}),
                 {"names, or policies written in place; `[]` adds none", "required",
                  "16 with the default ones"})
            .required("`policies: [NAME]`, or `policies: []` for no limit")
            .key("cors", kind::off_or(kind::map(cors_keys())),
                 {"in place of `response.cors`, or `off`", "that of `response`"});
    return keys;
}

void set_route_defaults(const Config& config, Route& route) {
    // A route whose upstream is broken is never served.
    if (route.upstream < config.upstreams.size()) {
        const Upstream& upstream = config.upstreams[route.upstream];
        route.response_timeout = upstream.response_timeout;
        route.stream_idle = upstream.stream_idle;
    }
    route.body_bytes = config.limits_on_requests.body_bytes;
    route.needs_user = config.require_user;
}

void add_route_policies(const Value& value, const std::vector<std::string>& names,
                        const Config& config, Route& route, Declared& declared) {
    for (const std::string& name : names) add_named(value, name, config, route, declared);
    if (route.policies.size() > kRoutePoliciesMax) {
        value.fault("more than " + std::to_string(kRoutePoliciesMax) +
                    " policies on the last route");
    }
    check_keys(value, route);
    check_policies(value, true, route);
}

void read_route_case(const Value& value, Config& config, Declared& declared) {
    using routing::RouteCase;
    declared.route_case = value.place();
    const auto chosen = value.choice<RouteCase>({{"auto", RouteCase::refuse},
                                                 {"on", RouteCase::ignore},
                                                 {"off", RouteCase::as_sent},
                                                 {"true", RouteCase::ignore},
                                                 {"false", RouteCase::as_sent}});
    config.route_case = chosen.value_or(config.route_case);
    config.router = routing::Router(config.route_case);
}

void read_method_override(const Value& value, Declared& declared) {
    declared.states_overrides = true;
    declared.passes_overrides =
        value.choice<bool>({{"remove", false}, {"pass", true}}).value_or(false);
}

void settle_overrides(Config& config, const Declared& declared) {
    using Kind = limit::KeyPart::Kind;
    if (declared.passes_overrides) return;
    // A preflight counts for no policy of its route, unless it is in truth another method.
    const bool has_cors = !config.cors.empty();
    RemovedOverrides& removed = config.removed_overrides;
    removed.methods =
        has_cors || config.router.names_methods() || any_counts_by(config, Kind::method);
    // Captures are of routes that name paths. A target has a query, too.
    const bool has_moment =
        std::any_of(config.routes.begin(), config.routes.end(), [](const Route& route) {
            return route.moment && route.moment->in == MomentSource::In::query;
        });
    removed.targets =
        has_moment || config.router.names_paths() || any_counts_by(config, Kind::query);
}

void read_routes(const Value& value, Config& config, Declared& declared) {
    constexpr ListRule kRoutes{"a list of routes: `- {match: {path: /**}, policies: []}`", "routes",
                               10'000, "at least one route is needed"};
    RouteNames names;
    for (const Value& route : value.items(kRoutes)) read_route(route, config, declared, names);
}

}  // namespace tidegate::config
