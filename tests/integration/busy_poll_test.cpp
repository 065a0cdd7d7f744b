// Threads that poll for events before they sleep: that they do while something is awaited, and that
// they sleep in the end.
#include <algorithm>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::busy_poll_test {

namespace {

constexpr milliseconds kAnswerTime{5};
// Together they poll for many times what a busy machine adds to, or takes from, the threads' time.
constexpr int kRequests = 60;

std::string configuration(const Upstream& upstream, const std::string& busy_poll) {
    return "upstream: " + upstream.url() + "\nbusy_poll: " + busy_poll + "\n";
}

// Seconds that the threads which serve requests have had of a CPU.
double cpu_seconds(const Tidegate& proxy) {
    return proxy.metric_sum("tidegate_thread_cpu_seconds_total", "thread");
}

double cpu_of_requests(const Tidegate& proxy, RawClient& client) {
    const double before = cpu_seconds(proxy);
    for (int i = 0; i < kRequests; ++i) CHECK(client.get().status() == 200);
    return cpu_seconds(proxy) - before;
}

}  // namespace

TEST_CASE(
    "busy_poll: threads poll while an upstream has not answered, and sleep without requests") {
    const Upstream upstream(Upstream::answering([](const Message&) {
        std::this_thread::sleep_for(kAnswerTime);
        return ok();
    }));
    const Tidegate proxy(configuration(upstream, "off"));
    RawClient client = proxy.client();
    cpu_of_requests(proxy, client);  // memory, code and connections are there from now on
    double asleep = cpu_of_requests(proxy, client);
    for (int i = 0; i < 2; ++i) asleep = std::min(asleep, cpu_of_requests(proxy, client));
    proxy.write_configuration(configuration(upstream, "1ms"));
    REQUIRE(proxy.reload().status() == 200);
    // Each request waits five times as long as a thread polls.
    CHECK_SOON(cpu_of_requests(proxy, client) > asleep + 0.005);

    CHECK_SOON([&] {
        const double before = cpu_seconds(proxy);
        const auto began = Clock::now();
        std::this_thread::sleep_for(milliseconds{200});
        const std::chrono::duration<double> time = Clock::now() - began;
        return cpu_seconds(proxy) - before < time.count() / 4;
    }());
}

}  // namespace tidegate::test::busy_poll_test
