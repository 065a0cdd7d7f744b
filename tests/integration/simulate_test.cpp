// `tidegate simulate`: it limits the requests of a log that the running proxy limited, and reads
// the logs that other proxies really write. Debian has no Traefik and no load balancer of AWS:
// unit/simulate_log_test.cpp has lines of the form that their documents describe.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/client.hpp"
#include "integration/process.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/transport.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::simulate_test {

using nlohmann::json;

namespace {

json simulated(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"simulate", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const auto finished = run_tidegate(all);
    REQUIRE_MESSAGE(finished.code == 0, (finished.errors + finished.output));
    return json::parse(finished.output);
}

const std::string kLimits = "upstream: http://127.0.0.1:1\nlimits: [3/h]\n";

// A server of another product, which writes its log into `folder`.
class Server {
  public:
    Server(const std::vector<std::string>& command, std::uint16_t port,
           const TemporaryFolder& folder)
        : port_(port), process_(command, folder.path()) {
        for (int i = 0; i < 200 && !answers(); ++i) ::usleep(25'000);
    }

    // Seven requests of two clients, the last of which is the first's alone.
    void ask() const {
        for (int i = 0; i < 5; ++i) {
            http_get(port_, "/a?b=" + std::to_string(i), "X-Tenant: acme\r\n", "127.0.0.2");
        }
        for (int i = 0; i < 2; ++i) http_get(port_, "/b", "", "127.0.0.3");
    }
    // Ends it by the signal at which it finishes what is under way: a line of the log follows its
    // answer, and another thread may write it.
    void stop(int graceful) {
        process_.signal(graceful);
        CHECK(process_.wait(kPatience));
    }
    Process& process() { return process_; }

  private:
    bool answers() const {
        try {
            return http_get(port_, "/ready", "", "127.0.0.9").status() != 0;
        } catch (const std::exception&) {
            return false;
        }
    }

    std::uint16_t port_;
    Process process_;
};

// What a simulation of Server::ask() must find, whatever the format.
void check_asked(const json& told, const std::string& format) {
    CAPTURE(told.dump(1));
    CHECK(told["logs"][0]["format"] == format);
    CHECK(told["unread"] == 0);
    CHECK(told["late"] == 0);
    CHECK(told["limited"] == 2);
    const json& limit = told["policies"][0]["limits"][0];
    CHECK(limit["clients"] == 1);
    CHECK(limit["top"][0]["identifier"] == "ip:127.0.0.2");
    CHECK(limit["peaks"]["max"] == 5);
}

bool is_installed(const char* program) {
    return std::filesystem::exists(program);
}

}  // namespace

TEST_CASE("simulate: it limits the requests of a log that the running proxy has limited") {
    const Upstream upstream(ok());
    const std::string yaml =
        "identity:\n"
        "  client_ip: {trusted_proxies: [127.0.0.1]}\n"
        "  user: [{header: {name: x-user-id, from: trusted_proxies}}]\n"
        "upstreams: {api: {servers: [" +
        upstream.url() +
        "]}}\n"
        "policies:\n"
        "  clients: {key: [ip, user], limits: [12/h, {quota: 60, per: 1h, algorithm: gcra, "
        "burst: 8}]}\n"
        "  tenants: {key: ['header:x-tenant'], on_missing: skip, limits: [9/h]}\n"
        "  login: {key: [ip], limits: [{quota: 2, per: 1h, count: [404]}]}\n"
        "routes:\n"
        "  - {name: login, match: {path: /login}, policies: [login]}\n"
        "  - {name: dear, match: {path: '/dear/**'}, cost: 3, policies: [clients]}\n"
        "  - {name: rest, match: {path: '/**'}, policies: [clients, tenants]}\n";
    const TemporaryFolder folder;
    const Tidegate tidegate(yaml);
    std::size_t asked = 0;
    std::map<std::string, std::size_t> limited;
    for (int i = 0; i < 120; ++i) {
        const std::string path = i % 7 == 0 ? "/dear/a" : i % 5 == 0 ? "/login" : "/x";
        std::string fields = "X-Forwarded-For: 203.0.113." + std::to_string(i % 9) + "\r\n";
        if (i % 3 == 0) fields += "X-User-Id: user" + std::to_string(i % 4) + "\r\n";
        if (i % 4 == 0) fields += "X-Tenant: acme\r\n";
        const Message answer = tidegate.get(path, fields);
        ++asked;
        const json line = tidegate.access_log(asked).back();
        if (answer.status() != 429) continue;
        ++limited[line.at("limited_by").get<std::string>()];
    }
    std::string log;
    std::size_t refusals = 0;
    for (const json& line : tidegate.access_log(asked)) {
        log += line.dump() + "\n";
        if (line.at("status") == 429) ++refusals;
    }
    const json told = simulated({"-c", tidegate.file(), folder.write("access.log", log)});
    CAPTURE(told.dump(1));
    CHECK(told["logs"][0]["format"] == "tidegate");
    CHECK(told["requests"] == asked);
    CHECK(told["limited"] == refusals);
    CHECK(refusals > 10);
    // The log names the first limit that refused; a simulation tells each.
    for (const json& policy : told["policies"]) {
        for (const json& limit : policy.value("limits", json::array())) {
            CHECK(limit["limited"] >= limited[limit["limit"].get<std::string>()]);
        }
    }
}

TEST_CASE("simulate: the log of a real nginx, in its own form and with the time that it took") {
    if (!is_installed("/usr/sbin/nginx") || over_http2()) return;
    for (const bool with_time : {false, true}) {
        const TemporaryFolder folder;
        const std::uint16_t port = free_port();
        const std::string at = folder.path().string();
        const std::string format =
            with_time ? "log_format timed '$remote_addr - $remote_user [$time_local] \"$request\" "
                        "$status $body_bytes_sent \"$http_referer\" \"$http_user_agent\" "
                        "$request_time';\naccess_log " +
                            at + "/access.log timed;\n"
                      : "access_log " + at + "/access.log combined;\n";
        const std::string file = folder.write(
            "nginx.conf", "daemon off; master_process off; pid " + at + "/pid; error_log " + at +
                              "/error.log;\nevents {}\nhttp {\n" + format +
                              "client_body_temp_path " + at + ";\nproxy_temp_path " + at +
                              ";\nfastcgi_temp_path " + at + ";\nuwsgi_temp_path " + at +
                              ";\nscgi_temp_path " + at + ";\nserver { listen 127.0.0.1:" +
                              std::to_string(port) + "; location / { return 200 ok; } }\n}\n");
        {
            Server server({"/usr/sbin/nginx", "-c", file, "-e", at + "/error.log"}, port, folder);
            server.ask();
            server.stop(SIGQUIT);
        }
        check_asked(simulated({"-c", folder.write("t.yaml", kLimits), at + "/access.log"}),
                    "combined");
    }
}

TEST_CASE("simulate: the logs of a real Apache, also with the virtual host first") {
    if (!is_installed("/usr/sbin/apache2") || over_http2()) return;
    const TemporaryFolder folder;
    const std::uint16_t port = free_port();
    const std::string at = folder.path().string();
    const std::string modules = "/usr/lib/apache2/modules/";
    // The formats of Debian's apache2.conf.
    const std::string combined =
        "%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" ";
    const std::string file = folder.write(
        "apache.conf",
        "ServerRoot " + at + "\nServerName localhost\nPidFile " + at + "/pid\nErrorLog " + at +
            "/error.log\nListen 127.0.0.1:" + std::to_string(port) +
            "\nUser www-data\nGroup www-data\nLoadModule mpm_event_module " + modules +
            "mod_mpm_event.so\n" + "LoadModule authz_core_module " + modules +
            "mod_authz_core.so\nLogFormat \"" + combined + "combined\nLogFormat \"%v:%p " +
            combined + "vhost_combined\nCustomLog " + at + "/access.log combined\nCustomLog " + at +
            "/vhosts.log vhost_combined\nDocumentRoot " + at + "\n");
    {
        Server server({"/usr/sbin/apache2", "-f", file, "-DFOREGROUND"}, port, folder);
        server.ask();
        server.stop(SIGWINCH);
    }
    const std::string config = folder.write("t.yaml", kLimits);
    for (const char* const log : {"/access.log", "/vhosts.log"}) {
        check_asked(simulated({"-c", config, at + log}), "combined");
    }
}

TEST_CASE("simulate: the log of a real HAProxy") {
    if (!is_installed("/usr/sbin/haproxy") || over_http2()) return;
    const TemporaryFolder folder;
    const std::uint16_t port = free_port();
    const std::string file = folder.write(
        "haproxy.cfg",
        "global\n  log stdout format raw local0\ndefaults\n  mode http\n  timeout client 5s\n"
        "  timeout server 5s\n  timeout connect 5s\nfrontend web\n  log global\n  option httplog\n"
        "  capture request header X-Tenant len 32\n  bind 127.0.0.1:" +
            std::to_string(port) +
            "\n  http-request return status 200 content-type text/plain "
            "string ok\n");
    std::string log;
    {
        Server server({"/usr/sbin/haproxy", "-db", "-f", file}, port, folder);
        server.ask();
        constexpr std::ptrdiff_t kLines = 8;
        CHECK_SOON(kLines == std::ranges::count(log = server.process().output(), '\n'));
        // Its soft stop writes lines of its own into the log, which are no requests.
        server.stop(SIGUSR1);
        log = server.process().output();
        CHECK(log.find("Proxy web stopped") != std::string::npos);
    }
    const std::string saved = folder.write("haproxy.log", log);
    const std::string config = folder.write("t.yaml", kLimits);
    // Its times are local and say no zone.
    const auto refused = run_tidegate({"simulate", "-c", config, saved});
    CHECK(refused.code == 1);
    CHECK(refused.errors.find("--zone") != std::string::npos);
    check_asked(simulated({"-c", config, "--zone", "UTC", saved}), "haproxy");
    const std::string tenants = folder.write(
        "tenants.yaml",
        "upstreams: {api: {servers: ['http://127.0.0.1:1']}}\n"
        "policies: {tenants: {key: ['header:x-tenant'], on_missing: skip, limits: [1/h]}}\n"
        "routes: [{name: all, policies: [tenants]}]\n");
    const json told =
        simulated({"-c", tenants, "--zone", "UTC", "--map", "header:x-tenant=13", saved});
    CHECK(told["limited"] == 4);
}

TEST_CASE("simulate: the log of a real Caddy") {
    if (!is_installed("/usr/bin/caddy") || over_http2()) return;
    const TemporaryFolder folder;
    const std::uint16_t port = free_port();
    const std::string at = folder.path().string();
    const std::string file = folder.write(
        "Caddyfile", "{\n  admin off\n  auto_https off\n}\nhttp://:" + std::to_string(port) +
                         " {\n  bind 127.0.0.1\n  log {\n"
                         "    output file " +
                         at +
                         "/access.log\n  }\n"
                         "  respond ok 200\n}\n");
    {
        Server server({"/usr/bin/env", "HOME=" + at, "XDG_DATA_HOME=" + at, "XDG_CONFIG_HOME=" + at,
                       "/usr/bin/caddy", "run", "--config", file, "--adapter", "caddyfile"},
                      port, folder);
        server.ask();
        server.stop(SIGTERM);
    }
    const std::string config = folder.write("t.yaml", kLimits);
    check_asked(simulated({"-c", config, at + "/access.log"}), "caddy");
    const std::string tenants = folder.write(
        "tenants.yaml",
        "upstreams: {api: {servers: ['http://127.0.0.1:1']}}\n"
        "policies: {tenants: {key: ['header:x-tenant'], on_missing: skip, limits: [1/h]}}\n"
        "routes: [{name: all, policies: [tenants]}]\n");
    CHECK(simulated({"-c", tenants, at + "/access.log"})["limited"] == 4);
}

TEST_CASE("simulate: a recording of the running proxy is decided as the proxy has decided") {
    const Upstream upstream(ok());
    const std::string yaml =
        "identity: {client_ip: {trusted_proxies: [127.0.0.1]}}\n"
        "upstreams: {api: {servers: [" +
        upstream.url() +
        "]}}\n"
        "policies:\n"
        "  clients: {key: [ip], limits: [6/h, {quota: 60, per: 1h, algorithm: gcra, burst: 5}]}\n"
        "  everybody: {key: ['constant:all'], limits: [40/h]}\n"
        "routes:\n"
        "  - {name: dear, match: {path: '/dear/**'}, cost: 3, policies: [clients]}\n"
        "  - {name: rest, match: {path: '/**'}, policies: [clients, everybody]}\n";
    const TemporaryFolder folder;
    const Tidegate tidegate(yaml);
    std::string file;
    // What came of 30 clients that ask `rounds` times each, while a share of them is recorded.
    const auto record = [&](const std::string& share, int rounds, int first) {
        file = (folder.path() / (std::to_string(first) + ".json")).string();
        Process recording({program(), "simulate", "-c", tidegate.file(), "--record", file,
                           "--share", share, "--for", "1h"},
                          folder.path());
        for (int i = 0; i < 400; ++i) {
            if (recording.errors().find("recording") != std::string::npos) break;
            ::usleep(25'000);
        }
        std::size_t limited = 0;
        for (int i = 0; i < 30 * rounds; ++i) {
            const std::string client = "203.0.113." + std::to_string(first + i % 30);
            const Message answer =
                tidegate.get(i % 4 == 0 ? "/dear/a" : "/x", "X-Forwarded-For: " + client + "\r\n");
            if (answer.status() == 429) ++limited;
        }
        recording.signal(SIGINT);
        CHECK(recording.wait(kPatience) == 0);
        CHECK_MESSAGE(recording.errors().find("recorded ") != std::string::npos,
                      recording.errors());
        return limited;
    };
    const std::size_t limited = record("100%", 4, 0);
    const json told = simulated({"-c", tidegate.file(), file});
    CAPTURE(told.dump(1));
    CHECK(limited > 10);
    CHECK(told["logs"][0]["format"] == "recording");
    CHECK(told["unread"] == 0);
    CHECK(told["requests"] == 120);
    CHECK(told["clients"] == 30);
    CHECK(told["refused_elsewhere"] > 0);
    CHECK(told["limited"].get<std::size_t>() + told["refused_elsewhere"].get<std::size_t>() ==
          limited);
    CHECK(told["policies"][1]["shared"][0] == "constant:all");

    record("40%", 4, 100);
    std::map<std::string, int> requests;
    std::istringstream lines(read_file(file));
    for (std::string line; std::getline(lines, line);) {
        ++requests[json::parse(line).at("charges").get<std::string>().substr(8, 32)];
    }
    CHECK(requests.size() > 1);
    CHECK(requests.size() < 30);
    for (const auto& [client, count] : requests) CHECK(count == 4);
}

TEST_CASE("simulate: a recording needs a proxy that can be asked, and there is one at a time") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()), "secret");
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "r.json").string();
    Process first({program(), "simulate", "-c", tidegate.file(), "--record", file, "--for", "1h"},
                  folder.path());
    for (int i = 0; i < 400; ++i) {
        if (first.errors().find("recording") != std::string::npos) break;
        ::usleep(25'000);
    }
    const auto second =
        run_tidegate({"simulate", "-c", tidegate.file(), "--record", file + "2", "--for", "1s"});
    CHECK(second.code == 1);
    CHECK(second.errors.find("Another client") != std::string::npos);
    first.signal(SIGTERM);
    CHECK(first.wait(kPatience) == 0);
    const auto third =
        run_tidegate({"simulate", "-c", tidegate.file(), "--record", file + "2", "--for", "1s"});
    CHECK_MESSAGE(third.code == 0, third.errors);
    const auto refused = run_tidegate({"simulate", "--record", file, "--admin",
                                       "127.0.0.1:" + std::to_string(tidegate.admin_port())});
    CHECK(refused.code == 3);
    CHECK(refused.errors.find("--token-file") != std::string::npos);
    const auto unanswered = run_tidegate(
        {"simulate", "--record", file, "--admin", "127.0.0.1:" + std::to_string(free_port())});
    CHECK(unanswered.code == 3);
    CHECK(run_tidegate({"simulate", "--record", file, "access.log"}).code == 2);
    for (const std::vector<std::string>& option : {std::vector<std::string>{"--json"},
                                                   {"--candidate", "next.yaml"},
                                                   {"--svg", "x.svg"},
                                                   {"--suggest", "1%"},
                                                   {"--format", "json"},
                                                   {"--map", "path=p"},
                                                   {"--zone", "UTC"},
                                                   {"--late", "1h"},
                                                   {"--host", "example.com"}}) {
        std::vector<std::string> all = {"simulate", "--record", file};
        all.insert(all.end(), option.begin(), option.end());
        const auto said = run_tidegate(all);
        CHECK(said.code == 2);
        CHECK(said.errors.find(option[0] + " goes with logs: simulate what --record has written "
                                           "with another command") != std::string::npos);
    }
    CHECK(run_tidegate({"simulate", "--record", file, "--share", "0%"}).code == 2);
    CHECK(run_tidegate({"simulate", "--share", "1%", "access.log"}).code == 2);
    CHECK(run_tidegate({"simulate", "--record", file, "--for", "0s"}).code == 2);
    CHECK(run_tidegate({"simulate", "-c", tidegate.file(), "--record", "/nowhere/at.all"}).code ==
          1);
    CHECK(run_tidegate({"simulate"}).errors.find("LOG is required") != std::string::npos);
}

