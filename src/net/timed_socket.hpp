// A connection that is closed when its peer takes too long: for what is off the path of requests,
// where a timer for each connection does no harm.
#pragma once

#include <chrono>
#include <memory>

#include "net/asio.hpp"
#include "net/byte_stream.hpp"

namespace tidegate {

// Belongs to one event loop. Owned by shared pointers: its timer keeps it alive, and a
// coroutine that waits for it has to.
class TimedSocket : public ByteStream, public std::enable_shared_from_this<TimedSocket> {
  public:
    explicit TimedSocket(StreamSocket socket);

    // Closes the socket unless this is called again within `patience`.
    void expect_within(std::chrono::steady_clock::duration patience);
    // The peer may be silent for as long as it likes, until expect_within() is called again.
    void expect_nothing();

    void close();

    // Tells the peer that no more comes, then closes; for a peer that may still be sending, so that
    // a reset does not take the answer away: what it sends is read and thrown away for a while.
    Task<> close_gently(std::chrono::steady_clock::duration patience);

  private:
    Timer timer_;
};

}  // namespace tidegate
