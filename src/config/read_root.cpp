// The top of a configuration: in which order its sections are read, how they fit together, and
// `upstream` and `limits` there.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

namespace {

constexpr std::uint16_t kDefaultPort = 8080;
// The name of what `upstream` and `limits` at the top stand for: upstream, policy and route.
constexpr std::string_view kShortName = "default";
constexpr std::string_view kWhereTo =
    "say where requests go: `upstream: http://127.0.0.1:3000`, or `upstreams` and `routes`";

void check_default_admin(Section& root, const Config& config) {
    const Address& address = config.admin->address;
    for (const Listen& listen : config.listen) {
        if (!listen.address.overlaps(address)) continue;
        root.find("listen")->fault(quote(address.to_string()) +
                                   " is where `admin` listens by default: write `admin: off` or "
                                   "another address for it");
    }
}

void read_listeners(Section& root, Config& config) {
    if (const auto listen = root.find("listen")) {
        read_listen(*listen, config);
    } else {
        config.listen.emplace_back().address = {kEveryAddress, kDefaultPort, ""};
    }
    if (const auto admin = root.find("admin")) {
        read_admin(*admin, config);
    } else {
        config.admin = default_admin();
        check_default_admin(root, config);
    }
}

// Other durations are whole milliseconds; this one is shorter.
Result<std::chrono::microseconds, std::string> parse_busy_poll(std::string_view text) {
    constexpr std::chrono::microseconds kLeast{10};
    constexpr std::chrono::microseconds kMost{1'000};
    const auto time = parse_duration(text);
    if (!time && parse_decimal(text)) {
        return quote(text) + " has no unit: write " + quote(std::string(text) + "us") +
               ", or `off`";
    }
    if (!time) return time.error() + ", or `off`";
    if (*time < kLeast || *time > kMost) {
        return quote(text) + " is out of range: " + format_duration(kLeast) + " to " +
               format_duration(kMost) + ", or `off`";
    }
    return *time;
}

constexpr IntegerRange kReplicas{1, 10'000};

const Rows& auto_replicas_keys() {
    static const auto keys =
        Rows("a map: `{assume: 2}`")
            .key("assume", kind::integer(kReplicas),
                 {"how many there are while [no number is known](limits.md#the-number-of-proxies): "
                  "Redis has not told yet, nor has a process before",
                  "`1`; `check` warns"});
    return keys;
}

const Rows& replicas_keys() {
    static const auto keys =
        Rows("`auto`, a number, or a map: `{auto: {assume: 2}}`")
            .key("auto", kind::map(auto_replicas_keys()), {"as many as Redis sees"});
    return keys;
}

void read_replicas(const Value& value, Config& config) {
    if (value.is("auto")) return;
    if (!value.is_map()) {
        if (const auto number = value.integer(kReplicas)) {
            config.replicas = static_cast<int>(*number);
        }
        return;
    }
    Section section(value, replicas_keys());
    if (const auto counted = section.need("auto", "`auto: {assume: 2}`")) {
        Section of_auto(*counted, auto_replicas_keys());
        if (const auto number = of_auto.need("assume", "`assume: 2`")) {
            if (const auto assumed = number->integer(kReplicas)) {
                config.replicas_assumed = static_cast<int>(*assumed);
            }
        }
        of_auto.refuse_others();
    }
    section.refuse_others();
}

// A start while Redis is away is no rare event: an outage takes long enough for a restart.
void warn_about_replicas(Section& root, const Config& config) {
    if (!config.has_shares() || config.replicas || config.replicas_assumed) return;
    const auto written = root.find("replicas");
    const auto place = written ? written : root.find("store");
    if (!place) return;
    place->warn(
        "a Tidegate that starts while Redis is away does not know how many there are, so "
        "`on_store_failure: local` gives it the whole of each quota: write the number that you "
        "run, `replicas: {auto: {assume: 2}}`");
}

void read_process(Section& root, Config& config) {
    if (const auto threads = root.find("threads"); threads && !threads->is("auto")) {
        constexpr std::int64_t kThreadsMax = 256;
        if (const auto number = threads->integer({1, kThreadsMax})) {
            config.threads = static_cast<unsigned>(*number);
        }
    }
    if (const auto busy_poll = root.find("busy_poll"); busy_poll && !busy_poll->is_off()) {
        config.busy_poll = busy_poll->parsed("a duration such as `100us`", parse_busy_poll)
                               .value_or(config.busy_poll);
    }
    if (const auto replicas = root.find("replicas")) read_replicas(*replicas, config);
    if (const auto deny_cache = root.find("deny_cache")) read_deny_cache(*deny_cache, config);
}

// `upstream` and `limits` at the top are short for an upstream, a policy and the last route, `/**`,
// all named `default`. They may stand alone, or beside `upstreams`, `policies` and `routes`.

// Beside `upstreams`, a word without `:` and `/` is the name of one of them.
bool names_an_upstream(const Value& value, const Declared& declared,
                       std::optional<std::string>& name) {
    if (declared.upstreams.empty() || !value.is_scalar()) return false;
    name = value.text("a URL such as `http://10.0.0.5:3000`, or the name of an upstream");
    return !name || is_identifier(*name);
}

void use_named_upstream(const Value& value, const std::string& name, Declared& declared) {
    const auto found = declared.upstreams.find(name);
    if (found != declared.upstreams.end()) {
        declared.common_upstream = &found->second;
        return;
    }
    std::vector<std::string_view> names;
    names.reserve(declared.upstreams.size());
    for (const auto& [other, entry] : declared.upstreams) names.push_back(other);
    const std::string_view meant = nearest(name, names);
    value.fault("there is no upstream " + quote(name) +
                (meant.empty() ? "" : "; did you mean " + quote(meant) + "?") +
                (meant.empty() ? ": write" : " Write") +
                " a name of `upstreams`, or a URL such as `http://127.0.0.1:3000`");
}

void add_short_upstream(const Value& value, Config& config, Declared& declared) {
    const std::string name(kShortName);
    if (declared.upstreams.contains(name)) {
        value.fault(
            "a URL here is short for an upstream `default`, and `upstreams` has one of this name: "
            "write `upstream: default` for that one, or rename it");
        return;
    }
    Declared::Named& entry = declared.upstreams[name];
    entry.place = value.place();
    declared.common_upstream = &entry;
    auto server = read_server(value, config);
    if (!server) return;
    warn_about_lone_weight(value);
    Upstream only;
    only.name = name;
    only.servers.push_back(std::move(*server));
    entry.position = config.upstreams.size();
    config.upstreams.push_back(std::move(only));
}

// Whether the last route's name is free; reports the route that has it.
bool check_name(const Value& upstream, const Config& config, const Declared& declared) {
    const auto same = std::find_if(config.routes.begin(), config.routes.end(),
                                   [](const Route& route) { return route.name == kShortName; });
    if (same == config.routes.end()) return true;
    const auto position = static_cast<std::size_t>(same - config.routes.begin());
    upstream.context().faults.push_back(
        {declared.routes[position], "routes[" + std::to_string(position) +
                                        "]: `default` is the name of the last route, which "
                                        "`upstream` stands for: choose another name"});
    return false;
}

// `limits` at the top: the policy `default`. After `policies`.
void read_short_limits(const Value& value, Config& config, Declared& declared) {
    const std::string name(kShortName);
    if (declared.policies.contains(name)) {
        value.fault(
            "short for a policy `default`, and `policies` has one of this name: rename that one, "
            "or write its limits here");
        return;
    }
    Limits list = read_limits(value);
    report_notes(value, list);
    PolicySettings policy;
    policy.name = name;
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip),
                  limit::single_key(limit::KeyPart::Kind::user)};
    policy.limits = std::move(list.limits);
    policy.moment = std::move(list.moment);
    policy.on_store_failure = declared.on_store_failure;
    Declared::Named& entry = declared.policies[name];
    entry.place = value.place();
    // The reader has reported limits with a fault; the policy replaces them meanwhile.
    entry.position = add_policy(std::move(policy), config);
}

// `upstream` at the top: a URL is the upstream `default`, a name one of `upstreams`. After these.
void read_short_upstream(const Value& value, Config& config, Declared& declared) {
    std::optional<std::string> name;
    if (!names_an_upstream(value, declared, name)) {
        add_short_upstream(value, config, declared);
    } else if (name) {
        use_named_upstream(value, *name, declared);
    }
}

// The route `/**` that `upstream` at the top stands for, with its `limits`. After `routes`.
void add_last_route(const Value& upstream, const std::optional<Value>& limits, Config& config,
                    Declared& declared) {
    const auto policy = declared.policies.find(kShortName);
    const bool has_limits = limits && policy != declared.policies.end();
    if (declared.takes_everything) {
        // `upstream` is then the target of routes that name no other.
        if (has_limits && !policy->second.used) {
            limits->fault("would never count: the route " +
                          quote(config.routes[*declared.takes_everything].name) +
                          " takes every request before the last route, which has these limits. "
                          "Write `default` into the `policies` of that route, or remove `limits`");
        }
        return;
    }
    if (!check_name(upstream, config, declared)) return;
    Route route;
    route.name = kShortName;
    if (declared.common_upstream != nullptr) {
        declared.common_upstream->used = true;
        route.upstream = declared.common_upstream->position.value_or(0);
    }
    set_route_defaults(config, route);
    check_hash(upstream, config, route);
    std::vector<std::string> names = declared.default_policies;
    const std::string own(kShortName);
    if (has_limits && std::find(names.begin(), names.end(), own) == names.end()) {
        names.push_back(own);
    }
    add_route_policies(upstream, names, config, route, declared);
    if (const auto added = config.router.add({}); !added) upstream.fault(added.error());
    declared.routes.push_back(upstream.place());
    config.routes.push_back(std::move(route));
}

void read_traffic(Section& root, Config& config, Declared& declared) {
    const auto upstream = root.find("upstream");
    const auto limits = root.find("limits");
    const auto policies = root.find("policies");
    const auto upstreams = root.find("upstreams");
    const auto routes = root.find("routes");
    const auto default_policies = root.find("default_policies");
    if (const auto route_case = root.find("routes_ignore_case")) {
        read_route_case(*route_case, config, declared);
    }
    if (const auto overrides = root.find("method_override")) {
        read_method_override(*overrides, declared);
    }

    const bool is_proxy = config.has_face(Face::proxy);
    // The key that makes the last route: `upstream`, or `limits` where Tidegate forwards nothing.
    const auto& last_route = upstream || is_proxy ? upstream : limits;
    if (limits && !last_route && (policies || upstreams || routes)) {
        limits->fault(
            "these are the limits of the last route, which `upstream` stands for: write `upstream` "
            "as well, or write the limits in a policy");
    }
    if (policies) read_policies(*policies, config, declared);
    if (last_route && limits) read_short_limits(*limits, config, declared);
    if (upstreams) read_upstreams(*upstreams, config, declared);
    if (upstream) read_short_upstream(*upstream, config, declared);
    if (default_policies) {
        declared.default_policies = read_default_policies(*default_policies, declared);
    }
    if (routes) read_routes(*routes, config, declared);
    if (last_route) add_last_route(*last_route, limits, config, declared);
}

// Whether requests can come in at all.
void check_traffic(Section& root, const Config& config) {
    const bool is_proxy = config.has_face(Face::proxy);
    if (root.find("upstream")) return;
    // Calls of the check API name policies.
    if (!is_proxy && config.has_face(Face::check) && root.find("policies")) return;
    // The rate limit service has limits of its own.
    if (!is_proxy && root.find("rls")) return;
    const bool upstreams = root.find("upstreams").has_value() || !is_proxy;
    if (!is_proxy && root.find("limits")) return;
    const bool routes = root.find("routes").has_value();
    if (!upstreams && !routes) {
        root.value().fault(std::string(kWhereTo));
    } else if (!upstreams) {
        root.value().fault(
            "the key `upstreams` is missing: write `upstreams: {api: {servers: "
            "[http://127.0.0.1:3000]}}`");
    } else if (!routes) {
        root.value().fault(
            is_proxy ? "the key `routes` is missing: write which requests go to an upstream, "
                       "`routes: [{policies: []}]`"
                     : "say what is limited: `limits: [10/s]`, or `policies` and `routes`");
    }
}

}  // namespace

