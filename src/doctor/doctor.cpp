#include "doctor/doctor.hpp"

#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "doctor/credentials.hpp"
#include "doctor/parallel.hpp"
#include "doctor/patience.hpp"
#include "doctor/redis_servers.hpp"
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

Findings examine_store(const config::Config& config, const Patience& patience) {
    if (const auto* redis = std::get_if<config::RedisSettings>(&config.store)) {
        return examine_redis(config, *redis, patience);
    }
    Findings findings("store");
    findings.ok("store", "memory: each Tidegate counts for itself");
    return findings;
}

Findings examine_listeners(const config::Config&, const Patience&) {
    Findings findings("listen");
    findings.note("listen",
                  "whether its addresses are free was not tried: a Tidegate that runs has "
                  "them",
                  {});
    return findings;
}

Findings examine_files(const config::Config& config, const Patience&) {
    return examine_certificates(config);
}

}  // namespace

Findings examine(const config::Loaded& loaded, const std::string& summary,
                 std::chrono::milliseconds time) {
    using Part = Findings (*)(const config::Config&, const Patience&);
    constexpr std::array<Part, 5> kParts{examine_store, examine_files, examine_upstreams,
                                         examine_keys, examine_listeners};
    const Patience patience{std::chrono::steady_clock::now() + time};
    Findings all = examine_configuration(loaded, summary);
    if (!loaded.config) return all;
    all.append(in_parallel(
        kParts.size(), [&](std::size_t index) { return kParts[index](*loaded.config, patience); }));
    if (std::chrono::steady_clock::now() >= patience.end) {
        Findings late("time");
        late.warning("time", "it was over: what is said to give no answer may not have been asked",
                     "give it more: `--within 1min`");
        all.append(std::move(late));
    }
    return all;
}

}  // namespace tidegate::doctor
