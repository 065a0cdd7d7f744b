#include "doctor/doctor.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "app/http_client.hpp"
#include "app/jwks_fetcher.hpp"
#include "base/doc.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "base/utf8.hpp"
#include "config/config.hpp"
#include "doctor/examinations.hpp"
#include "doctor/trial.hpp"
#include "identity/client_ip.hpp"
#include "identity/jwk.hpp"
#include "identity/key_source.hpp"
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
        check_original_requests(*counts, config, findings);
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

void check_certificate(std::string_view check, const std::string& whose, const Validity& validity,
                       std::chrono::system_clock::time_point now, Findings& findings) {
    const auto until = validity.until;
    if (until < now) {
        findings.fault(check, fmt::format("{} expired on {}", whose, format_day(until)),
                       "renew it; a reload (HUP) takes files anew");
    } else if (validity.ends_soon(now)) {
        const auto hours = std::chrono::duration_cast<std::chrono::hours>(until - now).count();
        findings.warning(check,
                         fmt::format("{} expires on {}, in {}", whose, format_day(until),
                                     hours < 48 ? fmt::format("{} hours", hours)
                                                : fmt::format("{} days", hours / 24)),
                         "renew it; a reload (HUP) takes files anew");
    } else {
        findings.ok(check, fmt::format("{} is valid until {}", whose, format_day(until)));
    }
}

namespace {

using std::chrono::system_clock;
using Fetched = Result<app::HttpsBody, std::string>;

// "3 keys: 2 of RSA 2048 bits, EC P-256"
std::string keys_text(const identity::JwkSet& keys) {
    std::map<std::string, int> of_type;
    for (const identity::Jwk& key : keys.keys()) ++of_type[key.to_string()];
    std::string types;
    for (const auto& [type, count] : of_type) {
        types += types.empty() ? "" : ", ";
        types += count == 1 ? type : fmt::format("{} of {}", count, type);
    }
    return fmt::format("{} key{}: {}", keys.size(), keys.size() == 1 ? "" : "s", types);
}

// Of files and a secret, which have been read with the configuration.
Findings describe_keys(const identity::KeySource& source) {
    Findings findings("jwt " + source.place());
    findings.ok("jwt.keys", keys_text(*source.keys()));
    return findings;
}

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
    findings.ok("jwks.keys", keys_text(**keys));
    if (answer->certificate) {
        check_certificate("jwks.certificate", "its certificate", *answer->certificate,
                          system_clock::now(), findings);
    }
    return findings;
}

// The certificate of `pem` that is to be renewed first counts. `key` is where it is configured.
void examine_file(const std::string& key, const std::string& pem, Findings& all) {
    if (pem.empty()) return;
    const auto certificates = parse_certificates(pem);
    if (!certificates) return;  // the configuration has an error about it
    const auto now = system_clock::now();
    Validity first = validity_of(*certificates->front());
    for (const CertificatePtr& one : *certificates) {
        const Validity its = validity_of(*one);
        if (its.is_more_urgent(first, now)) first = its;
    }
    Findings findings(key);
    check_certificate(
        "certificate.file",
        certificates->size() == 1
            ? "the certificate"
            : fmt::format("the certificate to renew first, of {},", certificates->size()),
        first, now, findings);
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
    std::set<const identity::KeySource*> known;
    Findings all;
    for (const auto& source : app::key_sources(config)) {
        if (source->is_fetched()) {
            locations.insert(source->location());
        } else if (known.insert(source.get()).second) {
            all.append(describe_keys(*source));
        }
    }
    const std::vector<identity::KeyLocation> list(locations.begin(), locations.end());
    all.append(in_parallel(
        list.size(), [&](std::size_t index) { return examine_location(list[index], time_limit); }));
    return all;
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
    return std::any_of(config.policies.begin(), config.policies.end(), [](const auto& policy) {
        return limit::counts_by(policy->key, limit::KeyPart::Kind::ip);
    });
}

// What the question of a gateway states a part of the original request in. `part` is a label of
// tidegate_questions_unusable_total.
std::string_view source_of(Dialect dialect, std::string_view part) {
    const bool is_method = part == "method";
    if (part == "length") return "`limits_on_requests.uri_bytes`";
    switch (dialect) {
        case Dialect::nginx:
            return is_method ? "X-Original-Method" : "X-Original-URI";
        case Dialect::ingress_nginx:
            return is_method ? "X-Original-Method"
                             : (part == "host" ? "the host in X-Original-URL" : "X-Original-URL");
        case Dialect::forwarded:
            return is_method ? "X-Forwarded-Method"
                             : (part == "host" ? "X-Forwarded-Host" : "X-Forwarded-Uri");
        case Dialect::envoy:
            break;
    }
    return "`path_prefix`";
}

// Whether a question of the dialect can lack the part.
bool may_lack(Dialect dialect, std::string_view part) {
    if (dialect == Dialect::envoy) return part == "path_prefix";
    if (part == "host") return dialect != Dialect::nginx;
    return part != "path_prefix";
}

