// What is legal but hardly meant, and names that are not there.
#include "base/quote.hpp"
#include "config/sections.hpp"
#include "config/suggest.hpp"

namespace tidegate::config {

void unknown_name(const Value& value, std::string_view kind, const std::string& name,
                  const std::map<std::string, Declared::Named, std::less<>>& known) {
    std::vector<std::string_view> names;
    names.reserve(known.size());
    for (const auto& [other, entry] : known) names.push_back(other);
    std::string message = "there is no " + std::string(kind) + " " + quote(name);
    const std::string_view meant = nearest(name, names);
    if (!meant.empty()) message += "; did you mean " + quote(meant) + "?";
    value.fault(message);
}

void warn_about(const Config& config, const Declared& declared, Context& context) {
    for (const auto& [name, policy] : declared.policies) {
        if (policy.used) continue;
        context.warnings.push_back(
            {policy.place, "policies." + name + ": no route uses this policy"});
    }
    for (const auto& [name, upstream] : declared.upstreams) {
        if (upstream.used) continue;
        context.warnings.push_back(
            {upstream.place, "upstreams." + name + ": no route goes to this upstream"});
    }
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto earlier = config.router.shadowed_by(i);
        if (!earlier) continue;
        context.warnings.push_back(
            {declared.routes[i], "the route " + quote(config.routes[i].name) +
                                     " is never reached: " + quote(config.routes[*earlier].name) +
                                     " takes everything it could match"});
    }
}

}  // namespace tidegate::config
