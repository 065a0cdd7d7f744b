// An encrypted connection that hiredis takes for a plain one.
//
// hiredis 0.14 knows no TLS and later versions do it in their own way, so the descriptor it holds
// becomes the near end of a pair of sockets, whatever its version. This pipe connects the far end
// with the server: it encrypts what it reads from hiredis and decrypts what it reads from the
// server. Each way holds one buffer, and waits for a side that takes nothing, so the sockets' own
// buffers are the only others. One thread; owned through a shared pointer because operations
// outlive a close.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "net/asio.hpp"
#include "net/byte_stream.hpp"
#include "net/tls_fault.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::redis {

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

}  // namespace tidegate::redis
