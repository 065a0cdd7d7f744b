// Servers that fail under load: no request is sent twice that may not be, none is lost that was not
// on the failed server, and the server serves again soon after it has recovered.
#include <signal.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/flaky_server.hpp"
#include "integration/process.hpp"
#include "integration/recorded_load.hpp"
#include "integration/server_metric.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::upstream_faults_test {

namespace {

using Fault = FlakyServer::Fault;

constexpr int kConnections = 64;
constexpr milliseconds kCheckedEvery{300};
// From the end of a fault to the first request that the server answers.
constexpr milliseconds kRecovery = kCheckedEvery + milliseconds{1000};

const std::string kSettings =
    "health_check: {path: /healthz, every: 300ms, timeout: 280ms, unhealthy_after: 1,"
    " healthy_after: 1}, eject: {failures: 3, for: 100ms}, timeouts: {response: 800ms}";

struct World {
    std::array<FlakyServer, 3> servers;
    Tidegate tidegate{unlimited({servers[0].url(), servers[1].url(), servers[2].url()}, kSettings)};
    RecordedLoad load{tidegate.port(), kConnections};

    World() {
        for (const FlakyServer& server : servers) CHECK_SOON(server.answered() > 20);
    }
};

void await_progress(const RecordedLoad& load, int requests) {
    const int before = load.well();
    CHECK_SOON(load.well() >= before + requests);
}

// `server` works again, and gets requests in time.
void check_recovery(FlakyServer& server) {
    const int before = server.answered();
    const auto begin = Clock::now();
    server.set(Fault::none);
    CHECK_SOON(server.answered() > before);
    CHECK(Clock::now() - begin < kRecovery + slack());
}

// A POST may reach one server once; a GET whose connection died once more.
void check_sent(const RecordedLoad::Requests& requests, std::array<FlakyServer, 3>& servers) {
    std::map<std::string, int> times;
    for (const FlakyServer& server : servers) {
        for (const Message& request : server.seen()) ++times[request.target()];
    }
    for (const auto& [target, request] : requests) {
        CAPTURE(target);
        CHECK(times[target] <= (request.is_post ? 1 : 2));
    }
}

// Which server each request was at last, as the access log says.
std::map<std::string, std::string> servers_of(const Tidegate& tidegate, std::size_t requests) {
    std::map<std::string, std::string> servers;
    for (const auto& line : tidegate.access_log(requests)) {
        servers[line.at("path")] = line.at("upstream_server");
    }
    return servers;
}

// What did not end well was on one of the servers that `failed`. How many that were.
int check_lost(const RecordedLoad::Requests& requests, const Tidegate& tidegate,
               const std::set<std::string>& failed) {
    const auto servers = servers_of(tidegate, requests.size());
    int lost = 0;
    for (const auto& [target, request] : requests) {
        if (request.went_well()) continue;
        ++lost;
        CAPTURE(target);
        CAPTURE(request.status);
        const auto server = servers.find(target);
        REQUIRE(server != servers.end());
        CAPTURE(server->second);
        CHECK(failed.contains(server->second));
        // Its client got an error, or saw the answer break off.
        CHECK(request.status != 503);
    }
    return lost;
}

// One server fails under load, is away for a while, and recovers. How many requests were lost.
int fail_one(Fault fault) {
    World world;
    FlakyServer& server = world.servers[1];
    server.set(fault);
    // The others go on meanwhile.
    const int before = world.servers[0].answered();
    await_progress(world.load, 200);
    std::this_thread::sleep_for(milliseconds{300});
    CHECK(world.servers[0].answered() > before);
    check_recovery(server);
    await_progress(world.load, 100);
    const auto& requests = world.load.stop();
    check_sent(requests, world.servers);
    return check_lost(requests, world.tidegate, {server.address()});
}

// A server of the program's own, which a signal can stop.
class Echo {
  public:
    explicit Echo(std::uint16_t port) : port_(port) { start(); }
    void start() {
        process_.reset();
        process_ = std::make_unique<Process>(
            std::vector<std::string>{program(), "echo", "--listen",
                                     "127.0.0.1:" + std::to_string(port_)},
            folder_.path());
        await_quietly([&] { return Socket::try_connect(port_).has_value(); });
    }
    void signal(int number) const { process_->signal(number); }
    void kill() const {
        signal(SIGKILL);
        process_->wait(kPatience);
    }
    std::uint16_t port() const { return port_; }
    std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  private:
    std::uint16_t port_;
    TemporaryFolder folder_;
    std::unique_ptr<Process> process_;
};

// The server at `port` is up again in time.
void check_up(const Tidegate& tidegate, std::uint16_t port, Clock::time_point since) {
    CHECK_SOON(server_metric(tidegate, "up", port) == 1);
    CHECK(Clock::now() - since < kRecovery + slack());
    const double before = server_metric(tidegate, "requests_total", port);
    CHECK_SOON(server_metric(tidegate, "requests_total", port) > before);
}

}  // namespace

TEST_CASE("upstream: a server that is killed under load loses only its requests in flight") {
    const int lost = fail_one(Fault::killed);
    // What was not sent yet goes elsewhere.
    CHECK(lost <= kConnections);
}

TEST_CASE("upstream: a server that is stopped under load loses only its requests in flight") {
    fail_one(Fault::stopped);
}

TEST_CASE("upstream: a silent server loses only its requests in flight") {
    CHECK(fail_one(Fault::silent) > 0);
}

