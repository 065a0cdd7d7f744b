// Upstreams over TLS, through the built program and servers with certificates of the test's own.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "certificates.hpp"
#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "tls_server.hpp"

namespace tidegate::test::upstream_tls_test {

namespace {

// Answers each request alike, as long as the client stays.
void answer_all(TlsServer::Conversation& client) {
    while (!client.read_head().empty()) client.send(ok());
}

// The files that the configuration of a test names.
class TlsFiles {
  public:
    explicit TlsFiles(const Authority& believed) { believe(believed); }

    void believe(const Authority& authority) const { folder_.write("ca.pem", authority.pem()); }
    // `more` of `tls`: a certificate of the proxy's own, issued by `vouching`.
    std::string presenting(const Authority& vouching) const {
        const Certificate own = vouching.issue("DNS:tidegate");
        folder_.write("own.pem", own.pem());
        folder_.write("own.key", own.key_pem());
        return ", certificate: \"" + path("own.pem") + "\", key: \"" + path("own.key") + "\"";
    }
    // An upstream at `port`; `more_tls` goes into `tls`, `more` into the upstream.
    std::string configuration(std::uint16_t port, const std::string& more_tls = "",
                              const std::string& more = "",
                              const std::string& host = "127.0.0.1") const {
        return "threads: 1\n" +
               unlimited({"https://" + host + ":" + std::to_string(port)},
                         "tls: {ca: \"" + path("ca.pem") + "\"" + more_tls + "}" + more);
    }

  private:
    std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

