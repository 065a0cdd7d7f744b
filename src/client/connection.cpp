#include "client/connection.hpp"

#include <chrono>

namespace tidegate::client {

namespace {

using std::chrono::milliseconds;

// How long, and how much, a client may still send to a connection that is being closed.
constexpr milliseconds kLinger{2'000};
constexpr std::size_t kLingerBytesMax = 1'048'576;

// Over TLS an answer that only the end delimits is not whole without a close_notify.
Task<> send_end(Connection& connection, Sleeper& sleeper, milliseconds patience,
                const bool& is_cut_off) {
    sleeper.allow(patience);
    do {
        connection.watch_write(&sleeper.wakeup());
        while (!connection.writable() && !sleeper.expired() && !is_cut_off) {
            co_await sleeper.sleep();
        }
    } while (connection.writable() && connection.shutdown_send() == IoStatus::would_block);
}

}  // namespace

Task<> linger(Connection& connection, Sleeper& sleeper, BufferPool& buffers, milliseconds patience,
              const bool& is_cut_off) {
    // After the client's end nothing more comes whose loss could destroy the answer: the close
    // that follows ends both directions, in one system call.
    const bool has_ended = connection.has_ended();
    if (has_ended && connection.tls() == nullptr) co_return;
    if (connection.shutdown_send() == IoStatus::would_block) {
        co_await send_end(connection, sleeper, patience, is_cut_off);
    }
    if (has_ended) co_return;
    sleeper.allow(kLinger);
    std::size_t room = kLingerBytesMax;
    std::size_t size = BufferPool::kSmall;
    char* const block = buffers.take(size);
    for (;;) {
        const IoResult read = connection.read_some({block, size});
        if (read.status == IoStatus::ok && read.bytes < room) {
            room -= read.bytes;
            continue;
        }
        if (read.status != IoStatus::would_block) break;
        connection.watch_read(&sleeper.wakeup());
        while (!connection.readable() && !sleeper.expired() && !is_cut_off) {
            co_await sleeper.sleep();
        }
        if (sleeper.expired() || is_cut_off) break;
    }
    buffers.give(block, size);
}

}  // namespace tidegate::client