TEST_CASE("upstream: a server that answers 500 has its answers passed on until its check fails") {
    CHECK(fail_one(Fault::complains) > 0);
}

TEST_CASE("upstream: of a server that has become slow no request is lost") {
    CHECK(fail_one(Fault::slow) == 0);
}

TEST_CASE("upstream: a server that closes without an answer loses only its requests in flight") {
    fail_one(Fault::closes);
}

TEST_CASE("upstream: a server that answers rubbish loses only its requests in flight") {
    CHECK(fail_one(Fault::garbage) > 0);
}

TEST_CASE(
    "upstream: a server that ends its answers behind the head loses only its requests in flight") {
    CHECK(fail_one(Fault::cut_after_head) > 0);
}

TEST_CASE("upstream: a server that resets inside its answers loses only its requests in flight") {
    CHECK(fail_one(Fault::cut_in_body) > 0);
}

TEST_CASE("upstream: a server that flaps every second loses only its requests in flight") {
    World world;
    FlakyServer& server = world.servers[2];
    for (int i = 0; i < 2; ++i) {
        server.set(Fault::killed);
        std::this_thread::sleep_for(milliseconds{1000});
        server.set(Fault::none);
        std::this_thread::sleep_for(milliseconds{i == 0 ? 1000 : 0});
    }
    check_recovery(server);
    await_progress(world.load, 100);
    const auto& requests = world.load.stop();
    check_sent(requests, world.servers);
    check_lost(requests, world.tidegate, {server.address()});
}

TEST_CASE("upstream: of three servers two fail at once, each in its way, and the third serves") {
    World world;
    FlakyServer& killed = world.servers[0];
    FlakyServer& silent = world.servers[1];
    const int before = world.servers[2].answered();
    killed.set(Fault::killed);
    silent.set(Fault::silent);
    CHECK_SOON(server_metric(world.tidegate, "up", killed.port()) == 0);
    CHECK_SOON(server_metric(world.tidegate, "up", silent.port()) == 0);
    await_progress(world.load, 200);
    CHECK(world.servers[2].answered() >= before + 150);
    check_recovery(killed);
    check_recovery(silent);
    await_progress(world.load, 100);
    const auto& requests = world.load.stop();
    check_sent(requests, world.servers);
    check_lost(requests, world.tidegate, {killed.address(), silent.address()});
}

TEST_CASE("upstream: when all servers fail, requests get 503 at once, until one is back") {
    World world;
    for (FlakyServer& server : world.servers) server.set(Fault::killed);
    CHECK_SOON(world.tidegate.metric_sum("tidegate_upstream_server_up") == 0);
    // Ejected servers are better than none; the checks outrank ejections.
    CHECK_SOON(world.tidegate.get("/down").status() == 503);
    for (int i = 0; i < 10; ++i) {
        const auto begin = Clock::now();
        const auto answer = world.tidegate.get("/down");
        CHECK(answer.status() == 503);
        CHECK(answer.field("Retry-After") == "1");  // `every`, in whole seconds
        CHECK(Clock::now() - begin < milliseconds{500} + slack());
    }
    check_recovery(world.servers[0]);
    for (int i = 0; i < 10; ++i) CHECK(world.tidegate.get("/up").status() == 200);
    check_recovery(world.servers[1]);
    check_recovery(world.servers[2]);
    check_sent(world.load.stop(), world.servers);
}

TEST_CASE("upstream: real servers, one stopped and one killed, recover when they go on") {
    Echo stopped(free_port());
    Echo killed(free_port());
    const Echo well(free_port());
    const Tidegate tidegate(unlimited(
        {"http://" + stopped.address(), "http://" + killed.address(), "http://" + well.address()},
        kSettings));
    RecordedLoad load(tidegate.port(), kConnections);
    await_progress(load, 200);
    stopped.signal(SIGSTOP);
    CHECK_SOON(server_metric(tidegate, "up", stopped.port()) == 0);
    await_progress(load, 200);
    killed.kill();
    CHECK_SOON(server_metric(tidegate, "up", killed.port()) == 0);
    await_progress(load, 200);

    auto since = Clock::now();
    stopped.signal(SIGCONT);
    check_up(tidegate, stopped.port(), since);
    killed.start();
    since = Clock::now();
    check_up(tidegate, killed.port(), since);
    await_progress(load, 100);
    check_lost(load.stop(), tidegate, {stopped.address(), killed.address()});
}

TEST_CASE("upstream: a name that does not resolve takes nothing from the servers beside it") {
    const Upstream upstream(ok());
    const Tidegate tidegate(unlimited({"http://no-such-name.invalid:3000", upstream.url()}));
    for (int i = 0; i < 20; ++i) CHECK(tidegate.get().status() == 200);
    CHECK(upstream.requests() == 20);
}

TEST_CASE("upstream: each address of a name is a server, called by its name and its address") {
    const Upstream upstream(ok());
    const std::string port = std::to_string(upstream.port());
    const Tidegate tidegate(unlimited({"http://localhost:" + port}));
    // Of 127.0.0.1 and ::1, where the machine has both, one answers.
    for (int i = 0; i < 6; ++i) CHECK(tidegate.get().status() == 200);
    const auto line = tidegate.access_log(6).back();
    CHECK(line.at("upstream") == "localhost:" + port);
    CHECK(line.at("upstream_server") == "127.0.0.1:" + port);
}

}  // namespace tidegate::test::upstream_faults_test
