// Which connections of a worker are worth trying again.
//
// One epoll instance of our own, nested in the event loop's. A connection is registered once, for
// edges, and never again: to ask Asio for each wait would cost a system call each time. The loop
// wakes for the whole instance, and what is ready, up to 256 at once, runs in one turn; turns that
// begin with something else ask for it, too. While each turn brings several, some follow one
// another. Single-threaded.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include "net/asio.hpp"
#include "net/turn.hpp"

namespace tidegate {

class Connection;

class Readiness final : private Turn::Source {
  public:
    // Throws std::system_error when the kernel has no epoll instance to give.
    explicit Readiness(asio::io_context& io);
    ~Readiness();
    Readiness(const Readiness&) = delete;
    Readiness& operator=(const Readiness&) = delete;

    // Tells `connection` of what happens to `descriptor` from now on, and what it is like now.
    // False when the kernel will not.
    bool add(int descriptor, Connection& connection);
    // No more events are delivered; the descriptor is about to be closed.
    void remove(const Connection& connection);
    // The same for a descriptor that stays open.
    void release(int descriptor, const Connection& connection);

    // The events that were fetched for `connection` and not delivered yet, or 0: what is ready in
    // one turn is fetched at once and delivered one by one.
    std::uint32_t undelivered(const Connection& connection) const;

    // The event loop need not go on for our sake.
    void stop();

  private:
    void watch();
    void tell() noexcept override;

    Turn& turn_;
    asio::posix::basic_stream_descriptor<Executor> epoll_;
    std::array<epoll_event, 256> events_;
    std::size_t next_ = 0;   // of events_, the first that has not been delivered
    std::size_t count_ = 0;  // of events_
};

}  // namespace tidegate
