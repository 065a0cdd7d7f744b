#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "app_tls_world.hpp"
#include "certificates.hpp"
#include "doctor/examinations.hpp"
#include "tls/certificate.hpp"
#include "tls_server.hpp"

namespace tidegate::doctor::listener_tls_test {

namespace {

using namespace std::chrono_literals;
using app::TrustedAuthority;
using test::Authority;
using test::Certificate;
using test::TlsServer;

TlsServerSettings settings_of(const std::vector<const Certificate*>& certificates) {
    TlsServerSettings settings;
    for (const Certificate* one : certificates) {
        settings.certificates.push_back({one->pem(), one->key_pem(), {}, "a.pem"});
    }
    return settings;
}

TlsAnswer answer_with(const std::string& pem) {
    TlsAnswer answer{.version = "TLS 1.3", .cipher = "TLS_AES_256_GCM_SHA384"};
    auto chain = parse_certificates(pem);
    REQUIRE(chain.has_value());
    for (CertificatePtr& one : *chain) answer.chain.emplace_back(std::move(one));
    return answer;
}

Findings judged(const TlsServerSettings& settings, const std::vector<NameTrial>& trials) {
    const auto authorities = SystemAuthorities::read();
    Findings findings("listen 127.0.0.1:443");
    judge_listener_tls(settings, trials, authorities ? authorities->get() : nullptr,
                       std::chrono::system_clock::now(), findings);
    return findings;
}

// The texts of those of a check, a line each.
std::string texts_of(const Findings& findings, std::string_view check, Severity severity) {
    std::string texts;
    for (const Finding& one : findings.list()) {
        if (one.check == check && one.severity == severity) texts += one.what + "\n";
    }
    return texts;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

constexpr test::Validity kLong{-7'200, 90 * 86'400};

config::Config with_listener(bool has_tls, std::uint16_t port) {
    config::Config config;
    config::Listen listen;
    listen.address = {"0.0.0.0", port, {}};
    if (has_tls) listen.tls.emplace();
    config.listen.push_back(std::move(listen));
    return config;
}

Finding redirected(const std::string& answer, const config::Config& config) {
    Findings findings("listen 0.0.0.0:80");
    judge_redirect(answer, "a.example", config, findings);
    REQUIRE(findings.list().size() == 1);
    return findings.list().front();
}

}  // namespace

TEST_CASE("listener_tls: each name is asked for once, and of a wildcard one that fits it") {
    const Authority authority;
    const Certificate first = authority.issue("DNS:a.example,DNS:*.b.example");
    const Certificate second = authority.issue("DNS:a.example");
    TlsServerSettings settings = settings_of({&first, &second});
    settings.certificates[1].names = {"c.example", "a.example"};
    CHECK(names_to_ask_for(settings) ==
          std::vector<std::string>{"a.example", "tidegate-doctor.b.example", "c.example"});
}

TEST_CASE("listener_tls: a finding is reported once for all names of a certificate") {
    const TrustedAuthority trusted;
    const Certificate made = trusted.authority.issue("DNS:a.example,DNS:b.example", kLong);
    const TlsAnswer answer = answer_with(made.pem());
    const Findings found =
        judged(settings_of({&made}), {{"a.example", answer}, {"b.example", answer}});
    CHECK(texts_of(found, "listen.tls", Severity::ok) ==
          "a.example, b.example: TLS 1.3, TLS_AES_256_GCM_SHA384, ECDSA P-256 of CN=server, issued "
          "by " +
              facts_of(*trusted.authority.certificate()).subject + ", 89 days left\n");
    CHECK(has(texts_of(found, "listen.chain", Severity::ok), "is vouched for"));
    for (const Finding& one : found.list()) CHECK(one.severity == Severity::ok);
}

TEST_CASE("listener_tls: a certificate that is not the file's is stale") {
    const TrustedAuthority trusted;
    const Certificate old = trusted.authority.issue("DNS:a.example", kLong);
    const Certificate made = trusted.authority.issue("DNS:a.example", kLong);
    const TlsServerSettings settings = settings_of({&made});
    CHECK(has(texts_of(judged(settings, {{"a.example", answer_with(old.pem())}}), "listen.stale",
                       Severity::warning),
              "another certificate than the file"));
    CHECK(texts_of(judged(settings, {{"a.example", answer_with(made.pem())}}), "listen.stale",
                   Severity::warning)
              .empty());
}

TEST_CASE("listener_tls: an authority that the system does not know is a note, expiry a fault") {
    const TrustedAuthority trusted;
    const Authority stranger;
    const Certificate own = stranger.issue("DNS:a.example", kLong);
    const Findings unknown = judged(settings_of({&own}), {{"a.example", answer_with(own.pem())}});
    CHECK(has(texts_of(unknown, "listen.chain", Severity::note), "no authority of this system"));
    const Certificate over = trusted.authority.issue("DNS:a.example", {-7'200, -3'600});
    const Findings expired = judged(settings_of({&over}), {{"a.example", answer_with(over.pem())}});
    CHECK(has(texts_of(expired, "listen.certificate", Severity::fault), "expired on"));
    CHECK(has(texts_of(expired, "listen.chain", Severity::warning), "clients refuse"));
}

TEST_CASE("listener_tls: a certificate that is shown for a name it lacks is a warning") {
    const TrustedAuthority trusted;
    const Certificate made = trusted.authority.issue("DNS:a.example", kLong);
    const Findings found = judged(settings_of({&made}), {{"b.example", answer_with(made.pem())}});
    CHECK(has(texts_of(found, "listen.name", Severity::warning),
              "ask for b.example get a certificate that is not for it, but for a.example"));
}

TEST_CASE("listener_tls: plain HTTP where TLS is configured is the only fault") {
    const Findings found = judged({}, {{"a.example", {.fault = "?", .speaks_no_tls = true}}});
    REQUIRE(found.list().size() == 1);
    CHECK(found.list().front().severity == Severity::fault);
    CHECK(has(found.list().front().what, "does not speak TLS"));
}

TEST_CASE("listener_tls: TLS where none is configured is a fault, plain HTTP is none") {
    const Authority authority;
    Findings findings;
    judge_plain_listener({.fault = "?", .speaks_no_tls = true}, findings);
    CHECK(findings.list().empty());
    judge_plain_listener(answer_with(authority.issue().pem()), findings);
    REQUIRE(findings.list().size() == 1);
    CHECK(findings.list().front().severity == Severity::fault);
}

TEST_CASE("listener_tls: clients are asked for certificates as the configuration says") {
    const TrustedAuthority trusted;
    const Certificate made = trusted.authority.issue("DNS:a.example", kLong);
    const auto severity_of = [&](ClientAuth mode, bool asks, bool refuses) {
        TlsServerSettings settings = settings_of({&made});
        settings.client_auth.mode = mode;
        TlsAnswer answer = answer_with(made.pem());
        answer.asks_for_certificate = asks;
        answer.wants_certificate = refuses;
        if (refuses) answer.fault = "it wants a client certificate";
        Severity worst = Severity::ok;
        const Findings found = judged(settings, {{"a.example", answer}});
        for (const Finding& one : found.list()) {
            worst = std::max(worst, one.severity);
        }
        return worst;
    };
    CHECK(severity_of(ClientAuth::off, false, false) == Severity::ok);
    CHECK(severity_of(ClientAuth::optional, true, false) == Severity::ok);
    CHECK(severity_of(ClientAuth::require, true, true) == Severity::ok);
    CHECK(severity_of(ClientAuth::off, true, false) == Severity::fault);
    CHECK(severity_of(ClientAuth::optional, true, true) == Severity::fault);
    CHECK(severity_of(ClientAuth::require, true, false) == Severity::fault);
    CHECK(severity_of(ClientAuth::require, false, false) == Severity::fault);
}

TEST_CASE("listener_tls: a redirect leads to a listener with TLS, or a note says that none is it") {
    const std::string to_default =
        "HTTP/1.1 301 Moved Permanently\r\nLocation: https://a.example/\r\n\r\n";
    CHECK(redirected(to_default, with_listener(true, 443)).severity == Severity::ok);
    CHECK(redirected(to_default, with_listener(true, 8443)).severity == Severity::note);
    CHECK(redirected(to_default, with_listener(false, 443)).severity == Severity::note);
    const std::string to_port =
        "HTTP/1.1 308 Permanent Redirect\r\ndate: x\r\nlocation:https://[::1]:8443/a?b\r\n\r\n";
    CHECK(redirected(to_port, with_listener(true, 8443)).severity == Severity::ok);
    for (const std::string answer :
         {"", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 301 X\r\nLocation: http://a.example/\r\n\r\n",
          "HTTP/1.1 301 X\r\nLocation: https://a.example:x/\r\n\r\n"}) {
        CAPTURE(answer);
        CHECK(redirected(answer, with_listener(true, 443)).severity == Severity::fault);
    }
}

TEST_CASE(
    "listener_tls: a handshake reports version, chain and whether certificates are requested") {
    const Authority authority;
    TlsSettings unverified;
    unverified.verify = false;
    const auto client = TlsClient::make(unverified);
    REQUIRE(client.has_value());
    const auto tried = [&](const TlsServer& server) {
        return try_tls(
            {.endpoint = asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), server.port()),
             .host = "a.example",
             .time = 5s},
            **client);
    };
    const auto wait = [](TlsServer::Conversation& peer) { peer.wait_for_end(); };
    TlsServer open(authority.issue(), wait, TLS1_2_VERSION);
    const TlsAnswer plain = tried(open);
    CHECK(plain.fault.empty());
    CHECK(plain.version == "TLS 1.2");
    CHECK_FALSE(plain.cipher.empty());
    CHECK_FALSE(plain.asks_for_certificate);
    CHECK(plain.chain.size() == 1);
    CHECK(open.names_asked_for() == std::vector<std::string>{"a.example"});

    const TlsServer closed(authority.issue(), wait, 0, &authority);
    const TlsAnswer refused = tried(closed);
    CHECK(refused.version == "TLS 1.3");
    CHECK(refused.asks_for_certificate);
    CHECK(refused.wants_certificate);
    CHECK_FALSE(refused.chain.empty());
}

}  // namespace tidegate::doctor::listener_tls_test
