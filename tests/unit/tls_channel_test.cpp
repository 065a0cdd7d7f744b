#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "tls/channel.hpp"
#include "tls/tls_client.hpp"
#include "tls_peer.hpp"

namespace tidegate::tls_channel_test {

namespace {

using test::Authority;
using test::StreamPair;
using test::TlsPeer;
using Status = TlsChannel::Status;

// A channel as the client, and a server.
struct Ends {
    explicit Ends(bool is_small = false, int newest = 0)
        : context(test::server_context(authority.issue())), pair(is_small), ours(pair.ends[0]) {
        if (newest != 0) SSL_CTX_set_max_proto_version(context.get(), newest);
        TlsSettings settings;
        settings.ca = authority.pem();
        client = *TlsClient::make(settings);
        open(nullptr);
    }
    ~Ends() { ::close(ours); }

    void open(const TlsSessionPtr& session) {
        channel = std::make_unique<TlsChannel>(client->connection_to("localhost", session),
                                               TlsSide::client, ours);
        peer = std::make_unique<TlsPeer>(context.get(), true, pair.ends[1]);
    }
    // On a stream of its own.
    void reopen(const TlsSessionPtr& session) {
        channel.reset();
        ::close(ours);
        peer.reset();
        pair = StreamPair();
        ours = pair.ends[0];
        open(session);
    }
    // As a connection does that was woken.
    Status step() const {
        channel->note_arrival(false);
        return channel->shake_hands();
    }
    Status probe() const {
        channel->note_arrival(false);
        return channel->probe();
    }
    void shake_hands() {
        Status status = Status::wants_read;
        for (int i = 0; i < 10 && status == Status::wants_read; ++i) {
            status = step();
            peer->receive();
            peer->flush();
        }
        REQUIRE(status == Status::ok);
        REQUIRE(SSL_is_init_finished(peer->native()) == 1);
    }
    TlsChannel::Outcome read(std::size_t room = 20'000) {
        text.assign(room, '\0');
        channel->note_arrival(false);
        const auto outcome = channel->read(text);
        text.resize(outcome.bytes);
        return outcome;
    }
    TlsChannel::Outcome write(const std::vector<std::string_view>& pieces) const {
        std::vector<iovec> parts;
        for (const std::string_view piece : pieces)
            parts.push_back({const_cast<char*>(piece.data()), piece.size()});
        channel->note_arrival(false);
        return channel->write(parts);
    }

