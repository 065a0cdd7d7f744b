// A non-blocking stream socket and whether it is worth trying: the part of a client's and of an
// upstream's connection that is the same. Holds no buffer.
//
// Reads and writes are tried at once and never wait. Who finds nothing to read names itself
// (`watch_read`) and sleeps on a Wakeup until `readable`. Reference-counted, because who is woken
// may let go of it. Single-threaded.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "net/readiness.hpp"
#include "net/wakeup.hpp"

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
    // Takes over `descriptor`, a non-blocking stream socket, which may still be connecting; -1 is
    // a connection that is closed.
    Connection(Readiness& readiness, int descriptor);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    IoResult read_some(std::span<char> into);
    // Gathers `parts` into one system call.
    IoResult write_some(std::span<const iovec> parts);

    // False when a try has found nothing and nothing has happened since: another would be in vain.
    // A connection that is closed is worth trying, which fails.
    bool readable() const { return readable_; }
    bool writable() const { return writable_; }
    // Readable, or the kernel has said so already and nobody has been told. For who must not take
    // what is there for something that is still to come.
    bool has_spoken() const { return readable_ || readiness_.has_news(*this); }

    // Wakes `sleeper`, once, when that changes; null: nobody. Look first, then sleep.
    void watch_read(Wakeup* sleeper) { read_sleeper_ = sleeper; }
    void watch_write(Wakeup* sleeper) { write_sleeper_ = sleeper; }

    bool is_open() const { return descriptor_ >= 0; }
    // An end or an error is to be read, perhaps behind something else.
    bool has_hung_up() const { return hung_up_; }
    // The peer has finished sending, and its end was read. It may still take what is sent to it.
    bool has_ended() const { return ended_; }
    // Reset, or closed on either side for both directions: nothing that is sent arrives.
    bool is_broken() const { return broken_; }
    // Has the kernel ask from time to time whether the peer is still there: for a wait in which
    // nothing is sent. A peer that has closed for both directions then shows as broken within some
    // minutes at most, and much sooner if its system has forgotten the connection.
    void probe_peer();
    // What became of connecting, once writable: 0, or an errno.
    int connect_error() const;
    // Sends what the kernel holds and then the end.
    void shutdown_send();
    // Wakes nobody.
    void close();
    // Drops what the kernel holds and resets, so that the peer sees a broken message.
    void reset();

  private:
    friend class Readiness;
    void on_events(std::uint32_t events);

    Readiness& readiness_;
    Wakeup* read_sleeper_ = nullptr;
    Wakeup* write_sleeper_ = nullptr;
    int descriptor_;
    bool readable_ = false;
    bool writable_ = false;
    bool hung_up_ = false;
    bool ended_ = false;
    bool broken_ = false;
};

using ConnectionPtr = boost::intrusive_ptr<Connection>;

}  // namespace tidegate
