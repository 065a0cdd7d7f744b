// Non-blocking connections, and which of them are worth trying again. Single-threaded.
#pragma once

#include <sys/epoll.h>
#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "net/asio.hpp"
#include "net/descriptor.hpp"
#include "net/wakeup.hpp"
#include "tls/channel.hpp"

namespace tidegate {

class Connection;

// Which connections of a worker are worth trying again.
//
// One epoll instance of our own, nested in the event loop's. A connection is registered once, for
// edges, and never again: to ask Asio for each wait would cost a system call each time. The loop
// wakes for the whole instance, and what is ready, up to 256 at once, runs in one turn; turns that
// begin with something else ask for it, too. While each turn brings several, some follow one
// another.
class Readiness final : private Turn::Source {
  public:
    // Throws std::system_error when the kernel has no epoll instance to give.
    explicit Readiness(asio::io_context& io);
    ~Readiness();
    Readiness(const Readiness&) = delete;
    Readiness& operator=(const Readiness&) = delete;

    // Reports to `connection` what happens to `descriptor` from now on, and its present state.
    // False when the kernel refuses.
    bool add(int descriptor, Connection& connection);
    // No more events are delivered; the descriptor is about to be closed.
    void remove(const Connection& connection);
    // Like remove(), for a descriptor that stays open.
    void release(int descriptor, const Connection& connection);

    // The events that were fetched for `connection` and not delivered yet, or 0: what is ready in
    // one turn is fetched at once and delivered one by one.
    std::uint32_t undelivered(const Connection& connection) const;

    // Lets the event loop end: it no longer waits for this epoll instance.
    void stop();

  private:
    void watch();
    void deliver() noexcept override;

    Turn& turn_;
    asio::posix::basic_stream_descriptor<Executor> epoll_;
    std::array<epoll_event, 256> events_;
    std::size_t next_ = 0;   // of events_, the first that has not been delivered
    std::size_t count_ = 0;  // of events_
};

// Waits for events without sleeping: to be woken takes tens of microseconds where the CPU has gone
// to sleep meanwhile, more than all that Tidegate does for a request.
//
// Runs the handlers that are ready. Where none is, polls for events until one is, for `patience` at
// most; other threads that want this CPU get it meanwhile. Returns whether a handler ran; at once
// when the loop has no work left. Call on the loop's thread only.
bool poll_for(asio::io_context& io, std::chrono::microseconds patience);

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

// A non-blocking stream socket and whether it is worth trying: the part of a client's and of an
// upstream's connection that is the same. Holds no buffer.
//
// In the clear, or over TLS once begin_tls() was called: then what is read and written is what is
// spoken over TLS, and the rest is as in the clear. But an end without close_notify is a failure,
// as an attacker on the way could have cut the connection there.
//
// Reads and writes are tried at once and never wait. A caller that finds nothing to read registers
// a Wakeup (`watch_read`) and sleeps until `readable`. Reference-counted, because the caller that
// is woken may release it.
class Connection : public boost::intrusive_ref_counter<Connection, boost::thread_unsafe_counter> {
  public:
    // Takes over `descriptor`, a non-blocking stream socket, which may still be connecting; none is
    // a connection that is closed.
    Connection(Readiness& readiness, Descriptor&& descriptor) noexcept;
    // For callers that do nothing that can fail before this call. -1 is none.
    Connection(Readiness& readiness, int descriptor) noexcept
        : Connection(readiness, Descriptor(descriptor)) {}
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    IoResult read_some(std::span<char> into);
    // Like read_some(), but the bytes stay to be read. Not after begin_tls().
    IoResult peek_some(std::span<char> into);
    // The caller has peeked at all bytes that are there and needs more: readable() is false until
    // more have come. Not after has_hung_up(): then no more come.
    void await_more() { readable_ = false; }
    // Gathers `parts` into one system call. Over TLS, after would_block, the same bytes must come
    // again.
    IoResult write_some(std::span<const iovec> parts);