void read_root(const Value& value, Config& config, Declared& declared) {
    if (value.is_broken()) return;
    if (!value.is_map()) {
        value.fault(value.is_scalar() || value.is_sequence()
                        ? "a configuration is a map: `upstream: http://127.0.0.1:3000`"
                        : "the configuration is empty: " + std::string(kWhereTo));
        return;
    }
    value.context().top_keys = &root_keys();
    Section root(value, root_keys());
    read_listeners(root, config);
    if (const auto check = root.find("check")) read_check(*check, config);
    read_process(root, config);
    if (const auto store = root.find("store")) read_store(*store, config);
    if (const auto failure = root.find("on_store_failure")) {
        declared.on_store_failure =
            read_on_store_failure(*failure).value_or(declared.on_store_failure);
    }
    if (const auto identity = root.find("identity")) read_identity(*identity, config, declared);
    if (const auto forwarding = root.find("forwarding")) read_forwarding(*forwarding, config);
    // Before the routes, on which they hold.
    if (const auto bounds = root.find("limits_on_requests")) {
        read_limits_on_requests(*bounds, config);
    }
    if (const auto prices = root.find("prices")) read_prices(*prices, config, declared);
    read_traffic(root, config, declared);
    if (const auto rls = root.find("rls")) read_rls(*rls, config, declared);
    if (const auto response = root.find("response")) read_response(*response, config, declared);
    if (const auto connections = root.find("connections")) read_connections(*connections, config);
    if (const auto http2 = root.find("http2")) read_http2(*http2, config);
    set_default_shutdown_delay(value.context(), config);
    if (const auto timeouts = root.find("timeouts")) read_timeouts(*timeouts, config);
    if (const auto log = root.find("log")) read_log(*log, config);
    if (const auto tracing = root.find("tracing")) read_tracing(*tracing, config);
    if (const auto telemetry = root.find("telemetry")) read_telemetry(*telemetry, config);
    warn_about_replicas(root, config);
    root.refuse_others();  // first, so that a misspelt `upstream` is not just "missing"
    check_traffic(root, config);
}

