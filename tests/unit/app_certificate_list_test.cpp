#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "app/certificate_list.hpp"
#include "certificates.hpp"

namespace tidegate::app::certificate_list_test {

namespace {

using test::Authority;
using test::Certificate;

constexpr long kDay = 86'400;

config::Listen listener(std::uint16_t port, const Certificate& certificate) {
    config::Listen listen;
    listen.address = {"127.0.0.1", port, {}};
    listen.tls.emplace().certificates.push_back(
        {certificate.pem(), certificate.key_pem(), {"more.example", "a.example"}, "a.pem"});
    return listen;
}

config::Upstream upstream(const Certificate& certificate) {
    config::Upstream settings;
    settings.name = "api";
    settings.tls.certificate = certificate.pem();
    return settings;
}

}  // namespace

TEST_CASE("certificate_list: listeners come first, with the names that they add") {
    const Authority authority;
    const Certificate shown = authority.issue("DNS:a.example,DNS:b.example", {-60, 20 * kDay});
    const Certificate own = authority.issue("", {-60, 10 * kDay});
    config::Config config;
    config.upstreams.push_back(upstream(own));
    config.listen.push_back(listener(443, shown));
    config.listen.emplace_back();
    const auto list = listed_certificates(config);
    REQUIRE(list.size() == 2);
    CHECK(list[0].place == "listen 127.0.0.1:443");
    CHECK(list[0].file == "a.pem");
    CHECK(list[0].key == "ECDSA P-256");
    CHECK(list[0].name() == "a.example");
    CHECK(list[0].names_text() == "for a.example, b.example, more.example");
    CHECK(list[1].place == "upstreams.api.tls");
    CHECK_FALSE(list[1].is_of_listener);
    CHECK(list[1].name() == "CN=localhost");

    const auto now = system_clock::now();
    const auto first = first_to_renew(config, now);
    REQUIRE(first.has_value());
    CHECK(first->place == "upstreams.api.tls");
    CHECK(first->days_left(now) == 9);
    CHECK_FALSE(first_to_renew(config::Config(), now).has_value());
}

TEST_CASE(
    "certificate_list: one that ends soon comes before a new one for days that ends earlier") {
    const Authority authority;
    const Certificate short_lived = authority.issue("DNS:a.example", {-60, 6 * kDay});
    const Certificate near = authority.issue("", {-80 * kDay, 10 * kDay});
    config::Config config;
    config.listen.push_back(listener(443, short_lived));
    const auto now = system_clock::now();
    const auto only = first_to_renew(config, now);
    REQUIRE(only.has_value());
    CHECK_FALSE(only->validity.ends_soon(now));
    config.upstreams.push_back(upstream(near));
    const auto first = first_to_renew(config, now);
    REQUIRE(first.has_value());
    CHECK(first->place == "upstreams.api.tls");
    CHECK(first->validity.ends_soon(now));
}

TEST_CASE("certificate_list: the metric has each name once, with what expires first") {
    const Authority authority;
    const Certificate late = authority.issue("DNS:a.example", {-60, 20 * kDay});
    const Certificate soon = authority.issue("DNS:a.example", {-60, 10 * kDay});
    auto config = std::make_shared<config::Config>();
    config->listen.push_back(listener(443, late));
    config->listen.push_back(listener(8443, soon));
    CertificateExpiries expiry;
    Gauges gauges;
    expiry.fill_in(config, gauges);
    REQUIRE(gauges.certificate_expiry.size() == 1);
    CHECK(gauges.certificate_expiry[0].name == "a.example");
    const auto earlier = listed_certificates(*config).back().validity.until;
    CHECK(gauges.certificate_expiry[0].until == earlier);

    auto next = std::make_shared<config::Config>();
    next->listen.push_back(listener(443, late));
    expiry.fill_in(next, gauges);
    REQUIRE(gauges.certificate_expiry.size() == 1);
    CHECK(gauges.certificate_expiry[0].until > earlier);
}

}  // namespace tidegate::app::certificate_list_test
