#include "proxy/trailer_fields.hpp"

#include <algorithm>

namespace tidegate::proxy {
namespace {

using config::MomentSource;

// The fields that RFC 9110 section 6.5.1 lists, except those for framing, which no trailer passes
// on.
constexpr std::string_view kDirecting[] = {
    "cache-control",
    "content-encoding",
    "content-range",
    "content-type",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "pragma",
    "range",
};

void add_counted(const limit::Policy& policy, std::vector<std::string>& names) {
    for (const limit::Key& key : policy.key) {
        for (const auto& choice : key.choices) {
            for (const limit::KeyPart& part : choice) {
                if (part.kind == limit::KeyPart::Kind::header) names.push_back(part.name);
            }
        }
    }
}

}  // namespace

TrailerFields::TrailerFields(const config::Config& config)
    : names_(std::begin(kDirecting), std::end(kDirecting)) {
    for (const auto& policy : config.policies) add_counted(*policy, names_);
    for (const config::Route& route : config.routes) {
        if (route.header_cost) names_.push_back(route.header_cost->field);
        if (route.moment && route.moment->in == MomentSource::In::header) {
            names_.push_back(route.moment->name);
        }
    }
    const config::RemovedOverrides& removed = config.removed_overrides;
    if (removed.methods) {
        names_.insert(names_.end(), http::kMethodOverrides.begin(), http::kMethodOverrides.end());
    }
    if (removed.targets) {
        names_.insert(names_.end(), http::kTargetOverrides.begin(), http::kTargetOverrides.end());
    }
    const auto& choosing = config.router.header_names();
    names_.insert(names_.end(), choosing.begin(), choosing.end());
    std::sort(names_.begin(), names_.end());
    names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
}

bool TrailerFields::are_refused_as(std::string_view name) const {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const std::string& one) { return http::equal_as_variable(one, name); });
}

}  // namespace tidegate::proxy
