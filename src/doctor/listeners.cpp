#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/doc.hpp"
#include "base/ip.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "doctor/examinations.hpp"
#include "doctor/trial.hpp"
#include "net/byte_stream.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

namespace {

constexpr std::string_view kHttpCheck = "listen.http";
constexpr const char* kOtherHttp =
    "run `tidegate reload`, and restart Tidegate if it says so; or find out which program listens "
    "there";

}  // namespace

void judge_negotiated(const config::Listen& listen, const TlsAnswer& answer, Findings& findings) {
    if (answer.chain.empty()) return;  // the handshake did not get that far
    const bool is_http2 = answer.protocol == kAlpnHttp2;
    // A server that chooses nothing is spoken to in HTTP/1.1.
    const std::string chosen = answer.protocol.empty() ? std::string(kAlpnHttp1) : answer.protocol;
    const std::string what = fmt::format("clients that offer {} and {} by ALPN get {}", kAlpnHttp2,
                                         kAlpnHttp1, displayable(chosen));
    if (is_http2 == listen.takes_http2) return findings.ok(kHttpCheck, what);
    findings.fault(kHttpCheck,
                   what + (is_http2 ? ", but `http` of this listener does not have `h2`"
                                    : ", but `http` of this listener has `h2`"),
                   kOtherHttp);
}

void judge_prior_knowledge(const Http2Answer& answer, Findings& findings) {
    if (begins_with_settings(answer.bytes)) {
        return findings.ok(kHttpCheck,
                           "clients that begin with HTTP/2 (prior knowledge) get HTTP/2");
    }
    const std::string_view line =
        std::string_view(answer.bytes).substr(0, answer.bytes.find_first_of("\r\n"));
    findings.fault(kHttpCheck,
                   fmt::format("`http` of this listener has `h2`, but clients that begin with "
                               "HTTP/2 (prior knowledge) do not get it: {}",
                               answer.bytes.empty() ? answer.fault : "it answers " + quote(line)),
                   kOtherHttp);
}

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

