// Listeners that ask clients for certificates: which clients are served, as whom they are counted,
// and what upstreams get.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/tls_world.hpp"

namespace tidegate::test::listener_tls_clients_test {

namespace {

// A listener, and an authority for clients that has nothing to do with the listener's own.
struct ClientWorld {
    // `tls` of the listener; `more` such as `, client_depth: 1`.
    std::string tls(const std::string& mode, const std::string& more = "") const {
        return certificates({world.keep("own")}) + ", client_auth: " + mode +
               ", client_ca: " + world.write("clients.pem", believed.pem()) + more;
    }
    // The list of those that are revoked, as `more` above.
    std::string list(const std::vector<const Certificate*>& revoked) const {
        return ", client_crl: " + world.write("crl.pem", revocation_list(believed, revoked));
    }
    Certificate client(const std::string& name, const std::string& names = "",
                       Validity validity = {}) const {
        return issued_by(believed, {.common_name = name, .names = names, .validity = validity});
    }

    TlsWorld world;
    Authority believed;
};

Speaking with(const Certificate& own, int version = TLS1_3_VERSION) {
    Speaking how;
    how.oldest = how.newest = version;
    how.own = &own;
    return how;
}

const int kVersions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

void contains(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

// Users as certificates name them, each with two requests an hour.
std::string counted_by(const Upstream& upstream, const std::string& method) {
    return "identity: {user: [{client_certificate: {" + method + "}}]}\n" +
           one_policy(upstream, "{key: [user], on_missing: shared, limits: [2/h]}");
}

}  // namespace

TEST_CASE("listener tls clients: a client without a certificate is refused where one is required") {
    const Upstream upstream(ok());
    const ClientWorld clients;
    const TlsProxy proxy(clients.world, clients.tls("require"), simple(upstream.url()));
    const Certificate alice = clients.client("alice");
    for (const int version : kVersions) {
        CAPTURE(version);
        Speaking without;
        without.oldest = without.newest = version;
        // TLS 1.2 has no alert for it.
        contains(proxy.refusal(without),
                 version == TLS1_3_VERSION ? "certificate required" : "handshake failure");
        CHECK(proxy.refusal(with(alice, version)).empty());
    }
    CHECK(upstream.requests() == 2);
}

TEST_CASE("listener tls clients: a certificate that fails ends the handshake, optional or not") {
    const Upstream upstream(ok());
    const ClientWorld clients;
    const Certificate foreign = issued_by(Authority(), {.common_name = "alice"});
    const Certificate expired = clients.client("alice", "", {-7200, -3600});
    const Certificate early = clients.client("alice", "", {3600, 7200});
    const Certificate good = clients.client("alice");
    for (const std::string mode : {"optional", "require"}) {
        CAPTURE(mode);
        const TlsProxy proxy(clients.world, clients.tls(mode), simple(upstream.url()));
        for (const int version : kVersions) {
            CAPTURE(version);
            contains(proxy.refusal(with(foreign, version)), "unknown ca");
            contains(proxy.refusal(with(expired, version)), "certificate expired");
            CHECK_FALSE(proxy.refusal(with(early, version)).empty());
            CHECK(proxy.refusal(with(good, version)).empty());
        }
        CHECK(proxy.refusal().empty() == (mode == "optional"));
    }
}

TEST_CASE("listener tls clients: a revoked certificate is refused, and so is one of a stale list") {
    const Upstream upstream(ok());
    const ClientWorld clients;
    const Certificate alice = clients.client("alice");
    const Certificate mallory = clients.client("mallory");
    const TlsProxy proxy(clients.world, clients.tls("require", clients.list({&mallory})),
                         simple(upstream.url()));
    for (const int version : kVersions) {
        CAPTURE(version);
        contains(proxy.refusal(with(mallory, version)), "certificate revoked");
        CHECK(proxy.refusal(with(alice, version)).empty());
    }
    clients.world.write("crl.pem", revocation_list(clients.believed, {}, {-7200, -3600}));
    // Whether a stale list may be loaded does not matter: it admits no client.
    static_cast<void>(proxy.tidegate().reload());
    CHECK_FALSE(proxy.refusal(with(mallory)).empty());
}

TEST_CASE(
    "listener tls clients: after the revocation list has changed, a session is checked anew") {
    const Upstream upstream(ok());
    const ClientWorld clients;
    const Certificate alice = clients.client("alice");
    const Certificate mallory = clients.client("mallory");
    const std::string tls = clients.tls("require", clients.list({}));
    const std::string more = simple(upstream.url());
    const TlsProxy proxy(clients.world, tls, more);
    for (const int version : kVersions) {
        CAPTURE(version);
        clients.list({});
        CHECK(proxy.reload(tls, more));
        std::vector<SessionPtr> sessions;
        for (const Certificate* who : {&alice, &mallory}) {
            RawClient first = proxy.client(with(*who, version));
            CHECK(first.get().status() == 200);
            sessions.push_back(session_of(first));
            Speaking again = with(*who, version);
            again.session = &sessions.back();
            RawClient second = proxy.client(again);
            CHECK(second.get().status() == 200);
            CHECK(was_resumed(second));
        }
        clients.list({&mallory});
        CHECK(proxy.reload(tls, more));
        Speaking good = with(alice, version);
        good.session = &sessions[0];
        RawClient known = proxy.client(good);
        CHECK(known.get().status() == 200);
        CHECK_FALSE(was_resumed(known));
        Speaking bad = with(mallory, version);
        bad.session = &sessions[1];
        contains(proxy.refusal(bad), "certificate revoked");
        // The ticket alone is not enough either.
        bad.own = nullptr;
        CHECK_FALSE(proxy.refusal(bad).empty());
    }
}

TEST_CASE("listener tls clients: a session of one name does not resume under another") {
    const Upstream upstream(ok());
    const ClientWorld clients;
    const TlsProxy proxy(
        clients.world,
        certificates({clients.world.keep("a", clients.world.issue("a", "DNS:a.test")),
                      clients.world.keep("b", clients.world.issue("b", "DNS:b.test"))}) +
            ", client_auth: require, client_ca: " +
            clients.world.write("clients.pem", clients.believed.pem()),
        simple(upstream.url()));
    const Certificate alice = clients.client("alice");
    Speaking how = with(alice);
    how.name = "a.test";
    RawClient first = proxy.client(how);
    CHECK(first.get().status() == 200);
    const SessionPtr session = session_of(first);
    for (const std::string name : {"a.test", "b.test", ""}) {
        CAPTURE(name);
        Speaking none;
        none.name = name;
        CHECK_FALSE(proxy.refusal(none).empty());
    }
    // A client that resumes has shown a certificate, whichever name it asks for now.
    how.name = "b.test";
    how.session = &session;
    CHECK(proxy.refusal(how).empty());
}

TEST_CASE("listener tls clients: limits count the user that a certificate names") {
    const Upstream upstream(ok());
    const ClientWorld clients;
    const std::string tls = clients.tls("require");
    const Certificate alice = clients.client(
        "alice", "URI:spiffe://example.org/a,DNS:alice.test,email:alice@example.org");
    const Certificate other =
        clients.client("bob", "URI:spiffe://example.org/b,DNS:bob.test,email:bob@example.org");
    for (const std::string method :
         {"subject: CN", "subject: san_uri, prefix: spiffe://example.org/", "subject: san_dns",
          "subject: san_email", "subject: sha256"}) {
        CAPTURE(method);
        const TlsProxy proxy(clients.world, tls, counted_by(upstream, method));
        // A connection of many requests, and many of one.
        RawClient client = proxy.client(with(alice));
        CHECK(client.get().status() == 200);
        CHECK(proxy.get(with(alice, TLS1_2_VERSION)).status() == 200);
        CHECK(client.get().status() == 429);
        CHECK(proxy.get(with(alice)).status() == 429);
        CHECK(proxy.get(with(other)).status() == 200);
        // Resumed, it is the same user.
        const SessionPtr session = session_of(client);
        Speaking again = with(alice);
        again.session = &session;
        RawClient resumed = proxy.client(again);
        CHECK(resumed.get().status() == 429);
        CHECK(was_resumed(resumed));
    }
}

TEST_CASE("listener tls clients: a certificate that names no user, or two, is a bad credential") {
    const Upstream upstream(ok());
    const ClientWorld clients;
    const TlsProxy proxy(clients.world, clients.tls("optional"),
                         counted_by(upstream, "subject: san_uri, prefix: spiffe://example.org/"));
    const Certificate nobody = clients.client("a");
    const Certificate foreign = clients.client("a", "URI:spiffe://example.com/a");
    const Certificate twice =
        clients.client("a", "URI:spiffe://example.org/a,URI:spiffe://example.org/b");
    const Certificate fits = clients.client("a", "URI:https://a.test/,URI:spiffe://example.org/a");
    for (const Certificate* one : {&nobody, &foreign, &twice}) {
        CHECK(proxy.get(with(*one)).status() == 401);
    }
    CHECK(upstream.requests() == 0);
    CHECK(proxy.get(with(fits)).status() == 200);
    // None at all is no credential.
    CHECK(proxy.get().status() == 200);
}

TEST_CASE("listener tls clients: X-Forwarded-Client-Cert never comes from the client") {
    const Upstream upstream(ok());
    const ClientWorld clients;
    const Certificate alice =
        clients.client("alice", "URI:spiffe://example.org/a,URI:spiffe://example.org/b,DNS:a.test");
    const std::string forged = "X-Forwarded-Client-Cert: Subject=\"CN=root\"\r\n";
    const auto seen = [&](const TlsProxy& proxy, const Speaking& how) {
        RawClient client = proxy.client(how);
        CHECK(client.get("/", forged + "x-forwarded-client-cert: By=x\r\n").status() == 200);
        return upstream.last();
    };
    const TlsProxy silent(clients.world, clients.tls("optional"), simple(upstream.url()));
    CHECK_FALSE(seen(silent, with(alice)).has("X-Forwarded-Client-Cert"));
    CHECK_FALSE(seen(silent, {}).has("X-Forwarded-Client-Cert"));

    const TlsProxy telling(clients.world, clients.tls("optional"),
                           "forwarding: {client_certificate: on}\n" + simple(upstream.url()));
    CHECK_FALSE(seen(telling, {}).has("X-Forwarded-Client-Cert"));
    const Message told = seen(telling, with(alice));
    CHECK(told.count("X-Forwarded-Client-Cert") == 1);
    const std::string value = told.field("X-Forwarded-Client-Cert");
    for (const std::string& part :
         {"Hash=" + fingerprint(alice), std::string("CN=alice"),
          std::string("URI=spiffe://example.org/a"), std::string("URI=spiffe://example.org/b"),
          std::string("DNS=a.test")}) {
        contains(value, part);
    }
    CHECK(value.find("root") == std::string::npos);

    // In the clear, too.
    const Tidegate clear(simple(upstream.url()));
    CHECK(clear.client().get("/", forged).status() == 200);
    CHECK_FALSE(upstream.last().has("X-Forwarded-Client-Cert"));
}

}  // namespace tidegate::test::listener_tls_clients_test
