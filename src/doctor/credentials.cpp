// The keys of tokens that Tidegate fetches, and the certificates in its files.
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/jwks_fetcher.hpp"
#include "doctor/examinations.hpp"
#include "doctor/thresholds.hpp"
#include "doctor/trial.hpp"
#include "identity/jwk.hpp"
#include "net/asio.hpp"
#include "tls/certificate.hpp"

namespace tidegate::doctor {

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
    // Of several, one that has run out may not be needed.
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
