#include <sys/inotify.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <list>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"

namespace tidegate::net_transfer_test {

namespace {

using std::chrono::milliseconds;

// Two ends of a stream: one ours, one that a test reads like the peer.
struct Wire {
    ConnectionPtr ours;
    ConnectionPtr peer;

    explicit Wire(Readiness& readiness) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        ours = new Connection(readiness, ends[0]);
        peer = new Connection(readiness, ends[1]);
    }

    // What the peer takes of `bytes`.
    std::size_t send(std::string_view bytes) const {
        iovec part{const_cast<char*>(bytes.data()), bytes.size()};
        return peer->write_some({&part, 1}).bytes;
    }

    std::string received() const {
        std::string all;
        std::array<char, 65'536> portion;
        for (;;) {
            const IoResult read = peer->read_some(portion);
            if (read.status != IoStatus::ok) return all;
            all.append(portion.data(), read.bytes);
        }
    }
};

// The same, with the loop that both belong to.
struct Loop {
    asio::io_context io{1};
    Readiness readiness{io};
    DeadlineWheel wheel{SteadyTime{}};
    Sleeper sleeper{io.get_executor(), wheel};
};
struct LoopWire : Loop, Wire {
    LoopWire() : Wire(readiness) {}

    // Runs until no coroutine can go on; what waits stays.
    void settle() {
        io.restart();
        while (io.poll() > 0) {
        }
    }
};

// More than the socket takes at once.
std::string much() {
    std::string bytes(4'000'000, 'x');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + i % 23);
    return bytes;
}

Task<> send_all(Outbox& outbox, LoopWire& wire, milliseconds patience, IoStatus& status,
                bool& done) {
    status = co_await outbox.flush_all(*wire.ours, wire.sleeper, patience);
    done = true;
}

TEST_CASE("outbox: pieces arrive in their order, empty ones are no pieces") {
    const LoopWire wire;
    Outbox outbox;
    CHECK(outbox.empty());
    for (const std::string_view piece : {"head", "", "body", "tail"}) outbox.add(piece);
    CHECK_FALSE(outbox.empty());
    CHECK(outbox.flush(*wire.ours) == IoStatus::ok);
    CHECK(outbox.empty());
    CHECK(wire.received() == "headbodytail");
}

TEST_CASE("outbox: as many pieces fit as a batch of body and its frame need") {
    const LoopWire wire;
    Outbox outbox;
    for (std::size_t i = 0; i < Outbox::kPiecesMax; ++i) outbox.add("ab");
    CHECK(outbox.flush(*wire.ours) == IoStatus::ok);
    CHECK(wire.received().size() == 2 * Outbox::kPiecesMax);
}

TEST_CASE("outbox: sending goes on from the byte where the peer stopped taking") {
    const LoopWire wire;
    const std::string bytes = much();
    Outbox outbox;
    outbox.add("begin");
    outbox.add(bytes);
    outbox.add("end");
    std::string received;
    IoStatus status = outbox.flush(*wire.ours);
    CHECK(status == IoStatus::would_block);
    while (status == IoStatus::would_block) {
        received += wire.received();
        status = outbox.flush(*wire.ours);
    }
    received += wire.received();
    CHECK(status == IoStatus::ok);
    CHECK((received == "begin" + bytes + "end"));
}

TEST_CASE("outbox: a peer that has gone is a failure, not a signal") {
    const LoopWire wire;
    wire.peer->close();
    Outbox outbox;
    outbox.add("anything");
    CHECK(outbox.flush(*wire.ours) == IoStatus::failed);
}

