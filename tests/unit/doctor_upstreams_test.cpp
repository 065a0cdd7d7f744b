#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "doctor/examinations.hpp"

namespace tidegate::doctor::upstreams_test {

namespace {

using namespace std::chrono_literals;
using upstream::HealthAnswer;

config::Upstream checked_upstream() {
    config::Upstream settings;
    settings.name = "api";
    settings.health_check.emplace().path = "/healthz";
    return settings;
}

Finding judged(const HealthAnswer& answer, bool others_serve = false) {
    Findings findings("upstream api");
    judge_health(checked_upstream(), "10.0.0.5:3000", "10.0.0.5", answer, others_serve, findings);
    REQUIRE(findings.list().size() == 1);
    return findings.list().front();
}

Finding refused(int status, bool others_serve = false) {
    return judged({.fault = "it answers " + std::to_string(status), .status = status},
                  others_serve);
}

Findings queue_of(std::size_t max, std::size_t connections, std::chrono::nanoseconds took) {
    config::Upstream settings = checked_upstream();
    settings.queue = {.max = max, .wait = 1s};
    settings.max_connections = connections;
    Findings findings;
    judge_queue(settings, took, findings);
    return findings;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("upstream_health: a check that passes says what was answered, and how fast") {
    const Finding finding = judged({.status = 204, .took = 2'500us});
    CHECK(finding.severity == Severity::ok);
    CHECK(finding.check == "upstream.health");
    CHECK(finding.what == "10.0.0.5:3000: GET /healthz answers 204 in 3ms");
}

TEST_CASE("upstream_health: a failed check is a fault, unless another server serves") {
    CHECK(refused(503).severity == Severity::fault);
    CHECK(refused(503, true).severity == Severity::warning);
    CHECK(refused(503).what ==
          "10.0.0.5:3000: GET /healthz for `Host: 10.0.0.5` fails, so the server gets no requests: "
          "it answers 503");
}

TEST_CASE("upstream_health: the advice names the setting that an answer is about") {
    CHECK(has(refused(404).advice, "upstreams.api.health_check.path"));
    CHECK(has(refused(404).advice, "upstreams.api.health_check.host"));
    CHECK(has(refused(421).advice, "upstreams.api.health_check.host"));
    CHECK(has(refused(401).advice, "needs no credentials"));
    CHECK(has(refused(403).advice, "`status: [200-399, 403]`"));
    CHECK(has(refused(500).advice, "upstreams.api.health_check.status"));
    const HealthAnswer late{.fault = "it does not answer within 2s"};
    CHECK(has(judged(late).advice, "upstreams.api.health_check.timeout"));
}

TEST_CASE("upstream_health: a redirect that counts as healthy is a warning, without its query") {
    const Finding finding = judged({.status = 302, .location = "/login?state=secret"}, true);
    CHECK(finding.severity == Severity::warning);
    CHECK(has(finding.what, "answers 302 (to /login), which counts as healthy"));
    CHECK_FALSE(has(finding.what, "secret"));
    CHECK(has(finding.advice, "upstreams.api.health_check.status: 200-299"));
}

TEST_CASE("upstream_health: a check that only connects says nothing more when it passes") {
    config::Upstream settings = checked_upstream();
    settings.health_check->path.clear();
    Findings findings;
    judge_health(settings, "10.0.0.5:3000", "10.0.0.5", {}, false, findings);
    CHECK(findings.list().empty());
}

TEST_CASE("upstream_health: a queue is too long if its last request cannot be served in time") {
    // 4 connections serve 400 requests of 10 ms in a second.
    CHECK(queue_of(400, 4, 10ms).list().empty());
    const Findings found = queue_of(401, 4, 10ms);
    REQUIRE(found.list().size() == 1);
    const Finding& finding = found.list().front();
    CHECK(finding.severity == Severity::warning);
    CHECK(finding.check == "upstream.queue");
    CHECK(
        has(finding.what, "the last of 401 that wait does not get one of 4 connections within 1s"));
    CHECK(has(finding.advice, "lower upstreams.api.queue.max to 400,"));
    CHECK(queue_of(0, 4, 10s).list().empty());
    CHECK(has(queue_of(128, 1, 5s).list().front().advice, "queue.max to 1,"));
}

}  // namespace tidegate::doctor::upstreams_test
