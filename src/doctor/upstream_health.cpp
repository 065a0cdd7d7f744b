#include "doctor/upstream_health.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/units.hpp"

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

}  // namespace tidegate::doctor
