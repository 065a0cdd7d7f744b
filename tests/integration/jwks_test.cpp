// Keys of tokens from a key server, through the built program: what they change for start, waiting,
// reload and stop.
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "tls_server.hpp"

namespace tidegate::test::jwks_test {
namespace {

using namespace std::chrono_literals;

// RFC 7517 appendix A.1, the first key.
const std::string kKeys =
    R"({"keys":[{"kty":"EC","crv":"P-256","kid":"1",
        "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]})";

// While it lives, programs that are started trust this authority. Make it before any thread.
struct Trust {
    Trust() {
        ::setenv("SSL_CERT_FILE", folder.write("ca.pem", authority.pem()).c_str(), 1);
        ::setenv("SSL_CERT_DIR", folder.path().c_str(), 1);
    }
    ~Trust() {
        ::unsetenv("SSL_CERT_FILE");
        ::unsetenv("SSL_CERT_DIR");
    }
    TemporaryFolder folder;
    Authority authority;
};

std::string with_keys_from(const Upstream& upstream, const std::string& url) {
    return simple(upstream.url()) + "\nidentity: {user: [{jwt: {jwks: \"" + url +
           "\", algorithms: [ES256], issuer: someone, audience: us}}]}\n";
}

std::string keys_at(const std::string& url) {
    return "tidegate_jwks_keys{url=\"" + url + "\"}";
}

void wait_for(const std::function<bool()>& done) {
    const auto deadline = Clock::now() + kPatience;
    while (!done()) {
        REQUIRE(Clock::now() < deadline);
        std::this_thread::sleep_for(5ms);
    }
}

TEST_CASE("jwks: a proxy that is ready has the keys") {
    const Trust trust;
    const Upstream upstream(ok());
    TlsServer server(trust.authority.issue(), [](TlsServer::Conversation& client) {
        client.read_head();
        std::this_thread::sleep_for(300ms);  // a slow key server
        client.send(tls_answer(kKeys));
        client.finish();
    });
    Tidegate tidegate(with_keys_from(upstream, server.url()));
    CHECK_SOON(tidegate.metric(keys_at(server.url())) == 1);
    CHECK_SOON(tidegate.metric("tidegate_jwks_fetches_total{result=\"ok\"}") == 1);
    CHECK(tidegate.get().status() == 200);
    CHECK_SOON(tidegate.errors().find("jwks " + server.url() + ": 1 key\n") != std::string::npos);
}

TEST_CASE("jwks: a failing key server does not stop the start, and is asked again") {
    const Trust trust;
    const Upstream upstream(ok());
    std::atomic<int> asked{0};
    TlsServer server(trust.authority.issue(), [&asked](TlsServer::Conversation& client) {
        client.read_head();
        const int number = ++asked;
        client.send(number == 1   ? tls_answer("", "503 Service Unavailable")
                    : number == 2 ? tls_answer("", "500 Internal Server Error")
                                  : tls_answer(kKeys));
        client.finish();
    });
    Tidegate tidegate(with_keys_from(upstream, server.url("/keys?secret=hunter2")));
    CHECK(tidegate.get().status() == 200);
    wait_for([&] { return tidegate.metric(keys_at(server.url())) == 1; });
    CHECK_SOON(tidegate.metric("tidegate_jwks_fetches_total{result=\"failed\"}") == 2);
    const auto said = tidegate.errors();
    CHECK(said.find("cannot be fetched, so Tidegate cannot check its tokens: it answered 503") !=
          std::string::npos);
    // Another reason is logged as well.
    CHECK(said.find("still cannot be fetched, so Tidegate cannot check its tokens: it answered "
                    "500") != std::string::npos);
    CHECK(said.find("hunter2") == std::string::npos);
}

TEST_CASE("jwks: a server of keys without a certificate the system trusts gives none") {
    const Upstream upstream(ok());
    const Authority stranger;
    const TlsServer server(stranger.issue(), tls_answer(kKeys));
    Tidegate tidegate(with_keys_from(upstream, server.url()));
    CHECK_SOON(tidegate.metric(keys_at(server.url())) == 0);
    CHECK_SOON(tidegate.errors().find("its certificate is not accepted") != std::string::npos);
    CHECK(server.seen().empty());
}

TEST_CASE("jwks: `insecure: on` fetches from another machine without TLS, and the log warns") {
    const Upstream upstream(ok());
    const Upstream server(ok(kKeys));
    // An address of this machine that does not say so.
    std::string url = server.url() + "/keys";
    url.replace(url.find("127.0.0.1"), 9, "0.0.0.0");
    std::string yaml = with_keys_from(upstream, url);
    yaml.replace(yaml.find("algorithms"), 0, "insecure: on, ");
    const Tidegate tidegate(yaml);
    CHECK_SOON(tidegate.metric(keys_at(url)) == 1);
    CHECK(tidegate.errors().find("jwks " + url + ": fetched without TLS (`insecure: on`)") !=
          std::string::npos);
}

TEST_CASE("jwks: a reload that names a server has its keys, and asks none again that it knows") {
    const Trust trust;
    const Upstream upstream(ok());
    const TlsServer before(trust.authority.issue(), tls_answer(kKeys));
    const TlsServer after(trust.authority.issue(), tls_answer(kKeys));
    Tidegate tidegate(with_keys_from(upstream, before.url()));
    CHECK(tidegate.reload().status() == 200);
    CHECK(before.connections() == 1);

    tidegate.write_configuration(with_keys_from(upstream, after.url()) + "nonsense: true\n");
    CHECK(tidegate.reload().status() != 200);
    CHECK_SOON(tidegate.metric(keys_at(before.url())) == 1);
    CHECK(after.connections() == 0);

    tidegate.write_configuration(with_keys_from(upstream, after.url()));
    CHECK(tidegate.reload().status() == 200);
    CHECK_SOON(tidegate.metric(keys_at(after.url())) == 1);
    CHECK_SOON(tidegate.metric_sum("tidegate_jwks_keys") == 1);  // the other is no longer logged

    tidegate.write_configuration(simple(upstream.url()));
    CHECK(tidegate.reload().status() == 200);
    CHECK_SOON(tidegate.metric_sum("tidegate_jwks_keys") == 0);
}

TEST_CASE("jwks: a server of keys that is silent delays readiness by five seconds, and no stop") {
    const Trust trust;
    const Upstream upstream(ok());
    const TlsServer server(trust.authority.issue(),
                           [](TlsServer::Conversation& client) { client.wait_for_end(); });
    const auto begin = Clock::now();
    Tidegate tidegate(with_keys_from(upstream, server.url()));
    CHECK(Clock::now() - begin >= 5s);
    CHECK(tidegate.get().status() == 200);
    CHECK_SOON(tidegate.errors().find("it did not finish within 5s") != std::string::npos);
    wait_for([&] { return server.connections() == 2; });
    const auto stopping = Clock::now();
    CHECK(tidegate.stop() == 0);
    CHECK(Clock::now() - stopping < 2s + slack());
}

}  // namespace
}  // namespace tidegate::test::jwks_test