// `X-Original-URL (12), X-Original-Method (1)`; for several dialects, each that it may have been.
std::string sources_text(const QuestionCounts& counts, const config::Config& config) {
    std::string text;
    for (const auto& [part, count] : counts.unusable) {
        std::string sources;
        for (const config::Listen& listen : config.listen) {
            if (listen.face != Face::forward_auth || !may_lack(listen.dialect, part)) continue;
            const std::string_view source = source_of(listen.dialect, part);
            if (sources.find(source) != sources.npos) continue;
            sources.append(sources.empty() ? "" : " or ").append(source);
        }
        // The Tidegate that runs may have had another configuration.
        if (sources.empty()) sources = part;
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", sources, count);
    }
    return text;
}

// The value of a label in a line of /metrics.
std::string_view label_of(std::string_view line, std::string_view name) {
    const std::string before = std::string(name) + "=\"";
    const std::size_t begin = line.find(before);
    if (begin == line.npos) return {};
    line.remove_prefix(begin + before.size());
    return line.substr(0, line.find('"'));
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
        const std::string_view line = take_until(metrics, '\n');
        const bool is_request = line.starts_with("tidegate_requests_total{") &&
                                line.find("face=\"forward_auth\"") != line.npos;
        const bool is_without = line.starts_with("tidegate_questions_without_address_total ");
        const bool is_unusable = line.starts_with("tidegate_questions_unusable_total{");
        if (!is_request && !is_without && !is_unusable) continue;
        const auto value = value_of_line(line);
        if (!value) return std::nullopt;
        if (is_unusable) {
            if (*value > 0) counts.unusable.emplace_back(label_of(line, "part"), *value);
            continue;
        }
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

void check_original_requests(const QuestionCounts& counts, const config::Config& config,
                             Findings& findings) {
    constexpr std::string_view kCheck = "questions.original";
    constexpr std::uint64_t kOneIn = 100;  // clients can bring about some
    if (counts.asked == 0) return;
    std::uint64_t unusable = 0;
    for (const auto& [part, count] : counts.unusable) unusable += count;
    if (unusable == 0) return findings.ok(kCheck, "each question stated one original request");
    const bool is_all = unusable >= counts.asked;
    findings.add(
        is_all                              ? Severity::fault
        : unusable >= counts.asked / kOneIn ? Severity::warning
                                            : Severity::note,
        kCheck,
        fmt::format("{} of {} questions did not state one original request, and were refused. "
                    "Missing, there twice or wrong: {}",
                    unusable, counts.asked, sources_text(counts, config)),
        is_all
            ? "set `dialect` of the listener to that of the gateway, and let the gateway write "
              "these fields itself: docs/faces.md#the-dialects"
            : "let the gateway write these fields itself, so that no client can: the log and the "
              "answers say what was wrong");
}

namespace {

constexpr int kExitWarnings = 1;
// A longer name does not move the texts of all others to the right.
constexpr std::size_t kAlignedMax = 32;

std::size_t number_of(std::span<const Finding> findings, Severity severity) {
    return static_cast<std::size_t>(
        std::count_if(findings.begin(), findings.end(),
                      [&](const Finding& finding) { return finding.severity == severity; }));
}

std::string counted_by(std::span<const Finding> findings, Severity severity) {
    const std::size_t number = number_of(findings, severity);
    return fmt::format("{} {}{}", number, to_string(severity),
                       number == 1 || severity == Severity::ok ? "" : "s");
}

}  // namespace

Doc doc_of(std::span<const Finding> findings) {
    constexpr std::size_t kSeverityWidth = 7;
    std::size_t width = 0;
    for (const Finding& finding : findings) {
        if (finding.about.size() <= kAlignedMax) width = std::max(width, finding.about.size());
    }
    Doc doc({.indent = 2});
    Doc::Json list = Doc::Json::array();
    for (const Finding& finding : findings) {
        // Some of it comes from servers.
        doc.line(fmt::format("{:<{}}  {:<{}}  {}", to_string(finding.severity), kSeverityWidth,
                             displayable(finding.about), width, finding.what));
        Doc::Json entry{{"severity", to_string(finding.severity)},
                        {"check", finding.check},
                        {"about", finding.about},
                        {"what", finding.what}};
        if (!finding.advice.empty()) {
            doc.line(fmt::format("{:<{}}  -> {}", "", kSeverityWidth, finding.advice));
            entry["advice"] = finding.advice;
        }
        list.push_back(std::move(entry));
    }
    doc.line(fmt::format("{}, {}, {}, {}", counted_by(findings, Severity::fault),
                         counted_by(findings, Severity::warning),
                         counted_by(findings, Severity::note), counted_by(findings, Severity::ok)));
    const std::size_t faults = number_of(findings, Severity::fault);
    const std::size_t warnings = number_of(findings, Severity::warning);
    doc.json = {{"faults", faults},
                {"warnings", warnings},
                {"notes", number_of(findings, Severity::note)},
                {"ok", number_of(findings, Severity::ok)},
                {"findings", std::move(list)}};
    if (faults != 0) {
        doc.exit_code = kExitFaults;
    } else if (warnings != 0) {
        doc.exit_code = kExitWarnings;
    }
    return doc;
}

}  // namespace tidegate::doctor
