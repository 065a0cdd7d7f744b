// Routes that no request reaches, and routes that differ only in the case of their letters.
#include <algorithm>
#include <string>
#include <vector>

#include "base/quote.hpp"
#include "config/sections.hpp"

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

// Whether a request on `to` escapes some limit of `from`, or pays less there.
bool is_looser(const Route& to, const Route& from) {
    if (to.cost < from.cost || (from.header_cost && !to.header_cost)) return true;
    return std::any_of(from.policies.begin(), from.policies.end(), [&](const Policy* policy) {
        return !policy->shadow &&
               std::find(to.policies.begin(), to.policies.end(), policy) == to.policies.end();
    });
}

void warn_about_overlaps(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto earlier = config.router.differs_by_case(i);
        if (!earlier) continue;
        const Route& first = config.routes[*earlier];
        const Route& second = config.routes[i];
        std::string message = "the routes " + quote(first.name) + " and " + quote(second.name) +
                              " overlap if case is ignored: with `routes_ignore_case: ";
        if (config.route_case == RouteCase::refuse) {
            message += "auto`, a path of both that is spelt as " + quote(second.name) +
                       " has it is refused (400); with `on`, " + quote(first.name) +
                       " takes it; with `off`, " + quote(second.name) + " does";
        } else if (is_looser(first, second) || is_looser(second, first)) {
            message +=
                "off`, each takes the paths in its own case, and an upstream that ignores "
                "case answers to both; `auto` refuses those spelt as " +
                quote(second.name) + " has them (400), with `on` " + quote(first.name) +
                " takes them";
        } else {
            continue;
        }
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
        first = "in another case, a path of the route " + quote(config.routes[i].name) +
                " takes the route " + quote(config.routes[*other].name) +
                ", which limits it less, and an upstream that ignores case answers all the same";
    }
    if (first.empty()) return;
    if (more != 0) {
        first += "; so do paths of " +
                 (more == 1 ? "another route" : std::to_string(more) + " other routes");
    }
    context.warnings.push_back(
        {declared.route_case, "routes_ignore_case: " + first + "; `auto` refuses such paths"});
}

}  // namespace

void warn_about_routes(const Config& config, const Declared& declared, Context& context) {
    warn_about_shadowed(config, declared, context);
    if (config.route_case == RouteCase::ignore) return;
    warn_about_overlaps(config, declared, context);
    if (config.route_case == RouteCase::as_sent) warn_about_escapes(config, declared, context);
}

}  // namespace tidegate::config
