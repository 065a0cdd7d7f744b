#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/doc.hpp"
#include "cli/config_file.hpp"

namespace tidegate::cli::config_file_test {

namespace {

TEST_CASE("report: faults come before warnings, each with its place if it has one") {
    config::Loaded loaded;
    loaded.warnings.push_back({"t.yaml", 2, 1, "route `b` is never reached"});
    loaded.errors.push_back({"t.yaml", 7, 12, "`10/x` is no rate"});
    loaded.errors.push_back({"u.yaml", 0, 0, "there is no such file"});
    CHECK(report(loaded) ==
          "t.yaml:7:12: error: `10/x` is no rate\n"
          "u.yaml: error: there is no such file\n"
          "t.yaml:2:1: warning: route `b` is never reached\n");
    CHECK(summary(loaded) == "2 errors, 1 warning");
}

TEST_CASE("report: no name of a file or in it commands the terminal or makes a line of its own") {
    config::Loaded loaded;
    loaded.errors.push_back({"t\x1b[2J.yaml", 7, 12, "a\nu.yaml:1:1: error: b\u202e\x9b"});
    CHECK(report(loaded) ==
          "t\\x1b[2J.yaml:7:12: error: a\\x0au.yaml:1:1: error: b\\xe2\\x80\\xae\\x9b\n");
}

TEST_CASE("report: a valid configuration is summed up, in singular and plural") {
    const config::Loaded loaded =
        config::load_text("upstream: http://127.0.0.1:3000\nlimits: [10/s, 120/min]\n", "t.yaml");
    CHECK(report(loaded).empty());
    CHECK(summary(loaded) ==
          "ok: 1 route, 1 policy, 1 upstream, hash " + loaded.config->shown.hash);

    const config::Loaded guarded = config::load_text(
        "upstream: http://127.0.0.1:3000\nlimits: [10/s]\n"
        "identity: {failed_credentials: 20/min}\n",
        "t.yaml");
    // That of failed_credentials is none of `policies`.
    CHECK(summary(guarded).starts_with("ok: 1 route, 1 policy, 1 upstream"));

    config::Loaded empty{std::make_shared<const config::Config>(), {}, {}, {}};
    CHECK(summary(empty) == "ok: 0 routes, 0 policies, 0 upstreams");
}

TEST_CASE("report: programs get an object with the counts, the faults and the warnings") {
    config::Loaded loaded;
    loaded.errors.push_back({"t\xff.yaml", 7, 12, "`10/x` is no rate"});
    loaded.errors.push_back({"u.yaml", 0, 0, "there is \"no\" such file"});
    loaded.warnings.push_back({"t.yaml", 2, 1, "odd"});
    CHECK(
        check_result(loaded, false, {}).json_text() ==
        R"({"ok":false,"errors":[{"file":"t)"
        "\xef\xbf\xbd"
        R"(.yaml","line":7,"column":12,)"
        R"("message":"`10/x` is no rate"},{"file":"u.yaml","message":"there is \"no\" such file"}],)"
        R"("warnings":[{"file":"t.yaml","line":2,"column":1,"message":"odd"}]})"
        "\n");
    const config::Loaded empty{std::make_shared<const config::Config>(), {}, {}, {}};
    CHECK(
        check_result(empty, false, {}).json_text() ==
        R"({"ok":true,"routes":0,"policies":0,"upstreams":0,"hash":"","certificates":[],"errors":[],)"
        R"("warnings":[]})"
        "\n");
}

std::string lines_of(std::span<const app::ListedCertificate> certificates,
                     std::chrono::system_clock::time_point now) {
    Doc doc;
    add_certificates(certificates, now, doc);
    return doc.text();
}

app::ListedCertificate certificate(std::string place, std::string key) {
    return {.place = std::move(place),
            .file = "a.pem",
            .names = {"a.example", "b.example"},
            .key = std::move(key),
            .until = std::chrono::system_clock::from_time_t(1'795'255'200)};
}

TEST_CASE("report: each certificate has a line with its key, its days and its names") {
    using namespace std::chrono_literals;
    std::vector<app::ListedCertificate> list{certificate("listen 0.0.0.0:443", "ECDSA P-256"),
                                             certificate("listen 0.0.0.0:443", "RSA 2048")};
    list.back().names = {"x\ny"};
    list.push_back(certificate("upstreams.api.tls", "RSA 2048"));
    list.back().file.clear();
    list.back().names.clear();
    list.back().is_of_listener = false;
    const auto now = list.front().until - 41 * 24h;
    CHECK(lines_of(list, now) ==
          "listen 0.0.0.0:443: a.pem: ECDSA P-256, 41 days left (until 2026-11-21), for a.example, "
          "b.example\n"
          "listen 0.0.0.0:443: a.pem: RSA 2048, 41 days left (until 2026-11-21), for x\\x0ay\n"
          "upstreams.api.tls: RSA 2048, 41 days left (until 2026-11-21)\n");
    CHECK(lines_of(std::span(list).first(1), now + 42 * 24h) ==
          "listen 0.0.0.0:443: a.pem: ECDSA P-256, expired on 2026-11-21, for a.example, "
          "b.example\n");
}

TEST_CASE("report: a listener that has RSA keys only gets a note about their cost") {
    const std::vector<app::ListedCertificate> list{certificate("listen :1", "RSA 2048"),
                                                   certificate("listen :2", "ECDSA P-256"),
                                                   certificate("listen :2", "RSA 2048")};
    const std::string lines = lines_of(list, {});
    CHECK(lines.find("listen :1: only RSA keys") != std::string::npos);
    CHECK(lines.find("listen :2: only RSA keys") == std::string::npos);
}

}  // namespace

}  // namespace tidegate::cli::config_file_test
