// `tracing`: where spans go, and of which requests.
#include <string>

#include <doctest/doctest.h>

#include "config/address.hpp"
#include "config/config.hpp"
#include "places.hpp"

namespace tidegate::config_tracing_test {

using namespace std::chrono_literals;

namespace {

config::Loaded load_tracing(const std::string& tracing) {
    return config::load_text("upstream: http://127.0.0.1:3000\ntracing: " + tracing + "\n",
                             "t.yaml");
}

config::Tracing traced(const std::string& more) {
    const auto loaded = load_tracing("{otlp: \"http://127.0.0.1:4318/v1/traces\"" + more + "}");
    REQUIRE(loaded.config);
    CHECK(loaded.warnings.empty());
    REQUIRE(loaded.config->tracing);
    return *loaded.config->tracing;
}

config::Tracing traced_over_tls(const std::string& tls) {
    const auto loaded =
        load_tracing("{otlp: \"https://collector.example/v1/traces\", tls: " + tls + "}");
    REQUIRE(loaded.config);
    CHECK(loaded.warnings.empty());
    return *loaded.config->tracing;
}

}  // namespace

TEST_CASE("tracing: it is off where nothing or `off` is written") {
    const auto loaded = config::load_text("upstream: http://127.0.0.1:3000\n", "t.yaml");
    REQUIRE(loaded.config);
    CHECK_FALSE(loaded.config->tracing);
    const auto off = load_tracing("off");
    REQUIRE(off.config);
    CHECK_FALSE(off.config->tracing);
}

TEST_CASE("tracing: where spans go is enough, the rest has defaults") {
    const config::Tracing tracing = traced("");
    CHECK(tracing.otlp.shown() == "http://127.0.0.1:4318/v1/traces");
    CHECK_FALSE(tracing.otlp.is_tls);
    CHECK(tracing.sample == 0.01);
    CHECK(tracing.keep_failed == Rate{10, 1s});
    CHECK(tracing.keep_limited == Rate{1, 1s});
    CHECK_FALSE(tracing.accept_anyone);
    CHECK(tracing.service == "tidegate");
    CHECK(tracing.header_lines.empty());
    CHECK(tracing.queue == 8'192);
}

TEST_CASE("tracing: every key is read") {
    const config::Tracing tracing = traced(
        ", sample: 1, keep: {failed: off, limited: 5/min}, accept: anyone, service: edge, "
        "headers: {authorization: Bearer x, X-Scope-OrgID: a}, queue: 64");
    CHECK(tracing.sample == 1.0);
    CHECK(tracing.keep_failed.quota == 0);
    CHECK(tracing.keep_limited == Rate{5, 1min});
    CHECK(tracing.accept_anyone);
    CHECK(tracing.service == "edge");
    CHECK(tracing.header_lines.find("authorization: Bearer x\r\n") != std::string::npos);
    CHECK(tracing.header_lines.find("X-Scope-OrgID: a\r\n") != std::string::npos);
    CHECK(tracing.queue == 64);
    CHECK(traced(", keep: off").keep_failed.quota == 0);
    CHECK(traced(", keep: off").keep_limited.quota == 0);
    CHECK(traced(", keep: {limited: off}").keep_failed == Rate{10, 1s});
}

TEST_CASE("tracing: a collector over TLS is verified, with the system's authorities or `ca`") {
    const config::Tracing by_default = traced_over_tls("{}");
    CHECK(by_default.otlp.is_tls);
    CHECK(by_default.tls == TlsSettings{});
    CHECK(by_default.tls.verify);
    const std::string ca = test::source_folder() + "/tests/config_bad/files/ca.pem";
    const config::Tracing own = traced_over_tls("{ca: \"" + ca + "\", server_name: otel.internal}");
    CHECK(own.tls.ca.starts_with("-----BEGIN CERTIFICATE-----"));
    CHECK(own.tls.server_name == "otel.internal");
    CHECK(own.tls.verify);
}

TEST_CASE("tracing: settings that are the same are equal, so that a reload keeps the exporter") {
    CHECK(traced(", sample: 0.5") == traced(", sample: 0.5"));
    CHECK_FALSE(traced(", sample: 0.5") == traced(""));
    CHECK_FALSE(traced(", headers: {a: b}") == traced(", headers: {a: c}"));
    CHECK(traced_over_tls("{server_name: a}") == traced_over_tls("{server_name: a}"));
    CHECK_FALSE(traced_over_tls("{server_name: a}") == traced_over_tls("{server_name: b}"));
}

TEST_CASE("tracing: the warning about fields in the clear does not show them") {
    const auto loaded = load_tracing(
        "{otlp: \"http://collector.example:4318/v1/traces\", headers: {authorization: s3cret}}");
    REQUIRE(loaded.config);
    REQUIRE(loaded.warnings.size() == 1);
    CHECK(loaded.warnings[0].message.find("s3cret") == std::string::npos);
}

}  // namespace tidegate::config_tracing_test