    TemporaryFolder folder_;
};

void contains(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

// A request is 502, and the error log says why.
void refused(const Tidegate& tidegate, const std::string& why) {
    CAPTURE(why);
    CHECK(tidegate.get().status() == 502);
    const auto line = tidegate.access_log(1).at(0);
    CHECK(line.at("error") == "upstream: TLS failed");
    contains(tidegate.errors(), why);
}

std::string sized(std::size_t length) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}

}  // namespace

TEST_CASE("upstream tls: requests share a connection, which asks for the URL's host") {
    const Authority authority;
    const TlsServer server(authority.issue(), answer_all);
    const TlsFiles files(authority);
    const Tidegate tidegate(files.configuration(server.port(), "", "", "localhost"));
    RawClient client = tidegate.client();
    for (int i = 0; i < 20; ++i) CHECK(client.get().status() == 200);
    CHECK(server.connections() == 1);
    CHECK(server.names_asked_for() == std::vector<std::string>{"localhost"});
}

TEST_CASE("upstream tls: a certificate that is not accepted is 502, and the log says why") {
    const Authority authority;
    const TlsFiles files(authority);
    const TlsServer named(authority.issue("DNS:api.internal"), answer_all);
    refused(Tidegate(files.configuration(named.port(), ", server_name: localhost")),
            "hostname mismatch (it is not for `localhost`)");
    refused(Tidegate(files.configuration(named.port())), "IP address mismatch");
    const TlsServer late(authority.issue("IP:127.0.0.1", {-7200, -3600}), answer_all);
    refused(Tidegate(files.configuration(late.port())), "certificate has expired");
    const TlsServer foreign(Authority().issue(), answer_all);
    refused(Tidegate(files.configuration(foreign.port())), "(no trusted authority has signed it)");
    // The system's authorities know none of these.
    refused(Tidegate("threads: 1\n" +
                     unlimited({"https://127.0.0.1:" + std::to_string(foreign.port())})),
            "its certificate is not accepted");
}

TEST_CASE("upstream tls: the name may be another than the host's, and `verify: off` takes all") {
    const Authority authority;
    const TlsFiles files(authority);
    const TlsServer named(authority.issue("DNS:api.internal"), answer_all);
    const Tidegate other(files.configuration(named.port(), ", server_name: api.internal"));
    CHECK(other.get().status() == 200);
    CHECK(named.names_asked_for().back() == "api.internal");
    const TlsServer foreign(Authority().issue("DNS:a"), answer_all);
    const Tidegate blind(files.configuration(foreign.port(), ", verify: off"));
    CHECK(blind.get().status() == 200);
    contains(blind.errors(), "takes any certificate");
}

TEST_CASE("upstream tls: a client certificate is shown to a server that wants one") {
    const Authority authority;
    const TlsFiles files(authority);
    for (const int newest : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(newest);
        const TlsServer strict(authority.issue(), answer_all, newest, &authority);
        {
            // Its connection is kept, and the server serves one at a time.
            const Tidegate known(files.configuration(strict.port(), files.presenting(authority)));
            CHECK(known.get().status() == 200);
        }
        refused(Tidegate(files.configuration(strict.port())), "it wants a client certificate");
        refused(Tidegate(files.configuration(strict.port(), files.presenting(Authority()))),
                "it does not accept our certificate");
    }
}

TEST_CASE("upstream tls: a version below `min_version` is not spoken") {
    const Authority authority;
    const TlsFiles files(authority);
    const TlsServer old(authority.issue(), answer_all, TLS1_2_VERSION);
    CHECK(Tidegate(files.configuration(old.port())).get().status() == 200);
    refused(Tidegate(files.configuration(old.port(), ", min_version: 1.3")),
            "it does not support TLS 1.3 or later");
}

TEST_CASE("upstream tls: a further connection goes on with the session of the one before") {
    const Authority authority;
    const TlsFiles files(authority);
    const TlsServer server(authority.issue(), tls_answer("ok"));  // closes each time
    const Tidegate tidegate(files.configuration(server.port()));
    for (int i = 0; i < 5; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(server.connections() == 5);
    CHECK(server.resumptions() == 4);
}

TEST_CASE("upstream tls: a body that only the end delimits is whole only after close_notify") {
    const Authority authority;
    const TlsFiles files(authority);
    const std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    const TlsServer polite(authority.issue(), [&](TlsServer::Conversation& client) {
        client.read_head();
        client.send(head + "all");
        client.finish();
    });
    const Tidegate whole(files.configuration(polite.port()));
    const Message answer = whole.get();
    CHECK(answer.body == "all");
    CHECK_FALSE(answer.broken);
    const TlsServer cut(authority.issue(), [&](TlsServer::Conversation& client) {
        client.read_head();
        client.send(head + "al");
    });
    const Tidegate broken(files.configuration(cut.port()));
    CHECK(broken.get().broken);
    CHECK(broken.access_log(1).at(0).at("error") == "upstream: answer cut off");
    const TlsServer shorter(authority.issue(), [&](TlsServer::Conversation& client) {
        client.read_head();
        client.send(sized(10) + "al");
        client.finish();
    });
    CHECK(Tidegate(files.configuration(shorter.port())).get().broken);
}

TEST_CASE("upstream tls: a handshake that does not end is 504, within `connect`") {
    const Authority authority;
    const TlsFiles files(authority);
    const Upstream silent([](Conversation& conversation) { conversation.wait_for_end(); });
    const Tidegate tidegate(files.configuration(silent.port(), "", ", timeouts: {connect: 300ms}"));
    const auto began = Clock::now();
    CHECK(tidegate.get().status() == 504);
    CHECK(Clock::now() - began < milliseconds{3'000});
    CHECK(tidegate.access_log(1).at(0).at("error") == "upstream: slow to connect");
    contains(tidegate.errors(), "it does not end the TLS handshake in time");
}

TEST_CASE("upstream tls: the end of a drain ends a handshake that does not end") {
    const Authority authority;
    const TlsFiles files(authority);
    const Upstream silent([](Conversation& conversation) { conversation.wait_for_end(); });
    Tidegate tidegate("timeouts: {drain: 200ms}\n" +
                      files.configuration(silent.port(), "", ", timeouts: {connect: 60s}"));
    auto client = tidegate.client();
    client.send(get_request("/"));
    CHECK_SOON(silent.connections() == 1);
    CHECK(tidegate.stop() == 0);
    CHECK(client.closed());
    CHECK(tidegate.access_log(1).at(0).at("error") == "stopped");
}

TEST_CASE("upstream tls: a server that speaks no TLS is 502, with a reason of its own") {
    const Authority authority;
    const TlsFiles files(authority);
    const Upstream plain([](Conversation& conversation) {
        conversation.some();
        conversation.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        conversation.wait_for_end();
    });
    refused(Tidegate(files.configuration(plain.port())), "it does not speak TLS there");
}

TEST_CASE("upstream tls: large bodies pass in both directions") {
    const Authority authority;
    const TlsFiles files(authority);
    constexpr std::size_t kLength = 3'000'000;
    const TlsServer server(authority.issue(), [&](TlsServer::Conversation& client) {
        while (!client.read_head().empty()) {
            std::string body(kLength, '\0');
            std::size_t got = 0;
            while (got < kLength) {
                const std::size_t more = client.read(body.data() + got, kLength - got);
                if (more == 0) return;
                got += more;
            }
            client.send(sized(kLength));
            client.send(body);
        }
    });
    const Tidegate tidegate(files.configuration(server.port()));
    std::string body(kLength, '\0');
    for (std::size_t i = 0; i < kLength; ++i) body[i] = static_cast<char>('a' + i * 7919 % 26);
    RawClient client = tidegate.client();
    for (int i = 0; i < 3; ++i) {
        // The server answers when it has all, so neither side waits for the other.
        const Message answer = client.ask(post_request("/", body));
        CHECK(answer.status() == 200);
        CHECK(answer.body == body);
    }
    CHECK(server.connections() == 1);
}

TEST_CASE("upstream tls: another server is tried when one is not accepted") {
    const Authority authority;
    const TlsFiles files(authority);
    const TlsServer good(authority.issue(), answer_all);
    const TlsServer foreign(Authority().issue(), answer_all);
    std::string yaml = files.configuration(foreign.port());
    const std::string url = "https://127.0.0.1:" + std::to_string(foreign.port());
    yaml.replace(yaml.find(url), url.size(),
                 url + ", https://127.0.0.1:" + std::to_string(good.port()));
    const Tidegate tidegate(yaml);
    for (int i = 0; i < 6; ++i) CHECK(tidegate.get().status() == 200);
}

TEST_CASE("upstream tls: a reload takes files that were changed") {
    const Authority authority;
    const Authority other;
    const TlsFiles files(other);
    const TlsServer server(authority.issue(), answer_all);
    const std::string yaml = files.configuration(server.port());
    const Tidegate tidegate(yaml);
    CHECK(tidegate.get().status() == 502);
    files.believe(authority);
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get().status() == 200);
}

TEST_CASE("upstream tls: a health check goes over TLS, and its failure has the reason") {
    const Authority authority;
    const TlsFiles files(authority);
    const std::string check = ", health_check: {path: /healthz, every: 1s}";
    const TlsServer server(authority.issue(), tls_answer("ok"));
    const Tidegate well(files.configuration(server.port(), "", check));
    const auto deadline = Clock::now() + kPatience;
    while (server.connections() < 2 && Clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds{10});
    }
    CHECK(server.seen().at(0).starts_with("GET /healthz "));
    CHECK(well.get().status() == 200);
    const TlsServer foreign(Authority().issue(), tls_answer("ok"));
    const Tidegate unwell(files.configuration(foreign.port(), "", check));
    while (unwell.get().status() != 503 && Clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds{10});
    }
    CHECK(unwell.get().status() == 503);
    contains(unwell.errors(), "is unhealthy and gets no requests: its certificate is not accepted");
}

TEST_CASE("upstream tls: the doctor says what a server and the proxy do not accept") {
    const Authority authority;
    const TlsFiles files(authority);
    const auto report = [&](const std::string& yaml) {
        const TemporaryFolder folder;
        return run_tidegate({"doctor", "--json", "-c", folder.write("tidegate.yaml", yaml)});
    };
    const TlsServer server(authority.issue(), answer_all);
    const auto well = report(files.configuration(server.port()));
    contains(well.output, "upstream.tls");
    contains(well.output, "upstream.certificate");
    const TlsServer foreign(Authority().issue(), answer_all);
    const auto unwell = report(files.configuration(foreign.port()));
    CHECK(unwell.code == 3);
    contains(unwell.output, "its certificate is not accepted");
    contains(unwell.output, "upstreams.api.tls.ca");
    const TlsServer strict(authority.issue(), answer_all, 0, &authority);
    const auto unknown = report(files.configuration(strict.port()));
    CHECK(unknown.code == 3);
    contains(unknown.output, "write `certificate` and `key` in upstreams.api.tls");
}

}  // namespace tidegate::test::upstream_tls_test
