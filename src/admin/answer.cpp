#include "admin/answer.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "admin/dashboard_answer.hpp"
#include "admin/inspect_answer.hpp"
#include "admin/page.hpp"
#include "admin/upstreams_answer.hpp"
#include "base/ip.hpp"
#include "base/json.hpp"
#include "http/field.hpp"
#include "http/problem.hpp"
#include "http/request_value.hpp"
#include "telemetry/access_log.hpp"

namespace tidegate::admin {

namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPrometheusText = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kTokenNeeded =
    "Send the `admin.token` of the configuration: `Authorization: Bearer TOKEN`.";
constexpr std::string_view kNoPages =
    "The request has the field Origin, so a web page sent it: Tidegate changes nothing for pages. "
    "Send it without Origin.";
constexpr std::string_view kOwnNameNeeded =
    "The field Host must hold an IP address or `localhost`: a web page could make any other name "
    "mean this machine. Send `Host: localhost`, or configure `admin.token` and send it.";
constexpr std::string_view kOnlyLocal =
    "The configuration has no `admin.token`, so Tidegate answers requests from its own machine "
    "only.";

enum class Path {
    metrics,
    health,
    readiness,
    reload,
    inspect,
    reset,
    upstreams,
    live,
    top,
    denials,
    page,
    other
};

Path path_of(std::string_view target) {
    const std::string_view path = target.substr(0, target.find('?'));
    if (path == "/metrics") return Path::metrics;
    if (path == "/healthz") return Path::health;
    if (path == "/readyz") return Path::readiness;
    if (path == "/reload") return Path::reload;
    if (path == "/api/inspect") return Path::inspect;
    if (path == "/api/reset") return Path::reset;
    if (path == "/api/upstreams") return Path::upstreams;
    if (path == "/api/live") return Path::live;
    if (path == "/api/top") return Path::top;
    if (path == "/api/denials") return Path::denials;
    if (page_file(path) != nullptr) return Path::page;
    return Path::other;
}

AdminAnswer ok(std::string_view content_type, std::string body) {
    AdminAnswer answer;
    answer.content_type = content_type;
    answer.body = std::move(body);
    return answer;
}

AdminAnswer page_answer(std::string_view target) {
    const PageFile& file = *page_file(target.substr(0, target.find('?')));
    AdminAnswer answer = ok(file.content_type, std::string(file.text));
    answer.page = true;
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

// The dashboard asks, under the name that this listener has served it by. Behind a proxy with TLS
// its scheme is https.
bool is_of_dashboard(const AdminRequest& request) {
    std::string_view origin = request.origin;
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!origin.starts_with(scheme)) continue;
        origin.remove_prefix(scheme.size());
        return !origin.empty() && http::equal_ignoring_case(origin, request.host);
    }
    return false;
}

AdminAnswer wrong_method(std::string_view allowed) {
    AdminAnswer answer = problem(405);
    answer.allow = allowed;
    return answer;
}

AdminAnswer refused_field(std::string_view detail) {
    AdminAnswer answer = problem(403, detail);
    answer.refusal = detail;
    return answer;
}

// Why a request may not change anything, if it may not. A page does not know the token, so no name
// that a page can make mean this machine gets past it. `takes_dashboard`: of all pages, the request
// comes from the dashboard, and may.
std::optional<AdminAnswer> objection_to_change(const AdminRequest& request, bool has_token,
                                               bool takes_dashboard = false) {
    if (request.method != "POST") return wrong_method("POST");
    if (request.has_origin && !takes_dashboard) return refused_field(kNoPages);
    if (!has_token && !is_own_name(request.host)) return refused_field(kOwnNameNeeded);
    return std::nullopt;
}

AdminAnswer reload(const AdminRequest& request, bool has_token) {
    if (auto objection = objection_to_change(request, has_token)) return std::move(*objection);
    AdminAnswer answer;
    answer.reload = true;
    return answer;
}

// Why the listener refuses to show anything, if it does. Without a token, a page that a browser
// takes for one of this host could read which clients are counted.
std::optional<AdminAnswer> objection_to_look(const AdminRequest& request, bool has_token) {
    if (request.method != "GET") return wrong_method("GET");
    if (!has_token && !is_own_name(request.host)) return refused_field(kOwnNameNeeded);
    return std::nullopt;
}

