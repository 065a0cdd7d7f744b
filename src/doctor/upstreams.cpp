#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/units.hpp"
#include "doctor/examinations.hpp"
#include "doctor/trial.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"
#include "upstream/health_check.hpp"

namespace tidegate::doctor {

namespace {

bool is_redirect(int status) {
    return status >= 300 && status <= 399;
}

// Rounded up: no time is 0ms.
std::string rough_text(std::chrono::nanoseconds time) {
    return format_duration(std::chrono::ceil<std::chrono::milliseconds>(time));
}

// ` (to /login)`. Without the query, which may hold a secret.
std::string target_text(const std::string& location) {
    constexpr std::size_t kShownBytes = 200;
    if (location.empty()) return {};
    return fmt::format(" (to {})",
                       location.substr(0, std::min(kShownBytes, location.find_first_of("?#"))));
}

std::string health_advice(const std::string& key, int status) {
    if (status == 0) {
        return fmt::format(
            "see whether the server speaks HTTP there; if it is only slow, raise "
            "{}.timeout",
            key);
    }
    if (is_redirect(status)) {
        return fmt::format(
            "write where it leads to as {0}.path, or the host that the server "
            "answers for as {0}.host",
            key);
    }
    switch (status) {
        case 401:
        case 403:
            return fmt::format(
                "choose a {0}.path that needs no credentials, or count {1} as "
                "healthy: `status: [200-399, {1}]`",
                key, status);
        case 404:
        case 405:
        case 410:
            return fmt::format(
                "correct {0}.path, or write the host that the server answers for "
                "as {0}.host",
                key);
        case 400:
        case 421:
            return fmt::format("write the host that the server answers for as {}.host", key);
        default:
            return fmt::format("see the server's own log; if {} is healthy, add it to {}.status",
                               status, key);
    }
}

std::string grpc_advice(const std::string& key, int status) {
    if (status == 0) {
        return fmt::format(
            "see whether the server speaks gRPC there; if it is only slow, raise "
            "{}.timeout",
            key);
    }
    return fmt::format(
        "have the server offer grpc.health.v1.Health, and correct {}.grpc: the "
        "service that it names there, or `on` for the server as a whole",
        key);
}

}  // namespace

void judge_health(const config::Upstream& settings, const std::string& where,
                  const std::string& host, const upstream::HealthAnswer& answer, bool others_serve,
                  Findings& findings) {
    constexpr std::string_view kCheck = "upstream.health";
    const std::string key = "upstreams." + settings.name + ".health_check";
    const std::string& path = settings.health_check->path;
    const bool is_grpc = settings.health_check->grpc.has_value();
    const std::string check = is_grpc        ? "its health check by gRPC"
                              : path.empty() ? "its health check"
                                             : "GET " + path;
    const std::string asked = path.empty() ? check : check + " for `Host: " + host + "`";
    if (!answer.fault.empty()) {
        findings.add(others_serve ? Severity::warning : Severity::fault, kCheck,
                     fmt::format("{}: {} fails, so the server gets no requests: {}{}", where, asked,
                                 answer.fault, target_text(answer.location)),
                     is_grpc ? grpc_advice(key, answer.status) : health_advice(key, answer.status));
    } else if (is_grpc) {
        findings.ok(kCheck, fmt::format("{}: {} says SERVING in {}", where, check,
                                        rough_text(answer.took)));
    } else if (is_redirect(answer.status)) {
        findings.warning(
            kCheck,
            fmt::format("{}: {} answers {}{}, which counts as healthy, whatever the application "
                        "behind it does",
                        where, check, answer.status, target_text(answer.location)),
            fmt::format("write where it leads to as {0}.path, or write {0}.status: 200-299", key));
    } else if (answer.status != 0) {
        findings.ok(kCheck, fmt::format("{}: {} answers {} in {}", where, check, answer.status,
                                        rough_text(answer.took)));
    }
}

// While a request waits for `wait`, each connection serves wait / t requests that take t. So the
// last one in a full queue is served in time if t is at most wait * max_connections / max.
void judge_queue(const config::Upstream& settings, std::chrono::nanoseconds took,
                 Findings& findings) {
    const config::Queue& queue = settings.queue;
    if (queue.max == 0 || took.count() <= 0) return;
    // At most 600 s times a million connections.
    const auto seats = static_cast<std::int64_t>(settings.max_connections);
    const std::chrono::nanoseconds served = std::chrono::nanoseconds(queue.wait) * seats;
    if (took <= served / static_cast<std::int64_t>(queue.max)) return;
    findings.warning(
        "upstream.queue",
        fmt::format(
            "the fastest health check took {}: if requests take as long, the last of {} that "
            "wait does not get one of {} connections within {}",
            rough_text(took), queue.max, seats, format_duration(queue.wait)),
        fmt::format("lower upstreams.{}.queue.max to {}, or raise queue.wait or max_connections",
                    settings.name, std::max<std::int64_t>(1, served / took)));
}

namespace {

using upstream::HealthAnswer;

// The findings at one address of a server.
struct AtAddress {
    StreamProtocol::endpoint endpoint;
    std::string fault;                     // why it cannot be connected to, a clause
    std::optional<TlsAnswer> tls{};        // of an encrypted server
    std::optional<HealthAnswer> http2{};   // of a server that is to speak HTTP/2
    std::optional<HealthAnswer> health{};  // of the upstream's check

