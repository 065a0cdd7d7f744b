// Where Tidegate listens, what its start says, and what it logs once instead of again and again.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/own_network.hpp"
#include "integration/process.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::start_test {

using nlohmann::json;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
}

// The answer to GET / over ::1; nothing when nothing listens there.
std::optional<Message> get_over_ipv6(std::uint16_t port) {
    const int descriptor = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Socket socket(descriptor);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_loopback;
    if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return std::nullopt;
    }
    socket.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    return MessageReader(socket).response();
}

// A proxy with a configuration that has `listen` as it is given.
class Started {
  public:
    Started(const std::string& upstream_url, const std::string& listen,
            const std::string& more = "") {
        const std::string yaml = "listen: " + listen +
                                 "\nadmin: off\nthreads: 2\nupstream: " + upstream_url +
                                 "\nlog: {access: {path: " + log() + "}}\n" + more;
        const std::string file = folder_.write("tidegate.yaml", yaml);
        process_.emplace(std::vector<std::string>{program(), "run", file}, folder_.path());
        await_quietly([&] { return said().find("on TERM") != said().npos || !running(); });
    }

    std::string said() const { return process_->errors(); }
    bool running() { return process_->running(); }
    json line(std::size_t number) const {
        std::string text;
        await_quietly([&] {
            text = read_file(log());
            return count_of(text, "\n") > number;
        });
        for (; number > 0; --number) text.erase(0, text.find('\n') + 1);
        return json::parse(text.substr(0, text.find('\n')));
    }
    int stop() {
        process_->signal(SIGTERM);
        return process_->wait(kPatience).value_or(-1);
    }

  private:
    std::string log() const { return (folder_.path() / "access.log").string(); }

    TemporaryFolder folder_;
    std::optional<Process> process_;
};

