// Routes that no request reaches, and routes that differ only in the case of their letters.
#include <algorithm>
#include <string>
#include <vector>

#include "base/utf8.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

using routing::RouteCase;

void warn_about_shadowed(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto earlier = config.router.shadowed_by(i);
        if (!earlier) continue;
        context.warnings.push_back(
            {declared.routes[i], "the route " + quote(config.routes[i].name) +
                                     " is never reached: " + quote(config.routes[*earlier].name) +
                                     " takes everything it could match"});
    }
}

// The setting that makes `other` looser than `route`; empty: none that is known.
std::string what_is_lacking(const Route& route, const Route& other) {
    for (const Policy* policy : route.policies) {
        const auto& policies = other.policies;
        if (policy->shadow ||
            std::find(policies.begin(), policies.end(), policy) != policies.end()) {
            continue;
        }
        return "the policy " + quote(policy->name);
    }
    if (route.header_cost && !other.header_cost) return "its cost by header";
    if (other.cost < route.cost) return "its cost of " + std::to_string(route.cost);
    return {};
}

bool is_looser(const Route& to, const Route& from) {
    return !what_is_lacking(from, to).empty();
}

// Nothing where each takes the paths in its own case and neither limits less.
std::string about_overlap(const Config& config, const Route& first, const Route& second) {
    const std::string one = quote(first.name);
    const std::string other = quote(second.name);
    const std::string message =
        "the routes " + one + " and " + other + " match the same path in different case";
    if (config.route_case == RouteCase::refuse) {
        return message +
               ". With `routes_ignore_case: auto`, Tidegate refuses (400) that path in the "
               "spelling of " +
               other + ". Write `on` to send both to " + one + ", or `off` to keep two routes";
    }
    if (!is_looser(first, second) && !is_looser(second, first)) return {};
    return message +
           ", and their limits differ: if the upstream ignores case, a client chooses between "
           "them. Write `routes_ignore_case: auto` (refuses the spelling of " +
           other + ") or `on` (sends both to " + one + ")";
}

void warn_about_overlaps(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto earlier = config.router.differs_by_case(i);
        if (!earlier) continue;
        std::string message = about_overlap(config, config.routes[*earlier], config.routes[i]);
        if (message.empty()) continue;
        context.warnings.push_back({declared.routes[i], std::move(message)});
    }
}

// One warning for all: a configuration may have thousands of routes before the one that takes the
// rest.
void warn_about_escapes(const Config& config, const Declared& declared, Context& context) {
    std::string first;
    std::size_t more = 0;
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto other = config.router.escape_by_case(i);
        if (!other || !is_looser(config.routes[*other], config.routes[i])) continue;
        if (!first.empty()) {
            ++more;
            continue;
        }
        first = "with `off`, a path of the route " + quote(config.routes[i].name) +
                " in another case takes the route " + quote(config.routes[*other].name) +
                ", which limits it less";
    }
    if (first.empty()) return;
    if (more != 0) {
        first += "; so do paths of " +
                 (more == 1 ? "another route" : std::to_string(more) + " other routes");
    }
    context.warnings.push_back(
        {declared.route_case, "routes_ignore_case: " + first +
                                  ". Write `auto` unless the upstream tells `/A` from `/a`"});
}

std::string about_left_headers(const Route& route, const Route& next, const std::string& lacking) {
    const std::string other = quote(next.name);
    return "the route " + quote(route.name) +
           " needs `headers`, and a client that does not send them takes the route " + other +
           ", which lacks " + lacking + ": give " + other +
           " the same, or match by path, host or method";
}

// Clients choose which fields they send.
void warn_about_left_headers(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto next = config.router.without_headers(i);
        if (!next) continue;
        const Route& route = config.routes[i];
        const std::string lacking = what_is_lacking(route, config.routes[*next]);
        if (lacking.empty()) continue;
        context.warnings.push_back(
            {declared.routes[i], about_left_headers(route, config.routes[*next], lacking)});
    }
}

constexpr std::string_view kMethodAdvice =
    ". An application that obeys `_method` in the query or form of a POST (Rails, Laravel, "
    "Symfony, Spring) serves such a request as another method than Tidegate counts. Turn that off "
    "in the application, then write `method_override: remove`, which ends this warning";

std::string methods_of(const routing::Router& router, std::size_t route) {
    std::string names;
    for (const std::string& method : router.methods(route)) {
        if (!names.empty()) names += ", ";
        names += method;
    }
    return names;
}

// What a client gains by a method that only the application knows of; empty: nothing that is known.
// Sets `place`.
std::string about_hidden_method(const Config& config, const Declared& declared, Place& place) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto other = config.router.instead_for_post(i);
        if (!other) continue;
        const std::string lacking = what_is_lacking(config.routes[i], config.routes[*other]);
        if (lacking.empty()) continue;
        place = declared.routes[i];
        return "the route " + quote(config.routes[i].name) + " takes " +
               methods_of(config.router, i) + ", and a POST to its path takes the route " +
               quote(config.routes[*other].name) + ", which lacks " + lacking;
    }
    for (const auto& policy : config.policies) {
        if (!counts_by(*policy, limit::KeyPart::Kind::method)) continue;
        place = place_of(*policy, config, declared);
        return "the policy " + quote(policy->name) + " counts by `method`";
    }
    return {};
}

// Tidegate removes the fields that name another method, and leaves query and body as they are. Of
// these, applications look at a POST only. One warning for all; `method_override` silences it.
void warn_about_hidden_methods(const Config& config, const Declared& declared, Context& context) {
    if (declared.states_overrides) return;
    Place place;
    std::string message = about_hidden_method(config, declared, place);
    if (message.empty()) return;
    context.warnings.push_back({place, message.append(kMethodAdvice)});
}

// One warning for all such routes: `policies` is required, and readers easily take it for all
// policies of a route.
void warn_about_empty_policies(const Declared& declared, Context& context) {
    if (declared.default_policies.empty() || declared.empty_policies.empty()) return;
    std::string names;
    for (const std::string& name : declared.default_policies) {
        if (!names.empty()) names += ", ";
        names += name;
    }
    std::string message =
        "with `policies: []`, `default_policies: [" + names + "]` still applies to this route";
    if (const std::size_t more = declared.empty_policies.size() - 1; more != 0) {
        message += " and to " + (more == 1 ? "another" : std::to_string(more) + " others");
    }
    message += ". Write `default_policies: []` on the route for no limit, or `default_policies: [" +
               names + "]` to keep it";
    context.warnings.push_back({declared.empty_policies.front(), std::move(message)});
}

}  // namespace

void warn_about_routes(const Config& config, const Declared& declared, Context& context) {
    warn_about_shadowed(config, declared, context);
    warn_about_empty_policies(declared, context);
    warn_about_left_headers(config, declared, context);
    warn_about_hidden_methods(config, declared, context);
    if (config.route_case == RouteCase::ignore) return;
    warn_about_overlaps(config, declared, context);
    if (config.route_case == RouteCase::as_sent) warn_about_escapes(config, declared, context);
}

}  // namespace tidegate::config
