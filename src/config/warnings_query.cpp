// Values that applications may read in another way than Tidegate counts or matches them.
#include <algorithm>
#include <set>
#include <string>

#include "base/quote.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

Place place_of(const limit::Policy& policy, const Config& config, const Declared& declared) {
    const auto named = declared.policies.find(policy.name);
    if (named != declared.policies.end()) return named->second.place;
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        for (const Policy* used : config.routes[i].policies) {
            if (used == &policy) return declared.routes[i];
        }
    }
    return {};
}

namespace {

using limit::KeyPart;

constexpr std::string_view kQueryReading =
    ": Tidegate sees the query only. If the application also takes this name from a body, a cookie "
    "or the path, clients can get past the limit: let it read the query alone";

// Once for each name, however many policies count by it.
void warn_about_query_keys(const Config& config, const Declared& declared, Context& context) {
    std::set<std::string_view> known;
    const auto warn = [&](const limit::Policy& policy, const KeyPart& part) {
        if (part.kind != KeyPart::Kind::query || !known.insert(part.name).second) return;
        context.warnings.push_back({place_of(policy, config, declared),
                                    "the policy " + quote(policy.name) + " counts by " +
                                        quote("query:" + part.name) + std::string(kQueryReading)});
    };
    for (const auto& policy : config.policies) {
        for (const limit::Key& key : policy->key) {
            for (const auto& choice : key.choices) {
                for (const KeyPart& part : choice) warn(*policy, part);
            }
        }
    }
}

void warn_about_query_moments(const Config& config, const Declared& declared, Context& context) {
    std::set<std::string_view> known;
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        const Route& route = config.routes[i];
        if (!route.moment || route.moment->in != MomentSource::In::query) continue;
        if (!known.insert(route.moment->name).second) continue;
        context.warnings.push_back(
            {i < declared.routes.size() ? declared.routes[i] : Place{},
             "the route " + quote(route.name) + " takes the moment of its schedules from " +
                 quote("query: " + route.moment->name) + std::string(kQueryReading)});
    }
}

}  // namespace

void warn_about_readings(const Config& config, const Declared& declared, Context& context) {
    warn_about_query_keys(config, declared, context);
    warn_about_query_moments(config, declared, context);
}

}  // namespace tidegate::config
