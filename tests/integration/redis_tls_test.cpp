// Redis over TLS, through the built program and a real server with certificates of the test's own.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "certificates.hpp"
#include "integration/client.hpp"
#include "integration/load.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::redis_tls_test {

namespace {

constexpr milliseconds kTimeout{100};  // store.redis.timeout where answers must be in time

// A Redis that takes TLS on one port, and plain connections, for the test, on another.
class TlsRedis {
  public:
    // `protocols`: as Redis has them; empty: its default.
    explicit TlsRedis(const std::string& names = "DNS:localhost,IP:127.0.0.1",
                      Validity validity = {}, bool asks_clients = false,
                      const std::string& protocols = "")
        : tls_port_(free_port()),
          server_(arguments(authority.issue(names, validity), asks_clients, protocols)) {}

    // The `redis` section of a configuration; `more` goes into `tls`.
    std::string section(const std::string& more = "", const std::string& host = "localhost",
                        milliseconds timeout = milliseconds{5'000}) const {
        return "store: {redis: {url: \"rediss://" + host + ":" + std::to_string(tls_port_) +
               "\", timeout: " + std::to_string(timeout.count()) +
               "ms, breaker: {failures: 5, probe_every: 200ms}, tls: {ca: \"" + path("ca.pem") +
               "\"" + more + "}}}\nreplicas: 1\n";
    }
    // For `more`: a certificate of our own, issued by `vouching`.
    std::string presenting(const Authority& vouching) const {
        const Certificate own = vouching.issue("DNS:tidegate");
        folder_.write("own.pem", own.pem());
        folder_.write("own.key", own.key_pem());
        return ", certificate: \"" + path("own.pem") + "\", key: \"" + path("own.key") + "\"";
    }
    std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
    void believe(const Authority& other) const { folder_.write("ca.pem", other.pem()); }
    std::string address() const { return "localhost:" + std::to_string(tls_port_); }
    RedisServer& server() { return server_; }

    const Authority authority;

  private:
    std::vector<std::string> arguments(const Certificate& own, bool asks_clients,
                                       const std::string& protocols) const {
        folder_.write("ca.pem", authority.pem());
        folder_.write("server.pem", own.pem());
        folder_.write("server.key", own.key_pem());
        std::vector<std::string> words{"--tls-port",         std::to_string(tls_port_),
                                       "--tls-cert-file",    path("server.pem"),
                                       "--tls-key-file",     path("server.key"),
                                       "--tls-ca-cert-file", path("ca.pem"),
                                       "--tls-auth-clients", asks_clients ? "yes" : "no"};
        if (!protocols.empty()) words.insert(words.end(), {"--tls-protocols", protocols});
        return words;
    }

    TemporaryFolder folder_;
    std::uint16_t tls_port_;
    RedisServer server_;
};

std::string refusal(const std::string& store) {
    return refusal_by_store(store + simple("http://127.0.0.1:1", "5/h"));
}

void says(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

bool decided_by_redis(const Tidegate& tidegate) {
    const auto deadline = Clock::now() + kPatience;
    std::size_t known = tidegate.access_log(0).size();
    while (Clock::now() < deadline) {
        tidegate.get();
        const auto log = tidegate.access_log(known + 1);
        for (; known < log.size(); ++known) {
            if (log[known].at("store") == "redis") return true;
        }
        std::this_thread::sleep_for(milliseconds{20});
    }
    return false;
}

}  // namespace

TEST_CASE("redis tls: two proxies over TLS admit exactly what a limit allows") {
    const Upstream upstream(ok());
    TlsRedis redis;
    const std::string yaml = redis.section() + simple(upstream.url(), "120/h");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    CHECK(hammer({first.port(), second.port()}, 8, 600) == Statuses{{200, 120}, {429, 480}});
    for (const auto& line : first.access_log(100)) CHECK(line.at("store") != "local");
    CHECK(redis.server().text({"DBSIZE"}) != "0");
}

TEST_CASE("redis tls: a client certificate is presented to a server that wants one") {
    const Upstream upstream(ok());
    const TlsRedis redis("DNS:localhost", {}, true);
    const Tidegate tidegate(redis.section(redis.presenting(redis.authority)) +
                            simple(upstream.url(), "5/h"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).at(0).at("store") == "redis");
}

TEST_CASE(
    "redis tls: a server that does not accept our certificate keeps it from being ready; it says "
    "why") {
    for (const std::string protocols : {"TLSv1.2", "TLSv1.3"}) {
        CAPTURE(protocols);
        const TlsRedis redis("DNS:localhost", {}, true, protocols);
        // Every time: the server's alert may come after the client's bytes, or with them.
        for (int i = 0; i < 5; ++i) {
            const auto missing = refusal(redis.section());
            says(missing, redis.address());
            says(missing, "it wants a client certificate, and none is configured");
        }
        says(refusal(redis.section(redis.presenting(Authority()))),
             "it does not accept our certificate");
    }
}

TEST_CASE(
    "redis tls: a server whose certificate is not accepted keeps it from being ready; it says "
    "why") {
    const TlsRedis redis;
    redis.believe(Authority());
    says(refusal(redis.section()), "(no trusted authority has signed it)");
    const TlsRedis named("DNS:redis.internal");
    says(refusal(named.section()), "hostname mismatch (it is not for `localhost`)");
    says(refusal(named.section("", "127.0.0.1")), "IP address mismatch");
    const TlsRedis late("DNS:localhost", {-7200, -3600});
    says(refusal(late.section()), "certificate has expired");
}

TEST_CASE("redis tls: the name may be another than the host's") {
    const Upstream upstream(ok());
    const TlsRedis redis("DNS:redis.internal");
    const Tidegate tidegate(redis.section(", server_name: redis.internal", "127.0.0.1") +
                            simple(upstream.url(), "5/h"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).at(0).at("store") == "redis");
}

TEST_CASE("redis tls: TLS on one side only leaves the store down") {
    const Upstream upstream(ok());
    const RedisServer plain;
    {
        const Tidegate tidegate(
            "store: {redis: {url: \"rediss://127.0.0.1:" + std::to_string(plain.port()) +
            "\"}}\nreplicas: 1\n" + simple(upstream.url(), "5/h"));
        CHECK(tidegate.get().status() == 200);
        CHECK(tidegate.access_log(1).at(0).at("store") == "local");
        says(tidegate.errors(), "no answer in TLS: does it speak TLS on this port?");
    }
    const TlsRedis encrypted;
    std::string section = encrypted.section();
    section.replace(section.find("rediss"), 6, "redis");
    section.erase(section.find(", tls:"), section.find("}}}") + 1 - section.find(", tls:"));
    const Tidegate tidegate(section + simple(upstream.url(), "5/h"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).at(0).at("store") == "local");
    says(tidegate.errors(), encrypted.address());
}

TEST_CASE("redis tls: under load, killed, started, paused and resumed, every answer is in time") {
    const Upstream upstream(ok());
    TlsRedis redis;
    const Tidegate tidegate(redis.section("", "localhost", kTimeout) + "on_store_failure: local\n" +
                            simple(upstream.url(), "1000000/h"));
    Statuses statuses;
    {
        BackgroundLoad load(tidegate.port(), 4);
        const auto pass_time = [] { std::this_thread::sleep_for(milliseconds{600}); };
        pass_time();
        redis.server().stop();
        pass_time();
        redis.server().start();
        pass_time();
        redis.server().pause();
        pass_time();
        redis.server().resume();
        pass_time();
        statuses = load.stop();
    }
    CHECK(statuses.size() == 1);
    CHECK(statuses[200] > 100);
    double longest_us = 0;
    for (const auto& line : tidegate.access_log(static_cast<std::size_t>(statuses[200]))) {
        longest_us = std::max(longest_us, line.at("decision_us").get<double>());
    }
    CHECK(longest_us <= static_cast<double>(std::chrono::microseconds(kTimeout + slack()).count()));
    CHECK(decided_by_redis(tidegate));
}

TEST_CASE("redis tls: connections lost one after the other are made again") {
    const Upstream upstream(ok());
    TlsRedis redis;
    const Tidegate tidegate("threads: 1\n" + redis.section() + simple(upstream.url(), "1000/h"));
    for (int i = 0; i < 10; ++i) {
        CHECK(tidegate.get().status() == 200);
        redis.server().command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    }
    CHECK(decided_by_redis(tidegate));
}

TEST_CASE("redis tls: it stops in time while Redis does not answer") {
    const Upstream upstream(ok());
    TlsRedis redis;
    Tidegate tidegate(redis.section() + simple(upstream.url(), "1000/h"));
    CHECK(tidegate.get().status() == 200);
    redis.server().pause();
    const auto begin = Clock::now();
    CHECK(tidegate.stop() == 0);
    CHECK(Clock::now() - begin < milliseconds{3000});
    redis.server().resume();
}

TEST_CASE("redis tls: a reload takes new certificates, and no other address of Redis") {
    const Upstream upstream(ok());
    TlsRedis redis;
    const std::string rest = simple(upstream.url(), "1000/h");
    const Tidegate tidegate(redis.section() + rest);
    CHECK(decided_by_redis(tidegate));
    const Authority stranger;
    redis.believe(stranger);
    tidegate.write_configuration(redis.section() + rest);
    CHECK(tidegate.reload().status() == 200);
    redis.server().command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    const auto deadline = Clock::now() + kPatience;
    while (tidegate.errors().find("its certificate is not accepted") == std::string::npos) {
        REQUIRE(Clock::now() < deadline);
        std::this_thread::sleep_for(milliseconds{5});
    }
    redis.believe(redis.authority);
    CHECK(tidegate.reload().status() == 200);
    CHECK(decided_by_redis(tidegate));
    tidegate.write_configuration(redis.section("", "127.0.0.1") + rest);
    CHECK(tidegate.reload().status() != 200);
}

}  // namespace tidegate::test::redis_tls_test
