// Under a service manager: what Tidegate reports to it, and sockets that it passes. The test takes
// the place of systemd.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/process.hpp"
#include "integration/soon.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::service_test {

namespace {

// A descriptor that goes with its scope.
struct Owned {
    explicit Owned(int opened) : number(opened) { REQUIRE(number >= 0); }
    ~Owned() { ::close(number); }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;

    int number;
};

// Where systemd listens for notifications.
class Manager {
  public:
    explicit Manager(const TemporaryFolder& folder)
        : path_((folder.path() / "notify").string()),
          socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un at{};
        at.sun_family = AF_UNIX;
        std::strncpy(at.sun_path, path_.c_str(), sizeof at.sun_path - 1);
        REQUIRE(::bind(socket_.number, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    }

    const std::string& path() const { return path_; }

    // The next datagram; empty: none came in time.
    std::string hear(milliseconds patience = kPatience) const {
        pollfd ready{.fd = socket_.number, .events = POLLIN, .revents = 0};
        if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) return {};
        std::array<char, 4'096> bytes{};
        const ssize_t count = ::recv(socket_.number, bytes.data(), bytes.size(), 0);
        return count < 0 ? "" : std::string(bytes.data(), static_cast<std::size_t>(count));
    }

    // Leaves out the watchdog's.
    std::string hear_of_state() const {
        std::string heard = hear();
        while (heard == "WATCHDOG=1") heard = hear();
        return heard;
    }

    // Discards earlier datagrams.
    void forget() const {
        while (!hear(milliseconds{0}).empty()) {
        }
    }

  private:
    std::string path_;
    Owned socket_;
};

// The program with variables of its own. `sockets` become its descriptors from 3 on, and
// LISTEN_PID is its id.
class Service {
  public:
    Service(const TemporaryFolder& folder, std::vector<std::string> variables,
            const std::vector<int>& sockets = {})
        : process_(command(folder, std::move(variables), sockets), folder.path()) {}

    Process& process() { return process_; }

  private:
    static std::vector<std::string> command(const TemporaryFolder& folder,
                                            std::vector<std::string> variables,
                                            const std::vector<int>& sockets) {
        std::string script;
        for (std::size_t i = 0; i < sockets.size(); ++i) {
            // The child has these by the numbers that the test has.
            ::fcntl(sockets[i], F_SETFD, 0);
            script += "exec " + std::to_string(i + 3) + "<&" + std::to_string(sockets[i]) + "; ";
        }
        if (!sockets.empty()) {
            variables.push_back("LISTEN_FDS=" + std::to_string(sockets.size()));
            script += "LISTEN_PID=$$ ";
        }
        script += "exec env \"$@\"";
        std::vector<std::string> arguments{"/bin/bash", "-c", script, "bash"};
        arguments.insert(arguments.end(), variables.begin(), variables.end());
        for (const std::string& one : {program(), std::string("run"), std::string("-c"),
                                       (folder.path() / "tidegate.yaml").string()}) {
            arguments.push_back(one);
        }
        return arguments;
    }

    Process process_;
};

// At a port of 127.0.0.1 that the system chooses, above the descriptors that the program gets.
struct PassedSocket {
    PassedSocket() : socket(moved_up(listening())) {
        sockaddr_in at{};
        socklen_t size = sizeof at;
        ::getsockname(socket.number, reinterpret_cast<sockaddr*>(&at), &size);
        port = ntohs(at.sin_port);
    }

    static int moved_up(int low) {
        const int high = ::fcntl(low, F_DUPFD_CLOEXEC, 100);
        ::close(low);
        return high;
    }

    static int listening() {
        const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::bind(descriptor, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
        REQUIRE(::listen(descriptor, 64) == 0);
        return descriptor;
    }

    Owned socket;
    std::uint16_t port = 0;
};

std::string yaml(const std::string& listen, const std::string& url) {
    return "listen: " + listen + "\nadmin: off\nthreads: 2\nlog: {access: off}\nupstream: " + url +
           "\n";
}

std::string own_port() {
    return "127.0.0.1:" + std::to_string(free_port());
}

// The other threads than the main one, where a tracer can stop them.
std::vector<pid_t> other_threads(pid_t pid) {
    std::vector<pid_t> threads;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
        const pid_t thread = static_cast<pid_t>(std::stol(entry.path().filename().string()));
        if (thread != pid) threads.push_back(thread);
    }
    return threads;
}

// The thread is stopped from now on, until this is destroyed.
class StoppedThread {
  public:
    explicit StoppedThread(pid_t thread) : thread_(thread) {
        if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return;
        is_traced_ = true;
        ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
        int status = 0;
        ::waitpid(thread, &status, __WALL);
    }
    ~StoppedThread() {
        if (is_traced_) ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
    }
    StoppedThread(const StoppedThread&) = delete;
    StoppedThread& operator=(const StoppedThread&) = delete;

