#include "integration/handover_world.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <regex>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "integration/soon.hpp"

namespace tidegate::test {

namespace {

// 0: fewer were started.
pid_t started(const Tidegate& tidegate, int number) {
    static const std::regex line("process ([0-9]+) is to take over");
    const std::string text = tidegate.errors();
    for (std::sregex_iterator found(text.begin(), text.end(), line), end; found != end; ++found) {
        if (--number == 0) return static_cast<pid_t>(std::stol((*found)[1]));
    }
    return 0;
}

}  // namespace

void adopt_orphans() {
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
}

int wait_for(pid_t pid) {
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

std::string process_name(pid_t pid) {
    return "process " + std::to_string(pid);
}

bool says(const Tidegate& tidegate, const std::string& what, int times) {
    const std::string text = tidegate.errors();
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        if (--times == 0) return true;
    }
    return false;
}

std::string slow_to_start(const Socket& silent) {
    return unlimited({"http://127.0.0.1:" + std::to_string(silent.port())},
                     "health_check: {path: /healthz, every: 10s, timeout: 9s}");
}

pid_t start_successor(const Tidegate& tidegate, pid_t former, int number) {
    adopt_orphans();
    ::kill(former, SIGUSR2);
    CHECK_SOON(started(tidegate, number) != 0);
    const pid_t pid = started(tidegate, number);
    REQUIRE(pid != 0);
    return pid;
}

Heir::Heir(const Tidegate& tidegate, pid_t former, int number)
    : pid_(start_successor(tidegate, former != 0 ? former : tidegate.pid(), number)) {
    CHECK_SOON(says(tidegate, process_name(pid_) + " has taken over"));
}

Heir::~Heir() {
    if (pid_ != 0) CHECK(stop() == 0);
}

int Heir::stop() {
    ::kill(pid_, SIGTERM);
    return wait();
}

int Heir::wait() {
    return wait_for(std::exchange(pid_, 0));
}

Busy::Busy()
    : tidegate(unlimited({gated.upstream().url()}) + "timeouts: {drain: 30s}\n"),
      waiting(tidegate.client()) {
    waiting.send(get_request("/"));
    CHECK_SOON(gated.waiting() == 1);
}

}  // namespace tidegate::test