const Rows& root_keys() {
    static const auto keys =
        Rows()
            .key("listen",
                 kind::one_or_more(
                     kind::any({kind::type("listen_address"), kind::type("inherited_socket"),
                                kind::map(listener_keys())}),
                     {1, 64}),
                 {"where clients connect: an address, `{address, ...}` with the keys below, or a "
                  "list of these. `systemd:NAME` is [a socket that systemd "
                  "opens](running.md#sockets-that-systemd-opens)",
                  "`8080`: IPv6 and IPv4", "1 to 64 addresses"})
            .live(Live::restart)
            .key("admin",
                 kind::any(
                     {kind::type("off"), kind::type("listen_address"), kind::map(admin_keys())}),
                 {"address of the [admin listener](monitoring.md#the-admin-listener), or "
                  "`{address, mode, group, token}`",
                  "`127.0.0.1:9901`", "an address to listen on, or `off`"})
            .live(Live::restart)
            .key("check", kind::map(check_keys()), {"the check API"})
            .key("threads", kind::any({kind::fixed({"auto"}), kind::integer({1, 256})}),
                 {"event loops; `auto` is one for each core that this process [may "
                  "use](running.md#start-signals-and-stop)",
                  "`auto`", "1 to 256"})
            .restart([](const ConfigChange& change) -> std::string {
                // `auto` goes on meaning what it meant at the start, though the machine may have
                // changed.
                const bool is_other = change.running.threads != change.next.threads &&
                                      change.workers != change.workers_next;
                return is_other ? "`threads` cannot change" : "";
            })
            .key("busy_poll", kind::off_or(kind::type("duration")),
                 {"how long each thread [polls for events before it "
                  "sleeps](running.md#busy-polling): faster answers at a low load, for more CPU",
                  "`off`", "10 us to 1 ms, or `off`"})
            .key("replicas",
                 kind::any(
                     {kind::fixed({"auto"}), kind::integer(kReplicas), kind::map(replicas_keys())}),
                 {"how many Tidegates share Redis, at least; `auto` is how many are seen, "
                  "`{auto: {assume: 2}}` says how many there are [until Redis has been "
                  "reached](limits.md#the-number-of-proxies)",
                  "`auto`", "1 to 10,000"})
            .key("deny_cache", kind::any({kind::toggle(), kind::map(deny_cache_keys())}),
                 {"denials by Redis are [remembered](limits.md#remembered-denials): `on`, `off` or "
                  "`{max_ttl, entries}`",
                  "`on`"})
            .key("store", kind::any({kind::word({"memory"}), kind::map(store_keys())}),
                 {"where counts are: `memory`, or a map with `memory` or `redis`", "`memory`"})
            .live(Live::restart)
            .key("on_store_failure", kind::type("on_store_failure"),
                 {"[what happens](limits.md#when-the-store-fails) when Redis does not answer: "
                  "`local`, `allow` or `deny`",
                  "`local`"})
            .key("identity", kind::map(identity_keys()), {"who the client is"})
            .key("forwarding", kind::map(forwarding_keys()), {"what upstreams learn of the client"})
            .key("limits_on_requests", kind::map(request_bounds_keys()), {"bounds of requests"})
            .key(
                "upstream",
                kind::any({kind::type("server_url"), kind::type("name"), kind::map(server_keys())}),
                {"[short form](#the-two-forms): one server by its URL, or `{url: URL}`; beside "
                 "`upstreams` also the name of one of them. It is the last route, `/**`",
                 "-", "not where Tidegate listens"})
            .idle(forwards_nothing())
            .key("limits", limits_kind(),
                 {"short form: the limits of each address and each user, as the policy `default` "
                  "of the last route; needs `upstream` where a listener has `face: proxy`",
                  "none: unlimited"})
            .key("policies", kind::named(kind::map(policy_keys()), {0, 10'000}),
                 {"what is limited, by names"})
            .key("prices", kind::type("file"),
                 {"the file with [what models charge](#prices), for policies with `unit: usd`; its "
                  "first 64 names are also those of models in [metrics](llm.md#what-you-see)",
                  "none", "1 MiB"})
            .idle_unless(
                [](const Config& config) {
                    return std::any_of(
                        config.policies.begin(), config.policies.end(), [](const auto& policy) {
                            return policy->cost != nullptr &&
                                   (policy->cost->needs_price() ||
                                    policy->cost->settle == PolicyCost::Settle::usage);
                        });
                },
                "no policy settles its cost by usage, or counts dollars by prices")
            .key("upstreams", kind::named(kind::map(upstream_keys()), {1, 10'000}),
                 {"servers that requests go to, by names"})
            .idle(forwards_nothing())
            .key("routes", kind::list(kind::map(route_keys()), {1, 10'000}),
                 {"which requests go where, and which policies limit them. The first that matches "
                  "decides"})
            .key("default_policies", kind::one_or_more(kind::type("name")),
                 {"names; they apply to every route, before its own", "none"})
            .key("routes_ignore_case", kind::any({kind::fixed({"auto"}), kind::toggle()}),
                 {"what becomes of a path that takes another route if case is ignored: "
                  "[case](#case)",
                  "`auto`", "`auto`, `on`, `off`"})
            .key("method_override", kind::word({"remove", "pass"}),
                 {"what becomes of fields that name another method or target, where limits depend "
                  "on it: [overrides](#overrides)",
                  "`remove`", "`remove`, `pass`"})
            .key("rls", kind::map(rls_keys()),
                 {"limits of Envoy's rate limit service; only where a listener has `face: "
                  "envoy_grpc`"})
            .key("response", kind::map(response_keys()), {"answers that Tidegate makes"})
            .key("connections", kind::map(connections_keys()), {"bounds of connections"})
            .key("http2", kind::map(http2_keys()), {"what an HTTP/2 connection may cost"})
            .idle_unless(
                [](const Config& config) {
                    return std::any_of(config.listen.begin(), config.listen.end(),
                                       [](const Listen& one) { return one.takes_http2; });
                },
                "no listener takes HTTP/2. Give one `tls`, without `http: [http1]`, or `http: [h2, "
                "http1]`")
            .key("timeouts", kind::map(timeouts_keys()), {"how long Tidegate waits"})
            .key("log", kind::map(log_keys()), {"the logs"})
            .key("tracing", kind::off_or(kind::map(tracing_keys())),
                 {"where spans of requests go, by OTLP/HTTP in JSON, or `off`", "`off`"})
            .key("telemetry", kind::map(telemetry_keys()),
                 {"what Tidegate remembers of clients for people who look"})
            .key("include", kind::one_or_more(kind::type("pattern"), {0, 64}),
                 {"files or patterns such as `conf.d/*.yaml`, relative to the folder of the "
                  "configuration",
                  "none", "64 patterns, 1,000 files, 1 MiB each and 16 MiB together"});
    return keys;
}

}  // namespace tidegate::config