    Authority authority;
    std::unique_ptr<SSL_CTX, test::ReleaseOpenSsl> context;
    StreamPair pair;
    int ours;
    std::shared_ptr<TlsClient> client;
    std::unique_ptr<TlsChannel> channel;
    std::unique_ptr<TlsPeer> peer;
    std::string text;  // of the last read
};

// As many records as the kernel takes; what they hold.
std::string fill(Ends& ends, const std::string& record) {
    std::string sent;
    for (;;) {
        const auto outcome = ends.write({record});
        if (outcome.status != Status::ok) {
            CHECK(outcome.status == Status::wants_write);
            return sent;
        }
        sent.append(record, 0, outcome.bytes);
    }
}

TEST_CASE("tls channel: a handshake that comes byte by byte wants to read until it is over") {
    for (const int newest : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(newest);
        Ends ends(false, newest);
        Status status = ends.step();
        int waits = 0;
        while (status == Status::wants_read && waits < 20'000) {
            ends.peer->receive();
            for (const char byte : ends.peer->to_send()) {
                if (status != Status::wants_read) break;
                ends.peer->put({&byte, 1});
                status = ends.step();
                ++waits;
            }
        }
        CHECK(status == Status::ok);
        CHECK(waits > 100);
    }
}

TEST_CASE("tls channel: the peer reads what was written, in both directions") {
    Ends ends;
    ends.shake_hands();
    ends.peer->say("hello");
    CHECK(ends.read().status == Status::ok);
    CHECK(ends.text == "hello");
    CHECK(ends.read().status == Status::wants_read);
    CHECK(ends.write({"a", "", "bc", "def"}).bytes == 6);
    CHECK(ends.peer->heard() == "abcdef");
}

TEST_CASE("tls channel: a reader or writer goes on with a handshake that is not over") {
    Ends ends;
    CHECK(ends.write({"early"}).status == Status::wants_read);
    ends.peer->receive();
    ends.peer->flush();
    CHECK(ends.write({"early"}).bytes == 5);
    CHECK(ends.peer->heard() == "early");
    Ends others;
    CHECK(others.read().status == Status::wants_read);
}

TEST_CASE("tls channel: pieces become one record of at most 16 KiB") {
    Ends ends;
    ends.shake_hands();
    const std::string half(10'000, 'x');
    const std::string large(40'000, 'y');
    CHECK(ends.write({half, half}).bytes == TlsChannel::kRecordBytesMax);
    CHECK(ends.write({large, half}).bytes == TlsChannel::kRecordBytesMax);
    CHECK(ends.peer->heard() == half + half.substr(0, 6'384) + large.substr(0, 16'384));
}

TEST_CASE("tls channel: a read that has to write reports that") {
    Ends ends(true);
    // Nothing of the handshake fits into the socket.
    const std::string rest(1'000, 'x');
    while (::send(ends.ours, rest.data(), rest.size(), MSG_NOSIGNAL) > 0) {
    }
    while (::send(ends.ours, "x", 1, MSG_NOSIGNAL) > 0) {
    }
    CHECK(ends.read().status == Status::wants_write);
    CHECK(ends.step() == Status::wants_write);
    std::string drained(1'000'000, '\0');
    while (::recv(ends.peer->wire(), drained.data(), drained.size(), 0) > 0) {
    }
    CHECK(ends.read().status == Status::wants_read);
    ends.shake_hands();
}

TEST_CASE("tls channel: a record that did not fit is sent when its bytes come again, elsewhere") {
    Ends ends(true);
    ends.shake_hands();
    const std::string record(8'000, 'x');
    std::string sent = fill(ends, record);
    const std::string elsewhere(8'000, 'x');
    CHECK(ends.write({elsewhere}).status == Status::wants_write);
    // Meanwhile the other direction works.
    ends.peer->say("hello");
    CHECK(ends.read().status == Status::ok);
    std::string heard;
    TlsChannel::Outcome outcome{Status::wants_write};
    while (outcome.status == Status::wants_write) {
        heard += ends.peer->heard();
        // In other pieces, and with more behind them.
        outcome = ends.write({std::string_view(elsewhere).substr(0, 100),
                              std::string_view(elsewhere).substr(100), "more"});
    }
    REQUIRE(outcome.status == Status::ok);
    CHECK(outcome.bytes == 8'004);
    CHECK(heard + ends.peer->heard() == sent + record + "more");
}

TEST_CASE("tls channel: many records are read at once, and a dry kernel is not asked again") {
    Ends ends;
    ends.shake_hands();
    std::string all;
    for (int i = 0; i < 20; ++i) {
        const std::string piece(50, static_cast<char>('a' + i));
        ends.peer->write(piece);
        all += piece;
    }
    ends.peer->flush();
    CHECK(ends.read().bytes == 1'000);
    CHECK(ends.text == all);
    CHECK(ends.channel->is_dry());
}

TEST_CASE("tls channel: bytes that did not fit are there for the next read") {
    Ends ends;
    ends.shake_hands();
    ends.peer->say("hello");
    CHECK(ends.read(2).bytes == 2);
    CHECK_FALSE(ends.channel->is_dry());
    CHECK(ends.probe() == Status::ok);
    CHECK(ends.read(2).bytes == 2);
    CHECK_FALSE(ends.channel->is_dry());
    CHECK(ends.read(2).bytes == 1);
    CHECK(ends.read().status == Status::wants_read);
}

TEST_CASE("tls channel: a record that comes in portions is read when it is whole") {
    Ends ends;
    ends.shake_hands();
    ends.read();  // session tickets of the server
    ends.peer->write("hello");
    const std::string record = ends.peer->to_send();
    for (std::size_t i = 0; i + 1 < record.size(); ++i) {
        ends.peer->put(record.substr(i, 1));
        REQUIRE(ends.read().status == Status::wants_read);
    }
    ends.peer->put(record.substr(record.size() - 1));
    CHECK(ends.read().bytes == 5);
}

TEST_CASE("tls channel: an end without close_notify, inside a record or between two, is a cut") {
    for (std::size_t left = 0;; ++left) {
        CAPTURE(left);
        Ends ends;
        ends.shake_hands();
        ends.peer->say("first");
        ends.peer->write("second");
        const std::string record = ends.peer->to_send();
        ends.peer->put(record.substr(0, std::min(left, record.size())));
        ends.peer->hang_up();
        REQUIRE(ends.read().status == Status::ok);
        REQUIRE(ends.text == (left >= record.size() ? "firstsecond" : "first"));
        REQUIRE(ends.read().status == Status::cut_off);
        REQUIRE(ends.read().status == Status::cut_off);
        REQUIRE(ends.channel->error() == 0);
        if (left >= record.size()) break;
        left += record.size() / 8;
    }
}

TEST_CASE("tls channel: an end with close_notify is a good end, and can be answered") {
    Ends ends;
    ends.shake_hands();
    ends.peer->write("last");
    ends.peer->say_end();
    CHECK(ends.read().bytes == 4);
    CHECK_FALSE(ends.channel->is_dry());
    CHECK(ends.read().status == Status::end);
    CHECK(ends.probe() == Status::end);
    CHECK(ends.write({"answer"}).bytes == 6);
    ends.channel->finish();
    CHECK(ends.peer->heard() == "answer");
    CHECK(ends.peer->was_told_the_end());
}

TEST_CASE("tls channel: with a full socket close_notify is sent later, and once") {
    Ends ends(true);
    ends.shake_hands();
    std::string bytes(4'096, 'x');
    while (!bytes.empty()) {
        if (::send(ends.ours, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
            bytes.resize(bytes.size() / 2);
        }
    }
    CHECK_FALSE(ends.channel->finish());
    CHECK_FALSE(ends.channel->finish());
    std::string into(65'536, '\0');
    while (::recv(ends.peer->wire(), into.data(), into.size(), 0) > 0) {
    }
    CHECK(ends.channel->finish());
    CHECK(::recv(ends.peer->wire(), into.data(), into.size(), 0) > 0);
    CHECK(::recv(ends.peer->wire(), into.data(), into.size(), 0) < 0);
}

TEST_CASE("tls channel: a record that has begun is distinguished from silence, at any byte") {
    for (const int newest : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(newest);
        Ends ends(false, newest);
        ends.shake_hands();
        ends.read();
        CHECK_FALSE(ends.channel->has_begun_record());
        ends.peer->write("hello");
        const std::string record = ends.peer->to_send();
        for (std::size_t i = 0; i + 1 < record.size(); ++i) {
            CAPTURE(i);
            ends.peer->put({&record[i], 1});
            CHECK(ends.read().status == Status::wants_read);
            CHECK(ends.channel->has_begun_record());
        }
        ends.peer->put({&record.back(), 1});
        CHECK(ends.read().bytes == 5);
        CHECK(ends.read().status == Status::wants_read);
        CHECK_FALSE(ends.channel->has_begun_record());
        // A message of TLS itself.
        if (newest != TLS1_3_VERSION) continue;
        ends.peer->update_key();
        ends.peer->flush();
        CHECK(ends.read().status == Status::wants_read);
        CHECK_FALSE(ends.channel->has_begun_record());
    }
}

TEST_CASE("tls channel: an end inside the handshake is a cut") {
    Ends ends;
    CHECK(ends.step() == Status::wants_read);
    ends.peer->receive();
    ends.peer->hang_up();
    CHECK(ends.step() == Status::cut_off);
}

TEST_CASE("tls channel: bytes that were changed on the way end the connection") {
    Ends ends;
    ends.shake_hands();
    ends.peer->write("hello");
    std::string record = ends.peer->to_send();
    record.back() = static_cast<char>(record.back() ^ 1);
    ends.peer->put(record);
    CHECK(ends.read().status == Status::failed);
    CHECK(ends.channel->error() != 0);
    ends.peer->hang_up();
    CHECK(ends.read().status == Status::failed);
    CHECK(ends.write({"x"}).status == Status::failed);
}

TEST_CASE("tls channel: a reset is reported with the error of the system") {
    Ends ends;
    ends.shake_hands();
    ends.write({"unread"});
    ends.peer->hang_up();  // with something unread: a reset
    while (ends.read().status == Status::ok) {
    }
    CHECK(ends.read().status == Status::failed);
    CHECK(ends.channel->system_error() == ECONNRESET);
    CHECK(ends.write({"x"}).status == Status::failed);
}

TEST_CASE("tls channel: key updates are followed, but not without end") {
    Ends ends;
    ends.shake_hands();
    for (int i = 0; i < 100; ++i) {
        ends.peer->update_key();
        ends.peer->say("x");
        REQUIRE(ends.read().bytes == 1);
    }
    const auto flood = [&](int updates) {
        Status status = Status::wants_read;
        for (int i = 0; i < updates && status == Status::wants_read; ++i) {
            ends.peer->update_key();
            ends.peer->flush();
            status = ends.read().status;
        }
        return status;
    };
    CHECK(flood(TlsChannel::kMessagesMax) == Status::wants_read);
    CHECK(flood(2) == Status::failed);
    CHECK(ends.channel->system_error() == EPROTO);
}

TEST_CASE("tls channel: data that came with too many key updates is not read") {
    Ends ends;
    ends.shake_hands();
    for (int i = 0; i <= TlsChannel::kMessagesMax; ++i) ends.peer->update_key();
    ends.peer->say("x");
    const auto outcome = ends.read();
    CHECK(outcome.status == Status::failed);
    CHECK(outcome.bytes == 0);
}

TEST_CASE("tls channel: once the kernel was empty, it is asked only after note_arrival()") {
    Ends ends;
    ends.shake_hands();
    CHECK(ends.read().status == Status::wants_read);
    ends.peer->say("x");
    std::array<char, 10> bytes{};
    CHECK(ends.channel->read(bytes).status == Status::wants_read);
    ends.channel->note_arrival(false);
    CHECK(ends.channel->read(bytes).bytes == 1);
    CHECK(ends.channel->is_dry());
}

TEST_CASE("tls channel: an end reported with the last bytes is found without a further report") {
    Ends ends;
    ends.shake_hands();
    ends.peer->say("x");
    ends.peer->hang_up();
    ends.channel->note_arrival(true);
    std::array<char, 10> bytes{};
    CHECK(ends.channel->read(bytes).bytes == 1);
    CHECK_FALSE(ends.channel->is_dry());
    CHECK(ends.channel->read(bytes).status == Status::cut_off);
}

TEST_CASE("tls channel: tickets are no data") {
    Ends ends;
    ends.shake_hands();
    CHECK(ends.probe() == Status::wants_read);
    ends.peer->say("x");
    CHECK(ends.probe() == Status::ok);
    CHECK(ends.probe() == Status::ok);
    CHECK(ends.read().bytes == 1);
}

TEST_CASE("tls channel: a session is kept, and shortens one further handshake") {
    for (const int newest : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(newest);
        Ends ends(false, newest);
        ends.shake_hands();
        ends.peer->say("x");
        CHECK(ends.read().bytes == 1);
        const TlsSessionPtr session = ends.channel->take_session();
        REQUIRE(session != nullptr);
        CHECK(ends.channel->take_session() == nullptr);
        CHECK(SSL_session_reused(ends.peer->native()) == 0);
        ends.reopen(session);
        ends.shake_hands();
        CHECK(SSL_session_reused(ends.peer->native()) == 1);
        CHECK(SSL_session_reused(ends.channel->native()) == 1);
    }
}

TEST_CASE("tls channel: after it was closed calls fail, and touch no descriptor") {
    Ends ends;
    ends.shake_hands();
    ends.peer->say("hello");
    ends.channel->close();
    CHECK(ends.read().status == Status::failed);
    CHECK(ends.write({"x"}).status == Status::failed);
    CHECK(ends.probe() == Status::failed);
    ends.channel->finish();
}

TEST_CASE("tls channel: it works as the server, too") {
    const Authority authority;
    const auto context = test::server_context(authority.issue());
    const std::unique_ptr<SSL_CTX, test::ReleaseOpenSsl> other(SSL_CTX_new(TLS_client_method()));
    const StreamPair pair;
    TlsChannel server(TlsPtr(SSL_new(context.get())), TlsSide::server, pair.ends[0]);
    TlsPeer client(other.get(), false, pair.ends[1]);
    Status status = Status::wants_read;
    for (int i = 0; i < 10 && status == Status::wants_read; ++i) {
        client.receive();
        client.flush();
        server.note_arrival(false);
        status = server.shake_hands();
    }
    REQUIRE(status == Status::ok);
    client.receive();
    client.say("GET");
    server.note_arrival(false);
    std::string text(100, '\0');
    CHECK(server.read(text).bytes == 3);
    std::string answer = "200";
    const iovec part{answer.data(), answer.size()};
    CHECK(server.write({&part, 1}).bytes == 3);
    server.finish();
    CHECK(client.heard() == "200");
    CHECK(client.was_told_the_end());
    ::close(pair.ends[0]);
}

constexpr std::size_t kRecordBuffer = TlsChannel::kRecordBytesMax + 300;

void* take(std::size_t size) {
    return openssl_malloc(size, __FILE__, __LINE__);
}

void* resize(void* block, std::size_t size) {
    return openssl_realloc(block, size, __FILE__, __LINE__);
}

void give(void* block) {
    openssl_free(block, __FILE__, __LINE__);
}

void* take_filled(std::size_t size, char filling = 'x') {
    void* const block = take(size);
    REQUIRE(block != nullptr);
    std::memset(block, filling, size);
    return block;
}

std::string_view bytes_of(const void* block, std::size_t size) {
    return {static_cast<const char*>(block), size};
}

TEST_CASE("record memory: a thread has two buffers for records, used again at once") {
    void* const first = take_filled(kRecordBuffer);
    void* const second = take_filled(kRecordBuffer);
    CHECK(first != second);
    give(first);
    give(second);
    // malloc() would have given these what was freed.
    void* const others[] = {std::malloc(kRecordBuffer), std::malloc(kRecordBuffer)};
    for (int i = 0; i < 3; ++i) {
        void* const again = take_filled(kRecordBuffer + 200);
        CHECK(again == first);
        give(again);
    }
    for (void* const other : others) std::free(other);
}

TEST_CASE("record memory: however many buffers are taken at once, none is lent twice") {
    std::vector<void*> taken;
    for (char filling = 'a'; filling <= 'z'; ++filling) {
        taken.push_back(take_filled(kRecordBuffer, filling));
    }
    char filling = 'a';
    for (void* const block : taken) {
        CHECK(bytes_of(block, kRecordBuffer) == std::string(kRecordBuffer, filling++));
        give(block);
    }
}

TEST_CASE("record memory: other sizes come from malloc") {
    void* const buffer = take_filled(kRecordBuffer);
    give(buffer);
    for (const std::size_t size : {1UL, 200UL, 16'000UL, 17'408UL, 100'000UL}) {
        void* const other = take_filled(size);
        CHECK(other != buffer);
        give(other);
    }
}

TEST_CASE("record memory: another thread has its own buffers, and may free this one's") {
    void* const ours = take_filled(kRecordBuffer);
    std::thread([ours] { give(ours); }).join();
    void* theirs = nullptr;
    std::thread([&theirs] { theirs = take_filled(kRecordBuffer); }).join();
    CHECK(theirs != ours);
    void* const again = take_filled(kRecordBuffer);
    CHECK(again == ours);
    give(again);
    give(theirs);
}

TEST_CASE("record memory: bytes are kept when a block is reallocated") {
    for (const std::size_t size : {100UL, kRecordBuffer, 40'000UL}) {
        for (const std::size_t resized : {50UL, 300UL, kRecordBuffer, 50'000UL}) {
            void* const block = resize(take_filled(size, 'y'), resized);
            REQUIRE(block != nullptr);
            const std::size_t kept = std::min(size, resized);
            CHECK(bytes_of(block, kept) == std::string(kept, 'y'));
            std::memset(block, 'z', resized);
            give(block);
        }
    }
}

TEST_CASE("record memory: a size of 0 returns null, and to reallocate to 0 frees") {
    CHECK(take(0) == nullptr);
    give(nullptr);
    CHECK(resize(nullptr, 0) == nullptr);
    void* const buffer = take_filled(kRecordBuffer);
    CHECK(resize(buffer, 0) == nullptr);
    void* const again = resize(nullptr, kRecordBuffer);
    CHECK(again != nullptr);
    give(again);
}

}  // namespace

}  // namespace tidegate::tls_channel_test
