// More connections than there is room for: some wait or are turned away, nothing breaks.
#include <sys/resource.h>

#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/load.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

using namespace tidegate::test;

namespace {

// The first answer with status 200 within ten seconds; false if none comes.
bool served_in_the_end(const Tidegate& tidegate) {
    const auto deadline = Clock::now() + kPatience;
    while (Clock::now() < deadline) {
        try {
            if (tidegate.get().status() == 200) return true;
        } catch (const std::exception&) {
            // Turned away: again.
        }
        std::this_thread::sleep_for(milliseconds{20});
    }
    return false;
}

}  // namespace

TEST_CASE("connections: those over the maximum are turned away, and there is room again later") {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\nconnections: {max: 4}\n" + simple(upstream.url()));
    {
        std::vector<RawClient> clients;
        for (int i = 0; i < 4; ++i) {
            clients.push_back(tidegate.client());
            CHECK(clients.back().get().status() == 200);
        }
        int served = 0;
        for (int i = 0; i < 4; ++i) {
            try {
                if (tidegate.get().status() == 200) ++served;
            } catch (const std::exception&) {
                // Closed or reset without an answer: turned away.
            }
        }
        CHECK(served == 0);
        CHECK(clients.front().get().status() == 200);
    }
    CHECK(served_in_the_end(tidegate));
    CHECK(tidegate.metric_sum("tidegate_client_connections_refused_total") >= 1);
}

TEST_CASE("connections: running out of descriptors does not end the listening") {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    CHECK(tidegate.get().status() == 200);
    rlimit before{};
    rlimit few{};
    REQUIRE(::prlimit(tidegate.pid(), RLIMIT_NOFILE, nullptr, &before) == 0);
    few = before;
    few.rlim_cur = 48;
    REQUIRE(::prlimit(tidegate.pid(), RLIMIT_NOFILE, &few, nullptr) == 0);
    {
        std::vector<RawClient> clients;
        for (int i = 0; i < 80; ++i) clients.push_back(tidegate.client());
        std::this_thread::sleep_for(milliseconds{300});
    }
    CHECK(served_in_the_end(tidegate));
    REQUIRE(::prlimit(tidegate.pid(), RLIMIT_NOFILE, &before, nullptr) == 0);
    CHECK(hammer({tidegate.port()}, 8, 80) == Statuses{{200, 80}});
}

TEST_CASE("connections: two hundred at once are all served") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(hammer({tidegate.port()}, 200, 2000) == Statuses{{200, 2000}});
    CHECK(tidegate.metric_sum("tidegate_requests_total") == 2000);
}

TEST_CASE("connections: the gauge falls back when clients leave, however they do it") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    {
        std::vector<RawClient> clients;
        for (int i = 0; i < 20; ++i) {
            clients.push_back(tidegate.client());
            clients.back().get();
        }
        CHECK(tidegate.metric_sum("tidegate_client_connections") == 20);
        for (int i = 0; i < 10; ++i) clients[static_cast<std::size_t>(i)].reset();
    }
    const auto deadline = Clock::now() + kPatience;
    while (tidegate.metric_sum("tidegate_client_connections") > 0 && Clock::now() < deadline)
        std::this_thread::sleep_for(milliseconds{10});
    CHECK(tidegate.metric_sum("tidegate_client_connections") == 0);
}
