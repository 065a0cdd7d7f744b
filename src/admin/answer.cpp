#include "admin/answer.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "http/field.hpp"
#include "http/problem.hpp"

namespace tidegate::admin {

namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPrometheusText = "text/plain; version=0.0.4; charset=utf-8";

enum class Path { metrics, health, readiness, other };

Path path_of(std::string_view target) {
    const std::string_view path = target.substr(0, target.find('?'));
    if (path == "/metrics") return Path::metrics;
    if (path == "/healthz") return Path::health;
    if (path == "/readyz") return Path::readiness;
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

AdminAnswer restricted(const AdminRequest& request, const AdminSources& sources) {
    if (!request.local && !bears_token(request.authorization, sources.token)) {
        if (sources.token.empty()) return problem(403);
        AdminAnswer answer = problem(401);
        answer.authenticate = "Bearer realm=\"tidegate\"";
        return answer;
    }
    return problem(404);
}

}  // namespace

AdminAnswer answer_to(const AdminRequest& request, const AdminSources& sources) {
    const Path path = path_of(request.target);
    if (path == Path::other) return restricted(request, sources);
    if (request.method != "GET" && request.method != "HEAD") {
        AdminAnswer answer = problem(405);
        answer.allow = "GET, HEAD";
        return answer;
    }
    if (path == Path::metrics) return ok(kPrometheusText, sources.metrics());
    if (path == Path::readiness) return readiness(sources);
    return ok(kJson, "{\"status\":\"ok\"}\n");
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
