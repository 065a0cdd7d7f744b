// Answers that clients do not read, and the memory that they take.
#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::unread_test {
namespace {

constexpr std::size_t kMebibyte = 1'048'576;

// The most bytes that wait in one socket with the local port `port` to be sent or acknowledged.
std::size_t longest_send_queue(std::uint16_t port) {
    std::ifstream table("/proc/net/tcp");
    std::string line;
    std::getline(table, line);  // the headings
    std::size_t longest = 0;
    while (std::getline(table, line)) {
        std::istringstream columns(line);
        std::string number, local, remote, state, queues;
        columns >> number >> local >> remote >> state >> queues;
        if (std::stoul(local.substr(local.find(':') + 1), nullptr, 16) != port) continue;
        longest = std::max<std::size_t>(
            longest, std::stoul(queues.substr(0, queues.find(':')), nullptr, 16));
    }
    return longest;
}

}  // namespace

TEST_CASE("unread: the kernel holds little of an answer that its client does not read") {
    const Upstream upstream(ok(std::string(16 * kMebibyte, 'x')));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/"));
    const auto deadline = Clock::now() + kPatience;
    std::size_t held = 0;
    // It has filled up once it stays the same.
    for (std::size_t before = 1; held == 0 || held != before;) {
        REQUIRE(Clock::now() < deadline);
        std::this_thread::sleep_for(milliseconds{200});
        before = held;
        held = longest_send_queue(tidegate.port());
    }
    CHECK(held < kMebibyte);
    CHECK(client.response().body.size() == 16 * kMebibyte);
}

}  // namespace tidegate::test::unread_test
