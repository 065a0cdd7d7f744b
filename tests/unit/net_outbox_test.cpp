#include <sys/socket.h>

#include <array>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/outbox.hpp"
#include "net/sleeper.hpp"

namespace tidegate::net_outbox_test {

using std::chrono::milliseconds;

namespace {

// Two ends of a stream: one ours, one that a test reads like the peer.
struct Wire {
    asio::io_context io{1};
    Readiness readiness{io};
    DeadlineWheel wheel{SteadyTime{}};
    Sleeper sleeper{io.get_executor(), wheel};
    ConnectionPtr ours;
    ConnectionPtr peer;

    Wire() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        const auto adopt = [this](int end) {
            return ConnectionPtr(new Connection(readiness, end));
        };
        ours = adopt(ends[0]);
        peer = adopt(ends[1]);
    }

    std::string received() const {
        std::string all;
        std::array<char, 65536> portion;
        for (;;) {
            const IoResult read = peer->read_some(portion);
            if (read.status != IoStatus::ok) return all;
            all.append(portion.data(), read.bytes);
        }
    }

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

Task<> send_all(Outbox& outbox, Wire& wire, milliseconds patience, IoStatus& status, bool& done) {
    status = co_await outbox.flush_all(*wire.ours, wire.sleeper, patience);
    done = true;
}

}  // namespace

TEST_CASE("outbox: pieces arrive in their order, empty ones are no pieces") {
    const Wire wire;
    Outbox outbox;
    CHECK(outbox.empty());
    for (const std::string_view piece : {"head", "", "body", "tail"}) outbox.add(piece);
    CHECK_FALSE(outbox.empty());
    CHECK(outbox.flush(*wire.ours) == IoStatus::ok);
    CHECK(outbox.empty());
    CHECK(wire.received() == "headbodytail");
}

TEST_CASE("outbox: as many pieces fit as a batch of body and its frame need") {
    const Wire wire;
    Outbox outbox;
    for (std::size_t i = 0; i < Outbox::kPiecesMax; ++i) outbox.add("ab");
    CHECK(outbox.flush(*wire.ours) == IoStatus::ok);
    CHECK(wire.received().size() == 2 * Outbox::kPiecesMax);
}

TEST_CASE("outbox: sending goes on from the byte where the peer stopped taking") {
    const Wire wire;
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
    const Wire wire;
    wire.peer->close();
    Outbox outbox;
    outbox.add("anything");
    CHECK(outbox.flush(*wire.ours) == IoStatus::failed);
}

TEST_CASE("outbox: flush_all waits while the peer reads slowly, and ends when all is gone") {
    Wire wire;
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
    Wire wire;
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
    const Wire from;
    Wire to;
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
    Wire wire;
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

TEST_CASE("sleeper: a coroutine that steps aside goes on after those that were ready") {
    asio::io_context io{1};
    DeadlineWheel wheel{SteadyTime{}};
    Sleeper sleeper{io.get_executor(), wheel};
    std::string order;
    spawn_vital(io.get_executor(), [](Sleeper& self, std::string& seen) -> Task<> {
        seen += 'a';
        co_await self.step_aside();
        seen += 'c';
    }(sleeper, order));
    asio::post(io, [&order] { order += 'b'; });
    io.run();
    CHECK(order == "abc");
}

}  // namespace tidegate::net_outbox_test
