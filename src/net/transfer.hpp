// Bytes on their way from one connection to another: buffers, pieces of memory, what a pipe holds,
// and what goes through a tunnel. Single-threaded.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "net/connection.hpp"
#include "net/descriptor.hpp"
#include "net/wakeup.hpp"

namespace tidegate {

// Flat buffers from a free list. An idle connection holds none.
//
// One pool a worker; buffers and pool belong to that thread.
class BufferPool {
  public:
    static constexpr std::size_t kSmall = 16'384;  // a head and what comes with it
    static constexpr std::size_t kLarge = 65'536;  // a body that streams

    BufferPool() = default;
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;
    ~BufferPool();

    // A block of at least `size` bytes; `size` becomes what it has.
    char* take(std::size_t& size);
    void give(char* block, std::size_t size);

  private:
    static constexpr std::size_t kKept = 64;  // blocks of each size that wait for the next user

    std::array<std::vector<char*>, 2> free_;
};

// Bytes that were read and not yet consumed, in one piece.
class Buffer {
  public:
    explicit Buffer(BufferPool& pool) : pool_(&pool) {}
    ~Buffer() { release(); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    bool empty() const { return begin_ == end_; }
    std::size_t size() const { return end_ - begin_; }
    std::size_t capacity() const { return capacity_; }
    std::string_view data() const { return {block_ + begin_, end_ - begin_}; }

    // Room to read into. Takes a block if there is none; moves no byte, so views stay valid.
    std::span<char> space(std::size_t block_size = BufferPool::kSmall);
    void commit(std::size_t bytes) { end_ += bytes; }
    void consume(std::size_t bytes);

    // Moves what is there to the front, into a block of at least `capacity`. Views go stale.
    void make_room(std::size_t capacity);
    // Copies `bytes` behind what is there. Views may go stale.
    void append(std::string_view bytes);
    // Gives the block back.
    void release() {
        if (block_ != nullptr) give_back();
    }
    void swap(Buffer& other) noexcept;

  private:
    void give_back();

    BufferPool* pool_;
    char* block_ = nullptr;
    std::size_t capacity_ = 0;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

// Holds the state that the pipes of one worker share.
struct SplicePipes {
    std::size_t open = 0;
    // The kernel or a seccomp filter has refused to splice: the worker copies from then on.
    bool is_refused = false;
};

// A pipe through which the kernel hands the bytes of one socket to another without copying them
// (splice). For long bodies without TLS that are forwarded unchanged.
class SplicePipe {
  public:
    // With fewer bytes still to come, a pipe costs more than the copies that it saves.
    static constexpr std::uint64_t kBytesMin = 262'144;
    // Open at a time in a worker, as each takes two descriptors. Further bodies are copied.
    static constexpr std::size_t kPipesMax = 32;

    // Opens a pipe. It stays closed where the worker has as many as it may or splicing was refused,
    // and where the kernel gives only a smaller one than usual.
    explicit SplicePipe(SplicePipes& pipes);
    ~SplicePipe();
    SplicePipe(const SplicePipe&) = delete;
    SplicePipe& operator=(const SplicePipe&) = delete;

    // False: the body has to be copied.
    bool is_open() const { return static_cast<bool>(write_end_); }
    bool empty() const { return size_ == 0; }
    // The bytes that were filled in and not drained.
    std::size_t size() const { return size_; }

    // Takes what has come on `from`, at most `bytes_max`, which is not 0. Ok with no bytes:
    // splicing was refused, and nothing was moved. Requires that it is open and empty.
    IoResult fill(Connection& from, std::uint64_t bytes_max);
    // Sends what `to` takes now: ok when all is gone, or would_block, or failed.
    IoStatus drain(Connection& to);

  private:
    SplicePipes& pipes_;
    Descriptor read_end_;
    Descriptor write_end_;
    std::size_t size_ = 0;
};

// Pieces of bytes on their way into a connection, gathered into as few system calls as it takes;
// or what a pipe holds. Holds views: what they point to stays until everything has been sent.
class Outbox {
  public:
    static constexpr std::size_t kPiecesMax = 16;

    void add(std::string_view piece) {
        if (piece.empty()) return;
        assert(count_ < kPiecesMax);
        if (!pieces_) pieces_ = std::make_unique_for_overwrite<Pieces>();
        (*pieces_)[count_++] = {const_cast<char*>(piece.data()), piece.size()};  // only read
    }
    // All that is in `pipe`, which stays until it was sent, too. Requires empty().
    void add(SplicePipe& pipe) {
        assert(empty());
        pipe_ = &pipe;
    }
    bool empty() const { return first_ == count_ && pipe_ == nullptr; }
    // How many bytes wait to be sent.
    std::size_t bytes() const;
    void clear() {
        first_ = count_ = 0;
        pipe_ = nullptr;
    }
    // Frees the memory for pieces, which otherwise stays for the next ones. Requires empty().
    void release() { pieces_.reset(); }

    // Sends what the connection takes now: `ok` when everything is sent, or would_block, or failed.
    IoStatus flush(Connection& connection);

    // Sends all of it, each wait within `patience`. Failed, too, when time runs out: then the
    // sleeper has expired.
    Task<IoStatus> flush_all(Connection& connection, Sleeper& sleeper,
                             std::chrono::milliseconds patience);

  private:
    using Pieces = std::array<iovec, kPiecesMax>;

    std::unique_ptr<Pieces> pieces_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    SplicePipe* pipe_ = nullptr;  // in place of pieces
};

// Reads once, into a block that stays only until `receive` has seen its bytes. False: the other
// side has closed, or reset.
template <class Receive>
bool read_block(Connection& connection, BufferPool& buffers, Receive receive) {
    std::size_t size = BufferPool::kLarge;
    char* const block = buffers.take(size);
    const IoResult read = connection.read_some({block, size});
    if (read.status == IoStatus::ok) receive(std::string_view(block, read.bytes));
    buffers.give(block, size);
    return read.status == IoStatus::ok || read.status == IoStatus::would_block;
}

// Writes `output` as far as the connection takes it now, and goes on with what `refill` has put
// there for as long as that returns true. Returns how much was written. Failed: nothing more
// reaches the other side. An empty buffer gives its block back.
template <class Refill>
IoResult write_buffer(Connection& connection, Buffer& output, Refill refill) {
    IoResult written{IoStatus::ok};
    while (connection.writable() && (!output.empty() || refill())) {
        const std::string_view bytes = output.data();
        const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
        const IoResult sent = connection.write_some({&part, 1});
        written.status = sent.status;
        if (sent.status != IoStatus::ok) break;
        written.bytes += sent.bytes;
        output.consume(sent.bytes);
    }
    if (output.empty()) output.release();
    return written;
}

// Bytes that come and go on a connection that speaks HTTP no more: what the streams of both sides
// do alike. Holds a buffer only while bytes are there.

enum class TunnelInput : std::uint8_t {
    more,     // `input` has more than before
    nothing,  // `wakeup` is woken when there is something
    end,      // the peer has finished sending
    failed,   // reset, or cut off
};

// Reads once. Requires that `input` holds fewer than BufferPool::kSmall bytes, so that it has room.
TunnelInput read_tunnel(Connection& connection, Buffer& input, Wakeup& wakeup);

// Drops the front of `input`; an empty buffer gives its block back.
inline void drop_tunnel(Buffer& input, std::size_t bytes) {
    input.consume(bytes);
    if (input.empty()) input.release();
}

// Sends what the connection takes now. would_block: `wakeup` is woken when it takes more, and the
// same bytes come again first.
IoResult send_tunnel(Connection& connection, std::string_view bytes, Wakeup& wakeup);

// Sends the end. would_block: again when `wakeup` is woken.
IoStatus finish_tunnel(Connection& connection, Wakeup& wakeup);

}  // namespace tidegate
