#include "doctor/doctor.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "app/http_client.hpp"
#include "app/jwks_fetcher.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "doctor/examinations.hpp"
#include "doctor/finding.hpp"
#include "doctor/trial.hpp"
#include "identity/jwk.hpp"
#include "net/asio.hpp"
#include "tls/certificate.hpp"

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

// Checks whether the questions of gateways name a client; the running Tidegate counts those that do
// not.
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

namespace {

using std::chrono::system_clock;
using Fetched = Result<app::HttpsBody, std::string>;

Findings examine_location(const identity::KeyLocation& location, const TimeLimit& time_limit) {
    Findings findings("jwks " + app::shown(location));
    const std::string advice =
        std::string("correct ") + (location.is_issuer ? "`discovery`" : "`jwks`") +
        ", or check why the URL cannot be reached from here; until then Tidegate cannot check its "
        "tokens (503)";
    asio::io_context io{1};
    const Fetched answer = wait_for(
        io, app::fetch_key_set(io.get_executor(), location, {.patience = time_limit.for_step()}));
    if (!answer) {
        findings.fault("jwks.fetch", answer.error(), advice);
        return findings;
    }
    const auto keys = identity::JwkSet::parse(answer->text, identity::JwkSet::Origin::fetched);
    if (!keys || (*keys)->size() == 0) {
        findings.fault("jwks.keys", keys ? "it has no key that Tidegate can use" : keys.error(),
                       advice);
        return findings;
    }
    findings.ok("jwks.keys",
                fmt::format("{} key{}", (*keys)->size(), (*keys)->size() == 1 ? "" : "s"));
    if (answer->certificate_until) {
        check_certificate("jwks.certificate", "its certificate", *answer->certificate_until,
                          system_clock::now(), findings);
    }
    return findings;
}

// The certificate of `pem` that expires first counts. `key` is where it is configured.
void examine_file(const std::string& key, const std::string& pem, Findings& all) {
    if (pem.empty()) return;
    const auto certificates = parse_certificates(pem);
    if (!certificates) return;  // the configuration has an error about it
    auto first = system_clock::time_point::max();
    for (const CertificatePtr& one : *certificates) first = std::min(first, valid_until(*one));
    Findings findings(key);
    check_certificate("certificate.file",
                      certificates->size() == 1
                          ? "the certificate"
                          : fmt::format("the first of {} certificates", certificates->size()),
                      first, system_clock::now(), findings);
    // A file with several may have one that has expired and is not needed.
    all.append(certificates->size() == 1 ? std::move(findings)
                                         : std::move(findings).at_most(Severity::warning));
}

void examine_files(const std::string& section, const std::optional<TlsSettings>& tls,
                   Findings& all) {
    if (!tls) return;
    examine_file(section + ".ca", tls->ca, all);
    examine_file(section + ".certificate", tls->certificate, all);
}

}  // namespace

Findings examine_keys(const config::Config& config, const TimeLimit& time_limit) {
    std::set<identity::KeyLocation> locations;
    for (const auto& source : app::key_sources(config)) {
        if (source->is_fetched()) locations.insert(source->location());
    }
    const std::vector<identity::KeyLocation> list(locations.begin(), locations.end());
    return in_parallel(
        list.size(), [&](std::size_t index) { return examine_location(list[index], time_limit); });
}

Findings examine_certificates(const config::Config& config) {
    Findings all;
    std::set<std::string> authorities;
    for (const auto& source : app::key_sources(config)) {
        const std::string& ca = source->location().ca;
        if (authorities.insert(ca).second) examine_file("identity.user.jwt.ca", ca, all);
    }
    for (const config::Listen& listen : config.listen) {
        if (!listen.tls) continue;
        const std::string section = "listen " + listen.address.to_string();
        for (const ServerCertificate& one : listen.tls->certificates) {
            examine_file(section + ": " + one.file, one.certificate, all);
        }
        examine_file(section + ": client_ca", listen.tls->client_auth.ca, all);
    }
    for (const config::Upstream& upstream : config.upstreams) {
        examine_files("upstreams." + upstream.name + ".tls", upstream.tls, all);
    }
    if (config.tracing) examine_files("tracing.tls", config.tracing->tls, all);
    const auto* const redis = std::get_if<config::RedisSettings>(&config.store);
    if (redis == nullptr) return all;
    examine_files("store.redis.tls", redis->tls, all);
    if (redis->sentinel) examine_files("store.redis.sentinel.tls", redis->sentinel->tls, all);
    return all;
}

}  // namespace tidegate::doctor
