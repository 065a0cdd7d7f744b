#include "net/transfer.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

namespace tidegate {

namespace {

// The size of a pipe by default. A larger portion leaves the processor's cache; a smaller one needs
// more system calls than copying. A user who holds many pipes gets small ones (pipe-user-pages-soft
// in pipe(7)), which are not worth it.
constexpr int kPortion = 65'536;

}  // namespace

SplicePipe::SplicePipe(SplicePipes& pipes) : pipes_(pipes) {
    if (pipes_.is_refused || pipes_.open >= kPipesMax) return;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) return;
    Descriptor read_end(ends[0]);
    Descriptor write_end(ends[1]);
    if (::fcntl(write_end.get(), F_GETPIPE_SZ) < kPortion) return;
    read_end_ = std::move(read_end);
    write_end_ = std::move(write_end);
    ++pipes_.open;
}

SplicePipe::~SplicePipe() {
    if (is_open()) --pipes_.open;
}

// The pipe is empty: only the connection can block.
IoResult SplicePipe::fill(Connection& from, std::uint64_t bytes_max) {
    assert(is_open() && empty() && bytes_max > 0);
    const IoResult result = from.splice_into(
        write_end_.get(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, kPortion)));
    size_ = result.bytes;
    if (result.status == IoStatus::ok && empty()) pipes_.is_refused = true;
    return result;
}

IoStatus SplicePipe::drain(Connection& to) {
    while (size_ > 0) {
        const IoResult result = to.splice_from(read_end_.get(), size_);
        if (result.status != IoStatus::ok) return result.status;
        if (result.bytes == 0) return IoStatus::failed;  // never; it must not end in a loop
        size_ -= result.bytes;
    }
    return IoStatus::ok;
}

std::size_t Outbox::bytes() const {
    std::size_t sum = pipe_ != nullptr ? pipe_->size() : 0;
    for (std::size_t i = first_; i < count_; ++i) sum += (*pieces_)[i].iov_len;
    return sum;
}

IoStatus Outbox::flush(Connection& connection) {
    if (pipe_ != nullptr) [[unlikely]] {
        const IoStatus status = pipe_->drain(connection);
        if (status != IoStatus::would_block) pipe_ = nullptr;
        if (status != IoStatus::ok) return status;
    }
    while (first_ != count_) {
        const IoResult result = connection.write_some({pieces_->data() + first_, count_ - first_});
        if (result.status != IoStatus::ok) return result.status;
        std::size_t left = result.bytes;
        while (left > 0) {
            iovec& piece = (*pieces_)[first_];
            const std::size_t gone = std::min(left, piece.iov_len);
            piece.iov_base = static_cast<char*>(piece.iov_base) + gone;
            piece.iov_len -= gone;
            left -= gone;
            if (piece.iov_len == 0) ++first_;
        }
    }
    clear();
    return IoStatus::ok;
}

Task<IoStatus> Outbox::flush_all(Connection& connection, Sleeper& sleeper,
                                 std::chrono::milliseconds patience) {
    for (;;) {
        const IoStatus status = flush(connection);
        if (status != IoStatus::would_block) co_return status;
        sleeper.allow(patience);
        connection.watch_write(&sleeper.wakeup());
        while (!connection.writable() && !sleeper.expired()) co_await sleeper.sleep();
        if (!connection.writable()) {
            clear();
            co_return IoStatus::failed;
        }
        sleeper.allow_forever();
    }
}

TunnelInput read_tunnel(Connection& connection, Buffer& input, Wakeup& wakeup) {
    if (!connection.readable()) {
        connection.watch_read(&wakeup);
        return TunnelInput::nothing;
    }
    if (input.space().empty()) input.make_room(input.capacity());
    assert(!input.space().empty());
    const IoResult read = connection.read_some(input.space());
    if (read.status == IoStatus::ok) {
        input.commit(read.bytes);
        return TunnelInput::more;
    }
    if (input.empty()) input.release();
    if (read.status == IoStatus::end) return TunnelInput::end;
    if (read.status == IoStatus::failed) return TunnelInput::failed;
    connection.watch_read(&wakeup);
    return TunnelInput::nothing;
}

IoResult send_tunnel(Connection& connection, std::string_view bytes, Wakeup& wakeup) {
    IoResult sent{IoStatus::would_block};
    if (connection.writable()) {
        const std::array<iovec, 1> part{{{const_cast<char*>(bytes.data()), bytes.size()}}};
        sent = connection.write_some(part);
    }
    if (sent.status == IoStatus::would_block) connection.watch_write(&wakeup);
    return sent;
}

IoStatus finish_tunnel(Connection& connection, Wakeup& wakeup) {
    const IoStatus status = connection.shutdown_send();
    if (status == IoStatus::would_block) connection.watch_write(&wakeup);
    return status;
}

BufferPool::~BufferPool() {
    for (auto& blocks : free_) {
        for (char* block : blocks) delete[] block;
    }
}

char* BufferPool::take(std::size_t& size) {
    if (size > kLarge) return new char[size];
    const bool large = size > kSmall;
    size = large ? kLarge : kSmall;
    auto& blocks = free_[large];
    if (blocks.empty()) return new char[size];
    char* block = blocks.back();
    blocks.pop_back();
    return block;
}

void BufferPool::give(char* block, std::size_t size) {
    const bool pooled = size == kSmall || size == kLarge;
    auto& blocks = free_[size == kLarge];
    if (pooled && blocks.size() < kKept) {
        blocks.push_back(block);
    } else {
        delete[] block;
    }
}

std::span<char> Buffer::space(std::size_t block_size) {
    if (block_ == nullptr) {
        capacity_ = block_size;
        block_ = pool_->take(capacity_);
    }
    return {block_ + end_, capacity_ - end_};
}

void Buffer::consume(std::size_t bytes) {
    assert(bytes <= size());
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
}

void Buffer::make_room(std::size_t capacity) {
    if (capacity <= capacity_) {
        if (begin_ > 0) std::memmove(block_, block_ + begin_, size());
    } else {
        char* block = pool_->take(capacity);
        if (block_ != nullptr) {
            std::memcpy(block, block_ + begin_, size());
            pool_->give(block_, capacity_);
        }
        block_ = block;
        capacity_ = capacity;
    }
    end_ -= begin_;
    begin_ = 0;
}

void Buffer::append(std::string_view bytes) {
    if (space().size() < bytes.size()) make_room(std::max(size() + bytes.size(), capacity_ * 2));
    std::memcpy(block_ + end_, bytes.data(), bytes.size());
    commit(bytes.size());
}

void Buffer::give_back() {
    pool_->give(block_, capacity_);
    block_ = nullptr;
    capacity_ = begin_ = end_ = 0;
}

void Buffer::swap(Buffer& other) noexcept {
    assert(pool_ == other.pool_);
    std::swap(block_, other.block_);
    std::swap(capacity_, other.capacity_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
}

}  // namespace tidegate
