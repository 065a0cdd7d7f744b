#include "doctor/doctor.hpp"

#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "doctor/credentials.hpp"
#include "doctor/parallel.hpp"
#include "doctor/redis_servers.hpp"
#include "doctor/time_limit.hpp"
#include "doctor/upstreams.hpp"

namespace tidegate::doctor {

namespace {

Findings examine_configuration(const config::Loaded& loaded, const std::string& summary) {
    Findings findings("configuration");
    for (const config::Diagnostic& error : loaded.errors) {
        findings.fault("configuration", error.to_string(), {});
    }
    for (const config::Diagnostic& warning : loaded.warnings) {
        findings.warning("configuration", warning.to_string(), {});
    }
    if (loaded.config) findings.ok("configuration", summary);
    return findings;
}

Findings examine_store(const config::Config& config, const TimeLimit& time_limit) {
    if (const auto* redis = std::get_if<config::RedisSettings>(&config.store)) {
        return examine_redis(config, *redis, time_limit);
    }
    Findings findings("store");
    findings.ok("store", "memory: each Tidegate counts for itself");
    return findings;
}

Findings examine_listeners(const config::Config&, const TimeLimit&) {
    Findings findings("listen");
    findings.note("listen",
                  "not checked: if Tidegate runs already, it holds these addresses itself", {});
    return findings;
}

Findings examine_files(const config::Config& config, const TimeLimit&) {
    return examine_certificates(config);
}

}  // namespace

Findings examine(const config::Loaded& loaded, const std::string& summary,
                 std::chrono::milliseconds time) {
    using Part = Findings (*)(const config::Config&, const TimeLimit&);
    constexpr std::array<Part, 5> kParts{examine_store, examine_files, examine_upstreams,
                                         examine_keys, examine_listeners};
    const TimeLimit time_limit{std::chrono::steady_clock::now() + time};
    Findings all = examine_configuration(loaded, summary);
    if (!loaded.config) return all;
    all.append(in_parallel(kParts.size(), [&](std::size_t index) {
        return kParts[index](*loaded.config, time_limit);
    }));
    if (std::chrono::steady_clock::now() >= time_limit.end) {
        Findings late("time");
        late.warning("time", "the time is over: servers without an answer may not have been asked",
                     "allow more time: `--within 1min`");
        all.append(std::move(late));
    }
    return all;
}

}  // namespace tidegate::doctor
