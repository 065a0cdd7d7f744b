#include <sys/inotify.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <list>
#include <string>

#include <doctest/doctest.h>

#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/splice_pipe.hpp"

namespace tidegate::net_splice_pipe_test {

namespace {

constexpr std::uint64_t kAny = 1'000'000'000;

// The program ignores the signal as well: splice() has no MSG_NOSIGNAL.
struct IgnoredSigpipe {
    IgnoredSigpipe() : former(std::signal(SIGPIPE, SIG_IGN)) {}
    ~IgnoredSigpipe() { std::signal(SIGPIPE, former); }
    IgnoredSigpipe(const IgnoredSigpipe&) = delete;
    IgnoredSigpipe& operator=(const IgnoredSigpipe&) = delete;

    decltype(std::signal(0, nullptr)) former;
};

// A stream with an end that a test reads or writes like a peer, and ours.
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

}  // namespace

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

}  // namespace tidegate::net_splice_pipe_test