TEST_CASE("outbox: flush_all waits while the peer reads slowly, and ends when all is gone") {
    LoopWire wire;
    const std::string bytes = much();
    Outbox outbox;
    outbox.add(bytes);
    IoStatus status = IoStatus::failed;
    bool done = false;
    spawn_vital(wire.io.get_executor(), send_all(outbox, wire, milliseconds{1'000}, status, done));
    wire.settle();
    CHECK_FALSE(done);
    std::string received;
    for (int i = 0; i < 10'000 && !done; ++i) {
        received += wire.received();
        wire.settle();
    }
    received += wire.received();
    CHECK(done);
    CHECK(status == IoStatus::ok);
    CHECK((received == bytes));
    CHECK_FALSE(wire.sleeper.expired());
}

TEST_CASE("outbox: flush_all gives up when the peer takes nothing for as long as is allowed") {
    LoopWire wire;
    const std::string bytes = much();
    Outbox outbox;
    outbox.add(bytes);
    IoStatus status = IoStatus::ok;
    bool done = false;
    spawn_vital(wire.io.get_executor(), send_all(outbox, wire, milliseconds{1'000}, status, done));
    wire.settle();
    wire.wheel.advance(SteadyTime{} + milliseconds{950});
    wire.settle();
    CHECK_FALSE(done);
    wire.wheel.advance(SteadyTime{} + milliseconds{1'150});
    wire.settle();
    CHECK(done);
    CHECK(status == IoStatus::failed);
    CHECK(wire.sleeper.expired());
    CHECK(outbox.empty());  // what was not sent is forgotten
    wire.ours->close();     // ends the watch
    wire.settle();
}

TEST_CASE("outbox: sends what is in a pipe, and forgets the pipe with the last of it") {
    const LoopWire from;
    LoopWire to;
    SplicePipes pipes;
    const std::string bytes = much().substr(0, 50'000);
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    REQUIRE(from.peer->write_some({&part, 1}).bytes == bytes.size());
    Outbox outbox;
    {
        SplicePipe pipe(pipes);
        std::size_t filled = 0;
        while (filled < bytes.size()) {
            const IoResult result = pipe.fill(*from.ours, bytes.size());
            REQUIRE(result.status == IoStatus::ok);
            filled += result.bytes;
            outbox.add(pipe);
            CHECK_FALSE(outbox.empty());
            REQUIRE(outbox.flush(*to.ours) == IoStatus::ok);
        }
    }
    CHECK(outbox.empty());
    outbox.add("behind");
    CHECK(outbox.flush(*to.ours) == IoStatus::ok);
    CHECK((to.received() == bytes + "behind"));
}

TEST_CASE("outbox: flush_all whose connection is cut off meanwhile fails when it is woken") {
    LoopWire wire;
    const std::string bytes = much();
    Outbox outbox;
    outbox.add(bytes);
    IoStatus status = IoStatus::ok;
    bool done = false;
    spawn_vital(wire.io.get_executor(), send_all(outbox, wire, milliseconds{1'000}, status, done));
    wire.settle();
    wire.ours->reset();
    wire.sleeper.wakeup().wake_later();
    wire.settle();
    CHECK(done);
    CHECK(status == IoStatus::failed);
}

constexpr std::uint64_t kAny = 1'000'000'000;

// The program ignores the signal as well: splice() has no MSG_NOSIGNAL.
struct IgnoredSigpipe {
    IgnoredSigpipe() : former(std::signal(SIGPIPE, SIG_IGN)) {}
    ~IgnoredSigpipe() { std::signal(SIGPIPE, former); }
    IgnoredSigpipe(const IgnoredSigpipe&) = delete;
    IgnoredSigpipe& operator=(const IgnoredSigpipe&) = delete;

    decltype(std::signal(0, nullptr)) former;
};

struct Fixture {
    asio::io_context io{1};
    Readiness readiness{io};
    Wire from{readiness};
    Wire to{readiness};
    SplicePipes pipes;

    // Runs until nothing is left to tell.
    void settle() {
        io.restart();
        while (io.poll() > 0) {
        }
    }
};

std::string numbered(std::size_t size) {
    std::string bytes(size, 'x');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + i % 23);
    return bytes;
}

TEST_CASE_FIXTURE(Fixture, "splice pipe: carries more than a socket holds, in order") {
    const std::string bytes = numbered(4'000'000);
    SplicePipe pipe(pipes);
    REQUIRE(pipe.is_open());
    std::string arrived;
    std::size_t sent = 0;
    for (int turn = 0; arrived.size() < bytes.size(); ++turn) {
        REQUIRE(turn < 100'000);
        sent += from.send(std::string_view(bytes).substr(sent));
        if (pipe.empty()) pipe.fill(*from.ours, kAny);
        pipe.drain(*to.ours);
        arrived += to.received();
        settle();
    }
    CHECK(arrived == bytes);
    CHECK(pipe.empty());
}

TEST_CASE_FIXTURE(Fixture, "splice pipe: fill takes at most the given number of bytes") {
    from.send("headtail");
    SplicePipe pipe(pipes);
    CHECK(pipe.fill(*from.ours, 4).bytes == 4);
    CHECK(pipe.size() == 4);
    CHECK(pipe.drain(*to.ours) == IoStatus::ok);
    CHECK(to.received() == "head");
    std::array<char, 16> rest{};
    CHECK(from.ours->read_some(rest).bytes == 4);
}

TEST_CASE_FIXTURE(Fixture, "splice pipe: filling from a socket with nothing to read would block") {
    SplicePipe pipe(pipes);
    settle();
    CHECK(pipe.fill(*from.ours, kAny).status == IoStatus::would_block);
    CHECK_FALSE(from.ours->readable());
    from.send("more");
    settle();
    CHECK(from.ours->readable());
    CHECK(pipe.fill(*from.ours, kAny).bytes == 4);
}

TEST_CASE_FIXTURE(Fixture, "splice pipe: reports the end of what it is filled from") {
    SplicePipe pipe(pipes);
    from.peer->shutdown_send();
    CHECK(pipe.fill(*from.ours, kAny).status == IoStatus::end);
    CHECK(from.ours->has_ended());
}

TEST_CASE_FIXTURE(Fixture, "splice pipe: keeps what a connection does not take yet") {
    const std::string bytes = numbered(4'000'000);
    SplicePipe pipe(pipes);
    std::size_t sent = 0;
    std::size_t filled = 0;
    IoStatus status = IoStatus::ok;
    while (status == IoStatus::ok && sent < bytes.size()) {
        sent += from.send(std::string_view(bytes).substr(sent));
        filled += pipe.fill(*from.ours, kAny).bytes;
        status = pipe.drain(*to.ours);
    }
    REQUIRE(status == IoStatus::would_block);
    CHECK_FALSE(pipe.empty());
    CHECK_FALSE(to.ours->writable());
    std::string arrived = to.received();
    settle();
    CHECK(to.ours->writable());
    while (pipe.drain(*to.ours) == IoStatus::would_block) arrived += to.received();
    arrived += to.received();
    CHECK(arrived == bytes.substr(0, filled));
}

TEST_CASE_FIXTURE(Fixture, "splice pipe: a closed peer is a failure, not a signal") {
    const IgnoredSigpipe ignored;
    SplicePipe pipe(pipes);
    from.send("late");
    pipe.fill(*from.ours, kAny);
    to.peer->close();
    CHECK(pipe.drain(*to.ours) == IoStatus::failed);
}

TEST_CASE_FIXTURE(Fixture, "splice pipe: a worker opens no more than its share at a time") {
    std::list<SplicePipe> open;
    for (std::size_t i = 0; i < SplicePipe::kPipesMax; ++i) {
        CHECK(open.emplace_back(pipes).is_open());
    }
    CHECK_FALSE(SplicePipe(pipes).is_open());
    open.pop_front();
    CHECK(SplicePipe(pipes).is_open());
    open.clear();
    CHECK(pipes.open == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "splice pipe: a refused splice moves nothing, and no further pipe is opened") {
    // The kernel splices nothing out of such a descriptor.
    const ConnectionPtr refused(
        new Connection(readiness, ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)));
    REQUIRE(refused->is_open());
    {
        SplicePipe pipe(pipes);
        const IoResult result = pipe.fill(*refused, kAny);
        CHECK(result.status == IoStatus::ok);
        CHECK(result.bytes == 0);
        CHECK(pipe.empty());
        CHECK_FALSE(refused->has_hung_up());
    }
    CHECK(pipes.open == 0);
    CHECK_FALSE(SplicePipe(pipes).is_open());
}

}  // namespace

}  // namespace tidegate::net_transfer_test
