// A hand-over that fails, is refused or is stopped: one process serves on, with all that it had.
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/handover_world.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::handover_faults_test {

TEST_CASE("handover: a configuration with a fault changes nothing, and the log says why") {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url(), "3/h"));
    CHECK(tidegate.get().status() == 200);
    tidegate.write_configuration(simple(upstream.url(), "3/h") + "limitz: 1\n");
    tidegate.signal(SIGUSR2);
    CHECK_SOON(says(tidegate, "hand-over failed, this process goes on: process "));
    CHECK(says(tidegate, "ended with exit code 1 before it accepted"));
    CHECK(says(tidegate, "unknown key `limitz`"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
    // The next one is not refused.
    tidegate.write_configuration(simple(upstream.url(), "3/h"));
    Heir heir(tidegate);
    CHECK(tidegate.wait() == 0);
    CHECK(tidegate.get().status() == 429);
}

TEST_CASE("handover: a process that Redis refuses does not take over from one that it takes") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const auto with_password = [&](const std::string& password) {
        return "store: {redis: {url: \"redis://" + password +
               "127.0.0.1:" + std::to_string(redis.port()) + "\", timeout: 5s}}\nreplicas: 1\n" +
               simple(upstream.url(), "3/h");
    };
    Tidegate tidegate(with_password(""));
    CHECK(tidegate.get().status() == 200);
    tidegate.write_configuration(with_password(":wrong@"));
    tidegate.signal(SIGUSR2);
    CHECK_SOON(says(tidegate, "hand-over failed, this process goes on: process "));
    CHECK(says(tidegate, "the password was refused"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.admin("/readyz").value().status() == 200);
}

TEST_CASE("handover: a TERM while the new process starts stops both") {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url()));
    // The new process waits for the first check of a server that never answers.
    const auto silent = Socket::listen();
    tidegate.write_configuration(slow_to_start(silent));
    const pid_t started = start_successor(tidegate, tidegate.pid());
    CHECK_SOON(says(tidegate, "taking over from " + process_name(tidegate.pid())));
    tidegate.signal(SIGTERM);
    CHECK(tidegate.wait() == 0);
    CHECK(wait_for(started) == 128 + SIGKILL);
}

TEST_CASE("handover: where the former process crashes, the new one serves") {
    const Upstream upstream(ok());
    Tidegate tidegate(unlimited({upstream.url()}));
    const auto silent = Socket::listen();
    tidegate.write_configuration(slow_to_start(silent));
    const pid_t started = start_successor(tidegate, tidegate.pid());
    CHECK_SOON(says(tidegate, "taking over from " + process_name(tidegate.pid())));
    tidegate.signal(SIGKILL);
    CHECK(tidegate.wait() == 128 + SIGKILL);
    CHECK_SOON(says(tidegate, process_name(tidegate.pid()) +
                                  " has ended before it handed over: accepting connections"));
    CHECK_SOON(tidegate.admin("/readyz").has_value());
    ::kill(started, SIGTERM);
    CHECK(wait_for(started) == 0);
}

TEST_CASE("handover: where the new process dies after it was ready, the former one serves on") {
    const Upstream upstream(ok());
    // More threads: sockets of the new process must take no connection before it accepts.
    Tidegate tidegate("threads: 1\n" + simple(upstream.url(), "30/h"));
    const auto silent = Socket::listen();
    tidegate.write_configuration("threads: 4\n" + slow_to_start(silent));
    const pid_t started = start_successor(tidegate, tidegate.pid());
    CHECK_SOON(says(tidegate, "taking over from " + process_name(tidegate.pid())));
    for (int i = 0; i < 20; ++i) CHECK(tidegate.get().status() == 200);
    // Stopped, it does not read that the new one is ready.
    tidegate.signal(SIGSTOP);
    CHECK_SOON(says(tidegate, "ready to take over from " + process_name(tidegate.pid())));
    ::kill(started, SIGKILL);
    tidegate.signal(SIGCONT);
    CHECK_SOON(says(tidegate, "hand-over failed, this process goes on: " + process_name(started) +
                                  " ended before it accepted"));
    CHECK(wait_for(started) == 128 + SIGKILL);
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
}

