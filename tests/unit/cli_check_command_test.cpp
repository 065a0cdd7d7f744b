#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/doc.hpp"
#include "cli/config_file.hpp"

namespace tidegate::cli::check_command_test {

namespace {

TEST_CASE("check: programs get an object with the counts, the faults and the warnings") {
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
            .validity = {{}, std::chrono::system_clock::from_time_t(1'795'255'200)}};
}

TEST_CASE("check: each certificate has a line with its key, its days and its names") {
    using namespace std::chrono_literals;
    std::vector<app::ListedCertificate> list{certificate("listen 0.0.0.0:443", "ECDSA P-256"),
                                             certificate("listen 0.0.0.0:443", "RSA 2048")};
    list.back().names = {"x\ny"};
    list.push_back(certificate("upstreams.api.tls", "RSA 2048"));
    list.back().file.clear();
    list.back().names.clear();
    list.back().is_of_listener = false;
    const auto now = list.front().validity.until - 41 * 24h;
    CHECK(lines_of(list, now) ==
          "listen 0.0.0.0:443: a.pem: ECDSA P-256, 41 days left (until 2026-11-21), for a.example, "
          "b.example\n"
          "listen 0.0.0.0:443: a.pem: RSA 2048, 41 days left (until 2026-11-21), for x\\x0ay\n"
          "upstreams.api.tls: RSA 2048, 41 days left (until 2026-11-21)\n");
    CHECK(lines_of(std::span(list).first(1), now + 42 * 24h) ==
          "listen 0.0.0.0:443: a.pem: ECDSA P-256, expired on 2026-11-21, for a.example, "
          "b.example\n");
}

TEST_CASE("check: a listener that has RSA keys only gets a note about their cost") {
    const std::vector<app::ListedCertificate> list{certificate("listen :1", "RSA 2048"),
                                                   certificate("listen :2", "ECDSA P-256"),
                                                   certificate("listen :2", "RSA 2048")};
    const std::string lines = lines_of(list, {});
    CHECK(lines.find("listen :1: only RSA keys") != std::string::npos);
    CHECK(lines.find("listen :2: only RSA keys") == std::string::npos);
}

}  // namespace

}  // namespace tidegate::cli::check_command_test
