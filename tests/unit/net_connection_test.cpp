#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "failing_memory.hpp"
#include "net/connection.hpp"
#include "tls_peer.hpp"

namespace tidegate::net_connection_test {

namespace {

using std::chrono::microseconds;

// One end is ours, the other a plain descriptor.
struct Pair {
    asio::io_context io{1};
    Readiness readiness{io};
    ConnectionPtr ours;
    int peer = -1;

    Pair() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        ours = ConnectionPtr(new Connection(readiness, ends[0]));
        peer = ends[1];
    }
    ~Pair() { hang_up(); }

    void say(std::string_view bytes) const {
        REQUIRE(::send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }
    void hang_up() {
        if (peer >= 0) ::close(peer);
        peer = -1;
    }
    // Reports what the kernel knows, and runs the coroutines that this wakes.
    void settle() {
        io.restart();
        while (io.poll() > 0) {
        }
    }
    IoResult read(std::size_t room = 100) {
        std::string into(room, '\0');
        return ours->read_some(into);
    }
};

// Sleeps once and says when it was woken.
Task<> sleep_once(Wakeup& wakeup, bool& woken) {
    co_await wakeup.wait();
    woken = true;
}

TEST_CASE("connection: bytes that came before the first look are found") {
    Pair pair;
    pair.say("hello");
    CHECK_FALSE(pair.ours->readable());
    pair.settle();
    CHECK(pair.ours->readable());
    CHECK(pair.read().bytes == 5);
}

TEST_CASE("connection: a short read has found all there was, and later bytes are noticed") {
    Pair pair;
    pair.say("hello");
    pair.settle();
    CHECK(pair.read().bytes == 5);
    CHECK_FALSE(pair.ours->readable());
    pair.say("x");
    pair.settle();
    CHECK(pair.ours->readable());
}

TEST_CASE("connection: a read that was filled to the last byte is worth another") {
    Pair pair;
    pair.say("hello");
    pair.settle();
    CHECK(pair.read(5).bytes == 5);
    CHECK(pair.ours->readable());
    CHECK(pair.read().status == IoStatus::would_block);
    CHECK_FALSE(pair.ours->readable());
}

TEST_CASE("connection: a look leaves what is there to be read") {
    Pair pair;
    pair.say("hello");
    pair.settle();
    std::string into(100, '\0');
    for (int i = 0; i < 2; ++i) {
        const IoResult seen = pair.ours->peek_some(into);
        CHECK(seen.status == IoStatus::ok);
        CHECK(into.substr(0, seen.bytes) == "hello");
        CHECK(pair.ours->readable());
    }
    CHECK(pair.read().bytes == 5);
    CHECK(pair.ours->peek_some(into).status == IoStatus::would_block);
    pair.hang_up();
    pair.settle();
    CHECK(pair.ours->peek_some(into).status == IoStatus::end);
}

TEST_CASE("connection: a reader that awaits more than is there wakes when it has come") {
    Pair pair;
    pair.say("hel");
    pair.settle();
    pair.ours->await_more();
    CHECK_FALSE(pair.ours->readable());
    pair.settle();
    CHECK_FALSE(pair.ours->readable());
    pair.say("lo");
    pair.settle();
    CHECK(pair.ours->readable());
    CHECK(pair.read().bytes == 5);
}

TEST_CASE("connection: a descriptor that is released stays open, and its events are not reported") {
    Pair pair;
    pair.say("hello");
    pair.settle();
    const Descriptor descriptor = pair.ours->release();
    REQUIRE(descriptor);
    CHECK_FALSE(pair.ours->is_open());
    CHECK_FALSE(pair.ours->release());
    pair.ours.reset();
    pair.say("again");
    pair.settle();
    std::string into(100, '\0');
    CHECK(::recv(descriptor.get(), into.data(), into.size(), 0) == 10);
}

TEST_CASE("connection: an end that is reported together with the last bytes is not forgotten") {
    Pair pair;
    pair.say("hello");
    pair.hang_up();
    pair.settle();
    CHECK(pair.read().bytes == 5);
    CHECK(pair.ours->readable());
    CHECK(pair.read().status == IoStatus::end);
}

TEST_CASE("connection: an end after the last bytes were read is reported") {
    Pair pair;
    pair.say("hello");
    pair.settle();
    CHECK(pair.read().bytes == 5);
    pair.hang_up();
    pair.settle();
    CHECK(pair.ours->readable());
    CHECK(pair.read().status == IoStatus::end);
}

TEST_CASE("connection: a peer that has only finished sending still takes what is sent to it") {
    Pair pair;
    Wakeup wakeup(pair.io.get_executor());
    bool woken = false;
    pair.say("hello");
    REQUIRE(::shutdown(pair.peer, SHUT_WR) == 0);
    pair.settle();
    CHECK(pair.read().bytes == 5);
    CHECK(pair.ours->has_hung_up());
    CHECK_FALSE(pair.ours->has_ended());
    CHECK(pair.read().status == IoStatus::end);
    CHECK(pair.ours->has_ended());
    CHECK_FALSE(pair.ours->is_broken());
    spawn_vital(pair.io.get_executor(), sleep_once(wakeup, woken));
    pair.ours->watch_read(&wakeup);
    std::string answer = "answer";
    const iovec piece{answer.data(), answer.size()};
    CHECK(pair.ours->write_some({&piece, 1}).bytes == 6);
    pair.settle();
    CHECK_FALSE(woken);  // the end is reported once
    pair.hang_up();
    pair.settle();
    CHECK(woken);
    CHECK(pair.ours->is_broken());
}

TEST_CASE("connection: a watcher is woken once") {
    Pair pair;
    Wakeup wakeup(pair.io.get_executor());
    bool woken = false;
    spawn_vital(pair.io.get_executor(), sleep_once(wakeup, woken));
    pair.ours->watch_read(&wakeup);
    pair.settle();
    CHECK_FALSE(woken);
    pair.say("x");
    pair.settle();
    CHECK(woken);
    woken = false;
    spawn_vital(pair.io.get_executor(), sleep_once(wakeup, woken));
    pair.say("y");
    pair.settle();
    CHECK_FALSE(woken);  // it did not register again
    wakeup.wake_now();
}

TEST_CASE("connection: a full socket is not writable until the peer has read") {
    Pair pair;
    const std::string much(1 << 20, 'x');
    const iovec piece{const_cast<char*>(much.data()), much.size()};
    pair.settle();
    while (pair.ours->write_some({&piece, 1}).status == IoStatus::ok) {
    }
    CHECK_FALSE(pair.ours->writable());
    std::string drain(1 << 20, '\0');
    while (::recv(pair.peer, drain.data(), drain.size(), 0) > 0) {
    }
    pair.settle();
    CHECK(pair.ours->writable());
}

TEST_CASE("connection: after close() it is ready, calls fail, and no sleeper is woken") {
    Pair pair;
    Wakeup wakeup(pair.io.get_executor());
    bool woken = false;
    spawn_vital(pair.io.get_executor(), sleep_once(wakeup, woken));
    pair.ours->watch_read(&wakeup);
    pair.settle();
    pair.say("x");
    pair.ours->close();
    pair.settle();
    CHECK_FALSE(woken);
    CHECK(pair.ours->readable());
    CHECK(pair.ours->writable());
    CHECK(pair.ours->is_broken());
    CHECK(pair.read().status == IoStatus::failed);
    const iovec piece{nullptr, 0};
    CHECK(pair.ours->write_some({&piece, 1}).status == IoStatus::failed);
    wakeup.wake_now();
}

TEST_CASE("connection: a connection that another sleeper closed is not reported") {
    Pair first;
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    ConnectionPtr second(new Connection(first.readiness, ends[0]));
    Wakeup wakeup(first.io.get_executor());
    spawn_vital(first.io.get_executor(),
                [](Wakeup& woken, ConnectionPtr& one, ConnectionPtr& other) -> Task<> {
                    co_await woken.wait();
                    one.reset();
                    other.reset();
                }(wakeup, first.ours, second));
    first.settle();
    first.ours->watch_read(&wakeup);
    second->watch_read(&wakeup);
    first.say("x");
    REQUIRE(::send(ends[1], "x", 1, MSG_NOSIGNAL) == 1);
    first.settle();  // both are reported in one turn; whichever comes first takes both away
    CHECK(first.ours == nullptr);
    CHECK(second == nullptr);
    ::close(ends[1]);
}

TEST_CASE(
    "connection: a coroutine that goes on at the end of a turn knows the kernel's news by then") {
    Pair pair;
    pair.settle();
    Wakeup wakeup(pair.io.get_executor());
    bool heard = false;
    const auto look = [](Wakeup& mine, Connection& connection, bool& found) -> Task<> {
        co_await mine.wait();
        found = connection.has_spoken();
    };
    spawn_vital(pair.io.get_executor(), look(wakeup, *pair.ours, heard));
    pair.settle();
    Turn::of(pair.io.get_executor()).run([&] {
        wakeup.wake_later();
        pair.say("out of turn");
    });
    CHECK(heard);
    // Later bytes are reported as before.
    CHECK(pair.read().bytes == 11);
    CHECK_FALSE(pair.ours->readable());
    pair.say("x");
    pair.settle();
    CHECK(pair.ours->readable());
}

TEST_CASE("connection: a turn after the end does not ask the kernel") {
    Pair pair;
    pair.settle();
    pair.readiness.stop();
    pair.say("x");
    Turn::of(pair.io.get_executor()).run([] {});
    CHECK_FALSE(pair.ours->readable());
}

TEST_CASE("connection: the work of one event is done before the loop goes on") {
    Pair pair;
    pair.settle();
    Wakeup first(pair.io.get_executor());
    Wakeup second(pair.io.get_executor());
    bool woken = false;
    spawn_vital(pair.io.get_executor(), sleep_once(second, woken));
    const auto wake = [](Wakeup& mine, Wakeup& other) -> Task<> {
        co_await mine.wait();
        other.wake_later();
    };
    spawn_vital(pair.io.get_executor(), wake(first, second));
    pair.settle();
    pair.ours->watch_read(&first);
    pair.say("x");
    pair.io.restart();
    CHECK(pair.io.run_one() == 1);
    CHECK(woken);
}

// Tests that must not depend on it never come to its end.
constexpr microseconds kForever = std::chrono::hours{1};

// A loop with something to wait for.
struct World {
    asio::io_context io;
    asio::executor_work_guard<Executor> work{io.get_executor()};
    int ran = 0;

