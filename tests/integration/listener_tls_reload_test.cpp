// What changes on a listener with TLS, and what stays: tickets, certificates on disk.
#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"
#include "integration/tls_world.hpp"

namespace tidegate::test::listener_tls_reload_test {

namespace {

// The files of certificates are looked at every ten seconds; twice as long on a busy machine.
constexpr milliseconds kWatched{20'000};
const int kVersions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

Speaking only(int version) {
    Speaking how;
    how.oldest = how.newest = version;
    return how;
}

SessionPtr session_from(const TlsProxy& proxy, int version) {
    RawClient client = proxy.client(only(version));
    CHECK(client.get().status() == 200);
    CHECK_FALSE(was_resumed(client));
    return session_of(client);
}

// Whether a new connection may go on with `session`; it is served in any case.
bool resumes(const TlsProxy& proxy, const SessionPtr& session, int version) {
    Speaking how = only(version);
    how.session = &session;
    RawClient client = proxy.client(how);
    CHECK(client.get().status() == 200);
    return was_resumed(client);
}

bool told_of(const Tidegate& tidegate, const std::string& what) {
    return tidegate.errors().find(what) != std::string::npos;
}

// The certificate of one with the key of another.
void write_broken(const TlsWorld& world, const std::string& name) {
    world.write(name + ".pem", world.issue("broken", "DNS:localhost").pem());
}

}  // namespace

TEST_CASE("listener tls reload: a session goes on in any thread, after a reload, too") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const std::string tls = certificates({world.keep("own")});
    const std::string more = "threads: 4\n" + simple(upstream.url());
    const TlsProxy proxy(world, tls, more);
    for (const int version : kVersions) {
        CAPTURE(version);
        const SessionPtr session = session_from(proxy, version);
        // The kernel gives each connection to any of the four.
        for (int i = 0; i < 24; ++i) CHECK(resumes(proxy, session, version));
        CHECK(proxy.reload(tls, more + "limits: [1000/s]\n"));
        for (int i = 0; i < 8; ++i) CHECK(resumes(proxy, session, version));
        CHECK(proxy.reload(tls, more));
    }
    CHECK(proxy.tidegate().metric("tidegate_tls_handshakes_total{result=\"resumed\"}") == 64);
}

TEST_CASE("listener tls reload: a ticket of another process is not taken, and is no fault") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const std::string tls = certificates({world.keep("own")});
    const TlsProxy proxy(world, tls, simple(upstream.url()));
    const TlsProxy other(world, tls, simple(upstream.url()));
    for (const int version : kVersions) {
        CAPTURE(version);
        const SessionPtr session = session_from(proxy, version);
        CHECK_FALSE(resumes(other, session, version));
        CHECK(resumes(proxy, session, version));
    }
}

TEST_CASE("listener tls reload: replicas with the same ticket keys take each other's tickets") {
    const Upstream upstream(ok());
    const TlsWorld world;
    std::string keys;
    for (int i = 0; i < 160; ++i) keys += static_cast<char>(i * 37 + 11);
    const std::string own = certificates({world.keep("own")});
    const auto with_keys = [&](const std::string& file, const std::string& bytes) {
        return own + ", ticket_keys: " + world.write(file, bytes);
    };
    const std::string more = simple(upstream.url());
    const TlsProxy first(world, with_keys("first.keys", keys), more);
    const TlsProxy second(world, with_keys("second.keys", keys), more);
    const TlsProxy other(world, with_keys("other.keys", keys.substr(0, 40) + keys.substr(0, 40)),
                         more);
    for (const int version : kVersions) {
        CAPTURE(version);
        const SessionPtr session = session_from(first, version);
        CHECK(resumes(second, session, version));
        CHECK_FALSE(resumes(other, session, version));
        // The key that encrypts is another one; the old one still decrypts.
        CHECK(second.reload(with_keys("second.keys", keys.substr(80) + keys.substr(0, 80)), more));
        CHECK(resumes(second, session, version));
        CHECK(second.reload(with_keys("second.keys", keys.substr(80)), more));
        CHECK_FALSE(resumes(second, session, version));
        CHECK(second.reload(with_keys("second.keys", keys), more));
    }
}

TEST_CASE("listener tls reload: HUP takes what is on disk, and connections live on") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const std::string tls = certificates({world.keep("own", world.issue("old", "DNS:localhost"))});
    const TlsProxy proxy(world, tls, simple(upstream.url()));
    RawClient before = proxy.client();
    CHECK(before.get().status() == 200);
    CHECK(proxy.shown() == "old");
    world.keep("own", world.issue("new", "DNS:localhost"));
    proxy.tidegate().signal(SIGHUP);
    await("the new certificate", [&] { return proxy.shown() == "new"; });
    CHECK(before.get().status() == 200);
}

TEST_CASE("listener tls reload: names and certificates come and go") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const std::string a = world.keep("a", world.issue("a", "DNS:a.test"));
    const std::string b = world.keep("b", world.issue("b", "DNS:b.test"));
    const std::string more = simple(upstream.url());
    const TlsProxy proxy(world, certificates({a}), more);
    Speaking to_b;
    to_b.name = "b.test";
    CHECK(proxy.shown(to_b) == "a");
    CHECK(proxy.reload(certificates({a, b}), more));
    CHECK(proxy.shown(to_b) == "b");
    CHECK(proxy.reload(certificates({b}), more));
    CHECK(proxy.shown() == "b");
    CHECK(proxy.reload(certificates({a}) + ", unknown_names: refuse", more));
    CHECK_FALSE(proxy.refusal(to_b).empty());
}

TEST_CASE(
    "listener tls reload: a key that does not match leaves the old pair in force, and is logged") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const std::string tls = certificates({world.keep("own", world.issue("old", "DNS:localhost"))});
    const std::string more = simple(upstream.url());
    const TlsProxy proxy(world, tls, more);
    write_broken(world, "own");
    CHECK_FALSE(proxy.reload(tls, more));
    CHECK(proxy.shown() == "old");
    CHECK(proxy.get().status() == 200);
    await("why", [&] { return told_of(proxy.tidegate(), "own.pem"); });
    world.write("own.pem", "not a certificate");
    CHECK_FALSE(proxy.reload(tls, more));
    CHECK(proxy.shown() == "old");
    world.keep("own", world.issue("new", "DNS:localhost"));
    CHECK(proxy.reload(tls, more));
    CHECK(proxy.shown() == "new");
}

TEST_CASE("listener tls reload: changed files are taken within ten seconds, without a signal") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const TlsProxy proxy(world,
                         certificates({world.keep("own", world.issue("old", "DNS:localhost"))}),
                         simple(upstream.url()));
    CHECK(proxy.shown() == "old");
    write_broken(world, "own");
    await(
        "a broken pair is told of", [&] { return told_of(proxy.tidegate(), "own.pem"); }, kWatched);
    CHECK(proxy.shown() == "old");
    world.keep("own", world.issue("new", "DNS:localhost"));
    await(
        "a good pair is taken", [&] { return proxy.shown() == "new"; }, kWatched);
    CHECK(proxy.get().status() == 200);
}

}  // namespace tidegate::test::listener_tls_reload_test