bool has_ipv6() {
    const int descriptor = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const Socket socket(descriptor);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    return descriptor >= 0 &&
           ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// From now on this thread, and what it starts, finds a kernel without IPv6. False: not possible
// here.
bool hide_ipv6() {
    const auto field = [](std::size_t offset) { return static_cast<__u32>(offset); };
    std::array<sock_filter, 6> program{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, field(offsetof(seccomp_data, nr))),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, field(offsetof(seccomp_data, args[0]))),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog filter{program.size(), program.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

TEST_CASE("start: a port alone listens on IPv6 and IPv4, with one socket, and the log names both") {
    const Upstream upstream(ok());
    for (const std::string form : {"", ":"}) {
        const auto port = free_port();
        Started tidegate(upstream.url(), "\"" + form + std::to_string(port) + "\"");
        REQUIRE(tidegate.running());
        CHECK(http_get(port).status() == 200);
        CHECK(tidegate.line(0).at("client") == "127.0.0.1");
        if (has_ipv6()) {
            const auto answer = get_over_ipv6(port);
            REQUIRE(answer);
            CHECK(answer->status() == 200);
            CHECK(tidegate.line(1).at("client") == "::1");
            CHECK(tidegate.said().find("listening on [::]:" + std::to_string(port) +
                                       " (IPv6 and IPv4), 2 threads") != std::string::npos);
        }
        CHECK(tidegate.stop() == 0);
    }
}

TEST_CASE("start: where the kernel has no IPv6, a port alone listens on IPv4") {
    const Upstream upstream(ok());
    bool is_hidden = false;
    std::thread([&] {
        is_hidden = hide_ipv6();
        if (!is_hidden) return;
        const auto port = free_port();
        Started tidegate(upstream.url(), std::to_string(port));
        CHECK(http_get(port).status() == 200);
        CHECK(tidegate.said().find("listening on 0.0.0.0:" + std::to_string(port)) !=
              std::string::npos);
        CHECK(tidegate.stop() == 0);
    }).join();
    if (!is_hidden) MESSAGE("not tested: seccomp is not available here");
}

TEST_CASE("start: an IPv4 client of a socket for both is trusted, counted and refused as IPv4") {
    const Upstream upstream(ok());
    const auto port = free_port();
    Started tidegate(upstream.url(), std::to_string(port),
                     "limits: [1/h]\nconnections: {per_ip: 2}\n"
                     "identity: {client_ip: {trusted_proxies: [127.0.0.9]}}\n");
    // Two clients behind a trusted IPv4 proxy, and one of them without it, share the count of one.
    CHECK(http_get(port, "/", "X-Forwarded-For: 127.0.0.2\r\n", "127.0.0.9").status() == 200);
    CHECK(tidegate.line(0).at("client") == "127.0.0.2");
    CHECK(http_get(port, "/", "X-Forwarded-For: ::ffff:127.0.0.2\r\n", "127.0.0.9").status() ==
          429);
    CHECK(http_get(port, "/", "", "127.0.0.2").status() == 429);
    CHECK(http_get(port, "/", "", "127.0.0.3").status() == 200);
    // per_ip counts the whole address, not a prefix of ::ffff:0:0/96.
    RawClient first(port, "127.0.0.4");
    CHECK(first.get().status() == 200);
    RawClient second(port, "127.0.0.4");
    CHECK(second.get().status() == 429);
    RawClient third(port, "127.0.0.4");
    CHECK(third.response().status() == 503);
    RawClient other(port, "127.0.0.5");
    CHECK(other.get().status() == 200);
    CHECK(tidegate.stop() == 0);
}

TEST_CASE("start: a reload from an IPv4 address of this machine is local to an admin on both") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const auto port = free_port();
    auto admin = free_port();
    while (admin == port) admin = free_port();
    const std::string file = folder.write(
        "tidegate.yaml", "listen: 127.0.0.1:" + std::to_string(port) +
                             "\nadmin: " + std::to_string(admin) + "\n" + simple(upstream.url()));
    Process process({program(), "run", file}, folder.path());
    await_quietly([&] { return run_tidegate({"health", "-c", file}).code == 0; });
    CHECK(run_tidegate({"reload", "-c", file}).code == 0);
    process.signal(SIGTERM);
    CHECK(process.wait(kPatience) == 0);
}

TEST_CASE("start: a port below 1024 without the right to it ends the start with what to do") {
    const auto start = [] {
        const TemporaryFolder folder;
        const std::string file = folder.write(
            "t.yaml", "listen: 127.0.0.1:81\nadmin: off\nupstream: http://127.0.0.1:3000\n");
        return run_tidegate({"run", file});
    };
    std::optional<Finished> finished;
    std::thread([&] {
        // For this thread alone: as a root that may not bind such ports.
        if (::geteuid() == 0 && ::prctl(PR_CAPBSET_DROP, 10, 0, 0, 0) != 0) return;
        finished = start();
    }).join();
    REQUIRE(finished);
    if (finished->code != 1) return;  // every port is open to all users here
    CHECK_MESSAGE(finished->errors.find("CAP_NET_BIND_SERVICE") != std::string::npos,
                  finished->errors);
    CHECK(finished->errors.find("or choose a higher port") != std::string::npos);
    CHECK(finished->errors.find("127.0.0.1:81: Permission denied") != std::string::npos);
}

TEST_CASE("start: the log has how long it accepts connections after TERM, and why so long") {
    const Upstream upstream(ok());
    const auto said_with = [&](const std::string& variable, const std::string& more) {
        const TemporaryFolder folder;
        const std::string file =
            folder.write("t.yaml", "listen: 127.0.0.1:" + std::to_string(free_port()) +
                                       "\nadmin: off\nupstream: " + upstream.url() + "\n" + more);
        Process process(
            {"/usr/bin/env", "KUBERNETES_SERVICE_HOST=" + variable, program(), "run", file},
            folder.path());
        await_quietly([&] { return process.errors().find("on TERM") != std::string::npos; });
        process.signal(SIGTERM);
        process.signal(SIGTERM);
        return process.errors();
    };
    const auto says = [](const std::string& text, const std::string& part) {
        CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    };
    says(said_with("", ""),
         "on TERM, Tidegate stops accepting at once (`timeouts.shutdown_delay: 0s`, the default "
         "outside Kubernetes)\n");
    says(said_with("10.96.0.1", ""),
         "on TERM, Tidegate goes on accepting for 5s (`timeouts.shutdown_delay: 5s`, the default "
         "in Kubernetes: KUBERNETES_SERVICE_HOST is set)\n");
    says(said_with("10.96.0.1", "timeouts: {shutdown_delay: 1s}\n"),
         "on TERM, Tidegate goes on accepting for 1s (`timeouts.shutdown_delay: 1s`)\n");
}

TEST_CASE("start: the quickstart answers on this machine only, and limits the eleventh request") {
    in_own_network([&] {
        const TemporaryFolder folder;
        Process process({program(), "quickstart"}, folder.path());
        await_quietly([&] { return run_tidegate({"health"}).code == 0 || !process.running(); });
        const std::string said = process.errors();
        CHECK_MESSAGE(
            said.find("the quickstart, a demonstration for this machine only") != std::string::npos,
            said);
        CHECK(said.find("curl -i http://127.0.0.1:8080/") != std::string::npos);
        CHECK(said.find("listening on 127.0.0.1:8080,") != std::string::npos);
        for (int i = 0; i < 10; ++i) CHECK(http_get(8080).status() == 200);
        CHECK(http_get(8080).status() == 429);
        CHECK_FALSE(get_over_ipv6(8080));
        process.signal(SIGTERM);
        CHECK(process.wait(kPatience) == 0);
    });
}

TEST_CASE("start: the quickstart over TLS prints a command that works, and sends 8080 there") {
    in_own_network([&] {
        const TemporaryFolder folder;
        const auto start = [&] {
            return Process(
                {"/bin/sh", "-c",
                 "cd '" + folder.path().string() + "' && exec '" +
                     std::filesystem::absolute(program()).string() + "' quickstart --tls"},
                folder.path());
        };
        const auto answer_to = [&](const std::string& command) {
            const TemporaryFolder output;
            Process asked(
                {"/bin/sh", "-c", "cd '" + folder.path().string() + "' && " + command + " -sS"},
                output.path());
            CHECK(asked.wait(kPatience) == 0);
            return asked.output();
        };
        std::string certificate;
        for (const std::string said : {"made tidegate-quickstart.pem", "using tidegate-quick"}) {
            Process process = start();
            await_quietly([&] { return run_tidegate({"health"}).code == 0 || !process.running(); });
            const std::string errors = process.errors();
            CHECK_MESSAGE(errors.find(said) != std::string::npos, errors);
            const std::size_t command = errors.find("curl -i --cacert");
            CHECK_MESSAGE(command != std::string::npos, errors);
            if (command == std::string::npos) break;
            // Some builds of curl know HTTP/2.
            const auto answer =
                answer_to(errors.substr(command, errors.find('\n', command) - command));
            CHECK((answer.starts_with("HTTP/2 200") || answer.starts_with("HTTP/1.1 200 OK\r\n")));
            CHECK(http_get(8080, "/x").field("Location").ends_with(":8443/x"));
            const std::string shown = read_file(folder.path() / "tidegate-quickstart.pem");
            CHECK((certificate.empty() || certificate == shown));
            certificate = shown;
            process.signal(SIGTERM);
            CHECK(process.wait(kPatience) == 0);
        }
    });
}

TEST_CASE("start: forwarding fields of a peer that is not trusted are logged once, and counted") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()) +
                            "identity: {client_ip: {trusted_proxies: [127.0.9.9]}}\n");
    const std::string field = "X-Forwarded-For: 192.0.2.1\r\n";
    for (const std::string from : {"127.0.0.1", "127.0.0.2", "127.0.0.1"}) {
        CHECK(tidegate.get("/", field, from).status() == 200);
    }
    CHECK(tidegate.get("/", "Forwarded: for=192.0.2.1\r\n", "127.0.1.1").status() == 200);
    CHECK(tidegate.get("/", field, "127.0.9.9").status() == 200);
    CHECK(tidegate.get("/", "", "127.0.2.1").status() == 200);
    CHECK_SOON(tidegate.metric("tidegate_forwarding_ignored_total") == 4);
    CHECK_SOON(count_of(tidegate.errors(), "and Tidegate ignores it") == 2);
    const std::string said = tidegate.errors();
    CHECK(said.find("127.0.0.1 sends X-Forwarded-For, and Tidegate ignores it") !=
          std::string::npos);
    CHECK(said.find("write `identity: {client_ip: {trusted_proxies: [127.0.0.1]}}`") !=
          std::string::npos);
    CHECK(said.find("127.0.1.1 sends Forwarded, and") != std::string::npos);
}