AdminAnswer counts(const AdminRequest& request, bool reset, bool has_token) {
    auto objection = reset ? objection_to_change(request, has_token, is_of_dashboard(request))
                           : objection_to_look(request, has_token);
    if (objection) return std::move(*objection);
    auto identifier = identifier_asked_for(request.target);
    if (!identifier) return std::move(identifier.error());
    AdminAnswer answer;
    answer.counts = CountsRequest{reset, std::move(*identifier)};
    return answer;
}

AdminAnswer shown_upstreams(const AdminRequest& request, const AdminSources& sources,
                            bool has_token) {
    if (auto objection = objection_to_look(request, has_token)) return std::move(*objection);
    return answer_to_upstreams(sources.upstreams());
}

AdminAnswer live(const AdminRequest& request, const AdminSources& sources, bool has_token) {
    if (auto objection = objection_to_look(request, has_token)) return std::move(*objection);
    return sources.live(request.target);
}

AdminAnswer activity(const AdminRequest& request, bool top, bool has_token) {
    if (auto objection = objection_to_look(request, has_token)) return std::move(*objection);
    AdminAnswer answer;
    answer.activity = ActivityRequest{ActivityRequest::Kind::denials};
    if (!top) return answer;
    auto asked = top_asked_for(request.target);
    if (!asked) return std::move(asked.error());
    answer.activity = *asked;
    return answer;
}

AdminAnswer restricted(const AdminRequest& request, const AdminSources& sources, Path path) {
    const std::string_view token = sources.token();
    const bool has_token = http::bears_token(request.authorization, token);
    if (token.empty() && !request.local) return problem(403, kOnlyLocal);
    if (!token.empty() && !has_token) {
        AdminAnswer answer = problem(401, kTokenNeeded);
        answer.authenticate = "Bearer realm=\"tidegate\"";
        return answer;
    }
    switch (path) {
        case Path::reload:
            return reload(request, has_token);
        case Path::inspect:
        case Path::reset:
            return counts(request, path == Path::reset, has_token);
        case Path::upstreams:
            return shown_upstreams(request, sources, has_token);
        case Path::live:
            return live(request, sources, has_token);
        case Path::top:
        case Path::denials:
            return activity(request, path == Path::top, has_token);
        default:
            return problem(404);
    }
}

void append_diagnostics(std::string_view name, const std::vector<config::Diagnostic>& all,
                        std::string& out) {
    if (all.empty()) return;
    out.append(",\"").append(name).append("\":[");
    for (const config::Diagnostic& one : all) {
        if (&one != &all.front()) out += ',';
        out += "{\"file\":\"";
        append_json_escaped(one.file, out);
        if (one.line != 0) {
            out += fmt::format("\",\"line\":{},\"column\":{}", one.line, one.column);
        } else {
            out += '"';
        }
        out += ",\"message\":\"";
        append_json_escaped(one.message, out);
        out += "\"}";
    }
    out += ']';
}

}  // namespace

AdminAnswer answer_to(const AdminRequest& request, const AdminSources& sources) {
    const Path path = path_of(request.target);
    const bool is_open = path == Path::metrics || path == Path::health || path == Path::readiness ||
                         path == Path::page;
    if (!is_open) return restricted(request, sources, path);
    if (request.method != "GET" && request.method != "HEAD") return wrong_method("GET, HEAD");
    if (path == Path::metrics) {
        AdminAnswer answer = ok(kPrometheusText, {});
        answer.metrics = true;
        return answer;
    }
    if (path == Path::readiness) return readiness(sources);
    if (path == Path::page) return page_answer(request.target);
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

AdminAnswer problem(int status, std::string_view detail,
                    std::optional<std::int64_t> retry_after_seconds) {
    http::Problem details;
    details.status = status;
    details.detail = detail;
    details.retry_after_seconds = retry_after_seconds;
    AdminAnswer answer;
    answer.status = status;
    answer.retry_after_seconds = retry_after_seconds;
    answer.content_type = http::kProblemContentType;
    http::append_problem(details, answer.body);
    return answer;
}

Result<std::optional<std::string>, AdminAnswer> asked_in_query(std::string_view target,
                                                               std::string_view name) {
    const std::size_t mark = target.find('?');
    const auto query = mark == std::string_view::npos ? std::string_view() : target.substr(mark);
    http::RequestValue stated = http::value_in_query(query, name);
    switch (stated.how) {
        case http::RequestValue::How::once:
            return std::optional(std::move(stated.value));
        case http::RequestValue::How::absent:
            return std::optional<std::string>();
        case http::RequestValue::How::unclear:
            break;
    }
    return problem(400, "The query can be read in more than one way.");
}

}  // namespace tidegate::admin