TEST_CASE("simulate: no output overwrites what is read") {
    const TemporaryFolder folder;
    const std::string config = (folder.path() / "t.yaml").string();
    const std::string log = (folder.path() / "access.log").string();
    std::ofstream(config) << "upstream: http://127.0.0.1:3000\nlimits: [2/h]\n";
    std::ofstream(log) << "10.0.0.1 - - [29/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    const std::string config_before = read_file(config);
    const std::string log_before = read_file(log);
    for (const auto& words : {std::vector<std::string>{"--record", config},
                              {"--svg", log, log},
                              {"--svg", config, log}}) {
        std::vector<std::string> all = {"simulate", "-c", config};
        all.insert(all.end(), words.begin(), words.end());
        const auto said = run_tidegate(all);
        CHECK(said.code == 2);
        CHECK_MESSAGE(said.errors.find("would overwrite") != std::string::npos, said.errors);
    }
    CHECK(read_file(config) == config_before);
    CHECK(read_file(log) == log_before);
}

TEST_CASE("simulate: a recording that cannot be written ends, and the next one can begin") {
    const Upstream upstream(ok());
    const Tidegate tidegate("upstream: " + upstream.url() + "\nlimits: [1000000/s]\n");
    const TemporaryFolder folder;
    const auto record = [&](const std::string& to) {
        return run_tidegate({"simulate", "-c", tidegate.file(), "--record", to, "--for", "1s"});
    };
    // The limiter decides a request while it is recorded.
    const std::jthread client([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) tidegate.get("/");
    });
    const auto full = record("/dev/full");
    CHECK(full.code == 1);
    CHECK_MESSAGE(full.errors.find("cannot write the recording") != std::string::npos, full.errors);
    const std::string pipe = (folder.path() / "pipe").string();
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const auto unread = record(pipe);
    CHECK(unread.code == 1);
    CHECK_MESSAGE(unread.errors.find("nothing reads this pipe") != std::string::npos,
                  unread.errors);
    const auto right = record((folder.path() / "r.json").string());
    CHECK_MESSAGE(right.code == 0, right.errors);
}

