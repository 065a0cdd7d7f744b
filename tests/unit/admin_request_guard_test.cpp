#include <exception>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "admin/answer.hpp"
#include "admin/api_paths.hpp"
#include "net/asio.hpp"

namespace tidegate::admin::request_guard_test {
namespace {

// What sources were asked for, as text.
std::string asked_for;

AdminAnswer noted(std::string what) {
    asked_for = std::move(what);
    AdminAnswer answer;
    answer.body = "{}\n";
    answer.text = "in words\n";
    return answer;
}

AdminSources some_sources() {
    AdminSources sources;
    sources.metrics = [] { return std::string("tidegate_requests_total 1\n"); };
    sources.ready = [] { return ReadinessAnswer{true, R"({"status":"ready"})"}; };
    sources.token = [] { return std::string_view("secret"); };
    sources.counts = [](CountsRequest request) -> Task<AdminAnswer> {
        co_return noted((request.reset ? "reset " : "inspect ") + request.identifier);
    };
    sources.activity = [](ActivityRequest request) -> Task<AdminAnswer> {
        const DenialFilter& filter = request.filter;
        std::string text = "activity " + std::to_string(static_cast<int>(request.kind));
        if (!filter.identifier.empty()) text += " of " + filter.identifier;
        if (!filter.policy.empty()) text += " by " + filter.policy;
        if (filter.since) text += " of " + std::to_string(filter.since->count() / 1'000'000) + "s";
        co_return noted(text);
    };
    return sources;
}

// The answer to a request that is permitted, once the work is done.
AdminAnswer worked(const AdminRequest& request, const AdminSources& sources) {
    const AdminAnswer permitted = answer_to(request, sources);
    REQUIRE(permitted.work);
    asio::io_context io{1};
    AdminAnswer done;
    spawn(io.get_executor(), permitted.work(),
          [&](const std::exception_ptr&, AdminAnswer answer) { done = std::move(answer); });
    io.run();
    return done;
}

AdminRequest request_for(std::string_view target) {
    AdminRequest request;
    request.method = "GET";
    request.target = target;
    return request;
}

int status_of(const AdminRequest& request, const AdminSources& sources = some_sources()) {
    return answer_to(request, sources).status;
}

TEST_CASE("admin: metrics, health and readiness are open to every peer") {
    const AdminAnswer metrics = answer_to(request_for("/metrics"), some_sources());
    CHECK(metrics.status == 200);
    CHECK(metrics.content_type == "text/plain; version=0.0.4; charset=utf-8");
    CHECK(metrics.metrics);
    CHECK(status_of(request_for("/metrics?name[]=up")) == 200);
    CHECK(status_of(request_for("/healthz")) == 200);
    CHECK(answer_to(request_for("/readyz"), some_sources()).body == R"({"status":"ready"})");
}

TEST_CASE("admin: not ready is 503 with the same body") {
    AdminSources sources = some_sources();
    sources.ready = [] { return ReadinessAnswer{false, R"({"status":"draining"})"}; };
    const AdminAnswer answer = answer_to(request_for("/readyz"), sources);
    CHECK(answer.status == 503);
    CHECK(answer.body == R"({"status":"draining"})");
    CHECK(status_of(request_for("/healthz"), sources) == 200);
}

TEST_CASE("admin: a method other than GET and HEAD gets 405 and the list of allowed ones") {
    AdminRequest request = request_for("/metrics");
    request.method = "HEAD";
    CHECK(status_of(request) == 200);
    for (const std::string_view method : {"POST", "get", "DELETE", ""}) {
        request.method = method;
        const AdminAnswer answer = answer_to(request, some_sources());
        CHECK(answer.status == 405);
        CHECK(answer.allow == "GET, HEAD");
        CHECK(answer.content_type == "application/problem+json");
    }
}

TEST_CASE("admin: other paths require a configured token of every peer, also on this machine") {
    AdminRequest request = request_for("/api/limits");
    for (const bool local : {false, true}) {
        request.local = local;
        request.authorization = {};
        const AdminAnswer refused = answer_to(request, some_sources());
        CHECK(refused.status == 401);
        CHECK(refused.authenticate == "Bearer realm=\"tidegate\"");
        CHECK(refused.body.find("admin.token") != std::string::npos);
        CHECK(refused.body.find("secret") == std::string::npos);
        request.authorization = "Bearer secret";
        CHECK(status_of(request) == 404);
    }
    for (const std::string_view target :
         {"", "*", "/metrics/", "/Metrics", "//metrics", "/metrics;a", "/healthz%20"}) {
        CHECK(status_of(request_for(target)) == 401);
    }
}

TEST_CASE("admin: other paths take only the token itself, as a bearer") {
    AdminRequest request = request_for("/api");
    for (const std::string_view given : {"Bearer secret", "bearer secret", "Bearer  secret"}) {
        request.authorization = given;
        CHECK(status_of(request) == 404);
    }
    for (const std::string_view given :
         {"", "Bearer", "Bearer ", "Bearer   ", "secret", "Basic secret", "Bearersecret",
          "Bearer secre", "Bearer secretsecret", "Bearer secreT", "Bearer secret ", "Bearer x"}) {
        request.authorization = given;
        CHECK(status_of(request) == 401);
    }
}

TEST_CASE("admin: the token is not taken from the query") {
    for (const std::string_view target :
         {"/api/inspect?token=secret&identifier=user%3Aalice",
          "/api/inspect?access_token=secret&identifier=user%3Aalice",
          "/api/inspect?authorization=Bearer%20secret&identifier=user%3Aalice"}) {
        AdminRequest request = request_for(target);
        request.local = true;
        request.host = "localhost";
        CHECK(status_of(request) == 401);
    }
}

TEST_CASE("admin: without a configured token only local peers may use other paths") {
    AdminSources sources = some_sources();
    sources.token = [] { return std::string_view(); };
    AdminRequest request = request_for("/api");
    for (const std::string_view given : {"", "Bearer ", "Bearer x"}) {
        request.authorization = given;
        CHECK(status_of(request, sources) == 403);
    }
    request.local = true;
    CHECK(status_of(request, sources) == 404);
}

AdminRequest reload_request() {
    AdminRequest request;
    request.method = "POST";
    request.target = "/reload";
    request.host = "127.0.0.1:9901";
    request.local = true;
    return request;
}

// As a configuration without a token has it.
AdminSources open_sources() {
    AdminSources sources = some_sources();
    sources.token = [] { return std::string_view(); };
    return sources;
}

TEST_CASE("admin: a reload needs the token or, where none is configured, a local peer") {
    AdminRequest request = reload_request();
    CHECK(answer_to(request, open_sources()).work);
    CHECK(status_of(request) == 401);
    CHECK_FALSE(answer_to(request, some_sources()).work);
    request.authorization = "Bearer secret";
    CHECK(answer_to(request, some_sources()).work);
    request.local = false;
    CHECK(answer_to(request, some_sources()).work);
    CHECK(status_of(request, open_sources()) == 403);
    CHECK_FALSE(answer_to(request, open_sources()).work);
}

TEST_CASE("admin: a reload is POST, and nothing else") {
    AdminRequest request = reload_request();
    for (const std::string_view method : {"GET", "HEAD", "PUT", "post"}) {
        request.method = method;
        const AdminAnswer answer = answer_to(request, open_sources());
        CHECK(answer.status == 405);
        CHECK(answer.allow == "POST");
        CHECK_FALSE(answer.work);
    }
}

TEST_CASE(
    "admin: GET answers with counts and POST forgets them, where a reload would be permitted") {
    AdminRequest request = reload_request();
    request.method = "GET";
    request.target = "/api/inspect?identifier=user%3Aalice";
    AdminSources sources = open_sources();
    worked(request, sources);
    CHECK(asked_for == "inspect user:alice");
    request.method = "POST";
    CHECK(answer_to(request, open_sources()).allow == "GET");

    request.target = "/api/reset?identifier=18%3Ax%2B1";
    sources = open_sources();
    worked(request, sources);
    CHECK(asked_for == "reset 18:x+1");
    request.method = "GET";
    CHECK(answer_to(request, open_sources()).allow == "POST");
    request.method = "POST";
    request.has_origin = true;
    CHECK(status_of(request, open_sources()) == 403);
    request.has_origin = false;
    request.host = "evil.example";
    CHECK(status_of(request, open_sources()) == 403);
    request.host = "localhost";
    request.local = false;
    CHECK(status_of(request) == 401);
    CHECK_FALSE(answer_to(request, some_sources()).work);
    request.authorization = "Bearer secret";
    CHECK(answer_to(request, some_sources()).work);
}

TEST_CASE("admin: a page under a name of its own reads no counts, unless it has the token") {
    AdminRequest request = reload_request();
    request.method = "GET";
    request.target = "/api/inspect?identifier=user%3Aalice";
    for (const std::string_view host : {"", "evil.example", "evil.example:9901"}) {
        request.host = host;
        CHECK_MESSAGE(status_of(request, open_sources()) == 403, host);
        CHECK_FALSE(answer_to(request, open_sources()).work);
    }
    request.authorization = "Bearer secret";
    CHECK(answer_to(request, some_sources()).work);
    request.authorization = {};
    request.host = "localhost:9901";
    CHECK(answer_to(request, open_sources()).work);
}

TEST_CASE("admin: a query without an identifier, or with two, is refused with a sentence") {
    AdminRequest request = reload_request();
    request.method = "GET";
    for (const std::string_view query : {"", "?", "?identifier", "?identifier=", "?other=user:a",
                                         "?identifier=a&identifier=b", "?identifier=%zz"}) {
        const std::string target = "/api/inspect" + std::string(query);
        request.target = target;
        const AdminAnswer answer = answer_to(request, open_sources());
        CHECK_MESSAGE(answer.status == 400, query);
        CHECK(answer.body.find("detail") != std::string::npos);
        CHECK_FALSE(answer.work);
    }
}

TEST_CASE("admin: a page in a browser cannot reload, under any host name") {
    AdminRequest request = reload_request();
    request.has_origin = true;
    CHECK(status_of(request, open_sources()) == 403);
    CHECK_FALSE(answer_to(request, open_sources()).work);
    request.has_origin = false;
    for (const std::string_view host :
         {"", "evil.example", "evil.example:9901", "localhost.evil", "127.0.0.1.evil", "[::1",
          "[::1]x", "[evil]", "127.1", "localhost evil", "127.0.0.1@evil"}) {
        request.host = host;
        CHECK_MESSAGE(status_of(request, open_sources()) == 403, host);
        CHECK_FALSE(answer_to(request, open_sources()).work);
    }
    for (const std::string_view host : {"localhost", "LOCALHOST:9901", "127.0.0.1", "10.0.0.7:1",
                                        "[::1]", "[2001:db8::1]:9901"}) {
        request.host = host;
        CHECK_MESSAGE(answer_to(request, open_sources()).work, host);
    }
}

TEST_CASE("admin: a refusal for Host or Origin names the field, and is to be logged") {
    AdminRequest request = reload_request();
    request.host = "tidegate.internal:9901";
    for (const std::string_view target :
         {"/reload", "/api/reset?identifier=user%3Aa", "/api/inspect?identifier=user%3Aa"}) {
        request.target = target;
        request.method = target.starts_with("/api/inspect") ? "GET" : "POST";
        const AdminAnswer answer = answer_to(request, open_sources());
        CHECK(answer.status == 403);
        CHECK(answer.body.find("The field Host must hold an IP address or `localhost`") !=
              std::string::npos);
        CHECK(answer.refusal.starts_with("The field Host"));
    }
    request.method = "POST";
    request.target = "/reload";
    request.host = "localhost";
    request.has_origin = true;
    const AdminAnswer answer = answer_to(request, open_sources());
    CHECK(answer.status == 403);
    CHECK(answer.body.find("The request has the field Origin") != std::string::npos);
    CHECK_FALSE(answer.refusal.empty());
    request.has_origin = false;
    CHECK(answer_to(request, open_sources()).refusal.empty());
}

TEST_CASE("admin: with a valid token any Host may reload and reset, a page still may not") {
    AdminRequest request = reload_request();
    request.local = false;
    request.host = "tidegate.internal:9901";
    CHECK(status_of(request) == 401);
    request.authorization = "Bearer secret";
    CHECK(answer_to(request, some_sources()).work);
    request.target = "/api/reset?identifier=user%3Aa";
    CHECK(answer_to(request, some_sources()).work);
    request.has_origin = true;
    CHECK(status_of(request) == 403);
    request.authorization = "Bearer wrong";
    request.has_origin = false;
    CHECK(status_of(request) == 401);
}

TEST_CASE("admin: the dashboard may reset, under the name that it was served by, and not reload") {
    AdminRequest request = reload_request();
    request.target = "/api/reset?identifier=user%3Aa";
    request.has_origin = true;
    request.host = "127.0.0.1:9901";
    for (const std::string_view origin : {"http://127.0.0.1:9901", "https://127.0.0.1:9901"}) {
        request.origin = origin;
        CHECK_MESSAGE(answer_to(request, open_sources()).work, origin);
    }
    for (const std::string_view origin :
         {"", "null", "http://", "http://127.0.0.1", "http://127.0.0.1:99", "http://evil.example",
          "http://127.0.0.1:9901.evil", "ftp://127.0.0.1:9901", "127.0.0.1:9901"}) {
        request.origin = origin;
        CHECK_MESSAGE(status_of(request, open_sources()) == 403, origin);
    }
    request.origin = "http://evil.example:9901";
    request.host = "evil.example:9901";
    CHECK(status_of(request, open_sources()) == 403);
    request.authorization = "Bearer secret";
    CHECK(answer_to(request, some_sources()).work);
    request.target = "/reload";
    CHECK(status_of(request) == 403);
}

TEST_CASE("admin: text is for those who ask for it, and JSON for all others") {
    AdminRequest request = reload_request();
    request.method = "GET";
    const AdminSources sources = open_sources();
    for (const std::string_view target :
         {"/api/top", "/api/top?format=json", "/api/top?by=requests&format=json"}) {
        request.target = target;
        CHECK(worked(request, sources).body == "{}\n");
    }
    request.target = "/api/top?format=text";
    const AdminAnswer answer = worked(request, sources);
    CHECK(answer.body == "in words\n");
    CHECK(answer.content_type == "text/plain; charset=utf-8");
    request.target = "/api/top?format=html";
    CHECK(status_of(request, sources) == 400);
    CHECK(answer_to(request, sources).body.find("`format=json` or `format=text`") !=
          std::string::npos);
}

TEST_CASE("admin: top takes one of three lists, and denials what they are filtered by") {
    using Kind = ActivityRequest::Kind;
    AdminRequest request = reload_request();
    request.method = "GET";
    const AdminSources sources = open_sources();
    const auto kind_of = [&](std::string_view target) {
        request.target = target;
        worked(request, sources);
        return asked_for;
    };
    const auto text_of = [](Kind kind) {
        return "activity " + std::to_string(static_cast<int>(kind));
    };
    CHECK(kind_of("/api/top") == text_of(Kind::top_requests));
    CHECK(kind_of("/api/top?by=requests") == text_of(Kind::top_requests));
    CHECK(kind_of("/api/top?x=1&by=denials") == text_of(Kind::top_denials));
    CHECK(kind_of("/api/top?by=shadow") == text_of(Kind::top_shadow));
    CHECK(kind_of("/api/denials") == text_of(Kind::denials));
    CHECK(kind_of("/api/denials?shadow=off") == text_of(Kind::denials));
    CHECK(kind_of("/api/denials?shadow=on") == text_of(Kind::shadow_denials));
    // As a form sends what is not filled in.
    CHECK(kind_of("/api/denials?identifier=&policy=&since=&shadow=") == text_of(Kind::denials));
    CHECK(kind_of("/api/denials?since=10m&policy=p&identifier=user%3Aa") ==
          text_of(Kind::denials) + " of user:a by p of 600s");
    for (const std::string_view target :
         {"/api/top?by=x", "/api/top?by=denials&by=requests", "/api/top?by=%zz",
          "/api/denials?shadow=1", "/api/denials?since=10", "/api/denials?since=-1s",
          "/api/denials?since=999ms", "/api/denials?since=32d", "/api/denials?policy=a&policy=b"}) {
        request.target = target;
        CHECK_MESSAGE(status_of(request, sources) == 400, target);
    }
    request.target = "/api/top?by=x";
    const auto says = [&](std::string_view part) {
        return answer_to(request, sources).body.find(part) != std::string::npos;
    };
    CHECK(says("write `by=requests` or `by=denials` or `by=shadow`."));
    request.target = "/api/denials?since=10";
    CHECK(says("has no unit"));
    request.target = "/api/denials?since=0s";
    CHECK(says("write a duration from 1s to 31d"));
}

TEST_CASE("admin: the answer to a reload lists every fault with its place") {
    ReloadReport report;
    report.generation = 7;
    report.ok = true;
    AdminAnswer answer = answer_to_reload(report);
    CHECK(answer.status == 200);
    CHECK(answer.content_type == "application/json");
    CHECK(answer.body == "{\"result\":\"ok\",\"generation\":7}\n");
    CHECK(answer.text == "configuration 7 is in force\n");
    CHECK(answer.exit_code == 0);

    report.ok = false;
    report.errors = {{"a \"file\".yaml", 3, 9, "one\nfault"}, {"f", 0, 0, "another"}};
    report.warnings = {{"f", 1, 1, "a warning"}};
    answer = answer_to_reload(report);
    CHECK(answer.status == 409);
    CHECK(answer.body == R"({"result":"refused","generation":7,"errors":[)"
                         R"({"file":"a \"file\".yaml","line":3,"column":9,"message":"one\nfault"},)"
                         R"({"file":"f","message":"another"}],)"
                         R"("warnings":[{"file":"f","line":1,"column":1,"message":"a warning"}]})"
                         "\n");
    CHECK(
        answer.text ==
        "a \"file\".yaml:3:9: error: one\\x0afault\nf: error: another\nf:1:1: warning: a warning\n"
        "2 errors, 1 warning: the proxy goes on with configuration 7\n");
    CHECK(answer.exit_code == 1);
    report = {.ok = true, .generation = 2, .errors = {}, .warnings = {{"t.yaml", 3, 1, "odd"}}};
    CHECK(answer_to_reload(report).text ==
          "t.yaml:3:1: warning: odd\nconfiguration 2 is in force\n");
}

}  // namespace
}  // namespace tidegate::admin::request_guard_test
