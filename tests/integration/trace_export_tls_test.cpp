// Tracing to a collector over TLS: what its certificate has to prove.
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "integration/soon.hpp"
#include "integration/tracing_world.hpp"
#include "tls_server.hpp"

namespace tidegate::test::trace_export_tls_test {

namespace {

// The length of the body that follows `head`.
std::size_t body_bytes(const std::string& head) {
    const std::string name = "Content-Length: ";
    const std::size_t at = head.find(name);
    return at == std::string::npos ? 0 : std::stoul(head.substr(at + name.size()));
}

// Takes batch after batch on a connection.
void take_spans(TlsServer::Conversation& client) {
    std::array<char, 4096> bytes{};
    for (std::string head = client.read_head(); !head.empty(); head = client.read_head()) {
        for (std::size_t left = body_bytes(head); left > 0;) {
            const std::size_t got = client.read(bytes.data(), std::min(left, bytes.size()));
            if (got == 0) return;
            left -= got;
        }
        client.send(accepted());
    }
}

// An upstream, and a Tidegate that sends its spans to a collector with TLS.
struct Rig {
    std::string tracing(const TlsServer& collector, const std::string& more = "") const {
        return simple(upstream.url()) + "tracing: {otlp: \"" + collector.url("/v1/traces") +
               "\", sample: 1" + more + "}\n";
    }
    // `tls`, with an authority in `ca`.
    std::string trusting(const Authority& believed, const std::string& more = "") const {
        return ", tls: {ca: \"" + folder.write("ca.pem", believed.pem()) + "\"" + more + "}";
    }

    Upstream upstream{ok()};
    TemporaryFolder folder;
    Authority authority;
};

void check_refused(const std::string& configuration, const std::string& why) {
    const Tidegate tidegate(configuration);
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_dropped(tidegate, "unreachable") == 2);
    CHECK_SOON(tidegate.errors().find(why) != std::string::npos);
    CHECK(spans_exported(tidegate) == 0);
}

}  // namespace

TEST_CASE("tracing: a collector over TLS that `ca` vouches for gets the spans, on one connection") {
    const Rig rig;
    const TlsServer collector(rig.authority.issue(), take_spans);
    const Tidegate tidegate(rig.tracing(collector, rig.trusting(rig.authority)));
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_exported(tidegate) == 2);
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_exported(tidegate) == 4);
    CHECK(collector.connections() == 1);
    CHECK(collector.seen().at(0).starts_with("POST /v1/traces HTTP/1.1\r\nHost: localhost:"));
    CHECK(collector.names_asked_for().at(0) == "localhost");
}

TEST_CASE("tracing: a collector over TLS is verified with the system's authorities by default") {
    const Rig rig;
    const TlsServer collector(rig.authority.issue(), take_spans);
    check_refused(rig.tracing(collector), "its certificate is not accepted");
    ::setenv("SSL_CERT_FILE", rig.folder.write("system.pem", rig.authority.pem()).c_str(), 1);
    const Tidegate tidegate(rig.tracing(collector));
    ::unsetenv("SSL_CERT_FILE");
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_exported(tidegate) == 2);
}

TEST_CASE("tracing: no span goes to a collector that another authority than `ca` vouches for") {
    const Rig rig;
    const Authority another;
    const TlsServer collector(another.issue(), take_spans);
    check_refused(rig.tracing(collector, rig.trusting(rig.authority)),
                  "its certificate is not accepted");
    CHECK(collector.seen().empty());
}

TEST_CASE("tracing: no span goes to a collector whose certificate has another name or is over") {
    const Rig rig;
    const TlsServer of_another_name(rig.authority.issue("DNS:otel.example"), take_spans);
    check_refused(rig.tracing(of_another_name, rig.trusting(rig.authority)),
                  "its certificate is not accepted");
    CHECK(of_another_name.seen().empty());
    const TlsServer old(rig.authority.issue("DNS:localhost", {-3600, -60}), take_spans);
    check_refused(rig.tracing(old, rig.trusting(rig.authority)), "its certificate is not accepted");
    CHECK(old.seen().empty());
}

TEST_CASE("tracing: `server_name` is the name that the collector's certificate must have") {
    const Rig rig;
    const TlsServer collector(rig.authority.issue("DNS:otel.example"), take_spans);
    const Tidegate tidegate(
        rig.tracing(collector, rig.trusting(rig.authority, ", server_name: otel.example")));
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_exported(tidegate) == 2);
    CHECK(collector.names_asked_for().at(0) == "otel.example");
}

TEST_CASE("tracing: a collector that asks for a client certificate gets that of `tls`") {
    const Rig rig;
    const TlsServer collector(rig.authority.issue(), take_spans, 0, &rig.authority);
    check_refused(rig.tracing(collector, rig.trusting(rig.authority)),
                  "it asks for a client certificate, and Tidegate sends none");
    const Certificate own = rig.authority.issue("DNS:edge");
    const std::string pair = ", certificate: \"" + rig.folder.write("own.pem", own.pem()) +
                             "\", key: \"" + rig.folder.write("own.key", own.key_pem()) + "\"";
    const Tidegate tidegate(rig.tracing(collector, rig.trusting(rig.authority, pair)));
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_exported(tidegate) == 2);
}

TEST_CASE("tracing: a changed `ca` of the collector takes effect without a reload") {
    const Rig rig;
    const Authority other;
    const TlsServer collector(rig.authority.issue(), take_spans);
    const Tidegate tidegate(rig.tracing(collector, rig.trusting(other)), "",
                            {.options = {"--watch"}});
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_dropped(tidegate, "unreachable") == 2);
    CHECK(tidegate.errors().find("uses the changed files") == std::string::npos);
    rig.folder.write("ca.pem", rig.authority.pem());
    CHECK_SOON(tidegate.errors().find("uses the changed files") != std::string::npos);
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_exported(tidegate) == 2);
}

}  // namespace tidegate::test::trace_export_tls_test
