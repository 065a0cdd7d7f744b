// Pieces of bytes on their way into a connection, gathered into as few system calls as it takes;
// or what a pipe holds.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cassert>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "net/connection.hpp"
#include "net/sleeper.hpp"
#include "net/splice_pipe.hpp"

namespace tidegate {

// Holds views: what they point to stays until everything has been sent. Single-threaded.
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
    // How much waits to be sent.
    std::size_t bytes() const;
    void clear() {
        first_ = count_ = 0;
        pipe_ = nullptr;
    }
    // Gives back the memory for pieces, which else stays for the next ones. Requires empty().
    void release() { pieces_.reset(); }

    // Sends what the connection takes now: `ok` when all is gone, or would_block, or failed.
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

}  // namespace tidegate
