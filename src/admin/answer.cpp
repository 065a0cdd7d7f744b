#include "admin/answer.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "base/ip.hpp"
#include "http/field.hpp"
#include "http/problem.hpp"
#include "telemetry/access_log.hpp"

namespace tidegate::admin {

namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPrometheusText = "text/plain; version=0.0.4; charset=utf-8";

enum class Path { metrics, health, readiness, reload, other };

Path path_of(std::string_view target) {
    const std::string_view path = target.substr(0, target.find('?'));
    if (path == "/metrics") return Path::metrics;
    if (path == "/healthz") return Path::health;
    if (path == "/readyz") return Path::readiness;
    if (path == "/reload") return Path::reload;
    return Path::other;
}

// How long it takes tells nothing about where the two differ.
bool equal_in_constant_time(std::string_view given, std::string_view expected) {
    unsigned difference = given.size() == expected.size() ? 0 : 1;
    for (std::size_t i = 0; i < given.size(); ++i) {
        const char other = expected[i % expected.size()];
        difference |= static_cast<unsigned>(given[i] ^ other);
    }
    return difference == 0;
}

// RFC 6750 section 2.1; schemes are compared without case (RFC 9110 section 11.1).
bool bears_token(std::string_view authorization, std::string_view token) {
    static constexpr std::string_view kScheme = "Bearer ";
    if (token.empty() || authorization.size() <= kScheme.size()) return false;
    if (!http::equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return false;
    authorization.remove_prefix(kScheme.size());
    authorization.remove_prefix(
        std::min(authorization.find_first_not_of(' '), authorization.size()));
    return equal_in_constant_time(authorization, token);
}

AdminAnswer ok(std::string_view content_type, std::string body) {
    AdminAnswer answer;
    answer.content_type = content_type;
    answer.body = std::move(body);
    return answer;
}

AdminAnswer readiness(const AdminSources& sources) {
    Readiness ready = sources.ready();
    AdminAnswer answer = ok(kJson, std::move(ready.body));
    answer.status = ready.ready ? 200 : 503;
    return answer;
}

// An address or `localhost`, with or without a port: names can be made to mean this machine.
bool is_own_name(std::string_view host) {
    if (host.starts_with('[')) {
        const std::size_t end = host.find(']');
        if (end == std::string_view::npos) return false;
        const std::string_view port = host.substr(end + 1);
        return (port.empty() || port.front() == ':') && parse_ip(host.substr(1, end - 1));
    }
    host = host.substr(0, host.find(':'));
    return http::equal_ignoring_case(host, "localhost") || parse_ip(host);
}

AdminAnswer reload(const AdminRequest& request) {
    if (request.method != "POST") {
        AdminAnswer answer = problem(405);
        answer.allow = "POST";
        return answer;
    }
    if (request.has_origin || !is_own_name(request.host)) return problem(403);
    AdminAnswer answer;
    answer.reload = true;
    return answer;
}

AdminAnswer restricted(const AdminRequest& request, const AdminSources& sources, Path path) {
    const std::string_view token = sources.token();
    if (!request.local && !bears_token(request.authorization, token)) {
        if (token.empty()) return problem(403);
        AdminAnswer answer = problem(401);
        answer.authenticate = "Bearer realm=\"tidegate\"";
        return answer;
    }
    return path == Path::reload ? reload(request) : problem(404);
}

void append_diagnostics(std::string_view name, const std::vector<config::Diagnostic>& all,
                        std::string& out) {
    if (all.empty()) return;
    out.append(",\"").append(name).append("\":[");
    for (const config::Diagnostic& one : all) {
        if (&one != &all.front()) out += ',';
        out += "{\"file\":\"";
        telemetry::append_json_escaped(one.file, out);
        if (one.line != 0) {
            out += fmt::format("\",\"line\":{},\"column\":{}", one.line, one.column);
        } else {
            out += '"';
        }
        out += ",\"message\":\"";
        telemetry::append_json_escaped(one.message, out);
        out += "\"}";
    }
    out += ']';
}

}  // namespace

AdminAnswer answer_to(const AdminRequest& request, const AdminSources& sources) {
    const Path path = path_of(request.target);
    if (path == Path::other || path == Path::reload) return restricted(request, sources, path);
    if (request.method != "GET" && request.method != "HEAD") {
        AdminAnswer answer = problem(405);
        answer.allow = "GET, HEAD";
        return answer;
    }
    if (path == Path::metrics) return ok(kPrometheusText, sources.metrics());
    if (path == Path::readiness) return readiness(sources);
    return ok(kJson, "{\"status\":\"ok\"}\n");
}

AdminAnswer answer_to_reload(const ReloadReport& report) {
    std::string body = fmt::format(R"({{"result":"{}","generation":{})",
                                   report.ok ? "ok" : "refused", report.generation);
    append_diagnostics("errors", report.errors, body);
    append_diagnostics("warnings", report.warnings, body);
    body += "}\n";
    AdminAnswer answer = ok(kJson, std::move(body));
    answer.status = report.ok ? 200 : 409;
    return answer;
}

AdminAnswer problem(int status) {
    http::Problem details;
    details.status = status;
    AdminAnswer answer;
    answer.status = status;
    answer.content_type = http::kProblemContentType;
    http::append_problem(details, answer.body);
    return answer;
}

}  // namespace tidegate::admin