TEST_CASE("handover: where the new process is stopped first, the former one keeps its Unix socket" *
          only_in_the_clear("Unix sockets have no TLS")) {
    const TemporaryFolder folder;
    const std::string kept = (folder.path() / "kept").string();
    const std::string gone = (folder.path() / "gone").string();
    const auto silent = Socket::listen();
    const auto listening = [&](const std::string& paths) {
        return "listen: [" + paths + "]\n" + slow_to_start(silent);
    };
    const Upstream upstream(ok());
    Tidegate tidegate("listen: [\"unix:" + kept + "\", \"unix:" + gone +
                      "\"]\nupstream: " + upstream.url() + "\n");
    tidegate.write_configuration(listening("\"unix:" + kept + "\""));
    const pid_t started = start_successor(tidegate, tidegate.pid());
    // It listens to signals by then.
    CHECK_SOON(says(tidegate, "on TERM, Tidegate stops", 2));
    ::kill(started, SIGTERM);
    CHECK(wait_for(started) == 0);
    CHECK_SOON(says(tidegate, "hand-over failed, this process goes on"));
    CHECK(std::filesystem::exists(kept));
    CHECK(std::filesystem::exists(gone));
    CHECK(tidegate.stop() == 0);
    CHECK_FALSE(std::filesystem::exists(kept));
    CHECK_FALSE(std::filesystem::exists(gone));
}

TEST_CASE("handover: where the new process is stopped first, it takes no client from the former" *
          only_in_the_clear("the clients only send")) {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url(), "3/h"));
    for (int i = 0; i < 3; ++i) CHECK(tidegate.get().status() == 200);
    const auto silent = Socket::listen();
    tidegate.write_configuration("timeouts: {shutdown_delay: 20s}\n" + slow_to_start(silent));
    const pid_t started = start_successor(tidegate, tidegate.pid());
    CHECK_SOON(says(tidegate, "on TERM, Tidegate", 2));
    tidegate.signal(SIGSTOP);
    std::vector<RawClient> waiting;
    for (int i = 0; i < 5; ++i) waiting.push_back(tidegate.client());
    for (RawClient& one : waiting) one.send(get_request("/"));
    ::kill(started, SIGTERM);
    CHECK(wait_for(started) == 0);
    tidegate.signal(SIGCONT);
    for (RawClient& one : waiting) CHECK(one.response().status() == 429);
}

TEST_CASE("handover: a reload or a second USR2 meanwhile is refused, and again possible after it") {
    const Upstream upstream(ok());
    Tidegate tidegate(unlimited({upstream.url()}));
    const auto silent = Socket::listen();
    tidegate.write_configuration(slow_to_start(silent));
    const pid_t started = start_successor(tidegate, tidegate.pid());
    const Message refused = tidegate.reload();
    CHECK(refused.status() == 409);
    CHECK(refused.body.find("a new process is taking over: reload that one") != std::string::npos);
    tidegate.signal(SIGUSR2);
    CHECK_SOON(says(tidegate, "USR2 ignored: a new process is taking over already"));
    ::kill(started, SIGKILL);
    CHECK(wait_for(started) == 128 + SIGKILL);
    CHECK_SOON(says(tidegate, "hand-over failed, this process goes on"));
    tidegate.write_configuration(unlimited({upstream.url()}));
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get().status() == 200);
}

TEST_CASE("handover: USR2 is ignored where the configuration came from standard input") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string port = std::to_string(free_port());
    const std::string file =
        folder.write("tidegate.yaml", "listen: 127.0.0.1:" + port +
                                          "\nadmin: off\nupstream: " + upstream.url() + "\n");
    Process process({"/bin/bash", "-c", "exec " + program() + " run -c - < " + file},
                    folder.path());
    const auto says = [&](const std::string& what) {
        return process.errors().find(what) != std::string::npos;
    };
    CHECK_SOON(says("listening on"));
    process.signal(SIGUSR2);
    CHECK_SOON(
        says("USR2 ignored: the configuration came from standard input, which cannot be "
             "read again: restart Tidegate"));
    CHECK(process.running());
    process.signal(SIGTERM);
    CHECK(process.wait(kPatience) == 0);
}

TEST_CASE("handover: the variable of a hand-over is refused where there is none") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string file =
        folder.write("tidegate.yaml", "listen: 127.0.0.1:" + std::to_string(free_port()) +
                                          "\nadmin: off\nupstream: " + upstream.url() + "\n");
    Process process({"env", "TIDEGATE_HANDOVER=0", program(), "run", "-c", file}, folder.path());
    CHECK(process.wait(kPatience) == 1);
    CHECK(process.errors().find("TIDEGATE_HANDOVER is set, but no process hands over to this one: "
                                "unset it") != std::string::npos);
}

}  // namespace tidegate::test::handover_faults_test
