#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "net/connection.hpp"
#include "tls/tls_client.hpp"
#include "tls_peer.hpp"

namespace tidegate::net_connection_tls_test {
namespace {

using test::Authority;
using test::StreamPair;
using test::TlsPeer;

// Our end over TLS as the client, and a server whose bytes the test carries.
struct Encrypted {
    explicit Encrypted(bool is_small = false)
        : context(test::server_context(authority.issue())), pair(is_small) {
        TlsSettings settings;
        settings.ca = authority.pem();
        client = *TlsClient::make(settings);
        ours = ConnectionPtr(new Connection(readiness, pair.ends[0]));
        peer = std::make_unique<TlsPeer>(context.get(), true, pair.ends[1]);
        ours->begin_tls(client->connection_to("localhost"), TlsSide::client);
    }

    void settle() {
        io.restart();
        while (io.poll() > 0) {
        }
    }
    void shake_hands() {
        IoStatus status = IoStatus::would_block;
        for (int i = 0; i < 10 && status == IoStatus::would_block; ++i) {
            status = ours->shake_hands();
            peer->receive();
            peer->flush();
            settle();
        }
        REQUIRE(status == IoStatus::ok);
    }
    // Until there is nothing more: tickets are out of the way.
    void drain() {
        settle();
        while (read().status == IoStatus::ok) {
        }
    }
    IoResult read(std::size_t room = 20'000) {
        std::string into(room, '\0');
        return ours->read_some(into);
    }
    IoResult write(const std::string& text) const {
        const iovec piece{const_cast<char*>(text.data()), text.size()};
        return ours->write_some({&piece, 1});
    }