    bool serves() const {
        return fault.empty() && (!tls || tls->fault.empty()) && (!http2 || http2->fault.empty()) &&
               (!health || health->fault.empty());
    }
};

struct Server {
    const config::Upstream* upstream;
    const config::UpstreamServer* server;
    std::string no_address;  // why its name leads nowhere
    std::vector<AtAddress> addresses{};

    bool serves() const {
        return std::any_of(addresses.begin(), addresses.end(),
                           [](const AtAddress& one) { return one.serves(); });
    }
    bool has(const StreamProtocol::endpoint& endpoint) const {
        return std::any_of(addresses.begin(), addresses.end(),
                           [&](const AtAddress& one) { return one.endpoint == endpoint; });
    }
};

std::vector<Server> servers_of(const config::Config& config) {
    std::vector<Server> servers;
    for (const config::Upstream& upstream : config.upstreams) {
        for (const config::UpstreamServer& server : upstream.servers) {
            servers.push_back({&upstream, &server, {}});
        }
    }
    return servers;
}

// Connects, and if that works performs the health check.
void reach(Server& server, const TimeLimit& time_limit) {
    const auto endpoints = find_endpoints(server.server->address, time_limit.for_step());
    if (!endpoints) {
        server.no_address = endpoints.error();
        return;
    }
    const std::string tls_host = server.server->is_tls ? server.server->address.host : "";
    const auto client = server.server->is_tls ? TlsClient::make(server.upstream->tls)
                                              : Result<std::shared_ptr<TlsClient>, std::string>();
    for (const auto& endpoint : *endpoints) {
        AtAddress& at = server.addresses.emplace_back(AtAddress{endpoint, {}, {}, {}, {}});
        at.fault = try_connect(endpoint, time_limit.for_step());
        if (!at.fault.empty()) continue;
        if (server.server->is_tls) {
            at.tls =
                client
                    ? try_tls(
                          {.endpoint = endpoint, .host = tls_host, .time = time_limit.for_step()},
                          **client)
                    : TlsAnswer{.fault = client.error()};
            if (!at.tls->fault.empty()) continue;
        }
        config::HealthCheck check = server.upstream->health_check.value_or(config::HealthCheck());
        check.timeout = TimeLimit{time_limit.end, check.timeout}.for_step();
        asio::io_context io{1};
        const upstream::HealthQuestion question{.endpoint = endpoint,
                                                .authority = server.server->authority,
                                                .settings = check,
                                                .tls_host = tls_host,
                                                .tls = client->get(),
                                                .is_http2 = server.server->is_http2};
        if (question.is_http2) {
            config::HealthCheck settings_only = check;
            settings_only.path.clear();
            settings_only.grpc.reset();
            const upstream::HealthQuestion greeting{.endpoint = endpoint,
                                                    .authority = server.server->authority,
                                                    .settings = settings_only,
                                                    .tls_host = tls_host,
                                                    .tls = client->get(),
                                                    .is_http2 = true};
            const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
            at.http2 = wait_for(io, upstream::check_http2(socket, greeting));
            if (!at.http2->fault.empty()) continue;
        }
        if (!server.upstream->health_check) continue;
        const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
        at.health = wait_for(io, upstream::check_health(socket, question));
    }
}

std::string away_advice(const Server& server, bool is_fault) {
    if (is_fault) {
        return fmt::format("start it, or correct upstreams.{}.servers", server.upstream->name);
    }
    return server.upstream->health_check
               ? "start it: it gets no requests until its health check passes"
               : "start it: until then, Tidegate tries it now and then, which takes time";
}

void report_reachable(const Server& server, bool others_serve, Findings& findings) {
    const std::string address = server.server->address.to_string();
    std::vector<std::string> faults;
    if (!server.no_address.empty()) faults.push_back(server.no_address);
    for (const AtAddress& at : server.addresses) {
        if (at.fault.empty()) continue;
        faults.push_back(
            fmt::format("cannot connect to {}: {}", endpoint_text(at.endpoint), at.fault));
    }
    if (faults.empty() && server.addresses.empty())
        return;  // reach() threw, which is a finding of its own
    if (faults.empty()) {
        findings.ok("upstream.reachable", address + " accepts connections");
        return;
    }
    const bool is_fault = !others_serve && !server.serves();
    for (const std::string& fault : faults) {
        findings.add(is_fault ? Severity::fault : Severity::warning, "upstream.reachable",
                     fmt::format("{}: {}", address, fault), away_advice(server, is_fault));
    }
}

// The advice about upstream `name`.
std::string tls_advice(const std::string& name, const TlsAnswer& answer) {
    const std::string key = "upstreams." + name + ".tls";
    if (answer.wants_certificate) return fmt::format("write `certificate` and `key` in {}", key);
    return fmt::format(
        "name the authority of its certificate as {0}.ca, or the certificate's name as "
        "{0}.server_name; write `http://` if it speaks no TLS",
        key);
}

void report_tls(const Server& server, bool others_serve, Findings& findings) {
    constexpr std::string_view kCheck = "upstream.tls";
    const auto severity = others_serve || server.serves() ? Severity::warning : Severity::fault;
    for (const AtAddress& at : server.addresses) {
        if (!at.tls) continue;
        const std::string where = endpoint_text(at.endpoint);
        if (!at.tls->fault.empty()) {
            findings.add(severity, kCheck, fmt::format("{}: {}", where, at.tls->fault),
                         tls_advice(server.upstream->name, *at.tls));
            continue;
        }
        findings.ok(kCheck, where + " and Tidegate accept each other");
        if (at.tls->chain.empty()) continue;
        check_certificate("upstream.certificate", "the certificate of " + where,
                          validity_of(*at.tls->chain.front()), std::chrono::system_clock::now(),
                          findings);
    }
}

// The version of HTTP of requests, where it is not HTTP/1.1.
void report_http2(const Server& server, bool others_serve, Findings& findings) {
    constexpr std::string_view kCheck = "upstream.http2";
    const auto severity = others_serve || server.serves() ? Severity::warning : Severity::fault;
    for (const AtAddress& at : server.addresses) {
        if (!at.http2) continue;
        const std::string where = endpoint_text(at.endpoint);
        if (at.http2->fault.empty()) {
            findings.ok(kCheck, where + (at.tls ? " speaks HTTP/2, as ALPN has agreed"
                                                : " speaks HTTP/2, in the clear"));
        } else {
            findings.add(severity, kCheck,
                         fmt::format("{}: requests go in HTTP/2: {}", where, at.http2->fault),
                         at.tls ? fmt::format("have the server offer h2, or write `http: http1` in "
                                              "upstreams.{}",
                                              server.upstream->name)
                                : fmt::format("have the server speak HTTP/2 by prior knowledge, or "
                                              "write `http://` in upstreams.{}.servers",
                                              server.upstream->name));
        }
    }
}

void report_health(const Server& server, bool others_serve, Findings& findings) {
    const config::Upstream& settings = *server.upstream;
    for (const AtAddress& at : server.addresses) {
        if (!at.health) continue;
        const std::string& host = settings.health_check->host;
        judge_health(settings, endpoint_text(at.endpoint),
                     host.empty() ? server.server->authority : host, *at.health,
                     others_serve || server.serves(), findings);
    }
}

// An address is one server, and belongs to the first that led to it. `before`: the servers before.
void report_never_chosen(const Server& server, std::span<const Server> before, Findings& findings) {
    const auto is_taken = [&](const AtAddress& at) {
        return std::any_of(before.begin(), before.end(), [&](const Server& other) {
            return other.upstream == server.upstream && other.has(at.endpoint);
        });
    };
    const auto& addresses = server.addresses;
    if (addresses.empty() || !std::all_of(addresses.begin(), addresses.end(), is_taken)) return;
    findings.warning(
        "upstream.servers",
        fmt::format("{}: all of its addresses belong to servers listed before it, so it "
                    "is no server of its own, and its weight does not count",
                    server.server->address.to_string()),
        fmt::format("remove it from upstreams.{}.servers", server.upstream->name));
}

// The time that the fastest of the checks that passed took.
std::optional<std::chrono::nanoseconds> fastest_check(const config::Upstream& settings,
                                                      const std::vector<Server>& all) {
    std::optional<std::chrono::nanoseconds> fastest;
    for (const Server& server : all) {
        if (server.upstream != &settings) continue;
        for (const AtAddress& at : server.addresses) {
            if (!at.health || !at.serves() || at.health->status == 0) continue;
            fastest = std::min(fastest.value_or(at.health->took), at.health->took);
        }
    }
    return fastest;
}

// Only a request could tell whether a server is nginx, and the doctor sends none.
Findings look_at_via(const config::Config& config) {
    Findings findings("forwarding");
    const config::Forwarding& forwarding = config.forwarding;
    if (config.upstreams.empty() || !forwarding.via || forwarding.states_via) return findings;
    findings.note("upstream.via",
                  "requests have `Via`, and an nginx that gets one does not compress its answer "
                  "(`gzip_proxied off` is its default)",
                  "if a server is nginx and has `gzip on`, write `gzip_proxied any` there, or "
                  "`forwarding: {via: off}` here; `via: on` ends this note");
    return findings;
}

}  // namespace

Findings examine_upstreams(const config::Config& config, const TimeLimit& time_limit) {
    std::vector<Server> servers = servers_of(config);
    Findings all = in_parallel(servers.size(), [&](std::size_t index) {
        reach(servers[index], time_limit);
        return Findings();
    });
    for (std::size_t i = 0; i < servers.size(); ++i) {
        const Server& server = servers[i];
        const bool others_serve =
            std::any_of(servers.begin(), servers.end(), [&](const Server& other) {
                return &other != &server && other.upstream == server.upstream && other.serves();
            });
        Findings findings("upstream " + server.upstream->name);
        report_reachable(server, others_serve, findings);
        report_tls(server, others_serve, findings);
        report_http2(server, others_serve, findings);
        report_health(server, others_serve, findings);
        report_never_chosen(server, std::span(servers).first(i), findings);
        all.append(std::move(findings));
    }
    for (const config::Upstream& upstream : config.upstreams) {
        const auto fastest = fastest_check(upstream, servers);
        if (!fastest) continue;
        Findings findings("upstream " + upstream.name);
        judge_queue(upstream, *fastest, findings);
        all.append(std::move(findings));
    }
    all.append(look_at_via(config));
    return all;
}

}  // namespace tidegate::doctor
