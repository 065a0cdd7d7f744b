// What a process and the one that takes its place say to each other, and how.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "app/handover.hpp"
#include "app/listener.hpp"
#include "net/asio.hpp"

namespace tidegate::app::handover_test {
namespace {

using namespace std::chrono_literals;

struct Ends {
    Ends() : ends(make_handover_sockets()) {}

    asio::io_context io{1};
    std::pair<Descriptor, Descriptor> ends;
    HandoverChannel one{io.get_executor(), std::move(ends.first)};
    HandoverChannel other{io.get_executor(), std::move(ends.second)};
};

config::Listen loopback() {
    config::Listen settings;
    settings.address.host = "127.0.0.1";
    return settings;
}

// As the former process has them, with `queues` of their own.
OfferedListeners offer_of(std::size_t queues) {
    const auto group = open_listeners(loopback(), queues);
    REQUIRE(group.has_value());
    std::vector<Descriptor> descriptors;
    for (const int number : group->descriptors) descriptors.emplace_back(number);
    OfferedListeners offered;
    add_offer(offered, "127.0.0.1:0", std::move(descriptors));
    return offered;
}

void close_all(const ListenerGroup& group) {
    for (const int number : group.descriptors) ::close(number);
}

}  // namespace

TEST_CASE("handover channel: a message comes as it was sent, with doubles of its descriptors") {
    Ends ends;
    std::array<int, 2> pipe{};
    REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
    CHECK(ends.one.send("first", std::array{pipe[1]}));
    CHECK(ends.one.send("second"));
    ::close(pipe[1]);
    auto first = ends.other.receive_blocking(1s);
    REQUIRE(first.has_value());
    CHECK(first->text == "first");
    REQUIRE(first->descriptors.size() == 1);
    CHECK((::fcntl(first->descriptors.front().get(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(::write(first->descriptors.front().get(), "x", 1) == 1);
    char byte = 0;
    CHECK(::read(pipe[0], &byte, 1) == 1);
    ::close(pipe[0]);
    const auto second = ends.other.receive_blocking(1s);
    REQUIRE(second.has_value());
    CHECK(second->text == "second");
    CHECK(second->descriptors.empty());
    CHECK_FALSE(ends.other.receive_blocking(0s).has_value());
    CHECK_FALSE(ends.other.is_closed());
}

TEST_CASE("handover channel: the end of the other process is seen, after what it has said") {
    asio::io_context io{1};
    auto [first, second] = make_handover_sockets();
    HandoverChannel left(io.get_executor(), std::move(second));
    {
        HandoverChannel gone(io.get_executor(), std::move(first));
        gone.send("last");
    }
    std::vector<std::string> heard;
    spawn_vital(io.get_executor(),
                [](HandoverChannel& from, std::vector<std::string>& into) -> Task<> {
                    while (!from.is_closed()) {
                        const auto message = co_await from.receive(10s);
                        into.push_back(message ? message->text : "nothing");
                    }
                }(left, heard));
    io.run();
    CHECK(heard == std::vector<std::string>{"last", "nothing"});
    CHECK_FALSE(left.send("too late"));
}

TEST_CASE("handover channel: who says nothing in time is not gone") {
    Ends ends;
    bool is_over = false;
    spawn_vital(ends.io.get_executor(), [](HandoverChannel& from, bool& done) -> Task<> {
        CHECK_FALSE((co_await from.receive(1ms)).has_value());
        done = true;
    }(ends.one, is_over));
    ends.io.run();
    CHECK(is_over);
    CHECK_FALSE(ends.one.is_closed());
}

TEST_CASE("handover messages: each step is read as it was written") {
    const auto hello = parse_handover_note(to_text({.step = HandoverStep::hello,
                                                    .version = "1.2.3",
                                                    .clock_offset = limit::Micros{-5},
                                                    .replicas = 4,
                                                    .pid = 77}));
    REQUIRE(hello.has_value());
    CHECK(hello->step == HandoverStep::hello);
    CHECK(hello->version == "1.2.3");
    CHECK(hello->clock_offset == limit::Micros{-5});
    CHECK(hello->replicas == 4);
    CHECK(parse_handover_note(R"({"step":"hello","replicas":-3})")->replicas == 0);
    CHECK(parse_handover_note(R"({"step":"hello","replicas":4294967299})")->replicas == 1 << 20);
    CHECK(parse_handover_note(R"({"step":"hello"})")->replicas == 0);
    CHECK(hello->pid == 77);
    for (const HandoverStep step :
         {HandoverStep::offered, HandoverStep::ready, HandoverStep::counts, HandoverStep::go,
          HandoverStep::accepting, HandoverStep::leaving, HandoverStep::stop}) {
        CHECK(parse_handover_note(to_text({.step = step}))->step == step);
    }
    CHECK(parse_handover_note(to_text({.step = HandoverStep::listener, .address = "unix:/a\"b"}))
              ->address == "unix:/a\"b");

    TicketKey key;
    key.name.fill(1);
    key.mac.fill(0xff);
    key.cipher.fill(0x80);
    const TicketKeys::Time made{3'600s};
    const auto tickets = parse_handover_note(to_text(
        {.step = HandoverStep::tickets, .address = "[::]:443", .ticket_keys = {{key, made}}}));
    REQUIRE(tickets.has_value());
    REQUIRE(tickets->ticket_keys.size() == 1);
    CHECK(tickets->ticket_keys.front().first == key);
    CHECK(tickets->ticket_keys.front().second == made);
}

TEST_CASE("handover messages: a step of a later version is unknown, and no fault") {
    const auto later = parse_handover_note(R"({"step":"greet","more":[1,{"a":2}]})");
    REQUIRE(later.has_value());
    CHECK(later->step == HandoverStep::unknown);
    CHECK_FALSE(parse_handover_note("{").has_value());
    CHECK_FALSE(parse_handover_note(R"({"step":"tickets","keys":[{"key":"00"}]})").has_value());
}

TEST_CASE("own program: the process that is started gets no variable of this one's own") {
    const auto variables = successor_environment(
        {"PATH=/bin", "LISTEN_PID=7", "LISTEN_FDS=1", "LISTEN_FDNAMES=web", "WATCHDOG_PID=7",
         "WATCHDOG_USEC=1", "NOTIFY_SOCKET=/n", "TIDEGATE_HANDOVER=3", "LISTEN=80"},
        5);
    CHECK(variables == std::vector<std::string>{"PATH=/bin", "WATCHDOG_USEC=1", "NOTIFY_SOCKET=/n",
                                                "LISTEN=80", "TIDEGATE_HANDOVER=5"});
}

TEST_CASE("own program: its path leads to this program") {
    const OwnProgram own = OwnProgram::of_this_process();
    CHECK(own.path().find('/') != std::string::npos);
    CHECK(::access(own.path().c_str(), X_OK) == 0);
}

TEST_CASE("offered listeners: more threads open further sockets, fewer accept from several") {
    for (const std::size_t workers : {1U, 3U, 5U}) {
        CAPTURE(workers);
        OfferedListeners offered = offer_of(3);
        const std::uint16_t port = bound_address(offered.front().descriptors.front().get()).port;
        const auto taken = take_offered(loopback(), offered, workers);
        REQUIRE(taken.has_value());
        REQUIRE(taken->has_value());
        CHECK(offered.empty());
        const ListenerGroup& group = (*taken)->front();
        CHECK(group.descriptors.size() == std::max<std::size_t>(workers, 3));
        for (const int number : group.descriptors) CHECK(bound_address(number).port == port);
        CHECK(group.settings.address.port == port);
        CHECK(group.configured.port == 0);
        close_all(group);
    }
}

TEST_CASE("offered listeners: two listeners at port 0 stay apart, in their order") {
    OfferedListeners offered = offer_of(2);
    OfferedListeners second = offer_of(2);
    add_offer(offered, second.front().address, std::move(second.front().descriptors));
    REQUIRE(offered.size() == 2);
    for (int i = 0; i < 2; ++i) {
        CAPTURE(i);
        const std::uint16_t port = bound_address(offered.front().descriptors.front().get()).port;
        const auto taken = take_offered(loopback(), offered, 2);
        REQUIRE(taken.has_value());
        REQUIRE(taken->has_value());
        const ListenerGroup& group = (*taken)->front();
        CHECK(group.is_borrowed);
        CHECK(group.descriptors.size() == 2);
        CHECK(group.settings.address.port == port);
        close_all(group);
    }
    CHECK(offered.empty());
}

TEST_CASE("offered listeners: an address that is not offered is opened anew") {
    OfferedListeners offered = offer_of(1);
    config::Listen other = loopback();
    other.address.host = "127.0.0.2";
    CHECK_FALSE(take_offered(other, offered, 1).has_value());
    CHECK(offered.size() == 1);
    discard(offered);
    CHECK(offered.empty());
}

TEST_CASE("offered listeners: another set of IP versions needs a restart, and the error says so") {
    OfferedListeners offered = offer_of(1);
    config::Listen other = loopback();
    other.ipv6_only = true;
    const auto taken = take_offered(other, offered, 1);
    REQUIRE(taken.has_value());
    REQUIRE_FALSE(taken->has_value());
    CHECK(taken->error().starts_with(
        "cannot take over 127.0.0.1:0: the running process takes other"));
}

}  // namespace tidegate::app::handover_test