    asio::io_context io{1};
    Readiness readiness{io};
    Authority authority;
    std::unique_ptr<SSL_CTX, test::ReleaseOpenSsl> context;
    StreamPair pair;
    std::shared_ptr<TlsClient> client;
    ConnectionPtr ours;
    std::unique_ptr<TlsPeer> peer;
};

Task<> note_wake(Wakeup& wakeup, bool& woken) {
    co_await wakeup.wait();
    woken = true;
}

}  // namespace

TEST_CASE("tls connection: a handshake waits for the peer, and is woken by it") {
    Encrypted both;
    both.settle();
    Wakeup wakeup(both.io.get_executor());
    bool woken = false;
    spawn_vital(both.io.get_executor(), note_wake(wakeup, woken));
    both.settle();
    CHECK(both.ours->shake_hands() == IoStatus::would_block);
    CHECK_FALSE(both.ours->readable());
    both.ours->watch_read(&wakeup);
    both.peer->receive();
    both.settle();
    CHECK_FALSE(woken);
    both.peer->flush();
    both.settle();
    CHECK(woken);
    CHECK(both.ours->shake_hands() == IoStatus::ok);
}

TEST_CASE("tls connection: what fits no read and is inside TLS keeps it readable") {
    Encrypted both;
    both.shake_hands();
    both.drain();
    both.peer->write("hello");
    both.peer->say("you");
    both.settle();
    CHECK(both.read(4).bytes == 4);
    CHECK(both.ours->readable());
    CHECK(both.ours->has_spoken());
    both.settle();  // the kernel has nothing more to report
    CHECK(both.read(4).bytes == 4);
    both.drain();
    CHECK_FALSE(both.ours->readable());
    both.peer->say("x");
    both.settle();
    CHECK(both.ours->readable());
    CHECK(both.read().bytes == 1);
    CHECK_FALSE(both.ours->readable());  // a short read has found all there was
}

TEST_CASE("tls connection: a part of a record makes it readable once, and nothing is read") {
    Encrypted both;
    both.shake_hands();
    both.drain();
    both.peer->write("hello");
    const std::string record = both.peer->to_send();
    both.peer->put(record.substr(0, 10));
    both.settle();
    CHECK(both.ours->readable());
    CHECK(both.read().status == IoStatus::would_block);
    CHECK_FALSE(both.ours->readable());
    both.peer->put(record.substr(10));
    both.settle();
    CHECK(both.read().bytes == 5);
}

TEST_CASE("tls connection: tickets and key updates are no speech; data and an end are") {
    Encrypted both;
    both.shake_hands();
    both.settle();
    CHECK(both.ours->readable());
    CHECK_FALSE(both.ours->has_spoken());
    CHECK_FALSE(both.ours->readable());
    both.peer->update_key();
    both.peer->flush();
    both.settle();
    CHECK_FALSE(both.ours->has_spoken());
    both.peer->say("x");
    both.settle();
    CHECK(both.ours->has_spoken());
    CHECK(both.ours->has_spoken());
    CHECK(both.read().bytes == 1);
    both.peer->say_end();
    both.settle();
    CHECK(both.ours->has_spoken());
    CHECK(both.ours->has_ended());
}

TEST_CASE(
    "tls connection: has_spoken() finds a cut behind a key update before its event is delivered") {
    Encrypted both;
    both.shake_hands();
    both.drain();
    const StreamPair other_pair;
    const ConnectionPtr other(new Connection(both.readiness, other_pair.ends[0]));
    Wakeup wakeup(both.io.get_executor());
    bool is_heard = false;
    spawn_vital(both.io.get_executor(),
                [](Wakeup& woken, Connection& connection, bool& heard) -> Task<> {
                    co_await woken.wait();
                    CHECK_FALSE(connection.readable());
                    heard = connection.has_spoken();
                }(wakeup, *both.ours, is_heard));
    both.settle();
    // Both are fetched in one turn, and the other is delivered first.
    other->watch_read(&wakeup);
    REQUIRE(::send(other_pair.ends[1], "x", 1, MSG_NOSIGNAL) == 1);
    both.peer->update_key();
    both.peer->flush();
    both.peer->hang_up();
    both.settle();
    CHECK(is_heard);
    ::close(other_pair.ends[1]);
}

TEST_CASE("tls connection: an end is one, and a cut is a failure") {
    Encrypted good;
    good.shake_hands();
    good.peer->write("last");
    good.peer->say_end();
    good.peer->hang_up();
    good.settle();
    CHECK(good.read().bytes == 4);
    CHECK(good.ours->readable());
    CHECK(good.read().status == IoStatus::end);
    CHECK(good.ours->has_ended());
    CHECK(good.ours->has_socket_ended());

    Encrypted cut;
    cut.shake_hands();
    cut.peer->receive();
    cut.peer->say("last");
    cut.peer->hang_up();
    cut.settle();
    CHECK(cut.read().bytes == 4);
    CHECK(cut.ours->readable());
    CHECK(cut.read().status == IoStatus::failed);
    CHECK(cut.ours->is_broken());
}

TEST_CASE("tls connection: a close_notify alone does not end the socket") {
    Encrypted both;
    both.shake_hands();
    both.peer->say_end();
    both.settle();
    CHECK(both.read().status == IoStatus::end);
    CHECK_FALSE(both.ours->has_socket_ended());
}

TEST_CASE("tls connection: a reader that has to write first is woken when it can") {
    Encrypted both(true);
    const std::string rest(1'000, 'x');
    while (::send(both.pair.ends[0], rest.data(), rest.size(), MSG_NOSIGNAL) > 0) {
    }
    while (::send(both.pair.ends[0], "x", 1, MSG_NOSIGNAL) > 0) {
    }
    both.settle();
    Wakeup wakeup(both.io.get_executor());
    bool woken = false;
    spawn_vital(both.io.get_executor(), note_wake(wakeup, woken));
    both.settle();
    CHECK(both.read().status == IoStatus::would_block);
    CHECK_FALSE(both.ours->readable());
    both.ours->watch_read(&wakeup);
    both.settle();
    CHECK_FALSE(woken);
    std::string drained(1'000'000, '\0');
    while (::recv(both.peer->wire(), drained.data(), drained.size(), 0) > 0) {
    }
    both.settle();
    CHECK(woken);
    both.shake_hands();
}

TEST_CASE("tls connection: a writer that has to read first is woken when it can") {
    Encrypted both;
    both.settle();
    Wakeup wakeup(both.io.get_executor());
    bool woken = false;
    spawn_vital(both.io.get_executor(), note_wake(wakeup, woken));
    both.settle();
    CHECK(both.write("early").status == IoStatus::would_block);  // the handshake comes first
    CHECK_FALSE(both.ours->writable());
    both.ours->watch_write(&wakeup);
    both.peer->receive();
    both.peer->flush();
    both.settle();
    CHECK(woken);
    CHECK(both.write("early").bytes == 5);
    CHECK(both.peer->heard() == "early");
}

TEST_CASE("tls connection: a full socket is not writable until the peer has read") {
    Encrypted both(true);
    both.shake_hands();
    const std::string record(8'000, 'x');
    std::size_t sent = 0;
    IoResult result{IoStatus::ok};
    while ((result = both.write(record)).status == IoStatus::ok) sent += result.bytes;
    CHECK(result.status == IoStatus::would_block);
    CHECK_FALSE(both.ours->writable());
    std::string heard;
    while (heard.size() < sent) heard += both.peer->heard();
    both.settle();
    CHECK(both.ours->writable());
    while ((result = both.write(record)).status == IoStatus::would_block) {
        heard += both.peer->heard();
    }
    CHECK(result.bytes == record.size());
    while (heard.size() < sent + record.size()) heard += both.peer->heard();
    CHECK(heard == std::string(sent + record.size(), 'x'));
}

TEST_CASE("tls connection: close_notify is sent before the socket ends") {
    Encrypted both;
    both.shake_hands();
    CHECK(both.write("last").bytes == 4);
    both.ours->shutdown_send();
    CHECK(both.peer->heard() == "last");
    CHECK(both.peer->was_told_the_end());
    // The other direction stays.
    both.peer->say("answer");
    both.settle();
    both.ours->readable();
    CHECK(both.read().bytes == 6);
}

TEST_CASE("tls connection: closed, it fails") {
    Encrypted both;
    both.shake_hands();
    both.peer->say("unread");
    both.settle();
    both.ours->close();
    CHECK(both.read().status == IoStatus::failed);
    CHECK(both.write("x").status == IoStatus::failed);
    CHECK(both.peer->heard().empty());
    CHECK_FALSE(both.peer->was_told_the_end());
}

}  // namespace tidegate::net_connection_tls_test