TEST_CASE("start: a server that refuses is logged once, and once when it is back") {
    const auto port = free_port();
    const std::string url = "http://127.0.0.1:" + std::to_string(port);
    const Tidegate tidegate("threads: 4\n" + simple(url));
    for (int i = 0; i < 40; ++i) CHECK(tidegate.get().status() >= 502);
    CHECK_SOON(count_of(tidegate.errors(), "cannot connect to 127.0.0.1") == 1);
    CHECK_SOON(tidegate.errors().find("Connection refused") != std::string::npos);

    const TemporaryFolder folder;
    Process echo({program(), "echo", "--listen", url.substr(7)}, folder.path());
    await_quietly([&] { return tidegate.get().status() == 200; });
    for (int i = 0; i < 40; ++i) CHECK(tidegate.get().status() == 200);
    CHECK_SOON(count_of(tidegate.errors(), " is back") == 1);
    CHECK(count_of(tidegate.errors(), "cannot connect to") == 1);
    echo.signal(SIGTERM);
    CHECK(echo.wait(kPatience) == 0);
}

TEST_CASE(
    "start: clients that come before the names of upstreams were looked up wait, and no 502") {
    const Upstream upstream(ok());
    for (const std::string name : {"localhost", "no-such-name.invalid"}) {
        CAPTURE(name);
        const std::string second = name == "localhost" ? "" : ", " + upstream.url();
        for (int i = 0; i < 4; ++i) {
            const TemporaryFolder folder;
            const std::uint16_t port = free_port();
            const std::string file = folder.write(
                "tidegate.yaml", "listen: 127.0.0.1:" + std::to_string(port) +
                                     "\nadmin: off\nupstreams: {api: {servers: [http://" + name +
                                     ":" + std::to_string(upstream.port()) + second +
                                     "]}}\nroutes: [{policies: []}]\n");
            const Process process({program(), "run", file}, folder.path());
            std::optional<Socket> socket;
            // From the first moment in which something listens.
            REQUIRE(
                await_quietly([&] { return (socket = Socket::try_connect(port)).has_value(); }));
            RawClient client(std::move(*socket));
            CHECK(client.get().status() == 200);
        }
    }
}