std::string list_of(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 3;
    return shown_names(names, kShown);
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
                    days_left(facts.validity.until, now)));
    if (!expected.contains(facts.sha256)) {
        findings.warning("listen.stale",
                         fmt::format("{}: clients get another certificate than the file has now, "
                                     "one of {}",
                                     who, list_of(facts.names)),
                         kOtherConfiguration);
    }
    check_certificate("listen.certificate", "the certificate for " + who, facts.validity, now,
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

// Says whether a handshake ended as it must for a client without a certificate.
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

namespace {

using config::Listen;
using AuthoritiesPtr = std::shared_ptr<const SystemAuthorities>;

// Each takes a handshake.
constexpr std::size_t kNamesMax = 32;
// Keeps the peer's address (the PROXY protocol's specification, section 2.1).
constexpr std::string_view kProxyHeader = "PROXY UNKNOWN\r\n";
constexpr std::size_t kHeadBytesMax = 8'192;

std::string host_of(const Listen& listen) {
    const bool is_every6 = listen.address.host == config::kEveryAddress && listen.ipv6_only;
    return is_every6 ? "::1" : config::reachable(listen.address).host;
}

// Returns the address at which this machine reaches a listener; nothing for a port that the system
// chooses.
std::optional<StreamProtocol::endpoint> endpoint_of(const Listen& listen,
                                                    const TimeLimit& time_limit) {
    config::Address address = listen.address;
    if (!address.is_unix() && address.port == 0) return std::nullopt;
    if (!address.is_unix()) address.host = host_of(listen);
    const auto endpoints = find_endpoints(address, time_limit.for_step());
    return endpoints ? std::optional(endpoints->front()) : std::nullopt;
}

// Says whether a connection of ours may send a PROXY header there.
bool may_connect(const Listen& listen) {
    if (!listen.proxy_protocol) return true;
    return listen.proxy_protocol->admits(listen.address.is_unix() ? std::nullopt
                                                                  : parse_ip(host_of(listen)));
}

// The head of the answer, or the reason why there is none.
Task<std::string> ask_redirect(std::shared_ptr<TimedSocket> socket,
                               StreamProtocol::endpoint endpoint, std::string request,
                               std::chrono::milliseconds time) {
    std::string head;
    socket->expect_within(time);
    error_code ec = co_await socket->connect(endpoint);
    if (!ec) ec = co_await socket->write(request);
    while (!ec && head.find("\r\n\r\n") == head.npos && head.size() < kHeadBytesMax) {
        std::array<char, 2'048> bytes{};
        const ByteStream::Received received = co_await socket->read_some(bytes);
        head.append(bytes.data(), received.bytes);
        ec = received.ec;
    }
    socket->close();
    co_return head;
}

// A name that the listener with TLS at `port` has a certificate for.
std::string name_at_port(const config::Config& config, std::uint16_t port) {
    for (const Listen& listen : config.listen) {
        if (!listen.tls || listen.address.port != port) continue;
        const auto names = names_to_ask_for(*listen.tls);
        if (!names.empty()) return names.front();
    }
    return "localhost";
}

class ListenerExamination {
  public:
    ListenerExamination(const config::Config& config, const TimeLimit& time_limit)
        : config_(config), time_limit_(time_limit) {
        // Every certificate that the listener shows is checked.
        TlsSettings settings;
        settings.verify = false;
        auto client = TlsClient::make(settings);
        if (client) client_ = std::move(*client);
        auto authorities = SystemAuthorities::read();
        if (authorities) authorities_ = std::move(*authorities);
    }

    Findings examine(const Listen& listen) const {
        Findings findings("listen " + listen.address.to_string());
        if (listen.address.is_inherited()) {
            findings.note("listen.reachable", "not looked at: systemd opens this socket", {});
            return findings;
        }
        const auto endpoint = endpoint_of(listen, time_limit_);
        if (!endpoint || client_ == nullptr) return findings;
        if (!may_connect(listen)) {
            findings.note("listen.reachable",
                          "not looked at: `proxy_protocol.from` does not list this machine", {});
            return findings;
        }
        const std::string fault = try_connect(*endpoint, time_limit_.for_step());
        if (!fault.empty()) {
            findings.note("listen.reachable",
                          fmt::format("not looked at: cannot connect to {}: {}",
                                      endpoint_text(*endpoint), fault),
                          "start Tidegate, then run this again");
        } else if (listen.tls) {
            examine_names(listen, *endpoint, findings);
        } else if (listen.redirects) {
            examine_redirect(listen, *endpoint, findings);
        } else {
            const TlsAnswer answer = shake_hands(listen, *endpoint, "localhost", false);
            judge_plain_listener(answer, findings);
            const bool speaks_tls = !answer.chain.empty();
            if (listen.takes_http2 && !speaks_tls) examine_http2(listen, *endpoint, findings);
        }
        return findings;
    }

  private:
    TlsAnswer shake_hands(const Listen& listen, const StreamProtocol::endpoint& endpoint,
                          const std::string& name, bool awaits_refusal) const {
        return try_tls({.endpoint = endpoint,
                        .host = name,
                        .before = std::string(listen.proxy_protocol ? kProxyHeader : ""),
                        .time = time_limit_.for_step(),
                        .awaits_refusal = awaits_refusal,
                        .offers_http = true},
                       *client_);
    }

    void examine_names(const Listen& listen, const StreamProtocol::endpoint& endpoint,
                       Findings& findings) const {
        const TlsServerSettings& settings = *listen.tls;
        std::vector<std::string> names = names_to_ask_for(settings);
        if (names.size() > kNamesMax) {
            findings.note("listen.names",
                          fmt::format("only {} of the {} names of its certificates are asked for",
                                      kNamesMax, names.size()),
                          {});
            names.resize(kNamesMax);
        }
        if (names.empty()) names.emplace_back("localhost");
        std::vector<NameTrial> trials;
        for (const std::string& name : names) {
            // The listener treats clients without a certificate alike, whatever the name.
            trials.push_back({name, shake_hands(listen, endpoint, name, trials.empty())});
            if (trials.back().answer.speaks_no_tls) break;
        }
        judge_listener_tls(settings, trials, authorities_.get(), std::chrono::system_clock::now(),
                           findings);
        judge_negotiated(listen, trials.front().answer, findings);
    }

    void examine_http2(const Listen& listen, const StreamProtocol::endpoint& endpoint,
                       Findings& findings) const {
        judge_prior_knowledge(
            try_http2({.endpoint = endpoint,
                       .before = std::string(listen.proxy_protocol ? kProxyHeader : ""),
                       .time = time_limit_.for_step()}),
            findings);
    }

    void examine_redirect(const Listen& listen, const StreamProtocol::endpoint& endpoint,
                          Findings& findings) const {
        const std::string name = name_at_port(config_, listen.redirect_port);
        const std::string request =
            fmt::format("{}GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                        listen.proxy_protocol ? kProxyHeader : "", name);
        asio::io_context io{1};
        const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
        judge_redirect(
            wait_for(io, ask_redirect(socket, endpoint, request, time_limit_.for_step())), name,
            config_, findings);
    }

    const config::Config& config_;
    const TimeLimit& time_limit_;
    std::shared_ptr<TlsClient> client_;  // null: OpenSSL has no memory
    AuthoritiesPtr authorities_;         // null: they cannot be read
};

}  // namespace

Findings examine_listeners(const config::Config& config, const TimeLimit& time_limit) {
    Findings all("listen");
    const auto is_tried = [](const Listen& one) {
        return one.tls || one.redirects || one.takes_http2;
    };
    if (std::any_of(config.listen.begin(), config.listen.end(), is_tried)) {
        const ListenerExamination examination(config, time_limit);
        all.append(in_parallel(config.listen.size(), [&](std::size_t index) {
            return examination.examine(config.listen[index]);
        }));
    } else {
        all.note("listen", "not checked: if Tidegate runs already, it holds these addresses itself",
                 {});
    }
    all.append(examine_faces(config));
    return all;
}

}  // namespace tidegate::doctor
