// USR2: a new process takes the place of the one that runs, and no request is lost.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/recorded_load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/tls_world.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

using namespace tidegate::test;

namespace {

// Orphans become this process's children, so that it can wait for those that have taken over.
void adopt_orphans() {
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
}

// The process that a USR2 has started: it ends with this.
class Heir {
  public:
    // Sends USR2, and waits until the process that it starts has taken over.
    explicit Heir(const Tidegate& tidegate, std::size_t number = 1) : tidegate_(&tidegate) {
        adopt_orphans();
        tidegate.signal(SIGUSR2);
        CHECK_SOON(pids_started(tidegate).size() >= number);
        if (pids_started(tidegate).size() < number) return;
        pid_ = pids_started(tidegate)[number - 1];
        CHECK_SOON(said("process " + std::to_string(pid_) + " has taken over"));
    }
    // Of a chain: the USR2 goes to `former`.
    Heir(const Tidegate& tidegate, const Heir& former, std::size_t number) : tidegate_(&tidegate) {
        ::kill(former.pid_, SIGUSR2);
        CHECK_SOON(pids_started(tidegate).size() >= number);
        if (pids_started(tidegate).size() < number) return;
        pid_ = pids_started(tidegate)[number - 1];
        CHECK_SOON(said("process " + std::to_string(pid_) + " has taken over"));
    }
    ~Heir() {
        if (pid_ > 0) CHECK(stop() == 0);
    }
    Heir(const Heir&) = delete;
    Heir& operator=(const Heir&) = delete;

    static std::vector<pid_t> pids_started(const Tidegate& tidegate) {
        static const std::regex started("USR2: started \\S+ as process ([0-9]+), to take over");
        const std::string text = tidegate.errors();
        std::vector<pid_t> pids;
        for (std::sregex_iterator found(text.begin(), text.end(), started), end; found != end;
             ++found) {
            pids.push_back(static_cast<pid_t>(std::stol((*found)[1])));
        }
        return pids;
    }

    pid_t pid() const { return pid_; }
    bool said(const std::string& what) const {
        return tidegate_->errors().find(what) != std::string::npos;
    }
    // The exit code. Its parent, which may be the process before it, has ended by then.
    int stop() {
        const pid_t pid = std::exchange(pid_, -1);
        ::kill(pid, SIGTERM);
        return wait_for(pid);
    }
    // Of a process that ends by itself.
    static int wait_for(pid_t pid) {
        int status = 0;
        const auto deadline = Clock::now() + kPatience;
        while (Clock::now() < deadline) {
            if (::waitpid(pid, &status, WNOHANG) == pid) {
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            }
            std::this_thread::sleep_for(milliseconds{2});
        }
        ::kill(pid, SIGKILL);
        ::waitpid(pid, &status, 0);
        return -1;
    }
    int wait() { return wait_for(std::exchange(pid_, -1)); }

  private:
    const Tidegate* tidegate_;
    pid_t pid_ = -1;
};

bool says(const Tidegate& tidegate, const std::string& what) {
    return tidegate.errors().find(what) != std::string::npos;
}

// The first check of its only server does not end: Tidegate starts as if it had, after 3 seconds.
std::string waiting_for(const Socket& silent) {
    return unlimited({"http://127.0.0.1:" + std::to_string(silent.port())},
                     "health_check: {path: /healthz, every: 10s, timeout: 9s}");
}

std::string process_name(pid_t pid) {
    return "process " + std::to_string(pid);
}

}  // namespace

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
    CHECK(heir.said("took over counts of 1 identifier from " + process_name(tidegate.pid())));
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
    CHECK_SOON(second.said(process_name(tidegate.pid()) + " has ended"));
    CHECK(tidegate.get().status() == 200);
    Heir third(tidegate, second, 2);
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
        CHECK_SOON(heir.said(std::to_string(threads) + " thread"));
        // The kernel gives each connection to the queue of any of the sockets.
        for (int i = 0; i < 40; ++i) CHECK(tidegate.get().status() == 200);
        CHECK_SOON(tidegate.metric("tidegate_client_connections_total") >= 40);
    }
}

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
    Heir heir(tidegate, 2);
    CHECK(tidegate.wait() == 0);
    CHECK(tidegate.get().status() == 429);
}

