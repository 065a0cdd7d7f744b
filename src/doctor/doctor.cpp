#include "doctor/doctor.hpp"

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "app/http_client.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "doctor/examinations.hpp"
#include "doctor/faces.hpp"
#include "doctor/finding.hpp"
#include "doctor/trial.hpp"
#include "net/asio.hpp"

namespace tidegate::doctor {

namespace {

constexpr std::string_view kCollectorCheck = "tracing.collector";
const std::string kNoSpans = R"({"resourceSpans":[]})";

// What to do about a status that is no success.
std::string advice_about(int status) {
    switch (status) {
        case 401:
        case 403:
            return "write what it asks for as `tracing.headers`";
        case 404:
        case 405:
            return "correct the path of `tracing.otlp`: most collectors have `/v1/traces`";
        case 415:
            return "let it take OTLP/HTTP in JSON";
        default:
            return "look into its log; until it takes them, spans are dropped and counted";
    }
}

// Sends it a request without spans, which a collector answers as any other. Nothing is a fault:
// requests are served without a collector, too.
Findings examine_collector(const config::Config& config, const TimeLimit& time_limit) {
    if (!config.tracing) return Findings();
    const config::Tracing& settings = *config.tracing;
    Findings findings("tracing");
    const std::string collector = settings.otlp.shown();
    asio::io_context io{1};
    app::CollectorClient client(io.get_executor(), settings.otlp, settings.tls,
                                settings.header_lines);
    const auto answer = wait_for(io, client.post(kNoSpans, steady_now() + time_limit.for_step()));
    client.close();
    if (answer.is_success()) {
        findings.ok(kCollectorCheck, collector + " takes spans");
    } else if (answer.status != 0) {
        findings.warning(kCollectorCheck, fmt::format("{} answers {}", collector, answer.status),
                         advice_about(answer.status));
    } else {
        findings.warning(kCollectorCheck,
                         fmt::format("{}: {}", collector, answer.fault_text("the spans")),
                         answer.may_have_been_taken()
                             ? "look why it is slow: Tidegate gives up after 2 s, and drops spans"
                             : "start the collector, or correct `tracing.otlp` or `tracing.tls`; "
                               "until then spans are dropped");
    }
    return findings;
}

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
Findings examine_questions(const config::Config& config, const RunningProxy& beside,
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

}  // namespace

Findings examine(const config::Loaded& loaded, const std::string& summary,
                 const RunningProxy& beside, std::chrono::milliseconds time) {
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
