#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "admin/answer.hpp"
#include "admin/api_paths.hpp"
#include "admin/server.hpp"
#include "base/ip.hpp"
#include "base/utf8.hpp"
#include "http/field.hpp"
#include "http/problem.hpp"
#include "http/query_and_method_override.hpp"

namespace tidegate::admin {

namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kPrometheusText = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::array<std::string_view, 2> kFormats{"json", "text"};
constexpr AdminParameter kFormat{.name = "format", .choices = kFormats};
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

AdminAnswer ok(std::string_view content_type, std::string body) {
    AdminAnswer answer;
    answer.content_type = content_type;
    answer.body = std::move(body);
    return answer;
}

AdminAnswer page_answer(std::string_view path) {
    const PageFile& file = *page_file(path);
    AdminAnswer answer = ok(file.content_type, std::string(file.text));
    answer.page = true;
    return answer;
}

AdminAnswer readiness(const AdminSources& sources) {
    ReadinessAnswer ready = sources.ready();
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

// Why the listener refuses to show or to change anything, if it does. Without a token, a page that
// a browser takes for one of this host could read which clients are counted. A page does not know
// the token, so no name that a page can make mean this machine gets past it. Of all pages, only the
// dashboard may change what the question lets it.
std::optional<AdminAnswer> objection_to(const AdminQuestion& question, const AdminRequest& request,
                                        bool has_token) {
    using Access = AdminQuestion::Access;
    const bool changes = question.access != Access::look;
    const std::string_view method = changes ? "POST" : "GET";
    if (request.method != method) return wrong_method(method);
    const bool takes_dashboard =
        question.access == Access::change_from_dashboard && is_of_dashboard(request);
    if (changes && request.has_origin && !takes_dashboard) return refused_field(kNoPages);
    if (!has_token && !is_own_name(request.host)) return refused_field(kOwnNameNeeded);
    return std::nullopt;
}

// The value of the parameter in the query of `target`.
Result<std::string, AdminAnswer> value_of(const AdminParameter& parameter,
                                          std::string_view target) {
    auto stated = asked_in_query(target, parameter.name);
    if (!stated) return stated.error();
    const auto& choices = parameter.choices;
    if (!*stated) {
        if (!choices.empty()) return std::string(choices.front());
        if (parameter.kind != AdminParameter::Kind::argument) return std::string();
        return problem(400, fmt::format("The query lacks `{}`.", parameter.name));
    }
    if (!choices.empty() && std::find(choices.begin(), choices.end(), **stated) == choices.end()) {
        std::string advice;
        for (const std::string_view choice : choices) {
            advice +=
                fmt::format("{}`{}={}`", advice.empty() ? "" : " or ", parameter.name, choice);
        }
        return problem(
            400, fmt::format("`{}` is {}: write {}.", parameter.name, quote(**stated), advice));
    }
    return std::move(**stated);
}

void show_text(AdminAnswer& answer) {
    if (answer.text.empty()) return;
    answer.content_type = kText;
    answer.body = std::move(answer.text);
}

Task<AdminAnswer> text_of(Task<AdminAnswer> work) {
    AdminAnswer answer = co_await std::move(work);
    show_text(answer);
    co_return answer;
}

AdminAnswer answer_in_format(const AdminQuestion& question, const AdminRequest& request,
                             const AdminSources& sources) {
    AdminValues values;
    values.reserve(question.parameters.size());
    for (const AdminParameter& parameter : question.parameters) {
        auto stated = value_of(parameter, request.target);
        if (!stated) return stated.error();
        values.push_back(std::move(*stated));
    }
    const auto format = value_of(kFormat, request.target);
    if (!format) return format.error();
    AdminAnswer answer = question.answer(sources, request, values);
    if (*format != "text") return answer;
    show_text(answer);
    if (!answer.work) return answer;
    answer.work = [work = std::move(answer.work)] { return text_of(work()); };
    return answer;
}

AdminAnswer restricted(const AdminRequest& request, const AdminSources& sources,
                       std::string_view path) {
    const std::string_view token = sources.token();
    const bool has_token = http::bears_token(request.authorization, token);
    if (token.empty() && !request.local) return problem(403, kOnlyLocal);
    if (!token.empty() && !has_token) {
        AdminAnswer answer = problem(401, kTokenNeeded);
        answer.authenticate = "Bearer realm=\"tidegate\"";
        return answer;
    }
    const auto all = questions();
    const auto question = std::find_if(all.begin(), all.end(),
                                       [&](const AdminQuestion& one) { return one.path == path; });
    if (question == all.end()) return problem(404);
    if (auto objection = objection_to(*question, request, has_token)) return std::move(*objection);
    return answer_in_format(*question, request, sources);
}

}  // namespace

AdminAnswer answer_to(const AdminRequest& request, const AdminSources& sources) {
    const std::string_view path = request.target.substr(0, request.target.find('?'));
    const bool is_page = page_file(path) != nullptr;
    const bool is_open = is_page || path == "/metrics" || path == "/healthz" || path == "/readyz";
    if (!is_open) return restricted(request, sources, path);
    if (request.method != "GET" && request.method != "HEAD") return wrong_method("GET, HEAD");
    if (is_page) return page_answer(path);
    if (path == "/metrics") {
        AdminAnswer answer = ok(kPrometheusText, {});
        answer.metrics = true;
        return answer;
    }
    if (path == "/readyz") return readiness(sources);
    return ok(kJson, "{\"status\":\"ok\"}\n");
}

AdminAnswer answer_of(const Doc& doc) {
    AdminAnswer answer = ok(kJson, doc.json_text());
    answer.text = doc.text();
    answer.exit_code = doc.exit_code;
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
