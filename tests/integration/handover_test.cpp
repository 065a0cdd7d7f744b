// USR2: a new process takes the place of the one that runs, and no request is lost.
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/handover_world.hpp"
#include "integration/recorded_load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/tls_world.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::handover_test {

TEST_CASE("handover: under load no request is lost, kept connections and new ones alike") {
    const Upstream upstream(ok());
    Tidegate tidegate(unlimited({upstream.url()}));
    std::vector<int> statuses;
    std::atomic<bool> stopping{false};
    std::atomic<int> failed{0};
    std::atomic<int> served{0};
    std::vector<std::thread> comers;
    for (int i = 0; i < 3; ++i) {
        comers.emplace_back([&] {
            while (!stopping) {
                try {
                    const bool is_ok = http_get(tidegate.port(), "/").status() == 200;
                    ++(is_ok ? served : failed);
                } catch (const std::exception&) {
                    ++failed;
                }
            }
        });
    }
    RecordedLoad kept(tidegate.port(), 4);
    CHECK_SOON(kept.well() > 100);
    CHECK_SOON(served > 50);
    Heir heir(tidegate);
    CHECK(tidegate.wait() == 0);
    const int before = served;
    CHECK_SOON(served > before + 50);
    stopping = true;
    for (std::thread& one : comers) one.join();
    CHECK(failed == 0);
    int broken = 0;
    for (const auto& [target, request] : kept.stop()) {
        if (!request.went_well()) ++broken;
    }
    CHECK(broken == 0);
    CHECK(tidegate.metric("tidegate_internal_errors_total") == 0);
}

TEST_CASE("handover: what was counted in the process counts on") {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url(), "10/h"));
    for (int i = 0; i < 6; ++i) CHECK(tidegate.get().status() == 200);
    const Heir heir(tidegate);
    CHECK(tidegate.wait() == 0);
    CHECK(says(tidegate, "took over counts of 1 identifier from " + process_name(tidegate.pid())));
    for (int i = 0; i < 4; ++i) CHECK(tidegate.get().status() == 200);
    const Message refused = tidegate.get();
    CHECK(refused.status() == 429);
    CHECK(refused.has("Retry-After"));
}

TEST_CASE("handover: a chain of processes, each with the counts of those before it") {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url(), "4/h"));
    CHECK(tidegate.get().status() == 200);
    Heir second(tidegate);
    CHECK(tidegate.wait() == 0);
    CHECK_SOON(says(tidegate, process_name(tidegate.pid()) + " has ended"));
    CHECK(tidegate.get().status() == 200);
    Heir third(tidegate, second.pid(), 2);
    CHECK(second.wait() == 0);
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
}

TEST_CASE("handover: the new process has the configuration as it is by then, and its threads") {
    const Upstream upstream(ok());
    const std::string settings = unlimited({upstream.url()});
    for (const int threads : {1, 4}) {
        CAPTURE(threads);
        Tidegate tidegate("threads: " + std::to_string(5 - threads) + "\n" + settings);
        tidegate.write_configuration("threads: " + std::to_string(threads) + "\n" + settings);
        const Heir heir(tidegate);
        CHECK(tidegate.wait() == 0);
        CHECK_SOON(says(tidegate, std::to_string(threads) + " thread"));
        // The kernel gives each connection to the queue of any of the sockets.
        for (int i = 0; i < 40; ++i) CHECK(tidegate.get().status() == 200);
        CHECK_SOON(tidegate.metric("tidegate_client_connections_total") >= 40);
    }
}

TEST_CASE("handover: requests in flight end in the former process, as the last of a connection") {
    Busy busy;
    auto& [gated, tidegate, waiting] = busy;
    RawClient idle = tidegate.client();
    Heir heir(tidegate);
    CHECK(tidegate.running());
    // A second one is refused while the first drains.
    ::kill(heir.pid(), SIGUSR2);
    CHECK_SOON(says(tidegate, "USR2 ignored: " + process_name(tidegate.pid()) +
                                  ", whose place this one has taken, is still draining"));
    tidegate.signal(SIGUSR2);
    CHECK_SOON(says(tidegate, "USR2 ignored: " + process_name(heir.pid()) + " has taken over"));
    gated.open();
    CHECK(waiting.response().status() == 200);
    CHECK(waiting.closed());
    // An idle connection may bring a request that its client had sent already.
    const Message last = idle.get();
    CHECK(last.status() == 200);
    if (!over_http2()) CHECK(idle.closed());
    CHECK(tidegate.wait() == 0);
    CHECK(tidegate.get().status() == 200);
}

