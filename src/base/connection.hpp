// A non-blocking stream and whether it is worth trying: the part of a client's and of an
// upstream's connection that is the same. Holds no buffer.
//
// Reads and writes are tried at once and never wait. Who finds nothing to read asks to be woken
// (`watch_read`) and sleeps on a Wakeup. Reference-counted because a watch that is under way
// outlives the close. Single-threaded.
#pragma once

#include <cstddef>
#include <span>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "base/asio.hpp"
#include "base/wakeup.hpp"

namespace tidegate {

enum class IoStatus : unsigned char {
    ok,           // `bytes` were moved; a short write is ok too
    would_block,  // nothing now
    end,          // the peer has finished sending
    failed,       // reset, timed out, closed here
};

struct IoResult {
    IoStatus status;
    std::size_t bytes = 0;
};

class Connection : public boost::intrusive_ref_counter<Connection, boost::thread_unsafe_counter> {
  public:
    // Takes an open socket and makes it non-blocking.
    explicit Connection(StreamSocket socket);

    IoResult read_some(std::span<char> into);
    // Gathers `parts` into one system call.
    IoResult write_some(std::span<const asio::const_buffer> parts);

    // Wakes `sleeper` when there may be something to read (or an end, or an error). The watch goes
    // on under a later sleeper, or none: then `readable` tells.
    void watch_read(Wakeup* sleeper);
    void watch_write(Wakeup* sleeper);
    // Nobody wants to be woken any more; a watch that is under way stays under way.
    void forget_sleepers() { read_sleeper_ = write_sleeper_ = nullptr; }

    // False while a watch is under way that has found nothing: a read would be in vain.
    bool readable() const { return !watching_read_; }
    bool watching_write() const { return watching_write_; }

    bool is_open() const { return socket_.is_open(); }
    // Sends what the kernel holds and then the end.
    void shutdown_send();
    // Wakes nobody.
    void close();
    // Drops what the kernel holds and resets, so that the peer sees a broken message.
    void reset();

    StreamSocket& socket() { return socket_; }

  private:
    StreamSocket socket_;
    Wakeup* read_sleeper_ = nullptr;
    Wakeup* write_sleeper_ = nullptr;
    bool watching_read_ = false;
    bool watching_write_ = false;
};

using ConnectionPtr = boost::intrusive_ptr<Connection>;

}  // namespace tidegate