    bool is_traced() const { return is_traced_; }

  private:
    pid_t thread_;
    bool is_traced_ = false;
};

}  // namespace

TEST_CASE("service: the service manager gets readiness, reloads and the stop") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const Manager manager(folder);
    const std::string settings = yaml(own_port(), upstream.url());
    const std::string file = folder.write("tidegate.yaml", settings);
    Service service(folder, {"NOTIFY_SOCKET=" + manager.path()});
    CHECK(manager.hear() == "READY=1\nSTATUS=configuration 1 is in force");

    service.process().signal(SIGHUP);
    const std::string reloading = manager.hear();
    CHECK_MESSAGE(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), reloading);
    CHECK(manager.hear() == "READY=1\nSTATUS=configuration 2 is in force");

    folder.write("tidegate.yaml", settings + "limit: [1/s]\n");
    service.process().signal(SIGHUP);
    CHECK(manager.hear().starts_with("RELOADING=1\n"));
    CHECK(manager.hear() ==
          "READY=1\nSTATUS=reload refused, the log says why; configuration 2 is in force");

    service.process().signal(SIGTERM);
    CHECK(manager.hear().starts_with("STOPPING=1\nSTATUS="));
    CHECK(manager.hear().starts_with("STATUS=draining"));
    CHECK(service.process().wait(kPatience) == 0);
}

TEST_CASE("service: a program that does not start is never ready") {
    const TemporaryFolder folder;
    const Manager manager(folder);
    const auto taken = Socket::listen();
    folder.write("tidegate.yaml",
                 yaml("127.0.0.1:" + std::to_string(taken.port()), "http://127.0.0.1:1"));
    Service service(folder, {"NOTIFY_SOCKET=" + manager.path()});
    CHECK(service.process().wait(kPatience) == 1);
    CHECK(manager.hear(milliseconds{0}).empty());
}

TEST_CASE("service: Tidegate notifies the watchdog as long as every worker's loop turns") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const Manager manager(folder);
    folder.write("tidegate.yaml", yaml(own_port(), upstream.url()));
    Service service(folder, {"NOTIFY_SOCKET=" + manager.path(), "WATCHDOG_USEC=1000000"});
    CHECK(manager.hear_of_state().starts_with("READY=1\n"));
    CHECK(manager.hear() == "WATCHDOG=1");
    CHECK(manager.hear() == "WATCHDOG=1");
    {
        // At least one of them is a worker's, and the main thread runs on.
        std::vector<std::unique_ptr<StoppedThread>> stopped;
        for (const pid_t thread : other_threads(service.process().pid())) {
            stopped.push_back(std::make_unique<StoppedThread>(thread));
            if (!stopped.back()->is_traced()) {
                MESSAGE("not run: threads cannot be traced here: ", std::strerror(errno));
                return;
            }
        }
        // A look may have come between two stops.
        manager.hear(milliseconds{600});
        manager.forget();
        CHECK(manager.hear(milliseconds{1500}).empty());
    }
    CHECK(manager.hear() == "WATCHDOG=1");
    service.process().signal(SIGTERM);
    CHECK(service.process().wait(kPatience) == 0);
}

