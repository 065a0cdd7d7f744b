// Configurations of gateways: what doctor finds in them, and what it does not judge.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "doctor/examinations.hpp"
#include "places.hpp"

namespace tidegate::doctor::gateway_file_test {
namespace {

const std::string kConfig =
    "listen:\n"
    "  - {address: \"127.0.0.1:8181\", face: forward_auth, dialect: nginx}\n"
    "  - {address: \"127.0.0.1:8182\", face: forward_auth, dialect: forwarded}\n"
    "  - {address: \"127.0.0.1:8183\", face: check}\n"
    "  - {address: \"0.0.0.0:8184\", face: forward_auth, dialect: nginx, from: [10.0.0.0/8]}\n"
    "  - {address: \"unix:/run/tidegate.sock\", face: forward_auth, dialect: nginx}\n"
    "identity: {user: [{cookie: {name: session}}], forward_as: {user: X-Auth-User}}\n"
    "limits: [10/s]\n";

const config::Config& config() {
    static const config::Loaded loaded = config::load_text(kConfig, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return *loaded.config;
}

// The configuration that docs/faces.md says to copy.
std::string documented(const std::string& fence, std::size_t number = 0) {
    std::ostringstream text;
    text << std::ifstream(test::source_folder() + "/docs/faces.md").rdbuf();
    const std::string page = text.str();
    std::size_t at = page.find(fence);
    while (number-- > 0) at = page.find(fence, at + 1);
    REQUIRE(at != std::string::npos);
    at = page.find('\n', at) + 1;
    return page.substr(at, page.find("\n```\n", at) + 1 - at);
}

std::string nginx() {
    return documented("```nginx gateway");
}

std::string caddy(std::size_t number = 0) {
    std::string text = documented("```caddy gateway", number);
    for (std::size_t at = 0; (at = text.find("127.0.0.1:8181", at)) != std::string::npos;) {
        text.replace(at, 14, "127.0.0.1:8182");
    }
    return text;
}

std::string without(std::string text, const std::string& part, const std::string& instead = "") {
    const std::size_t at = text.find(part);
    REQUIRE_MESSAGE(at != std::string::npos, part);
    return text.replace(at, part.size(), instead);
}

std::vector<Finding> found(const std::vector<std::string>& texts) {
    std::vector<GatewayFile> files;
    for (const std::string& text : texts) files.push_back({"gateway.conf", text});
    return check_gateway_files(files, config()).list();
}

// The only finding of a file.
Finding only(const std::string& text) {
    const auto all = found({text});
    std::string list;
    for (const Finding& one : all) list += one.what + "\n";
    REQUIRE_MESSAGE(all.size() == 1, list);
    return all.front();
}

void check_is(const Finding& finding, Severity severity, const std::string& check,
              const std::string& part) {
    CHECK(finding.severity == severity);
    CHECK(finding.check == check);
    CHECK_MESSAGE(finding.what.find(part) != std::string::npos, finding.what);
    CHECK(finding.about == "gateway gateway.conf");
}

}  // namespace

TEST_CASE("gateway file: the documented configurations have no findings") {
    check_is(only(nginx()), Severity::ok, "gateway.questions", "127.0.0.1:8181");
    check_is(only(caddy(0)), Severity::ok, "gateway.questions", "127.0.0.1:8182");
    check_is(only(caddy(1)), Severity::ok, "gateway.questions", "127.0.0.1:8182");
}

TEST_CASE("gateway file: nginx without the lines that make 429 of 403 is warned about") {
    const auto is_warned = [](const std::string& text, const std::string& part) {
        check_is(only(text), Severity::warning, "gateway.refusals", part);
    };
    is_warned(without(nginx(), "error_page 403 = @tidegate;"), "no `error_page 403`");
    is_warned(without(nginx(), "error_page 403 =", "error_page 403"), "has no `=`");
    is_warned(without(nginx(), "error_page 403 =", "error_page 404 ="), "no `error_page 403`");
    is_warned(without(nginx(), "return 429 '", "return 403 '"), "returns no 429");
    is_warned(without(nginx(), "$upstream_http_x_tidegate_status", "$upstream_status"),
              "no `auth_request_set`");
}

TEST_CASE("gateway file: an error page of the server holds in its locations") {
    std::string text = without(nginx(), "error_page 403 = @tidegate;");
    text = without(text, "listen 8080;", "listen 8080; error_page 401 403 404 = @tidegate;");
    check_is(only(text), Severity::ok, "gateway.questions", "");
}

TEST_CASE("gateway file: a field that nginx does not set is what a client wrote") {
    for (const std::string name : {"X-Original-URI", "X-Original-Method", "X-Forwarded-For"}) {
        CAPTURE(name);
        const std::size_t at = nginx().find("proxy_set_header " + name);
        const std::string line = nginx().substr(at, nginx().find(';', at) + 1 - at);
        const Finding finding = only(without(nginx(), line));
        CHECK(finding.severity == Severity::fault);
        CHECK(finding.check == "gateway.fields");
        CHECK(finding.advice.find("proxy_set_header") != std::string::npos);
    }
    check_is(only(without(nginx(), "X-Forwarded-For $remote_addr",
                          "X-Forwarded-For $http_x_forwarded_for")),
             Severity::fault, "gateway.fields", "as the client wrote it");
    check_is(only(without(nginx(), "X-Original-URI $request_uri", "X-Original-URI $uri")),
             Severity::fault, "gateway.fields", "its own path");
    check_is(only(without(nginx(), "proxy_set_header X-Auth-User $tidegate_user;")),
             Severity::fault, "gateway.identity", "x-auth-user as the client wrote it");
}

TEST_CASE("gateway file: nginx that announces a body which it does not send is a fault") {
    for (const std::string part :
         {"proxy_pass_request_body off;", "proxy_set_header Content-Length \"\";"}) {
        check_is(only(without(nginx(), part)), Severity::fault, "gateway.body", "waits for it");
    }
    check_is(only(without(nginx(), "request_body off", "request_body on")), Severity::fault,
             "gateway.body", "waits for it");
}

TEST_CASE("gateway file: a listener that nginx cannot ask is a fault") {
    for (const std::string port : {"8182", "8183"}) {
        check_is(only(without(nginx(), "8181", port)), Severity::fault, "gateway.listener", port);
    }
}

TEST_CASE("gateway file: a question is recognised by where it leads") {
    const auto asks = [](const std::string& server) {
        const Finding finding =
            only(without(nginx(), "proxy_pass http://tidegate", "proxy_pass http://" + server));
        CHECK(finding.check == "gateway.questions");
        return finding.severity == Severity::ok;
    };
    CHECK(asks("127.0.0.1:8181"));
    CHECK(asks("localhost:8181/path"));
    CHECK_FALSE(asks("10.0.0.9:8181"));  // this listener has one address only
    CHECK_FALSE(asks("127.0.0.1:4180"));
    CHECK(asks("10.0.0.9:8184"));
    CHECK(asks("tidegate.internal:8184"));
    CHECK(asks("unix:/run/tidegate.sock:/"));
    CHECK_FALSE(asks("unix:/run/other.sock:/"));
    // nginx asks another server without any of it.
    check_is(only("server { location / { auth_request /a; } location /a { proxy_pass "
                  "http://127.0.0.1:4180; } }"),
             Severity::note, "gateway.questions", "no question to a listener");
}

TEST_CASE("gateway file: settings that are not in the file are named and not judged") {
    const auto is_skipped = [](const std::string& text, const std::string& part) {
        for (const Finding& one : found({text})) {
            CHECK_MESSAGE(one.severity == Severity::note, one.what);
            if (one.what.find(part) != std::string::npos) return;
        }
        FAIL(part);
    };
    is_skipped(
        without(nginx(), "proxy_set_header X-Forwarded-For $remote_addr;", "include proxy_params;"),
        "what `include` brings");
    is_skipped(without(nginx(), "error_page 403 = @tidegate;", "include errors.conf;"),
               "whether an `include` has `error_page 403`");
    is_skipped(without(nginx(), "proxy_pass http://tidegate", "proxy_pass http://$tidegate"),
               "a variable");
    is_skipped(without(nginx(), "location = /_tidegate", "location ~ ^/_tide"),
               "is no location of a server here");
    is_skipped(nginx() + "}", "no Caddyfile");
    is_skipped("forwardAuth:\n  address: \"http://x\n", "no Caddyfile");
    is_skipped("", "no question to a listener");
}

TEST_CASE("gateway file: upstreams and fields of `http` may be in another file") {
    const std::size_t at = nginx().find("\nserver {");
    const std::string upstreams = nginx().substr(0, at);
    const std::string server = nginx().substr(at);
    const auto apart = found({"http { include sites/*;\n" + upstreams + "}", server});
    REQUIRE(apart.size() == 2);
    CHECK(apart[0].severity == Severity::note);
    CHECK(apart[1].severity == Severity::ok);
}

TEST_CASE("gateway file: comments, quotes, variables and Lua do not end a block") {
    const std::string odd =
        "# error_page 403 { ;\n"
        "map $a ${b}c { default '}'; \"~^/x{2}\" \"a;b\\\"\"; }\n"
        "init_by_lua_block { local t = {1} -- don't\n }\n";
    check_is(only(odd + nginx()), Severity::ok, "gateway.questions", "line 17: asks");
    // A line that is commented out is not there.
    check_is(only(without(nginx(), "error_page 403", "# error_page 403")), Severity::warning,
             "gateway.refusals", "no `error_page 403`");
    std::string deep;
    for (int i = 0; i < 100; ++i) deep += "a {";
    CHECK(only(deep).what.find("not looked at") != std::string::npos);
}

TEST_CASE("gateway file: Caddy copies each field of forward_as, and no other") {
    check_is(only(without(caddy(), "copy_headers X-Auth-User")), Severity::fault,
             "gateway.identity", "x-auth-user as the client wrote it");
    check_is(only(without(caddy(), "copy_headers X-Auth-User",
                          "copy_headers X-Auth-User>X-User X-Plan RateLimit")),
             Severity::warning, "gateway.identity", "`copy_headers` has x-plan");
    check_is(only(without(caddy(), "copy_headers X-Auth-User",
                          "copy_headers {\n\t\t\tX-Auth-User\n\t\t}")),
             Severity::ok, "gateway.questions", "");
    check_is(only(":80 {\n forward_auth /api/* http://127.0.0.1:8182 {\n  import tidegate\n }\n}"),
             Severity::note, "gateway.file", "`import`");
    CHECK(found({":80 {\n forward_auth /api/* 127.0.0.1:8182\n}\n"}).at(0).severity ==
          Severity::fault);
}

TEST_CASE("gateway file: the longer form of Caddy says the method and the target by hand") {
    for (const std::string line :
         {"header_up X-Forwarded-Method {method}", "header_up X-Forwarded-Uri {uri}"}) {
        check_is(only(without(caddy(1), line)), Severity::fault, "gateway.fields",
                 "refuses the question");
    }
}

TEST_CASE("gateway file: a listener that Caddy cannot ask is a fault") {
    for (const std::string port : {"8181", "8183"}) {
        check_is(only(without(caddy(), "8182", port)), Severity::fault, "gateway.listener", port);
    }
    check_is(only("{\n\tadmin off\n}\n:80 {\n\treverse_proxy 127.0.0.1:3000\n}\n"), Severity::note,
             "gateway.questions", "no question to a listener");
    check_is(only(":80 {\n\tforward_auth {$TIDEGATE} {\n\t\turi /\n\t}\n}\n"), Severity::note,
             "gateway.file", "placeholder");
}

}  // namespace tidegate::doctor::gateway_file_test
