#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "config/key_advice.hpp"
#include "places.hpp"

namespace tidegate::config::misplaced_keys_test {
namespace {

TEST_CASE("misplaced keys: a key that belongs elsewhere has advice in its section alone") {
    CHECK(advice_for_key("", "redis") == "`store: {redis: {url: redis://127.0.0.1:6379/0}}`");
    CHECK(advice_for_key("routes[3]", "redis").empty());
    CHECK(advice_for_key("routes[12]", "path").starts_with("it in `match`"));
    CHECK(advice_for_key("routes[0].match", "prefix") == "`path: /v1/**`");
    CHECK(advice_for_key("match", "prefix").empty());
    CHECK(advice_for_key("timeouts", "connect").starts_with("it for each upstream"));
    CHECK(advice_for_key("routes[0].timeouts", "connect").empty());
    CHECK(advice_for_key("", "limits").empty());
}

TEST_CASE("misplaced keys: names that people choose do not matter") {
    CHECK(advice_for_key("upstreams.api", "url") == "`servers: [http://10.0.0.5:3000]`");
    CHECK(advice_for_key("policies.routes", "whitelist") == "`exempt: [10.0.0.0/8]`");
    CHECK(advice_for_key("routes[1].policies[0]", "whitelist") == "`exempt: [10.0.0.0/8]`");
    CHECK(advice_for_key("policies.p.limits[0]", "period") == "`per: 1min`");
    CHECK(advice_for_key("limits[0]", "period") == "`per: 1min`");
    CHECK(advice_for_key("policies.p.tiers.pro[2]", "period").empty());
    CHECK(advice_for_key("upstreams[", "url").empty());
}

TEST_CASE(
    "misplaced keys: TLS as other proxies call it, of a listener in a list and of a lone one") {
    for (const std::string listener : {"listen", "listen[3]"}) {
        CHECK(advice_for_key(listener, "ssl_certificate") ==
              "`tls: {certificate: site.pem, key: site.key}`");
        CHECK(advice_for_key(listener + ".tls", "ssl_protocols") == "`min_version: 1.2`");
        for (const std::string one : {".tls.certificates", ".tls.certificates[0]"}) {
            CHECK(advice_for_key(listener + one, "crt").starts_with("`certificate: site.pem`"));
        }
    }
    CHECK(advice_for_key("", "tls").starts_with("it for a listener"));
    CHECK(advice_for_key("listen.redirect", "code").starts_with("nothing instead"));
    CHECK(advice_for_key("listen[0].proxy_protocol", "trusted") == "`from: [10.0.0.0/8]`");
    CHECK(advice_for_key("upstreams.api.tls", "sni") == "`server_name: api.internal`");
    CHECK(advice_for_key("upstreams.api.tls", "verify").empty());
    CHECK(advice_for_key("listen.tls", "certificate").empty());
}

TEST_CASE("misplaced keys: HTTP/2 as other proxies call it") {
    for (const std::string key : {"http2", "alpn", "h2c"}) {
        CHECK(advice_for_key("listen[0]", key) == "`http: [h2, http1]`");
    }
    CHECK(advice_for_key("listen[0].tls", "alpn").starts_with("it beside `tls`"));
    CHECK(advice_for_key("", "http").starts_with("it for a listener"));
    CHECK(advice_for_key("", "http2").empty());
    CHECK(advice_for_key("http2", "initial_connection_window_size") == "`connection_window: 1MiB`");
    CHECK(advice_for_key("http2.abuse", "rate") == "`per: 100/s`");
}

TEST_CASE("misplaced keys: no key that a section allows has advice against it") {
    const Loaded loaded =
        load_file(test::source_folder() + "/config/gateway.yaml",
                  [](std::string_view) -> std::optional<std::string> { return std::nullopt; });
    for (const Diagnostic& error : loaded.errors) {
        CHECK(error.message.find("unknown key") == std::string::npos);
    }
}

}  // namespace
}  // namespace tidegate::config::misplaced_keys_test