TEST_CASE("simulate: a recording whose proxy ends says how many requests it has") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "r.json").string();
    std::optional<Tidegate> tidegate(std::in_place, simple(upstream.url()));
    Process recording(
        {program(), "simulate", "-c", tidegate->file(), "--record", file, "--for", "1h"},
        folder.path());
    for (int i = 0; i < 400; ++i) {
        if (recording.errors().find("recording") != std::string::npos) break;
        ::usleep(25'000);
    }
    tidegate.reset();
    CHECK(recording.wait(kPatience) == 3);
    CHECK_MESSAGE(recording.errors().find("the recording ended early; `" + file +
                                          "` has 0 requests") != std::string::npos,
                  recording.errors());
}

TEST_CASE("simulate: `--late` says how late a line may come") {
    const TemporaryFolder folder;
    const std::string config = folder.write("t.yaml", kLimits);
    const auto line = [](const std::string& minute) {
        return "127.0.0.1 - - [29/Nov/2026:10:" + minute + ":00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    };
    const std::string log = folder.write("access.log", line("10") + line("05"));
    const auto refused = run_tidegate({"simulate", "-c", config, log});
    CHECK(refused.code == 1);
    CHECK(refused.output.find("The first is of 2026-11-29T10:05:00Z") != std::string::npos);
    const json told = simulated({"-c", config, "--late", "5m", log});
    CHECK(told["late"] == 0);
    CHECK(told["requests"] == 2);
}

TEST_CASE("simulate: a wrong command line says what is wrong") {
    const TemporaryFolder folder;
    const std::string config = folder.write("t.yaml", kLimits);
    const std::string log = folder.write(
        "access.log", "127.0.0.1 - - [29/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n");
    const auto said = [&](const std::vector<std::string>& more, int code) {
        std::vector<std::string> all = {"simulate", "-c", config, log};
        all.insert(all.end(), more.begin(), more.end());
        const auto finished = run_tidegate(all);
        CHECK(finished.code == code);
        return finished.errors;
    };
    CHECK(said({"--map", "paht=x"}, 2).find("no name that can be mapped") != std::string::npos);
    CHECK(said({"--suggest", "5"}, 2).find("0.1%") != std::string::npos);
    CHECK(said({"--late", "2d"}, 2).find("write 1s to 24h") != std::string::npos);
    CHECK(said({"--zone", "Mars/Olympus"}, 2).find("Mars/Olympus") != std::string::npos);
    CHECK(said({"--zone", "Europe/Berln"}, 2).find("did you mean `Europe/Berlin`") !=
          std::string::npos);
    CHECK(said({"--format", "iis"}, 2).find("iis") != std::string::npos);
    CHECK(said({"--svg", "/nowhere/at/all.svg"}, 1).find("cannot write") != std::string::npos);
    CHECK(said({"/nowhere/at.all"}, 1).find("No such file") != std::string::npos);
    CHECK(said({"-", "-"}, 2).find("only one file") != std::string::npos);
    CHECK(said({"--candidate", "-", "-"}, 2).find("only one file") != std::string::npos);
    CHECK(said({log}, 1).find("given twice") != std::string::npos);
    CHECK(said({folder.path().string()}, 1).find("Is a directory") != std::string::npos);
}

}  // namespace tidegate::test::simulate_test
