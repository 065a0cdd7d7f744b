// One hiredis connection on Asio: bytes out in one write a turn of the loop, replies in.
//
// hiredis keeps the protocol, Asio the descriptor's events. Commands carry a number (a ticket) and
// never a pointer: the request may be gone when the reply arrives. Owned through a shared pointer
// because waits for events outlive a close. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include "net/asio.hpp"
#include "net/byte_stream.hpp"
#include "net/tls_fault.hpp"
#include "net/wakeup.hpp"
#include "redis/resp.hpp"
#include "tls/tls_client.hpp"

struct redisAsyncContext;
struct redisReply;

namespace tidegate::redis {

// An encrypted connection that hiredis takes for a plain one.
//
// hiredis 0.14 knows no TLS and later versions do it in their own way, so the descriptor it holds
// becomes the near end of a pair of sockets, whatever its version. This pipe connects the far end
// with the server: it encrypts what it reads from hiredis and decrypts what it reads from the
// server. Each way holds one buffer, and waits for a side that takes nothing, so the sockets' own
// buffers are the only others. One thread; owned through a shared pointer because operations
// outlive a close.
class TlsPipe : public std::enable_shared_from_this<TlsPipe> {
  public:
    // Takes over the TCP connection of `descriptor`, which is being made or is made, and puts the
    // near end in its place, under the same number; no event loop may watch it yet. Null, with
    // `reason`, when the process has no descriptors left; then all is as it was.
    static std::shared_ptr<TlsPipe> splice(Executor executor, int descriptor, TlsPtr tls,
                                           std::string& reason);
    ~TlsPipe();
    TlsPipe(const TlsPipe&) = delete;
    TlsPipe& operator=(const TlsPipe&) = delete;

    // Waits for the connection and the TLS handshake, for as long as it takes. `on_done` is called
    // from the event loop, once, with whether the server's certificate was accepted: if not,
    // fault() says why. Not after finish().
    void start(std::function<void(bool)> on_done);

    // hiredis has closed the near end or is about to. What it had written is still sent, if the
    // server takes it soon.
    void finish();

    // TCP is connected; the server has not answered the TLS handshake yet.
    bool is_shaking_hands() const { return is_reached_ && !is_open_; }

    // Why the server's side has ended; an empty message until it has.
    const TlsFault& fault() const { return fault_; }

  private:
    static constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;
    using Buffer = std::array<char, kBufferBytes>;

    TlsPipe(Executor executor, StreamSocket transport, StreamSocket far, TlsPtr tls);

    void live(Task<> task);
    static Task<> run(std::shared_ptr<TlsPipe> self);
    static Task<> encrypt(std::shared_ptr<TlsPipe> self);
    Task<> decrypt();
    Task<error_code> shake_hands();
    void close_soon();
    void close();

    Executor executor_;
    ByteStream server_;
    ByteStream far_;
    Timer lingering_;
    std::function<void(bool)> on_done_;
    TlsFault fault_;
    bool is_reached_ = false;  // there is a TCP connection
    bool is_open_ = false;     // the handshake is over
    bool is_heard_ = false;    // the server has sent something over TLS
    Buffer plain_out_;
    Buffer plain_in_;
};

class TlsPipe;

class HiredisConnection final : public std::enable_shared_from_this<HiredisConnection>,
                                private Turn::Duty {
  public:
    // Called from inside hiredis, but for on_flush(): may note and post, must not resume a
    // coroutine or close the connection.
    class Listener {
      public:
        virtual void on_connected() = 0;
        // The commands of this turn are about to be sent: the last chance to add some.
        virtual void on_flush() = 0;
        virtual void on_reply(std::uint64_t ticket, const Reply& reply) = 0;
        // The last call. Commands without a reply have none to come.
        virtual void on_closed(std::string_view reason) = 0;

      protected:
        ~Listener() = default;
    };

    HiredisConnection(Executor executor, Listener& listener);
    ~HiredisConnection();
    HiredisConnection(const HiredisConnection&) = delete;
    HiredisConnection& operator=(const HiredisConnection&) = delete;

    // Begins to connect; `host` is a numeric address. False, with `reason`, when that fails at
    // once.
    bool connect_tcp(const std::string& host, int port, std::string& reason);
    bool connect_unix(const std::string& path, std::string& reason);
    // The same as connect_tcp(), encrypted by `tls`, which is not null. Connected means that the
    // server's certificate was accepted.
    bool connect_tls(const std::string& host, int port, TlsPtr tls, std::string& reason);

    // After on_closed(): whether the connection ended because one side does not accept the other's
    // TLS.
    bool tls_was_refused() const;
    // Not connected yet: the server has not answered the TLS handshake.
    bool awaits_tls() const;

    // `command` is whole RESP. Leaves with all others of this turn.
    void send(std::string_view command, std::uint64_t ticket);
    // Something is going to be sent: on_flush() is called at the end of this turn.
    void flush_soon();
    // Sends what there is, as far as the socket takes it.
    void flush();

    // The listener is not called any more.
    void close();

  private:
    struct Hooks;  // hiredis's C callbacks

    bool adopt(redisAsyncContext* context, std::string& reason);
    void encrypted(bool good);
    void end(const std::string& reason);
    void keep_text(std::string_view text);
    void end_of_turn() noexcept override;
    void read();
    void watch_read();
    void watch_write();
    void forget_writable();

    Executor executor_;
    Turn& turn_;
    Listener* listener_;
    redisAsyncContext* context_ = nullptr;
    std::shared_ptr<TlsPipe> pipe_;  // none: not encrypted
    asio::posix::basic_stream_descriptor<Executor> descriptor_;
    // The reply that is being read: one object for all replies, instead of allocations for each.
    std::unique_ptr<redisReply> reply_;
    std::string reply_text_;
    bool connected_ = false;
    bool watching_read_ = false;
    bool watching_write_ = false;
    bool ending_turn_ = false;
    bool flushing_ = false;
};

}  // namespace tidegate::redis
