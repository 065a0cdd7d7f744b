#include "doctor/doctor.hpp"

#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "config/file_text.hpp"
#include "doctor/collector.hpp"
#include "doctor/credentials.hpp"
#include "doctor/faces.hpp"
#include "doctor/gateway_file.hpp"
#include "doctor/listeners.hpp"
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

// Whether the questions of gateways name a client; the running Tidegate counts those that do not.
Findings examine_questions(const config::Config& config, const Beside& beside,
                           const TimeLimit& time_limit) {
    constexpr std::string_view kCheck = "questions.address";
    Findings findings("questions");
    if (!config.has_face(Face::forward_auth)) return findings;
    if (!beside.metrics) {
        findings.note(kCheck, "not looked at: with `admin: off` nothing tells what was asked", {});
        return findings;
    }
    const auto metrics = beside.metrics(time_limit.for_step());
    const auto counts = metrics ? read_question_counts(metrics->text) : std::nullopt;
    if (counts) {
        check_question_counts(*counts, config, findings);
    } else {
        findings.note(kCheck,
                      "not looked at: " +
                          (metrics ? "another server has the admin address" : metrics.error()),
                      "once Tidegate runs and a gateway has asked, run this again");
    }
    return findings;
}

Findings examine_gateways(const config::Config& config, const Beside& beside) {
    Findings findings;
    std::vector<GatewayFile> files;
    for (const std::string& name : beside.gateway_files) {
        auto file = config::read_named_file(name);
        if (file) {
            files.push_back({name, std::move(file->text)});
            continue;
        }
        Findings unread("gateway " + name);
        unread.fault("gateway.file", file.error(), "correct `--gateway`");
        findings.append(std::move(unread));
    }
    findings.append(check_gateway_files(files, config));
    return findings;
}

}  // namespace

Findings examine(const config::Loaded& loaded, const std::string& summary, const Beside& beside,
                 std::chrono::milliseconds time) {
    const TimeLimit time_limit{std::chrono::steady_clock::now() + time};
    Findings all = examine_configuration(loaded, summary);
    if (!loaded.config) return all;
    const config::Config& config = *loaded.config;
    const std::vector<std::function<Findings()>> parts{
        [&] { return examine_store(config, time_limit); },
        [&] { return examine_certificates(config); },
        [&] { return examine_upstreams(config, time_limit); },
        [&] { return examine_keys(config, time_limit); },
        [&] { return examine_collector(config, time_limit); },
        [&] { return examine_listeners(config, time_limit); },
        [&] { return examine_questions(config, beside, time_limit); },
        [&] { return examine_gateways(config, beside); },
    };
    all.append(in_parallel(parts.size(), [&](std::size_t index) { return parts[index](); }));
    if (std::chrono::steady_clock::now() >= time_limit.end) {
        Findings late("time");
        late.warning("time", "the time is over: servers without an answer may not have been asked",
                     "allow more time: `--within 1min`");
        all.append(std::move(late));
    }
    return all;
}

}  // namespace tidegate::doctor
