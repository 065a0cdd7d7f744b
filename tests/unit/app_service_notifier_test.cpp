#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "app/service_notifier.hpp"

namespace tidegate::app::service_notifier_test {

namespace {

class Manager {
  public:
    // `name` as NOTIFY_SOCKET has it.
    explicit Manager(const std::string& name)
        : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_un at{};
        at.sun_family = AF_UNIX;
        std::memcpy(at.sun_path, name.data(), name.size());
        if (at.sun_path[0] == '@') at.sun_path[0] = '\0';
        REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&at),
                       static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())) == 0);
    }

    // The next datagram; empty: there is none.
    std::string heard() const {
        std::array<char, 4'096> bytes{};
        const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        return count < 0 ? "" : std::string(bytes.data(), static_cast<std::size_t>(count));
    }

  private:
    Descriptor socket_;
};

std::string abstract_name() {
    return "@tidegate-notifier-test-" + std::to_string(::getpid());
}

}  // namespace

TEST_CASE("notifier: each event is one datagram of assignments") {
    const Manager manager(abstract_name());
    ServiceNotifier notifier(abstract_name());
    REQUIRE(notifier.is_active());
    notifier.tell_ready("configuration 1 is in force");
    CHECK(manager.heard() == "READY=1\nSTATUS=configuration 1 is in force");
    notifier.tell_status("draining");
    CHECK(manager.heard() == "STATUS=draining");
    notifier.tell_stopping("bye");
    CHECK(manager.heard() == "STOPPING=1\nSTATUS=bye");
    notifier.tell_alive();
    CHECK(manager.heard() == "WATCHDOG=1");
    CHECK(manager.heard().empty());
}

TEST_CASE("notifier: a reload has its time on the monotonic clock") {
    const auto now = [] {
        return std::chrono::duration_cast<std::chrono::microseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
    };
    const Manager manager(abstract_name());
    ServiceNotifier notifier(abstract_name());
    const auto before = now();
    notifier.tell_reloading("reading");
    const std::string heard = manager.heard();
    const std::string begin = "RELOADING=1\nMONOTONIC_USEC=";
    REQUIRE(heard.starts_with(begin));
    long long told = 0;
    std::from_chars(heard.data() + begin.size(), heard.data() + heard.size(), told);
    CHECK(told >= before);
    CHECK(told <= now());
    CHECK(heard.ends_with("\nSTATUS=reading"));
}

TEST_CASE("notifier: a path in the file system is a name, too") {
    const std::string path = "/tmp/tidegate-notifier-" + std::to_string(::getpid());
    const Manager manager(path);
    ServiceNotifier notifier(path);
    notifier.tell_alive();
    CHECK(manager.heard() == "WATCHDOG=1");
    ::unlink(path.c_str());
}

TEST_CASE("notifier: without a name, with a wrong one or without a listener, nothing happens") {
    for (const std::string& name :
         {std::string(), std::string("relative"), std::string("/"), "/" + std::string(200, 'x')}) {
        ServiceNotifier notifier(name);
        CHECK_FALSE(notifier.is_active());
        notifier.tell_alive();
    }
    ServiceNotifier alone("/nonexistent/notify");
    CHECK(alone.is_active());
    alone.tell_alive();
    alone.tell_alive();
}

TEST_CASE("notifier: it names another process, and then falls silent") {
    const Manager manager(abstract_name());
    ServiceNotifier notifier(abstract_name());
    notifier.tell_main_process(4'711);
    CHECK(manager.heard() == "MAINPID=4711");
    notifier.fall_silent();
    notifier.tell_status("draining");
    notifier.tell_alive();
    CHECK(manager.heard().empty());
    CHECK_FALSE(notifier.is_active());
}

namespace {

using std::chrono::microseconds;

std::optional<std::string> half_a_minute(std::string_view name) {
    if (name == "WATCHDOG_USEC") return "30000000";
    return std::nullopt;
}

std::optional<std::string> for_17(std::string_view name) {
    if (name == "WATCHDOG_PID") return "17";
    return half_a_minute(name);
}

std::optional<std::string> malformed(std::string_view name) {
    return name == "WATCHDOG_USEC" ? std::optional<std::string>("30s") : std::nullopt;
}

std::optional<std::string> never(std::string_view name) {
    return name == "WATCHDOG_USEC" ? std::optional<std::string>("0") : std::nullopt;
}

bool look(LoopWatch& watch, const std::vector<LoopState>& loops) {
    return watch.look(loops);
}

}  // namespace

TEST_CASE("watchdog: the interval is that of the service manager, for the process it names") {
    CHECK(watchdog_interval(half_a_minute, 17) == microseconds{30'000'000});
    CHECK(watchdog_interval(for_17, 17) == microseconds{30'000'000});
    CHECK_FALSE(watchdog_interval(for_17, 18));
    CHECK_FALSE(watchdog_interval(malformed, 17));
    CHECK_FALSE(watchdog_interval(never, 17));
}

TEST_CASE("watchdog: one loop that stands still is enough to stop the notifications") {
    LoopWatch watch;
    CHECK_FALSE(look(watch, {{.turns = 0}, {.turns = 5}}));
    CHECK(look(watch, {{.turns = 1}, {.turns = 9}}));
    CHECK_FALSE(look(watch, {{.turns = 2}, {.turns = 9}}));
    CHECK_FALSE(look(watch, {{.turns = 2}, {.turns = 10}}));
    CHECK(look(watch, {{.turns = 3}, {.turns = 11}}));
}

TEST_CASE("watchdog: a loop that has left as it should is no fault") {
    LoopWatch watch;
    CHECK(look(watch, {{.turns = 1}, {.turns = 1}}));
    CHECK(look(watch, {{.turns = 2}, {.turns = 1, .has_left = true}}));
    CHECK(look(watch, {{.turns = 2, .has_left = true}, {.turns = 1, .has_left = true}}));
}

}  // namespace tidegate::app::service_notifier_test
