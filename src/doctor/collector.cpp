#include "doctor/collector.hpp"

#include <string>

#include <fmt/format.h>

#include "app/collector_client.hpp"
#include "doctor/wait_for.hpp"
#include "net/asio.hpp"

namespace tidegate::doctor {

namespace {

constexpr std::string_view kCheck = "tracing.collector";
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

}  // namespace

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
        findings.ok(kCheck, collector + " takes spans");
    } else if (answer.status != 0) {
        findings.warning(kCheck, fmt::format("{} answers {}", collector, answer.status),
                         advice_about(answer.status));
    } else {
        findings.warning(kCheck, fmt::format("{}: {}", collector, answer.fault),
                         answer.is_late
                             ? "look why it is slow: Tidegate gives up after 2 s, and drops spans"
                             : "start the collector, or correct `tracing.otlp` or `tracing.tls`; "
                               "until then spans are dropped");
    }
    return findings;
}

}  // namespace tidegate::doctor
