// Settings that no listener uses, as none forwards requests.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

// Envoy waits 20 ms for its rate limit service, unless its configuration says more.
void warn_about_patience(const Config& config, const Declared& declared, Context& context) {
    constexpr milliseconds kOfEnvoy{15};
    const auto* const redis = std::get_if<RedisSettings>(&config.store);
    if (!config.rls || redis == nullptr || redis->timeout <= kOfEnvoy) return;
    context.warnings.push_back(
        {declared.rls, "rls: store.redis.timeout is " + std::to_string(redis->timeout.count()) +
                           "ms, and Envoy waits 20ms for an answer by default: write `timeout: "
                           "15ms`, or a longer `timeout` in Envoy's rate_limit_service"});
}

// Envoy lets the request of a failed call pass unless its configuration says otherwise.
void warn_about_denial(const Config& config, const Declared& declared, Context& context) {
    if (!config.rls || declared.on_store_failure != limit::OnStoreFailure::deny) return;
    context.warnings.push_back(
        {declared.rls,
         "rls: with `on_store_failure: deny` Envoy's call fails while the store is down, and Envoy "
         "lets the request pass unless its filter has `failure_mode_deny: true`"});
}

}  // namespace

// One warning for all: routes are often shared with a Tidegate that is a proxy.
void warn_about_faces(const Config& config, const Declared& declared, Context& context) {
    warn_about_patience(config, declared, context);
    warn_about_denial(config, declared, context);
    if (config.has_face(Face::proxy) || declared.forwarding.empty()) return;
    const auto& first = *std::min_element(
        declared.forwarding.begin(), declared.forwarding.end(), [](const auto& a, const auto& b) {
            return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
        });
    std::string message =
        first.name + ": has no effect: no listener has `face: proxy`, so Tidegate forwards nothing";
    if (const std::size_t more = declared.forwarding.size() - 1; more != 0) {
        message += "; the same holds for " +
                   (more == 1 ? "another setting" : std::to_string(more) + " other settings");
    }
    context.warnings.push_back({first.place, std::move(message)});
}

}  // namespace tidegate::config