TEST_CASE("service: sockets that are passed serve by their names, on all threads") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const PassedSocket web;
    const PassedSocket internal;
    folder.write("tidegate.yaml", yaml("[systemd:internal, systemd:web]", upstream.url()));
    // It waits in the queue before the program runs.
    RawClient early(web.port);
    Service service(folder, {"LISTEN_FDNAMES=web:internal"},
                    {web.socket.number, internal.socket.number});
    early.send(get_request("/"));
    CHECK(early.response().status() == 200);
    for (int i = 0; i < 50; ++i) CHECK(http_get(web.port, "/").status() == 200);
    CHECK(http_get(internal.port, "/").status() == 200);
    const std::string said = service.process().errors();
    CHECK_MESSAGE(said.find("listening on 127.0.0.1:" + std::to_string(web.port) +
                            " (systemd:web), 2 threads") != std::string::npos,
                  said);
    service.process().signal(SIGTERM);
    CHECK(service.process().wait(kPatience) == 0);
    // The manager's socket is open as before, for the next start.
    CHECK(Socket::try_connect(web.port).has_value());
}

TEST_CASE("service: a name that is not passed is refused with its place and those that are") {
    const TemporaryFolder folder;
    const PassedSocket web;
    const std::string file =
        folder.write("tidegate.yaml", yaml("systemd:wbe", "http://127.0.0.1:1"));
    Service service(folder, {"LISTEN_FDNAMES=web"}, {web.socket.number});
    CHECK(service.process().wait(kPatience) == 1);
    const std::string said = service.process().errors();
    CHECK_MESSAGE(said.find(":1:9: error: listen: systemd passes no socket of the name `wbe`, but "
                            "`web`") != std::string::npos,
                  said);
}

TEST_CASE("service: without a passed socket, the start says what to do, and a check passes") {
    const TemporaryFolder folder;
    const std::string file =
        folder.write("tidegate.yaml", yaml("systemd:web", "http://127.0.0.1:1"));
    const Finished started = run_tidegate({"run", "-c", file});
    CHECK(started.code == 1);
    CHECK_MESSAGE(started.errors.find(
                      "cannot listen on systemd:web: the service manager has passed "
                      "no socket to this process: start its .socket unit") != std::string::npos,
                  started.errors);
    CHECK(run_tidegate({"check", "-c", file}).code == 0);
}

TEST_CASE("service: a reload keeps the sockets that were passed, though the variables are gone") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const Manager manager(folder);
    const PassedSocket web;
    const std::string settings = yaml("systemd:web", upstream.url());
    folder.write("tidegate.yaml", settings);
    Service service(folder, {"LISTEN_FDNAMES=web", "NOTIFY_SOCKET=" + manager.path()},
                    {web.socket.number});
    CHECK(manager.hear().starts_with("READY=1\n"));
    folder.write("tidegate.yaml", settings + "limits: [1/h]\n");
    service.process().signal(SIGHUP);
    CHECK(manager.hear().starts_with("RELOADING=1\n"));
    CHECK(manager.hear() == "READY=1\nSTATUS=configuration 2 is in force");
    CHECK(http_get(web.port, "/").status() == 200);
    CHECK(http_get(web.port, "/").status() == 429);
}

TEST_CASE("service: a hand-over names the new process, with the socket that was passed") {
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const Manager manager(folder);
    const PassedSocket web;
    folder.write("tidegate.yaml", yaml("systemd:web", upstream.url()) + "limits: [2/h]\n");
    Service service(
        folder, {"LISTEN_FDNAMES=web", "NOTIFY_SOCKET=" + manager.path(), "WATCHDOG_USEC=1000000"},
        {web.socket.number});
    CHECK(manager.hear_of_state().starts_with("READY=1\n"));
    CHECK(http_get(web.port, "/").status() == 200);
    service.process().signal(SIGUSR2);
    const std::string named = manager.hear_of_state();
    REQUIRE_MESSAGE(named.starts_with("MAINPID="), named);
    const pid_t heir = static_cast<pid_t>(std::stol(named.substr(8)));
    CHECK(heir != service.process().pid());
    CHECK(manager.hear_of_state() == "READY=1\nSTATUS=configuration 1 is in force");
    CHECK(service.process().wait(kPatience) == 0);
    CHECK(http_get(web.port, "/").status() == 200);
    CHECK(http_get(web.port, "/").status() == 429);
    // The new one tells the watchdog, and the former one said nothing of its end.
    manager.forget();
    CHECK(manager.hear() == "WATCHDOG=1");
    ::kill(heir, SIGTERM);
    CHECK(manager.hear_of_state().starts_with("STOPPING=1\n"));
    int status = -1;
    CHECK(::waitpid(heir, &status, 0) == heir);
    CHECK(status == 0);
}

}  // namespace tidegate::test::service_test
