// Configurations for pages of other origins that probably are a mistake.
#include <algorithm>

#include "base/quote.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

bool counts_users(const Route& route) {
    const auto is_user = [](const limit::KeyPart& part) {
        return part.kind == limit::KeyPart::Kind::user;
    };
    const auto has_user = [&](const limit::Key& key) {
        return std::any_of(key.choices.begin(), key.choices.end(), [&](const auto& choice) {
            return std::any_of(choice.begin(), choice.end(), is_user);
        });
    };
    return std::any_of(route.policies.begin(), route.policies.end(), [&](const Policy* policy) {
        return std::any_of(policy->key.begin(), policy->key.end(), has_user);
    });
}

// Once for all routes. `response.cors` silences it, even as `off`.
void warn_about_ordinary_options(const Config& config, const Declared& declared, Context& context) {
    if (config.user_methods.empty() || declared.cors.place) return;
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        const Route& route = config.routes[i];
        if (declared.cors.own.contains(i) || !counts_users(route)) continue;
        context.warnings.push_back(
            {declared.user_methods.front().place,
             "identity.user: the route " + quote(route.name) +
                 " counts users, and a browser's preflight (OPTIONS) carries no credentials: "
                 "without `cors` it counts like any other request without a user. Write "
                 "`response: {cors: {origins: [\"https://app.example.com\"]}}` if pages of other "
                 "origins call this API, else `response: {cors: off}`"});
        return;
    }
}

bool takes_preflights(const Declared& declared, std::size_t route) {
    return !declared.cors.without_options.contains(route);
}

// `methods` without OPTIONS: a preflight takes another route, or none.
void warn_about_missing_options(const Config& config, const Declared& declared, Context& context) {
    bool any_takes_them = false;
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        if (takes_preflights(declared, i)) any_takes_them = true;
        const auto own = declared.cors.own.find(i);
        if (own == declared.cors.own.end() || own->second == nullptr) continue;
        if (takes_preflights(declared, i)) continue;
        context.warnings.push_back(
            {declared.cors.without_options.at(i),
             "the route " + quote(config.routes[i].name) +
                 " has `cors`, and no preflight takes it: a preflight is an OPTIONS request; add "
                 "OPTIONS to `methods`"});
    }
    if (any_takes_them || config.response.cors == nullptr) return;
    context.warnings.push_back(
        {*declared.cors.place,
         "response.cors: no route takes a preflight, which is an OPTIONS request, so browsers get "
         "404: add OPTIONS to the `methods` of the routes"});
}

}  // namespace

void warn_about_cors(const Config& config, const Declared& declared, Context& context) {
    warn_about_ordinary_options(config, declared, context);
    warn_about_missing_options(config, declared, context);
}

}  // namespace tidegate::config