TEST_CASE("handover: a Unix socket keeps its place, and one that is configured no more goes" *
          only_in_the_clear("Unix sockets have no TLS")) {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string kept = (folder.path() / "kept").string();
    const std::string gone = (folder.path() / "gone").string();
    Tidegate tidegate("listen: [\"unix:" + kept + "\", \"unix:" + gone +
                      "\"]\nupstream: " + upstream.url() + "\n");
    tidegate.write_configuration("listen: [\"unix:" + kept + "\"]\nupstream: " + upstream.url() +
                                 "\n");
    {
        const Heir heir(tidegate);
        CHECK(tidegate.wait() == 0);
        CHECK_SOON(says(tidegate, "no longer listens on unix:" + gone));
        CHECK(std::filesystem::exists(kept));
        CHECK_FALSE(std::filesystem::exists(gone));
    }
    CHECK_FALSE(std::filesystem::exists(kept));
}

TEST_CASE("handover: sessions of TLS resume in the new process" *
          only_over_http1("tickets are the same over HTTP/2")) {
    const Upstream upstream(ok());
    const TlsWorld world;
    const TlsProxy proxy(world, certificates({world.keep("own")}), simple(upstream.url()));
    const auto of_version = [](int version) {
        Speaking how;
        how.oldest = how.newest = version;
        return how;
    };
    std::map<int, SessionPtr> sessions;
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        RawClient client = proxy.client(of_version(version));
        CHECK(client.get().status() == 200);
        sessions[version] = session_of(client);
    }
    const Heir heir(proxy.tidegate());
    for (auto& [version, session] : sessions) {
        CAPTURE(version);
        Speaking how = of_version(version);
        how.session = &session;
        RawClient again = proxy.client(how);
        CHECK(again.get().status() == 200);
        CHECK(was_resumed(again));
    }
}

TEST_CASE("handover: two TERMs to a process that drains after it cut nothing off") {
    Busy busy;
    auto& [gated, tidegate, waiting] = busy;
    const Heir heir(tidegate);
    // systemd sends one to both processes, and one more to this when the new one has ended.
    for (const int times : {1, 2}) {
        tidegate.signal(SIGTERM);
        CHECK_SOON(says(tidegate, "already draining; the third signal stops at once", times));
    }
    gated.open();
    CHECK(waiting.response().status() == 200);
    CHECK(tidegate.wait() == 0);
}

TEST_CASE("handover: the number of proxies is passed on, for a Redis that is away by then") {
    const Upstream upstream(ok());
    const TemporaryFolder state;
    const auto file = state.path() / "replicas";
    RedisServer redis;
    const std::string yaml =
        "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis.port()) + "\"}}\n" +
        simple(upstream.url(), "9/h");
    Tidegate tidegate(yaml, "", {.environment = {"STATE_DIRECTORY=" + state.path().string()}});
    const Tidegate second(yaml);
    const Tidegate third(yaml);
    const auto kept = [&] {
        return std::filesystem::exists(file) ? read_file(file) : std::string();
    };
    CHECK_SOON(kept() == "3\n");
    redis.stop();
    std::filesystem::remove(file);
    const Heir heir(tidegate);
    CHECK(tidegate.wait() == 0);
    CHECK(says(tidegate, "divides each quota by 3 meanwhile"));
    for (int i = 0; i < 3; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
}

TEST_CASE("handover: counts in Redis are one, whichever process admits") {
    const Upstream upstream(ok());
    const RedisServer redis;
    Tidegate tidegate("store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis.port()) +
                      "\"}}\n" + simple(upstream.url(), "10/h"));
    for (int i = 0; i < 6; ++i) CHECK(tidegate.get().status() == 200);
    const Heir heir(tidegate);
    for (int i = 0; i < 4; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
    CHECK(tidegate.wait() == 0);
}

}  // namespace tidegate::test::handover_test