TEST_CASE("start: a name that does not resolve is logged once for all threads") {
    const Tidegate tidegate("threads: 4\n" + simple("http://no-such-name.invalid:3000"));
    await_quietly([&] { return count_of(tidegate.errors(), "cannot resolve") > 0; });
    // Each thread tries once a second.
    std::this_thread::sleep_for(milliseconds{2'500});
    CHECK(count_of(tidegate.errors(), "cannot resolve no-such-name.invalid") == 1);
    CHECK(tidegate.get().status() >= 502);
}

TEST_CASE("start: an access log that is a pipe without a reader is named, and nothing is started") {
    const TemporaryFolder folder;
    const std::string pipe = (folder.path() / "pipe").string();
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const std::string file = folder.write(
        "t.yaml",
        "listen: 127.0.0.1:0\nadmin: off\nupstream: http://127.0.0.1:1\nlog: {access: {path: " +
            pipe + "}}\n");
    const Finished ended = run_tidegate({"run", file});
    CHECK(ended.code == 1);
    CHECK(ended.errors.find("cannot open access log " + pipe + ": no program reads this pipe") !=
          std::string::npos);
}

TEST_CASE("start: a configuration comes from a pipe, and one that nothing writes to is named") {
    const TemporaryFolder folder;
    const std::string pipe = (folder.path() / "pipe").string();
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const Finished silent = run_tidegate({"check", pipe});
    CHECK(silent.code == 1);
    CHECK(silent.errors.find("no program has written to this pipe for 2s") != std::string::npos);
    std::thread writer([&] {  //
        std::ofstream(pipe) << "upstream: http://127.0.0.1:1\nlimits: [1/s]\n";
    });
    CHECK(run_tidegate({"check", pipe}).code == 0);
    writer.join();
}

TEST_CASE("start: an access log may be a pipe that a program reads, or /dev/stdout") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string pipe = (folder.path() / "pipe").string();
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    for (const std::string& path : {pipe, std::string("/dev/stdout")}) {
        CAPTURE(path);
        const std::uint16_t port = free_port();
        const std::string file =
            folder.write("t.yaml", "listen: 127.0.0.1:" + std::to_string(port) +
                                       "\nadmin: off\nupstream: " + upstream.url() +
                                       "\nlog: {access: {path: " + path + "}}\n");
        Process process({program(), "run", file}, folder.path());
        await_quietly([&] { return process.errors().find("on TERM") != std::string::npos; });
        CHECK(http_get(port, "/logged").status() == 200);
        std::string lines;
        await_quietly([&] {
            std::array<char, 4'096> bytes;
            const ssize_t size = ::read(reader, bytes.data(), bytes.size());
            if (size > 0) lines.append(bytes.data(), static_cast<std::size_t>(size));
            return (lines + process.output()).find("/logged") != std::string::npos;
        });
        CHECK((lines + process.output()).find("/logged") != std::string::npos);
        process.signal(SIGTERM);
        CHECK(process.wait(kPatience) == 0);
    }
    ::close(reader);
}

TEST_CASE("start: a Unix socket has its mode and group, and a reload changes them") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "t.sock").string();
    const std::string admin = (folder.path() / "admin.sock").string();
    const auto yaml = [&](const std::string& mode, const std::string& group) {
        return "listen: {address: \"unix:" + path + "\", mode: \"" + mode + "\", group: " + group +
               "}\nadmin: {address: \"unix:" + admin +
               "\", mode: \"0600\"}\nupstream: " + upstream.url() + "\nlog: {access: off}\n";
    };
    const auto mode_of = [](const std::string& file) {
        struct stat info {};
        return ::stat(file.c_str(), &info) == 0 ? info.st_mode & 07777U : 0U;
    };
    const std::string own = std::to_string(::getgid());
    const std::string file = folder.write("t.yaml", yaml("0660", own));
    Process process({program(), "run", file}, folder.path());
    await_quietly([&] { return process.errors().find("on TERM") != std::string::npos; });
    CHECK(mode_of(path) == 0660);
    CHECK(mode_of(admin) == 0600);
    folder.write("t.yaml", yaml("0666", own));
    process.signal(SIGHUP);
    await_quietly([&] { return mode_of(path) == 0666; });
    CHECK(mode_of(path) == 0666);
    folder.write("t.yaml", yaml("0600", "no-such-group"));
    process.signal(SIGHUP);
    await_quietly([&] { return process.errors().find("reload refused") != std::string::npos; });
    CHECK(process.errors().find("there is no group `no-such-group`") != std::string::npos);
    process.signal(SIGTERM);
    CHECK(process.wait(kPatience) == 0);
}

}  // namespace tidegate::test::start_test