TEST_CASE("handover: requests in flight end in the former process, as the last of a connection") {
    GatedUpstream gated;
    Tidegate tidegate(unlimited({gated.upstream().url()}) + "timeouts: {drain: 30s}\n");
    RawClient waiting = tidegate.client();
    waiting.send(get_request("/"));
    CHECK_SOON(gated.waiting() == 1);
    RawClient idle = tidegate.client();
    Heir heir(tidegate);
    CHECK(tidegate.running());
    // A second one is refused while the first drains.
    ::kill(heir.pid(), SIGUSR2);
    CHECK_SOON(heir.said("USR2 ignored: " + process_name(tidegate.pid()) +
                         ", whose place this one has taken, is still draining"));
    tidegate.signal(SIGUSR2);
    CHECK_SOON(heir.said("USR2 ignored: " + process_name(heir.pid()) + " has taken over"));
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
        CHECK_SOON(heir.said("no longer listens on unix:" + gone));
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
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        Speaking how;
        how.oldest = how.newest = version;
        SessionPtr session;
        {
            RawClient client = proxy.client(how);
            CHECK(client.get().status() == 200);
            session = session_of(client);
        }
        how.session = &session;
        static std::optional<Heir> heir;
        if (!heir) heir.emplace(proxy.tidegate());
        RawClient again = proxy.client(how);
        CHECK(again.get().status() == 200);
        CHECK(was_resumed(again));
        if (version == TLS1_3_VERSION) heir.reset();
    }
}

TEST_CASE("handover: a TERM while the new process starts stops both") {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url()));
    adopt_orphans();
    // The new process waits for the first check of a server that never answers.
    const auto silent = Socket::listen();
    tidegate.write_configuration(waiting_for(silent));
    tidegate.signal(SIGUSR2);
    CHECK_SOON(!Heir::pids_started(tidegate).empty());
    const pid_t started = Heir::pids_started(tidegate).front();
    CHECK_SOON(says(tidegate, "taking over from " + process_name(tidegate.pid())));
    tidegate.signal(SIGTERM);
    CHECK(tidegate.wait() == 0);
    CHECK(::kill(started, 0) != 0);
}

TEST_CASE("handover: where the former process crashes, the new one serves") {
    const Upstream upstream(ok());
    Tidegate tidegate(unlimited({upstream.url()}));
    adopt_orphans();
    const auto silent = Socket::listen();
    tidegate.write_configuration(waiting_for(silent));
    tidegate.signal(SIGUSR2);
    CHECK_SOON(!Heir::pids_started(tidegate).empty());
    const pid_t started = Heir::pids_started(tidegate).front();
    CHECK_SOON(says(tidegate, "taking over from " + process_name(tidegate.pid())));
    tidegate.signal(SIGKILL);
    CHECK(tidegate.wait() == 128 + SIGKILL);
    CHECK_SOON(says(tidegate, process_name(tidegate.pid()) +
                                  " has ended before it handed over: accepting connections"));
    CHECK_SOON(tidegate.admin("/readyz").has_value());
    ::kill(started, SIGTERM);
    CHECK(Heir::wait_for(started) == 0);
}

TEST_CASE("handover: where the new process dies after it was ready, the former one serves on") {
    const Upstream upstream(ok());
    // More threads: sockets of the new process must take no connection before it accepts.
    Tidegate tidegate("threads: 1\n" + simple(upstream.url(), "30/h"));
    adopt_orphans();
    const auto silent = Socket::listen();
    tidegate.write_configuration("threads: 4\n" + waiting_for(silent));
    tidegate.signal(SIGUSR2);
    CHECK_SOON(!Heir::pids_started(tidegate).empty());
    const pid_t started = Heir::pids_started(tidegate).front();
    CHECK_SOON(says(tidegate, "taking over from " + process_name(tidegate.pid())));
    for (int i = 0; i < 20; ++i) CHECK(tidegate.get().status() == 200);
    // Stopped, it does not read that the new one is ready.
    tidegate.signal(SIGSTOP);
    CHECK_SOON(says(tidegate, "ready to take over from " + process_name(tidegate.pid())));
    ::kill(started, SIGKILL);
    tidegate.signal(SIGCONT);
    CHECK_SOON(says(tidegate, "hand-over failed, this process goes on: " + process_name(started) +
                                  " was ended by signal 9"));
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
}

TEST_CASE("handover: the first TERM to a process that drains after it cuts nothing off") {
    GatedUpstream gated;
    Tidegate tidegate(unlimited({gated.upstream().url()}) + "timeouts: {drain: 30s}\n");
    RawClient waiting = tidegate.client();
    waiting.send(get_request("/"));
    CHECK_SOON(gated.waiting() == 1);
    const Heir heir(tidegate);
    tidegate.signal(SIGTERM);
    CHECK_SOON(heir.said("already draining; a second signal stops at once"));
    gated.open();
    CHECK(waiting.response().status() == 200);
    CHECK(tidegate.wait() == 0);
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