    // Moves bytes without a copy, between the connection and an end of a pipe that does not block.
    // SplicePipe calls these, and says what they return. Not after begin_tls().
    IoResult splice_into(int pipe, std::size_t bytes_max);
    IoResult splice_from(int pipe, std::size_t bytes);

    // From now on everything goes over `tls`, which is not null. shake_hands() comes first.
    void begin_tls(TlsPtr tls, TlsSide side);
    // Returns would_block if the caller must call again once readable() is true, which then also
    // means that the handshake can write. Requires begin_tls().
    IoStatus shake_hands();
    // Null: in the clear.
    TlsChannel* tls() const { return tls_.get(); }

    // False when a try has found nothing and nothing has happened since. A closed connection counts
    // as readable and writable, and trying it fails.
    bool readable() const { return readable_; }
    bool writable() const { return writable_; }
    // Readable, or the kernel has reported it already and no sleeper was woken. For callers that
    // must not mistake bytes that are there for bytes still to come. Messages of TLS itself do not
    // count.
    bool has_spoken();

    // Wakes `sleeper` once when readable() or writable() becomes true; null removes the sleeper.
    // Look first, then sleep.
    void watch_read(Wakeup* sleeper) { read_sleeper_ = sleeper; }
    void watch_write(Wakeup* sleeper) { write_sleeper_ = sleeper; }
    // For the next owner: the sleepers of the one before, such as a handshake, may be gone.
    void forget_sleepers() { read_sleeper_ = write_sleeper_ = nullptr; }

    bool is_open() const { return descriptor_ >= 0; }
    // An end or an error is to be read, perhaps behind something else.
    bool has_hung_up() const { return hung_up_; }
    // The peer has finished sending, and its end was read. It may still take what is sent to it.
    bool has_ended() const { return ended_; }
    // epoll has reported the end of the peer's socket, or an error: no more bytes come, but some
    // may be unread. Over TLS has_ended() may be true before: a close_notify ends only TLS.
    bool has_socket_ended() const { return socket_ended_; }
    // Reset, or closed on either side for both directions: nothing that is sent arrives.
    bool is_broken() const { return broken_; }
    // Has the kernel ask from time to time whether the peer is still there: for a wait in which
    // nothing is sent. A peer that has closed for both directions then shows as broken within some
    // minutes at most, and much sooner if its system has forgotten the connection.
    void probe_peer();
    // How much of what was written the peer's system has not acknowledged: a system call.
    std::size_t queued_bytes() const;
    // Returns the result of connecting, once writable: 0, or an errno.
    int connect_error() const;
    // Sends what the kernel holds and then the end, that of TLS before that of the socket.
    // would_block: there is no room for that of TLS, and nothing was done; again once writable.
    IoStatus shutdown_send();
    // Wakes no sleeper.
    void close();
    // Like close(), but the descriptor stays open and is the caller's; after begin_tls() only so
    // that what was sent arrives.
    Descriptor release();
    // Drops what the kernel holds and resets, so that the peer sees a broken message.
    void reset();

  private:
    friend class Readiness;
    IoResult receive(std::span<char> into, int flags);
    IoResult note_received(ssize_t bytes);
    IoResult note_sent(ssize_t bytes);
    void on_events(std::uint32_t events);
    void tell_tls(std::uint32_t events);
    IoResult read_over_tls(std::span<char> into);
    IoResult write_over_tls(std::span<const iovec> parts);
    IoStatus note_unread(TlsChannel::Status status);

    Readiness& readiness_;
    Wakeup* read_sleeper_ = nullptr;
    Wakeup* write_sleeper_ = nullptr;
    std::unique_ptr<TlsChannel> tls_;
    int descriptor_;
    // Which of epoll's events make it readable and writable. In TLS a read may have to write first.
    std::uint16_t read_events_;
    std::uint16_t write_events_;
    bool readable_ = false;
    bool writable_ = false;
    bool hung_up_ = false;
    bool ended_ = false;
    bool socket_ended_ = false;
    bool broken_ = false;
    bool has_finished_ = false;  // this side has sent its end
};

using ConnectionPtr = boost::intrusive_ptr<Connection>;

}  // namespace tidegate
