// The answers to `/api/config` and `/api/rollback`.
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "admin/answer.hpp"
#include "admin/api_paths.hpp"
#include "net/asio.hpp"

namespace tidegate::admin::config_answer_test {
namespace {

std::shared_ptr<const config::Config> loaded(const std::string& text) {
    const config::Loaded read = config::load_text(text, "tidegate.yaml");
    for (const auto& error : read.errors) FAIL(error.to_string());
    return read.config;
}

ConfigInForce in_force(std::shared_ptr<const config::Config> config, bool is_rolled_back = false) {
    return {.generation = 3,
            .config = std::move(config),
            .read_at = std::chrono::system_clock::time_point{},
            .is_rolled_back = is_rolled_back,
            .has_former = true};
}

AdminRequest some_request(std::string_view method, std::string_view target) {
    AdminRequest request;
    request.method = method;
    request.target = target;
    request.local = true;
    request.host = "localhost";
    request.authorization = "Bearer secret";
    return request;
}

AdminSources sources_of(const std::shared_ptr<const config::Config>& config) {
    AdminSources sources;
    sources.token = [] { return std::string_view("secret"); };
    sources.config = [config] { return ConfigInForce{.generation = 1, .config = config}; };
    sources.rollback = []() -> Task<ReloadReport> {
        ReloadReport report;
        report.generation = 4;
        report.errors = {{"tidegate", 0, 0, "there is nothing to go back to"}};
        co_return report;
    };
    return sources;
}

}  // namespace

TEST_CASE("config answer: JSON has the configuration, its hash and whether one may go back") {
    const auto config = loaded("upstream: http://127.0.0.1:1\nlimits: [5/s]\n");
    const AdminAnswer answer = answer_to_config(in_force(config));
    const auto json = nlohmann::json::parse(answer.body);
    CHECK(answer.exit_code == 0);
    CHECK(json.at("generation") == 3);
    CHECK(json.at("hash") == config->shown.hash);
    CHECK(json.at("file") == "tidegate.yaml");
    CHECK(json.at("read_at") == "1970-01-01T00:00:00Z");
    CHECK(json.at("rolled_back") == false);
    CHECK(json.at("can_roll_back") == true);
    CHECK(json.at("config").at("limits").at(0) == "5/s");
}

TEST_CASE("config answer: the text is YAML that means the same configuration") {
    const std::string text =
        "listen: [\"127.0.0.1:1\", {address: \"127.0.0.1:2\", face: check}]\n"
        "admin: {address: \"127.0.0.1:3\"}\n"
        "upstreams: {a: {servers: [\"http://127.0.0.1:4\", {url: \"http://127.0.0.1:5\", weight: "
        "2}], health_check: {path: /up}}}\n"
        "policies:\n"
        "  p: {key: [\"header:x-a+route\", ip], limits: [5/s, {quota: 7, per: 1h}], exempt: []}\n"
        "routes:\n"
        "  - {match: {path: \"/a: b\"}, upstream: a, policies: [p]}\n"
        "  - {match: {path: \"regex:/x{1,2}$$\"}, upstream: a, policies: []}\n"
        "response: {body: {content_type: text/plain, text: \"Wait: 'a' # \\u00eb\\n\"}}\n"
        "log: {access: \"off\", level: info}\n";
    const auto config = loaded(text);
    const AdminAnswer answer = answer_to_config_in_yaml(in_force(config, true));
    CHECK(answer.text.starts_with("# configuration 3, hash " + config->shown.hash +
                                  ", read from tidegate.yaml at 1970-01-01T00:00:00Z\n"
                                  "# put in force again by `tidegate rollback`"));
    const config::Loaded again = config::load_text(answer.text, "again.yaml");
    for (const auto& error : again.errors) FAIL_CHECK(error.to_string());
    REQUIRE(again.config != nullptr);
    CHECK_MESSAGE(again.config->shown.json == config->shown.json, answer.text);
    CHECK(again.config->shown.hash == config->shown.hash);
}

TEST_CASE("config answer: JSON is ASCII, and means the same configuration") {
    const auto config = loaded(
        "upstream: http://127.0.0.1:1\n"
        "response: {body: {content_type: text/plain, text: \"\\u00eb \\u202e \\U0001F600 "
        "\\x7f\"}}\n");
    const AdminAnswer answer = answer_to_config(in_force(config));
    for (const char c : answer.body) REQUIRE(static_cast<unsigned char>(c) < 0x7f);
    CHECK(nlohmann::json::parse(answer.body).at("config") ==
          nlohmann::json::parse(config->shown.json));
    CHECK(answer.text.empty());
}

TEST_CASE("config answer: the text is made apart, and JSON at once") {
    const auto config = loaded("upstream: http://127.0.0.1:1\n");
    AdminSources sources = sources_of(config);
    int apart = 0;
    sources.apart = [&](std::function<AdminAnswer()> make) -> Task<AdminAnswer> {
        ++apart;
        co_return make();
    };
    CHECK_FALSE(answer_to(some_request("GET", "/api/config"), sources).work);
    const AdminAnswer permitted =
        answer_to(some_request("GET", "/api/config?format=text"), sources);
    REQUIRE(permitted.work);
    asio::io_context io{1};
    AdminAnswer done;
    spawn(io.get_executor(), permitted.work(),
          [&](const std::exception_ptr&, AdminAnswer answer) { done = std::move(answer); });
    io.run();
    CHECK(apart == 1);
    CHECK(done.body.starts_with("# configuration 1, hash " + config->shown.hash));
    CHECK(done.body.find("upstream: http://127.0.0.1:1\n") != std::string::npos);
    CHECK(done.exit_code == 0);
}

TEST_CASE("config answer: it needs the token, and a GET") {
    const auto config = loaded("upstream: http://127.0.0.1:1\n");
    const AdminSources sources = sources_of(config);
    AdminRequest request = some_request("GET", "/api/config");
    CHECK(answer_to(request, sources).status == 200);
    request.authorization = "Bearer wrong";
    CHECK(answer_to(request, sources).status == 401);
    request.authorization = {};
    CHECK(answer_to(request, sources).status == 401);
    CHECK(answer_to(some_request("POST", "/api/config"), sources).status == 405);
    AdminSources open = sources;
    open.token = [] { return std::string_view(); };
    CHECK(answer_to(request, open).status == 200);
    request.local = false;
    CHECK(answer_to(request, open).status == 403);
}

TEST_CASE("rollback answer: it is POST with the token, and 409 where there is nothing") {
    const auto config = loaded("upstream: http://127.0.0.1:1\n");
    const AdminSources sources = sources_of(config);
    CHECK(answer_to(some_request("GET", "/api/rollback"), sources).status == 405);
    AdminRequest request = some_request("POST", "/api/rollback");
    request.authorization = {};
    CHECK(answer_to(request, sources).status == 401);
    request.authorization = "Bearer secret";
    request.has_origin = true;
    CHECK(answer_to(request, sources).status == 403);
    request.has_origin = false;
    const AdminAnswer permitted = answer_to(request, sources);
    REQUIRE(permitted.work);
    asio::io_context io{1};
    AdminAnswer done;
    spawn(io.get_executor(), permitted.work(),
          [&](const std::exception_ptr&, AdminAnswer answer) { done = std::move(answer); });
    io.run();
    CHECK(done.status == 409);
    CHECK(done.exit_code == 1);
    CHECK(done.text ==
          "tidegate: error: there is nothing to go back to\n"
          "1 error: the proxy goes on with configuration 4\n");
}

TEST_CASE("reload answer: it says the hash of the configuration in force") {
    ReloadReport report;
    report.ok = true;
    report.generation = 2;
    report.hash = "0123456789abcdef";
    const AdminAnswer answer = answer_to_reload(report);
    CHECK(answer.text == "configuration 2 is in force, hash 0123456789abcdef\n");
    CHECK(answer.body == R"({"result":"ok","generation":2,"hash":"0123456789abcdef"})"
                         "\n");
}

}  // namespace tidegate::admin::config_answer_test
