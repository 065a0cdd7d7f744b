#include "doctor/listener_tls.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/ascii.hpp"
#include "base/ip.hpp"
#include "base/quote.hpp"
#include "base/units.hpp"
#include "doctor/thresholds.hpp"
#include "tls/certificate.hpp"
#include "tls/certificate_facts.hpp"
#include "tls/certificate_names.hpp"

namespace tidegate::doctor {

namespace {

using std::chrono::system_clock;

constexpr const char* kOtherConfiguration =
    "look in the error log of the running Tidegate for a reload or a certificate that it refused, "
    "run `tidegate reload`, or find out which program listens there";
constexpr std::string_view kWildcard = "*.";

// The facts of the certificates that the files of the configuration hold now.
std::vector<CertificateFacts> configured(const TlsServerSettings& settings) {
    std::vector<CertificateFacts> all;
    for (const ServerCertificate& one : settings.certificates) {
        const auto chain = parse_certificates(one.certificate);
        if (chain) all.push_back(facts_of(*chain->front()));
    }
    return all;
}

// `a, b, c and 4 more`
std::string list_of(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) {
        text += (i == 0 ? "" : ", ") + names[i];
    }
    if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
    return text;
}

// The certificates that clients get who ask for `names`.
struct Shown {
    std::vector<std::string> names;
    const TlsAnswer* answer;  // the first of them
    CertificateFacts facts;
};

// Each certificate once, in the order in which they were met.
std::vector<Shown> shown_in(std::span<const NameTrial> trials) {
    std::vector<Shown> all;
    for (const NameTrial& trial : trials) {
        if (trial.answer.chain.empty()) continue;
        CertificateFacts facts = facts_of(*trial.answer.chain.front());
        const auto same = std::find_if(all.begin(), all.end(), [&](const Shown& one) {
            return one.facts.sha256 == facts.sha256;
        });
        if (same != all.end()) {
            same->names.push_back(trial.name);
        } else {
            all.push_back({{trial.name}, &trial.answer, std::move(facts)});
        }
    }
    return all;
}

void judge_trust(const Shown& shown, const SystemAuthorities* authorities, Findings& findings) {
    constexpr std::string_view kCheck = "listen.chain";
    if (authorities == nullptr) {
        return findings.note(
            kCheck, "not looked at: this system has no authorities, or they cannot be read", {});
    }
    const auto doubt = authorities->doubt(shown.answer->chain);
    const std::string whose = "the certificate for " + list_of(shown.names);
    if (!doubt) {
        findings.ok(kCheck, whose + " is vouched for by an authority of this system");
    } else if (doubt->is_incomplete) {
        findings.warning(
            kCheck,
            fmt::format("{} comes without that of its issuer, {}: clients that do not "
                        "have it refuse the connection",
                        whose, doubt->issuer),
            "append the issuer's certificate to the file; ACME clients write the whole "
            "chain to `fullchain.pem`");
    } else if (doubt->is_unknown_issuer) {
        findings.note(
            kCheck,
            fmt::format("no authority of this system vouches for {} (issued by {})", whose,
                        doubt->issuer),
            "install the certificate of that authority on the clients, or use a certificate of "
            "a public authority");
    } else {
        findings.warning(kCheck, fmt::format("clients refuse {}: {}", whose, doubt->why),
                         "replace the certificate");
    }
}

void judge_shown(const Shown& shown, const std::set<std::string>& expected,
                 const SystemAuthorities* authorities, system_clock::time_point now,
                 Findings& findings) {
    const CertificateFacts& facts = shown.facts;
    const std::string who = list_of(shown.names);
    const std::string speaks =
        shown.answer->version.empty()
            ? ""
            : fmt::format("{}, {}, ", shown.answer->version, shown.answer->cipher);
    findings.ok(
        "listen.tls",
        fmt::format("{}: {}{} of {}, issued by {}, {} days left", who, speaks, facts.key.text,
                    facts.subject.empty() ? facts.first_name() : facts.subject, facts.issuer,
                    days_left(facts.until, now)));
    if (!expected.contains(facts.sha256)) {
        findings.warning("listen.stale",
                         fmt::format("{}: clients get another certificate than the file has now, "
                                     "one of {}",
                                     who, list_of(facts.names)),
                         kOtherConfiguration);
    }
    check_certificate("listen.certificate", "the certificate for " + who, facts.until, now,
                      findings);
    judge_trust(shown, authorities, findings);
}

void judge_name(const NameTrial& trial, Findings& findings) {
    if (trial.answer.chain.empty() || is_for(*trial.answer.chain.front(), trial.name)) return;
    const CertificateFacts facts = facts_of(*trial.answer.chain.front());
    findings.warning(
        "listen.name",
        fmt::format("clients that ask for {} get a certificate that is not for it, "
                    "but for {}, and refuse the connection",
                    trial.name, facts.names.empty() ? facts.subject : list_of(facts.names)),
        "take a certificate that has this name, or remove it from `names`");
}

void judge_client_auth(const TlsServerSettings& settings, const TlsAnswer& answer,
                       Findings& findings) {
    constexpr std::string_view kCheck = "listen.client_auth";
    const bool is_asked = answer.asks_for_certificate;
    const bool is_required = settings.client_auth.mode == ClientAuth::require;
    if (is_asked != (settings.client_auth.mode != ClientAuth::off)) {
        findings.fault(kCheck,
                       is_asked ? "clients are asked for a certificate, but the configuration says "
                                  "`client_auth: off`"
                                : "clients are not asked for a certificate, as `client_auth` says",
                       kOtherConfiguration);
    } else if (is_required && !answer.wants_certificate) {
        findings.fault(kCheck,
                       "a client without a certificate is not refused, but the configuration says "
                       "`client_auth: require`",
                       kOtherConfiguration);
    } else if (!is_required && answer.wants_certificate) {
        findings.fault(kCheck,
                       "a client without a certificate is refused, but the configuration says "
                       "`client_auth: optional`",
                       kOtherConfiguration);
    } else if (is_asked) {
        findings.ok(kCheck, is_required ? "a client without a certificate is refused"
                                        : "clients are asked for a certificate, and may have none");
    }
}

// Whether a handshake ended as it must for a client without a certificate.
bool is_expected(const TlsServerSettings& settings, const TlsAnswer& answer) {
    return answer.fault.empty() ||
           (answer.wants_certificate && settings.client_auth.mode == ClientAuth::require);
}

struct Location {
    std::string host;
    std::uint16_t port = 443;
};

// `https://host:port/...`
std::optional<Location> parse_https(std::string_view url) {
    constexpr std::string_view kScheme = "https://";
    if (!url.starts_with(kScheme)) return std::nullopt;
    url.remove_prefix(kScheme.size());
    url = url.substr(0, url.find_first_of("/?#"));
    const std::size_t colon = url.rfind(':');
    Location location{std::string(url)};
    if (colon == url.npos || url.ends_with(']')) return location;
    const auto port = parse_decimal(url.substr(colon + 1));
    if (!port || *port == 0 || *port > 65'535) return std::nullopt;
    location.host.resize(colon);
    location.port = static_cast<std::uint16_t>(*port);
    return location;
}

// The value of `location`; empty without one.
std::string location_of(std::string_view head) {
    constexpr std::string_view kField = "location:";
    for (std::size_t at = head.find("\r\n"); at != head.npos; at = head.find("\r\n", at + 2)) {
        const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
        if (to_lower(std::string(line.substr(0, kField.size()))) != kField) continue;
        return std::string(trimmed(line.substr(kField.size())));
    }
    return {};
}

}  // namespace

std::vector<std::string> names_to_ask_for(const TlsServerSettings& settings) {
    std::vector<std::string> names;
    const auto add = [&](std::string name) {
        if (name.starts_with(kWildcard)) name.replace(0, 1, "tidegate-doctor");
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const ServerCertificate& one : settings.certificates) {
        const auto chain = parse_certificates(one.certificate);
        if (chain) {
            for (const std::string& name : facts_of(*chain->front()).names) add(name);
        }
        for (const std::string& name : one.names) add(name);
    }
    return names;
}

void judge_listener_tls(const TlsServerSettings& settings, std::span<const NameTrial> trials,
                        const SystemAuthorities* authorities, system_clock::time_point now,
                        Findings& findings) {
    for (const NameTrial& trial : trials) {
        if (trial.answer.speaks_no_tls) {
            return findings.fault("listen.tls",
                                  "it does not speak TLS, but the configuration has `tls` for it",
                                  kOtherConfiguration);
        }
        if (is_expected(settings, trial.answer)) continue;
        findings.fault("listen.tls",
                       fmt::format("clients that ask for {} cannot connect: {}", trial.name,
                                   trial.answer.fault),
                       "see the error log of Tidegate");
    }
    std::set<std::string> expected;
    for (CertificateFacts& facts : configured(settings)) expected.insert(std::move(facts.sha256));
    for (const Shown& shown : shown_in(trials)) {
        judge_shown(shown, expected, authorities, now, findings);
    }
    for (const NameTrial& trial : trials) judge_name(trial, findings);
    if (trials.empty() || trials.front().answer.chain.empty()) return;
    judge_client_auth(settings, trials.front().answer, findings);
}

void judge_plain_listener(const TlsAnswer& answer, Findings& findings) {
    if (answer.chain.empty()) return;
    findings.fault("listen.tls", "it speaks TLS, but the configuration has no `tls` for it",
                   kOtherConfiguration);
}

void judge_redirect(const std::string& answer, const std::string& name,
                    const config::Config& config, Findings& findings) {
    constexpr std::string_view kCheck = "listen.redirect";
    const std::string location = location_of(answer);
    const auto target = parse_https(location);
    if (!target) {
        return findings.fault(kCheck,
                              fmt::format("it does not send clients to https, but answers {}",
                                          quote(answer.substr(0, answer.find_first_of("\r\n")))),
                              kOtherConfiguration);
    }
    const bool leads_to_tls = std::any_of(
        config.listen.begin(), config.listen.end(),
        [&](const config::Listen& one) { return one.tls && one.address.port == target->port; });
    const std::string where = fmt::format("http://{}/ leads to {}", name, quote(location));
    if (leads_to_tls) return findings.ok(kCheck, where);
    findings.note(
        kCheck, fmt::format("{}, and no listener with `tls` has the port {}", where, target->port),
        "check that a balancer, or the mapping of a container's port, leads from there to a "
        "listener with `tls`");
}

}  // namespace tidegate::doctor
