// Names whose addresses change while the proxy runs, under load. With the optimised program alone:
// the address sanitizer ends the program when nss_wrapper opens libc with RTLD_DEEPBIND.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "free_port.hpp"
#include "integration/client.hpp"
#include "integration/recorded_load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::upstream_names_test {

namespace {

using Addresses = std::vector<std::string>;

constexpr int kConnections = 64;
constexpr milliseconds kResolvedEvery{1000};
const std::string kName = "app.test";

// The addresses of kName for a program that runs with environment(). The program asks the system,
// as it always does; nss_wrapper answers in the system's place, from a file that it reads again
// whenever the file changes.
class Names {
  public:
    explicit Names(const Addresses& addresses) { lead_to(addresses); }

    void lead_to(const Addresses& addresses) const {
        std::string text;
        for (const std::string& address : addresses) text += address + " " + kName + "\n";
        // At least one line, for nss_wrapper takes an empty file for none.
        const std::string made = folder_.write("new", text + "127.0.0.1 other.test\n");
        std::filesystem::rename(made, folder_.path() / "hosts");
    }

    std::vector<std::string> environment() const {
        return {"LD_PRELOAD=libnss_wrapper.so",
                "NSS_WRAPPER_HOSTS=" + (folder_.path() / "hosts").string()};
    }

  private:
    TemporaryFolder folder_;
};

// A server at one of the addresses, whose answers take a moment: so some are always on their way.
class SlowServer {
  public:
    SlowServer(std::string address, std::uint16_t port)
        : address_(std::move(address)),
          port_(port),
          upstream_([this](Conversation& conversation) { serve(conversation); }, port, address_) {}

    const std::string& address() const { return address_; }
    int requests() const { return upstream_.requests(); }
    // Answers what asks for `/held`.
    void release() { released_ = true; }
    bool holds() const { return holds_; }
    // The proxy has found that the name no longer leads here, this often.
    int times_gone(const Tidegate& tidegate) const {
        const std::string line = address_ + ":" + std::to_string(port_) + " gets no new requests";
        const std::string log = tidegate.errors();
        int times = 0;
        for (auto at = log.find(line); at != log.npos; at = log.find(line, at + 1)) ++times;
        return times;
    }

  private:
    void serve(Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            std::this_thread::sleep_for(milliseconds{10});
            if (request.target() == "/held") {
                holds_ = true;
                await_quietly([this] { return released_.load(); });
            }
            if (!conversation.send(ok(address_))) return;
        }
    }

    const std::string address_;
    const std::uint16_t port_;
    std::atomic<bool> holds_{false};
    std::atomic<bool> released_{false};
    Upstream upstream_;
};

struct World {
    explicit World(const Addresses& addresses) : names(addresses) {}

    const std::uint16_t port = free_port();
    SlowServer first{"127.0.0.2", port};
    SlowServer second{"127.0.0.3", port};
    Names names;
    Tidegate tidegate{unlimited({"http://" + kName + ":" + std::to_string(port)},
                                "resolve_every: 1s, retries: 0"),
                      "",
                      {.environment = names.environment()}};
    RecordedLoad load{tidegate.port(), kConnections};

    // `server` gets requests, and in time.
    void check_gains(const SlowServer& server) const {
        const int before = server.requests();
        const auto since = Clock::now();
        CHECK_SOON(server.requests() >= before + 20);
        CHECK(Clock::now() - since < kResolvedEvery + milliseconds{1000} + slack());
    }

    // `server` gets no request any more, once the proxy has said so for the `times`th time.
    void check_loses(const SlowServer& server, int times) const {
        const auto since = Clock::now();
        CHECK_SOON(server.times_gone(tidegate) == times);
        CHECK(Clock::now() - since < kResolvedEvery + milliseconds{1000} + slack());
        await_answers(2 * kConnections);
        const int last = server.requests();
        await_answers(4 * kConnections);
        CHECK(server.requests() == last);
    }

    void await_answers(int more) const {
        const int before = load.well();
        CHECK_SOON(load.well() >= before + more);
    }

    void check_none_failed() {
        for (const auto& [target, request] : load.stop()) {
            CAPTURE(target);
            CAPTURE(request.status);
            CHECK(request.went_well());
        }
    }
};

}  // namespace

TEST_CASE("names: an address that a name gains gets requests, and one that it loses drains" *
          doctest::skip(sanitized())) {
    World world({"127.0.0.2"});
    world.check_gains(world.first);
    CHECK(world.second.requests() == 0);

    Message held;
    std::thread asking([&] { held = world.tidegate.get("/held"); });
    CHECK_SOON(world.first.holds());
    world.names.lead_to({"127.0.0.2", "127.0.0.3"});
    world.check_gains(world.second);
    world.check_gains(world.first);

    world.names.lead_to({"127.0.0.3"});
    world.check_loses(world.first, 1);
    world.first.release();
    asking.join();
    CHECK(held.status() == 200);
    CHECK(held.body == world.first.address());

    world.names.lead_to({"127.0.0.2"});
    world.check_loses(world.second, 1);
    world.check_gains(world.first);
    world.check_none_failed();
}

TEST_CASE("names: a name that loses all addresses keeps the last ones, until it has new ones" *
          doctest::skip(sanitized())) {
    World world({"127.0.0.2"});
    world.check_gains(world.first);
    world.names.lead_to({});
    CHECK_SOON(world.tidegate.errors().find("cannot resolve " + kName) != std::string::npos);
    world.check_gains(world.first);
    CHECK(world.tidegate.admin("/readyz").value().status() == 200);

    world.names.lead_to({"127.0.0.3"});
    world.check_gains(world.second);
    CHECK_SOON(world.tidegate.errors().find(kName + " resolves again") != std::string::npos);
    world.check_loses(world.first, 1);
    // The server is another object than before, with nothing left of the first.
    world.names.lead_to({"127.0.0.2"});
    world.check_gains(world.first);
    world.check_loses(world.second, 1);
    world.names.lead_to({"127.0.0.3"});
    world.check_gains(world.second);
    world.check_loses(world.first, 2);
    world.check_none_failed();
}

TEST_CASE("names: a name whose addresses change again and again takes no more memory" *
          doctest::skip(sanitized())) {
    constexpr int kAddresses = 90;  // nss_wrapper has room for a hundred
    const auto addresses_of = [](int change) {
        Addresses addresses;
        for (int i = 1; i <= kAddresses; ++i) {
            addresses.push_back("127.1." + std::to_string(change) + "." + std::to_string(i));
        }
        return addresses;
    };
    const Names names(addresses_of(0));
    const Tidegate tidegate(unlimited({"http://" + kName + ":9"}, "resolve_every: 1s"), "",
                            {.environment = names.environment()});
    long before = 0;
    for (int change = 1; change <= 10; ++change) {
        names.lead_to(addresses_of(change));
        const std::string gone = "127.1." + std::to_string(change - 1) + ".90:9 gets no new";
        CHECK_SOON(tidegate.errors().find(gone) != std::string::npos);
        if (change == 3) before = tidegate.peak_memory_kib();
    }
    // 630 servers more; one takes more than 500 bytes.
    CHECK(tidegate.peak_memory_kib() - before < 200);
}

}  // namespace tidegate::test::upstream_names_test
