#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "config/value.hpp"
#include "places.hpp"

namespace tidegate::config::value_test {

TEST_CASE("suggest: the nearest word is suggested") {
    const std::vector<std::string_view> known{"upstream", "upstreams", "limits", "on_store_failure",
                                              "key"};
    CHECK(nearest("upstrem", known) == "upstream");
    CHECK(nearest("upstraems", known) == "upstreams");
    CHECK(nearest("limit", known) == "limits");
    CHECK(nearest("limtis", known) == "limits");
    CHECK(nearest("Limits", known) == "limits");
    CHECK(nearest("on-store-failure", known) == "on_store_failure");
    CHECK(nearest("kye", known) == "key");
}

TEST_CASE("suggest: a word that goes on where another ends is suggested, if none is nearer") {
    CHECK(nearest("warning", {"debug", "info", "warn", "error"}) == "warn");
    CHECK(nearest("err", {"debug", "info", "warn", "error"}) == "error");
    CHECK(nearest("up", {"upstream"}).empty());
}

TEST_CASE("suggest: a word far from all others has no suggestion") {
    const std::vector<std::string_view> known{"upstream", "limits", "key"};
    CHECK(nearest("zzz", known).empty());
    CHECK(nearest("", known).empty());
    CHECK(nearest("a", known).empty());
    CHECK(nearest(std::string(10'000, 'u'), known).empty());
    CHECK(nearest("limits", {}).empty());
}

TEST_CASE("suggest: words are listed as a sentence wants them") {
    CHECK(one_of({}) == "");
    CHECK(one_of({"a"}) == "`a`");
    CHECK(one_of({"a", "b", "c"}) == "`a`, `b` or `c`");
}

namespace {

std::optional<std::string> environment(std::string_view name) {
    if (name == "A") return "alpha";
    if (name == "EMPTY") return "";
    if (name == "TRICK") return "${A} $$ {x: y}";
    return std::nullopt;
}

std::string expanded(std::string_view text) {
    auto out = expand(text, environment);
    return out ? out->text : "fault: " + out.error();
}

}  // namespace

TEST_CASE("expand: a variable is replaced, wherever it stands") {
    CHECK(expanded("") == "");
    CHECK(expanded("plain") == "plain");
    CHECK(expanded("${A}") == "alpha");
    CHECK(expanded("<${A}-${A}>") == "<alpha-alpha>");
    CHECK(expanded("${EMPTY}") == "");
}

TEST_CASE("expand: a default replaces an unset or empty variable") {
    CHECK(expanded("${NONE:-x}") == "x");
    CHECK(expanded("${NONE:-}") == "");
    CHECK(expanded("${EMPTY:-x}") == "x");
    CHECK(expanded("${A:-x}") == "alpha");
    CHECK(expanded("${NONE:-http://127.0.0.1:3000}") == "http://127.0.0.1:3000");
}

TEST_CASE("expand: two dollars are one, a lone one stays") {
    CHECK(expanded("$$") == "$");
    CHECK(expanded("$${A}") == "${A}");
    CHECK(expanded("$$$${A}") == "$${A}");
    CHECK(expanded("^/a$") == "^/a$");
    CHECK(expanded("$A") == "$A");
}

TEST_CASE("expand: values of the environment are not expanded again") {
    CHECK(expanded("${TRICK}") == "${A} $$ {x: y}");
    CHECK(expanded("${NONE:-$$}") == "$$");
}

TEST_CASE("expand: an unset variable and a broken reference are faults") {
    CHECK(expanded("${NONE}") ==
          "fault: the environment variable `NONE` is not set; set it, or write a default: "
          "`${NONE:-...}`");
    for (const char* text : {"${", "${A", "${}", "${1A}", "${A B}", "${A-x}", "${A:=x}", "${ A}",
                             "${:-x}", "a ${A} ${"}) {
        CAPTURE(text);
        CHECK(expanded(text).starts_with("fault: "));
    }
}

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
}  // namespace tidegate::config::value_test
