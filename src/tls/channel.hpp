// One side of a TLS connection over the descriptor of a non-blocking stream socket. Reads, writes
// and handshakes are tried at once and never wait; the status says what the next try needs. Once
// the kernel had no more bytes, it is asked again only after note_arrival(): the owner has to pass
// on each edge that epoll reports, or reading stops.
//
// The channel borrows the descriptor: its owner closes it. One thread. An idle channel holds no
// buffer.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <utility>

#include <openssl/types.h>

#include "tls/openssl.hpp"

namespace tidegate {

enum class TlsSide : unsigned char { client, server };

class TlsChannel {
  public:
    enum class Status : unsigned char {
        ok,           // `bytes` were moved; a short write is ok too
        wants_read,   // try again after note_arrival()
        wants_write,  // try again when it is writable, also where the try was to read
        end,          // the peer says that it has finished sending
        cut_off,      // the end came without that message: an attacker may have cut the connection
        failed,       // see error() and system_error()
    };
    struct Outcome {
        Status status;
        std::size_t bytes = 0;
    };

    // Handshake messages in a row, with nothing of what is spoken over TLS between them, that a
    // peer may send once the handshake is over: key updates and tickets cost work.
    static constexpr int kMessagesMax = 32;
    // A record has at most so many bytes (RFC 8446 section 5.1), and a write makes one record.
    static constexpr std::size_t kRecordBytesMax = 16'384;

    // Requires a `tls` that has not been used. Throws std::bad_alloc when OpenSSL has no memory.
    TlsChannel(TlsPtr tls, TlsSide side, int descriptor);
    ~TlsChannel();
    TlsChannel(const TlsChannel&) = delete;
    TlsChannel& operator=(const TlsChannel&) = delete;

    // ok: the handshake is over. read() and write() continue one that is not over.
    Status shake_hands();

    // Whether both sides agreed on HTTP/2 (ALPN, RFC 7301) rather than HTTP/1. Requires that the
    // handshake is over.
    bool speaks_http2() const;

    // epoll has reported the descriptor readable; `is_end`: with the end or an error, after which
    // it may report nothing more.
    void note_arrival(bool is_end) {
        is_kernel_empty_ = false;
        is_end_reported_ |= is_end;
    }

    // Reads what has come, as much as fits.
    Outcome read(std::span<char> into);
    // Right after a read(): it got all there was, so a further read would get nothing.
    bool is_dry() const { return is_kernel_empty_ && !has_unread_ && ended_ == Status::ok; }
    // Whether part of a record has come that read() could not return yet.
    bool has_begun_record() const;
    // Takes in what is no data, such as tickets. ok: data are there to read.
    Status probe();

    // Sends the front of `parts` as one record. After wants_write the same bytes must come again at
    // the front of `parts`, wherever they are now: part of their record may have been sent.
    Outcome write(std::span<const iovec> parts);
    // Says that no more is written. The kernel sends that together with the end of the socket,
    // which has to follow at once. False: the kernel has no room for that now; again when the
    // descriptor is writable. Not where a peer must see that something is missing.
    bool finish();

    // The descriptor is about to be closed: from now on everything fails.
    void close() { descriptor_ = -1; }

    // The first error of OpenSSL, or 0. It says more than system_error(), the errno of the first
    // call that failed, or 0.
    unsigned long error() const { return error_; }
    int system_error() const { return system_error_; }
    // The last alert that this side sent, or 0, which says that it had no more to send.
    int sent_alert() const { return sent_alert_; }
    SSL* native() const { return tls_.get(); }

    // The session that the server gave last, of which each is for one connection. Null: it gave
    // none since the last call. A channel has one only if its context was prepared by
    // keep_sessions().
    TlsSessionPtr take_session() { return std::move(session_); }
    // Has the channels of a client's context keep what take_session() returns.
    static void keep_sessions(SSL_CTX* context);

  private:
    struct Bio;
    Status status_of(int result);
    Status status_of_reading(int result);
    void note_end(Status status);
    Status end_of_reading() const;
    static void on_message(int written, int version, int type, const void* bytes, std::size_t size,
                           SSL* tls, void* self);
    static int on_session(SSL* tls, SSL_SESSION* session);

    TlsPtr tls_;
    TlsSessionPtr session_;
    unsigned long error_ = 0;
    int system_error_ = 0;
    int sent_alert_ = 0;
    int kernel_error_ = 0;  // an errno of the last call that failed
    int descriptor_;
    int messages_ = 0;               // see kMessagesMax
    Status ended_ = Status::ok;      // reading; ok: not yet
    bool is_shaken_ = false;         // the handshake is over
    bool is_broken_ = false;         // OpenSSL gave the connection up
    bool is_kernel_empty_ = false;   // it had no more bytes, and no arrival was noted since
    bool is_end_reported_ = false;   // so reading goes on until it is found
    bool has_unread_ = false;        // more than fitted the last read()
    bool has_more_to_send_ = false;  // the kernel need not send at once
    bool is_kernel_shut_ = false;    // a try may only use what was received before
    bool saw_end_ = false;           // the kernel told the peer's end
};

// The allocator of OpenSSL, which allocates a buffer of a little more than 16 KiB for each record
// and frees it at once, so that an idle connection holds none. For these, each thread has two
// static buffers (above 64 threads some share theirs); where both are taken, and for all else,
// malloc() serves.

// Has OpenSSL use the functions below. Before any other use of OpenSSL; false: it is too late, and
// OpenSSL stays with malloc().
bool use_record_memory();

// Like malloc(), realloc() and free(), on any thread; any thread may free. A size of 0 returns
// null, and to reallocate to 0 frees. `file` and `line` are ignored.
void* openssl_malloc(std::size_t size, const char* file, int line);
void* openssl_realloc(void* block, std::size_t size, const char* file, int line);
void openssl_free(void* block, const char* file, int line);

}  // namespace tidegate
