// Start, refusal to start, drain and stop.
#include <signal.h>

#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::lifecycle_test {

namespace {

// Answers after `pause`.
Upstream::Handler slow(milliseconds pause) {
    return [pause](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            std::this_thread::sleep_for(pause);
            if (!conversation.send(ok("late but whole"))) return;
        }
    };
}

void silent(Conversation& conversation) {
    Message request;
    if (conversation.read(request)) conversation.wait_for_end();
}

Finished run_with(const std::string& yaml) {
    const TemporaryFolder folder;
    return run_tidegate({"run", "-c", folder.write("broken.yaml", yaml)});
}

}  // namespace

TEST_CASE("lifecycle: TERM lets a request in flight end, takes no new one, and exits 0") {
    const Upstream upstream(slow(milliseconds{500}));
    Tidegate tidegate(simple(upstream.url()));
    auto busy = tidegate.client();
    auto idle = tidegate.client();
    busy.send(get_request("/"));
    std::this_thread::sleep_for(milliseconds{100});
    tidegate.signal(SIGTERM);
    std::this_thread::sleep_for(milliseconds{100});
    CHECK(tidegate.running());
    CHECK_FALSE(Socket::try_connect(tidegate.port()));
    CHECK(idle.closed());
    const auto answer = busy.response();
    CHECK(answer.body == "late but whole");
    CHECK(same_name(answer.field("Connection"), "close"));
    CHECK(tidegate.wait() == 0);
    CHECK(tidegate.access_log(1).size() == 1);
}

TEST_CASE("lifecycle: INT stops it too") {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url()));
    tidegate.signal(SIGINT);
    CHECK(tidegate.wait() == 0);
}

TEST_CASE("lifecycle: signalled again and again until it has ended, it still exits 0") {
    const Upstream upstream(ok());
    for (int round = 0; round < 5; ++round) {
        Tidegate tidegate(simple(upstream.url()));
        const auto deadline = Clock::now() + kPatience;
        while (tidegate.running() && Clock::now() < deadline) tidegate.signal(SIGTERM);
        CHECK(tidegate.wait() == 0);
    }
}

TEST_CASE("lifecycle: a second signal ends the drain at once") {
    const Upstream upstream(silent);
    Tidegate tidegate(simple(upstream.url()));
    auto busy = tidegate.client();
    busy.send(get_request("/"));
    std::this_thread::sleep_for(milliseconds{100});
    tidegate.signal(SIGTERM);
    std::this_thread::sleep_for(milliseconds{100});
    const auto begin = Clock::now();
    tidegate.signal(SIGTERM);
    CHECK(tidegate.wait(milliseconds{2500}).has_value());
    CHECK(Clock::now() - begin < milliseconds{2500});
}

TEST_CASE("lifecycle: the drain has an end") {
    const Upstream upstream(silent);
    Tidegate tidegate("timeouts: {drain: 300ms}\n" + simple(upstream.url()));
    auto busy = tidegate.client();
    busy.send(get_request("/"));
    std::this_thread::sleep_for(milliseconds{100});
    tidegate.signal(SIGTERM);
    CHECK(tidegate.wait(milliseconds{2500}).has_value());
}

TEST_CASE("lifecycle: readiness fails first while requests are still taken") {
    const Upstream upstream(ok());
    Tidegate tidegate("timeouts: {shutdown_delay: 1s}\n" + simple(upstream.url()));
    tidegate.signal(SIGTERM);
    std::this_thread::sleep_for(milliseconds{200});
    CHECK(tidegate.admin("/readyz").value().status() == 503);
    CHECK(tidegate.admin("/healthz").value().status() == 200);
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.errors().find("not ready; stops accepting in 1s") != std::string::npos);
    CHECK(tidegate.errors().find("draining") == std::string::npos);
    CHECK(tidegate.wait() == 0);
    CHECK(tidegate.errors().find("draining") != std::string::npos);
}

TEST_CASE("lifecycle: not ready while draining") {
    const Upstream upstream(slow(milliseconds{700}));
    Tidegate tidegate(simple(upstream.url()));
    auto busy = tidegate.client();
    busy.send(get_request("/"));
    std::this_thread::sleep_for(milliseconds{100});
    tidegate.signal(SIGTERM);
    std::this_thread::sleep_for(milliseconds{100});
    const auto ready = tidegate.admin("/readyz");
    REQUIRE(ready);
    CHECK(ready->status() == 503);
    CHECK(busy.response().status() == 200);
}

TEST_CASE("lifecycle: an address in use is named, and nothing is started") {
    const auto taken = Socket::listen();
    const auto address = "127.0.0.1:" + std::to_string(taken.port());
    for (const std::string& yaml :
         {"listen: " + address + "\nadmin: off\nupstream: http://127.0.0.1:1\n",
          "listen: 127.0.0.1:" + std::to_string(free_port()) + "\nadmin: " + address +
              "\nupstream: http://127.0.0.1:1\n"}) {
        const auto finished = run_with(yaml);
        CHECK(finished.code == 1);
        CHECK_MESSAGE(finished.errors.find(address) != std::string::npos, finished.errors);
    }
}

TEST_CASE("lifecycle: a second Tidegate on the same address is refused") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    const auto finished = run_with("listen: 127.0.0.1:" + std::to_string(tidegate.port()) +
                                   "\nadmin: off\n" + simple(upstream.url()));
    CHECK(finished.code == 1);
    CHECK(tidegate.get().status() == 200);
}

TEST_CASE("lifecycle: an access log that cannot be written is named") {
    const auto finished =
        run_with("listen: 127.0.0.1:" + std::to_string(free_port()) +
                 "\nadmin: off\nlog: {access: {path: /nonexistent/folder/access.log}}\n"
                 "upstream: http://127.0.0.1:1\n");
    CHECK(finished.code == 1);
    CHECK(finished.errors.find("/nonexistent/folder/access.log") != std::string::npos);
}

}  // namespace tidegate::test::lifecycle_test
