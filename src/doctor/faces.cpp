#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "doctor/examinations.hpp"
#include "identity/client_ip.hpp"

namespace tidegate::doctor {

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

// Only if `trusted_proxies` lists a gateway as well, a method `header` trusts it to name users.
void check_trust(const config::Listen& listen, const config::Config& config, Findings& findings) {
    const auto& trusted = config.client_ip.trusted_proxies;
    const bool reads_users =
        std::any_of(config.user_methods.begin(), config.user_methods.end(), [](const auto& method) {
            return std::holds_alternative<identity::HeaderMethod>(method.how);
        });
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
