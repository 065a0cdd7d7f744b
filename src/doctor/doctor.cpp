#include "doctor/doctor.hpp"

#include <algorithm>
#include <array>
#include <charconv>
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
#include "identity/client_ip.hpp"
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

// The hash of the configuration that a Tidegate with these metrics has; empty: it has none.
std::string_view config_hash_of(std::string_view metrics) {
    constexpr std::string_view kBegin = "\ntidegate_config_info{hash=\"";
    const std::size_t begin = metrics.find(kBegin);
    if (begin == std::string_view::npos) return {};
    metrics.remove_prefix(begin + kBegin.size());
    return metrics.substr(0, metrics.find('"'));
}

// Compares the file with what a Tidegate on its admin address has in force, if there is one.
Findings examine_running(const config::Config& config, const RunningProxy& beside,
                         const TimeLimit& time_limit) {
    constexpr std::string_view kCheck = "configuration.running";
    Findings findings("configuration");
    if (!beside.metrics) return findings;
    const auto metrics = beside.metrics(time_limit.for_step());
    const std::string hash(metrics ? config_hash_of(metrics->text) : std::string_view());
    if (hash.empty()) return findings;
    if (hash == config.shown.hash) {
        findings.ok(kCheck, "the running Tidegate has a configuration with the same hash");
    } else {
        findings.note(kCheck, "the running Tidegate has another one, with the hash " + hash,
                      "`tidegate config` shows it, and `tidegate reload` puts the file in force");
    }
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
        [&] { return examine_running(config, beside, time_limit); },
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

namespace {

using config::Dialect;
using Source = identity::ClientIpSettings::Source;

// Networks that the Internet does not reach: RFC 1918, 6598, 4193, and those of a link or machine.
constexpr std::array<std::string_view, 9> kInnerNetworks{
    "127.0.0.0/8",    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
    "169.254.0.0/16", "::1",        "fc00::/7",      "fe80::/10"};

bool is_inner(const IpNetwork& network) {
    return std::any_of(kInnerNetworks.begin(), kInnerNetworks.end(), [&](std::string_view text) {
        const auto inner = parse_network(text);
        return inner->prefix <= network.prefix && inner->contains(network.address);
    });
}

// More than the gateways of one site.
bool is_wide(const IpNetwork& network) {
    constexpr int kSite4 = 24;
    constexpr int kSite6 = 48;
    return network.prefix < (network.address.v4 ? kSite4 : kSite6);
}

std::string network_text(const IpNetwork& network) {
    return fmt::format("{}/{}", network.address.to_string(), network.prefix);
}

bool is_loopback(const IpAddress& ip) {
    return parse_network(ip.v4 ? "127.0.0.0/8" : "::1")->contains(ip);
}

bool is_on_this_machine(const config::Address& address) {
    const auto ip = parse_scoped_ip(address.host);
    return address.is_unix() || (ip && is_loopback(*ip));
}

void check_reach(const config::Listen& listen, Findings& findings) {
    constexpr std::string_view kCheck = "face.reach";
    const bool is_check = listen.face == Face::check;
    const std::string power = is_check ? "each of them can spend the units of any client"
                                       : "each of them can speak for any client";
    const std::string who = is_check ? "programs that ask" : "gateways";
    if (is_on_this_machine(listen.address) && !listen.proxy_protocol) {
        return findings.ok(kCheck, "only this machine may ask");
    }
    const auto found = std::find_if(listen.from.begin(), listen.from.end(),
                                    [](const IpNetwork& one) { return !is_inner(one); });
    if (found != listen.from.end() && listen.token.empty()) {
        const std::string network = network_text(*found);
        const std::string advice =
            fmt::format("list in `from` the {} alone{}", who, is_check ? ", and set `token`" : "");
        if (is_wide(*found)) {
            findings.warning(
                kCheck,
                fmt::format("strangers may ask: {} of `from` is more than the networks "
                            "of one site, and {}",
                            network, power),
                advice);
        } else {
            findings.note(kCheck,
                          fmt::format("{} of `from` is a public network: others can read the "
                                      "questions on the way",
                                      network),
                          "let the gateway or program ask over a private network");
        }
        return;
    }
    if (is_check && listen.token.empty()) {
        return findings.note(kCheck,
                             "every program in `from` may ask: there is no `token`, and " + power,
                             "set `token: file:check.token`");
    }
    findings.ok(kCheck, listen.token.empty() ? "only the private networks of `from` may ask"
                                             : "only callers with the `token` may ask");
}

// Says whether the gateways of a dialect write the field by themselves.
void check_chain_field(const config::Listen& listen, const config::Config& config,
                       Findings& findings) {
    constexpr std::string_view kCheck = "face.address";
    const identity::ClientIpSettings& settings = config.client_ip;
    const std::string field(identity::field_of(settings));
    // With nginx, the operator writes each field.
    if (listen.dialect == Dialect::nginx || settings.source == Source::x_forwarded_for) return;
    const bool is_ingress = listen.dialect == Dialect::ingress_nginx;
    const bool is_one = is_ingress || listen.dialect == Dialect::envoy;
    const std::string_view gateways = is_ingress ? "ingress-nginx"
                                      : is_one   ? "Envoy"
                                                 : "Caddy and Traefik";
    const std::string advice =
        "remove `identity.client_ip.header`, if no other proxy in front writes that field: " +
        std::string(gateways) +
        (is_one ? " ends X-Forwarded-For by itself" : " end X-Forwarded-For by themselves");
    if (settings.source == Source::forwarded) {
        return findings.warning(
            kCheck,
            fmt::format("the client's address is read from Forwarded, which {} {} not write: what "
                        "a client writes there would be its address",
                        gateways, is_one ? "does" : "do"),
            advice);
    }
    const std::string_view written = is_ingress ? "x-real-ip"
                                     : is_one   ? "x-envoy-external-address"
                                                : "";
    if (field == written) return;
    findings.note(kCheck,
                  fmt::format("the client's address is read from {}: see that the gateway or a "
                              "proxy in front of it replaces what a client writes there",
                              field),
                  advice);
}

// Only if `trusted_proxies` lists a gateway as well, a method that believes peers, such as
// `header`, trusts it to name users.
void check_trust(const config::Listen& listen, const config::Config& config, Findings& findings) {
    const auto& trusted = config.client_ip.trusted_proxies;
    const bool reads_users =
        std::any_of(config.user_methods.begin(), config.user_methods.end(),
                    [](const auto& method) { return method.how->traits().believes_peers; });
    if (!reads_users || (listen.address.is_unix() && listen.trusted)) return;
    const IpNetworks loopback{*parse_network("127.0.0.0/8"), *parse_network("::1")};
    const IpNetworks& from = listen.from.empty() ? loopback : listen.from;
    const auto meets = [](const IpNetwork& one, const IpNetwork& other) {
        return one.contains(other.address) || other.contains(one.address);
    };
    const bool may_be_trusted = std::any_of(from.begin(), from.end(), [&](const IpNetwork& one) {
        return std::any_of(trusted.begin(), trusted.end(),
                           [&](const IpNetwork& other) { return meets(one, other); });
    });
    if (may_be_trusted && !listen.address.is_unix()) return;
    findings.warning(
        "face.trust",
        "Tidegate believes no gateway of this listener about users: a method `header` of "
        "identity.user believes only gateways in `trusted_proxies`, and none of them is there",
        listen.address.is_unix()
            ? "set `trusted: on` for this listener, if the gateway sets or clears that field"
            : "add the gateways to identity.client_ip.trusted_proxies, if they set or clear that "
              "field");
}

bool counts_by_address(const config::Config& config) {
    using Kind = limit::KeyPart::Kind;
    return std::any_of(config.policies.begin(), config.policies.end(), [](const auto& policy) {
        return std::any_of(policy->key.begin(), policy->key.end(), [](const limit::Key& key) {
            return std::any_of(key.choices.begin(), key.choices.end(), [](const auto& choice) {
                return std::any_of(choice.begin(), choice.end(),
                                   [](const auto& part) { return part.kind == Kind::ip; });
            });
        });
    });
}

// The number behind the last space.
std::optional<std::uint64_t> value_of_line(std::string_view line) {
    const std::string_view text = line.substr(line.rfind(' ') + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
    return static_cast<std::uint64_t>(value);
}

}  // namespace

Findings examine_faces(const config::Config& config) {
    Findings all;
    for (const config::Listen& listen : config.listen) {
        if (listen.face == Face::proxy) continue;
        Findings findings("listen " + listen.address.to_string());
        check_reach(listen, findings);
        if (listen.face == Face::forward_auth) {
            check_chain_field(listen, config, findings);
            check_trust(listen, config, findings);
        }
        all.append(std::move(findings));
    }
    return all;
}

std::optional<QuestionCounts> read_question_counts(std::string_view metrics) {
    QuestionCounts counts;
    bool is_ours = false;
    while (!metrics.empty()) {
        const std::string_view line = metrics.substr(0, metrics.find('\n'));
        metrics.remove_prefix(std::min(line.size() + 1, metrics.size()));
        const bool is_request = line.starts_with("tidegate_requests_total{") &&
                                line.find("face=\"forward_auth\"") != line.npos;
        const bool is_without = line.starts_with("tidegate_questions_without_address_total ");
        if (!is_request && !is_without) continue;
        const auto value = value_of_line(line);
        if (!value) return std::nullopt;
        is_ours = is_ours || is_without;
        (is_request ? counts.asked : counts.without_address) += *value;
    }
    return is_ours ? std::optional(counts) : std::nullopt;
}

void check_question_counts(const QuestionCounts& counts, const config::Config& config,
                           Findings& findings) {
    constexpr std::string_view kCheck = "questions.address";
    constexpr std::uint64_t kEnough = 100;  // fewer may be trials of the operator
    if (counts.asked == 0) {
        return findings.note(kCheck, "no gateway has asked yet", "send a request through it");
    }
    if (counts.without_address == 0) {
        return findings.ok(
            kCheck,
            fmt::format("no question lacked the client's address ({} so far)", counts.asked));
    }
    const bool is_all = counts.without_address >= counts.asked;
    const std::string field(identity::field_of(config.client_ip));
    const Severity severity = counts.without_address < kEnough || !counts_by_address(config)
                                  ? Severity::note
                              : is_all ? Severity::fault
                                       : Severity::warning;
    findings.add(
        severity, kCheck,
        fmt::format("{} of {} questions named no client address: {} is missing or cannot be read, "
                    "so limits by `ip` refuse them or do not count them",
                    counts.without_address, counts.asked, field),
        fmt::format("let the gateway send {0}: `proxy_set_header {0} $remote_addr;` (nginx), `{0}` "
                    "in allowed_headers (Envoy)",
                    field));
}

}  // namespace tidegate::doctor
