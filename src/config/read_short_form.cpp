// `upstream` and `limits` at the top: short for an upstream, a policy and the last route, `/**`,
// all named `default`. They may stand alone, or beside `upstreams`, `policies` and `routes`.
#include <algorithm>
#include <utility>

#include "base/utf8.hpp"
#include "config/read_sections.hpp"
#include "config/suggest.hpp"

namespace tidegate::config {

namespace {

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

}  // namespace

void read_short_limits(const Value& value, Config& config, Declared& declared) {
    const std::string name(kShortName);
    if (declared.policies.contains(name)) {
        value.fault(
            "short for a policy `default`, and `policies` has one of this name: rename that one, "
            "or write its limits here");
        return;
    }
    Limits list = read_limits(value);
    Policy policy;
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

void read_short_upstream(const Value& value, Config& config, Declared& declared) {
    std::optional<std::string> name;
    if (!names_an_upstream(value, declared, name)) {
        add_short_upstream(value, config, declared);
    } else if (name) {
        use_named_upstream(value, *name, declared);
    }
}

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

}  // namespace tidegate::config
