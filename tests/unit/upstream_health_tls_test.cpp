#include <chrono>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "tls_server.hpp"
#include "upstream/health_check.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream::health_tls_test {

using namespace std::chrono_literals;

namespace {

using test::Authority;
using test::TlsServer;

// The result of a check of `https://localhost:port`.
HealthAnswer check_over_tls(std::uint16_t port, const Authority& believed) {
    TlsSettings settings;
    settings.ca = believed.pem();
    const auto tls = TlsClient::make(settings);
    REQUIRE(tls);
    config::HealthCheck check;
    check.path = "/healthz";
    check.timeout = 5s;
    const StreamProtocol::endpoint endpoint = endpoint_at("127.0.0.1", port);
    const std::string authority = "api.internal";
    const std::string host = "localhost";
    asio::io_context io{1};
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
    std::optional<HealthAnswer> found;
    spawn(io.get_executor(),
          check_health(socket, {.endpoint = endpoint,
                                .authority = authority,
                                .settings = check,
                                .tls_host = host,
                                .tls = tls->get()}),
          [&](const std::exception_ptr& failed, HealthAnswer answer) {
              CHECK_FALSE(failed);
              found = std::move(answer);
          });
    CHECK(runs_until(io, [&] { return found.has_value(); }));
    return *found;
}

}  // namespace

TEST_CASE("health tls: a check asks over TLS") {
    const Authority authority;
    const TlsServer server(authority.issue(), test::tls_answer("ok"));
    const HealthAnswer answer = check_over_tls(server.port(), authority);
    CHECK(answer.fault.empty());
    CHECK(answer.status == 200);
    REQUIRE(server.seen().size() == 1);
    CHECK(server.seen()[0].starts_with("GET /healthz HTTP/1.1\r\nHost: api.internal\r\n"));
    CHECK(server.names_asked_for() == std::vector<std::string>{"localhost"});
}

TEST_CASE("health tls: a server that is not accepted, or does not accept, is not healthy") {
    const Authority authority;
    const TlsServer server(authority.issue(), test::tls_answer("ok"));
    const std::string foreign = check_over_tls(server.port(), Authority()).fault;
    CHECK(foreign.starts_with("its certificate is not accepted: "));
    const TlsServer strict(
        authority.issue(), [](TlsServer::Conversation& client) { client.read_head(); }, 0,
        &authority);
    const std::string refused = check_over_tls(strict.port(), authority).fault;
    CHECK(refused.starts_with("it wants a client certificate, and none is configured"));
}

}  // namespace tidegate::upstream::health_tls_test