    void post() {
        asio::post(io, [this] { ++ran; });
    }
};

TEST_CASE("busy_poll: all that is ready runs") {
    World world;
    world.post();
    world.post();
    CHECK(poll_for(world.io, kForever));
    CHECK(world.ran == 2);
}

TEST_CASE("busy_poll: what is ready runs without patience, too") {
    World world;
    world.post();
    CHECK(poll_for(world.io, microseconds{0}));
    CHECK(world.ran == 1);
}

TEST_CASE("busy_poll: what comes meanwhile from another thread runs") {
    World world;
    std::thread other([&] { world.post(); });
    CHECK(poll_for(world.io, kForever));
    CHECK(world.ran == 1);
    other.join();
}

TEST_CASE("busy_poll: nothing ran when the patience has ended") {
    World world;
    CHECK_FALSE(poll_for(world.io, microseconds{1}));
    CHECK_FALSE(world.io.stopped());
    // The loop goes on as before.
    world.post();
    CHECK(world.io.run_one() == 1);
}

TEST_CASE("busy_poll: poll_for() returns at once from a loop without work") {
    World world;
    world.work.reset();
    CHECK_FALSE(poll_for(world.io, kForever));
    CHECK(world.io.stopped());
}

TEST_CASE("busy_poll: the last handler ends the loop") {
    World world;
    world.post();
    world.work.reset();
    CHECK(poll_for(world.io, kForever));
    CHECK(world.io.stopped());
}

bool is_open(int number) {
    return ::fcntl(number, F_GETFD) >= 0;
}

int new_descriptor() {
    const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(number >= 0);
    return number;
}

TEST_CASE("descriptor: it is closed with its last owner, and when another takes its place") {
    const int first = new_descriptor();
    const int second = new_descriptor();
    {
        Descriptor owner{first};
        Descriptor next = std::move(owner);
        CHECK_FALSE(owner);
        CHECK(next.get() == first);
        next = Descriptor(second);
        CHECK_FALSE(is_open(first));
        CHECK(is_open(second));
    }
    CHECK_FALSE(is_open(second));
}

TEST_CASE("descriptor: what is released stays open") {
    const int number = new_descriptor();
    { CHECK(Descriptor(number).release() == number); }
    REQUIRE(is_open(number));
    ::close(number);
}

TEST_CASE("connection: a socket for which there is no memory is closed") {
    asio::io_context io{1};
    Readiness readiness{io};
    const test::StreamPair pair;
    const Descriptor far(pair.ends[1]);
    const int number = pair.ends[0];
    const int failed = test::fail_each_allocation(
        [&, accepted = Descriptor(number)]() mutable {
            Descriptor descriptor = std::move(accepted);
            const ConnectionPtr connection(new Connection(readiness, std::move(descriptor)));
        },
        [&] { CHECK_FALSE(is_open(number)); });
    CHECK(failed == 1);
}

}  // namespace

}  // namespace tidegate::net_connection_test
