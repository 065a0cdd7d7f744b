#include "tls/channel.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "tls/tls_client.hpp"

namespace tidegate {

namespace {

// Where pieces become one record.
thread_local std::array<char, TlsChannel::kRecordBytesMax> record_scratch;

// SSL_get_error() needs an empty queue of errors. ERR_clear_error() goes through all of it even
// when it is empty, in 800 instructions.
void clear_errors() {
    if (ERR_peek_error() != 0) ERR_clear_error();
}

bool is_full_or_empty(int error) {
    return error == EAGAIN || error == EWOULDBLOCK;
}

// The channel of an `SSL`. Asio keeps the index that OpenSSL reserves for applications.
int channel_index() {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
}

// The bytes of the next record: those of the first piece where they are enough, or gathered.
std::span<const char> next_record(std::span<const iovec> parts) {
    while (!parts.empty() && parts.front().iov_len == 0) parts = parts.subspan(1);
    if (parts.empty()) return {};
    const auto* const first = static_cast<const char*>(parts.front().iov_base);
    if (parts.size() == 1 || parts.front().iov_len >= record_scratch.size()) {
        return {first, std::min(parts.front().iov_len, record_scratch.size())};
    }
    std::size_t size = 0;
    for (const iovec& part : parts) {
        const std::size_t taken = std::min(part.iov_len, record_scratch.size() - size);
        if (taken != 0) std::memcpy(record_scratch.data() + size, part.iov_base, taken);
        size += taken;
    }
    return {record_scratch.data(), size};
}

// The largest record with its head and its tag (RFC 8446 section 5.2), and what OpenSSL has before
// it for the alignment: 16,716 bytes where it reads.
constexpr std::size_t kBufferBytes = 16'896;
// An asio::ssl::stream has two blocks of 17 KiB for as long as it lives.
static_assert(kBufferBytes < 17'408);

// A thread has one buffer for reading a record, and one for writing.
constexpr std::size_t kOfThread = 2;
constexpr std::size_t kThreads = 64;
constexpr std::size_t kBuffers = kOfThread * kThreads;
using Buffer = std::array<std::byte, kBufferBytes>;
static_assert(sizeof(Buffer) % 64 == 0);

// The buffers are in static memory, so that an address alone tells a buffer from a block of
// malloc(): nearly all freed blocks are of malloc(). A page that was never used takes no memory.
alignas(64) constinit std::array<Buffer, kBuffers> buffers{};

// Each slot has a cache line of its own, as it is written for each record.
struct alignas(64) Slot {
    std::atomic<bool> is_taken{false};
};
constinit std::array<Slot, kBuffers> slots{};  // by buffer

// The first of this thread's. With more threads, some share theirs.
std::size_t first_of_thread() {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t first = kOfThread * (next++ % kThreads);
    return first;
}

// Null: both of this thread's are taken.
void* take_buffer() {
    const std::size_t first = first_of_thread();
    for (std::size_t i = first; i < first + kOfThread; ++i) {
        if (!slots[i].is_taken.exchange(true, std::memory_order_acquire)) return buffers[i].data();
    }
    return nullptr;
}

// kBuffers or more: it is none of them. Lower addresses wrap around to large numbers.
std::size_t index_of(const void* block) {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(buffers.data());
    return offset / sizeof(Buffer);
}

}  // namespace

// OpenSSL's own would send without MSG_NOSIGNAL, and could not say how much the kernel had.
struct TlsChannel::Bio {
    static TlsChannel& channel(BIO* bio) { return *static_cast<TlsChannel*>(BIO_get_data(bio)); }

    static int read(BIO* bio, char* into, int size) {
        TlsChannel& self = channel(bio);
        BIO_clear_retry_flags(bio);
        if (self.messages_ > kMessagesMax) {
            self.kernel_error_ = EPROTO;
            return -1;
        }
        if (self.is_kernel_shut_ || self.is_kernel_empty_) {
            BIO_set_retry_read(bio);
            return -1;
        }
        ssize_t bytes = 0;
        do {
            bytes = ::recv(self.descriptor_, into, static_cast<std::size_t>(size), 0);
        } while (bytes < 0 && errno == EINTR);
        if (bytes == 0) self.saw_end_ = true;
        if (bytes < 0) self.kernel_error_ = errno;
        const bool is_empty = bytes < 0 && is_full_or_empty(errno);
        if (is_empty) BIO_set_retry_read(bio);
        // After it has reported the end, epoll reports nothing more: recv() has to find it.
        self.is_kernel_empty_ = !self.is_end_reported_ && (is_empty || (bytes > 0 && bytes < size));
        return static_cast<int>(bytes);
    }

    static int write(BIO* bio, const char* bytes, int size) {
        TlsChannel& self = channel(bio);
        BIO_clear_retry_flags(bio);
        const bool has_more = std::exchange(self.has_more_to_send_, false);
        const int flags = MSG_NOSIGNAL | (has_more ? MSG_MORE : 0);
        ssize_t sent = 0;
        do {
            sent = ::send(self.descriptor_, bytes, static_cast<std::size_t>(size), flags);
        } while (sent < 0 && errno == EINTR);
        if (sent < 0) self.kernel_error_ = errno;
        if (sent < 0 && is_full_or_empty(errno)) BIO_set_retry_write(bio);
        return static_cast<int>(sent);
    }

    // The channel itself judges an end: OpenSSL would answer it with an alert.
    static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }

    static BIO_METHOD* make_method() {
        BIO_METHOD* const method =
            BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tidegate socket");
        if (method == nullptr) throw std::bad_alloc();
        BIO_meth_set_read(method, &Bio::read);
        BIO_meth_set_write(method, &Bio::write);
        BIO_meth_set_ctrl(method, &Bio::control);
        return method;
    }

    static BIO* make(TlsChannel& self) {
        static BIO_METHOD* const method = make_method();
        BIO* const bio = BIO_new(method);
        if (bio == nullptr) throw std::bad_alloc();
        BIO_set_data(bio, &self);
        BIO_set_init(bio, 1);
        return bio;
    }
};

TlsChannel::TlsChannel(TlsPtr tls, TlsSide side, int descriptor)
    : tls_(std::move(tls)), descriptor_(descriptor) {
    BIO* const bio = Bio::make(*this);
    SSL_set_bio(tls_.get(), bio, bio);
    if (side == TlsSide::client) {
        SSL_set_connect_state(tls_.get());
    } else {
        SSL_set_accept_state(tls_.get());
    }
    SSL_set_mode(tls_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
    SSL_set_read_ahead(tls_.get(), 1);  // else a record costs two system calls
    SSL_set_ex_data(tls_.get(), channel_index(), this);
    SSL_set_msg_callback(tls_.get(), &TlsChannel::on_message);
    SSL_set_msg_callback_arg(tls_.get(), this);
}

// OpenSSL would mark the session of a connection without a good end as unusable.
TlsChannel::~TlsChannel() {
    if (!is_broken_) SSL_set_shutdown(tls_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

TlsChannel::Status TlsChannel::shake_hands() {
    clear_errors();
    const Status status = status_of(SSL_do_handshake(tls_.get()));
    // No message of the handshake is a good end.
    return status == Status::end ? Status::cut_off : status;
}

bool TlsChannel::speaks_http2() const {
    return tidegate::speaks_http2(tls_.get());
}

TlsChannel::Outcome TlsChannel::read(std::span<char> into) {
    if (ended_ != Status::ok || descriptor_ < 0) return {end_of_reading()};
    std::size_t total = 0;
    Status status = Status::ok;
    do {
        std::size_t bytes = 0;
        clear_errors();
        status = status_of_reading(
            SSL_read_ex(tls_.get(), into.data() + total, into.size() - total, &bytes));
        if (status == Status::ok) {
            total += bytes;
            messages_ = 0;
        }
        // Bytes that have come with it need no system call.
        is_kernel_shut_ = true;
    } while (status == Status::ok && total < into.size() && SSL_has_pending(tls_.get()) == 1);
    is_kernel_shut_ = false;
    has_unread_ = total == into.size() && SSL_has_pending(tls_.get()) == 1;
    note_end(status);
    if (total > 0) return {Status::ok, total};
    return {status};
}

TlsChannel::Status TlsChannel::probe() {
    if (ended_ != Status::ok || descriptor_ < 0) return end_of_reading();
    char byte = 0;
    std::size_t bytes = 0;
    clear_errors();
    const Status status = status_of_reading(SSL_peek_ex(tls_.get(), &byte, 1, &bytes));
    note_end(status);
    return status;
}

// SSL_has_pending() does not count the head of a record alone.
bool TlsChannel::has_begun_record() const {
    return SSL_has_pending(tls_.get()) == 1 ||
           std::string_view(SSL_rstate_string(tls_.get())) == "RB";
}

// After an error, OpenSSL need not give the same result again.
void TlsChannel::note_end(Status status) {
    if (status == Status::end || status == Status::cut_off || status == Status::failed) {
        ended_ = status;
    }
}

TlsChannel::Status TlsChannel::end_of_reading() const {
    return descriptor_ < 0 ? Status::failed : ended_;
}

TlsChannel::Outcome TlsChannel::write(std::span<const iovec> parts) {
    const std::span<const char> record = next_record(parts);
    if (record.empty()) return {descriptor_ < 0 ? Status::failed : Status::ok};
    std::size_t bytes = 0;
    clear_errors();
    const Status status = status_of(SSL_write_ex(tls_.get(), record.data(), record.size(), &bytes));
    return {status, bytes};
}

bool TlsChannel::finish() {
    if (!is_shaken_ || is_broken_ || descriptor_ < 0) return true;
    clear_errors();
    has_more_to_send_ = true;  // the socket's end, in the same segment
    const int result = SSL_shutdown(tls_.get());
    has_more_to_send_ = false;
    const bool has_room = result >= 0 || SSL_get_error(tls_.get(), result) != SSL_ERROR_WANT_WRITE;
    clear_errors();
    return has_room;
}

TlsChannel::Status TlsChannel::status_of(int result) {
    if (result > 0) {
        is_shaken_ = true;
        return Status::ok;
    }
    const int kind = SSL_get_error(tls_.get(), result);
    switch (kind) {
        case SSL_ERROR_WANT_READ:
            return Status::wants_read;
        case SSL_ERROR_WANT_WRITE:
            return Status::wants_write;
        case SSL_ERROR_ZERO_RETURN:
            return Status::end;
        default:
            break;
    }
    const bool is_end = kind == SSL_ERROR_SYSCALL && saw_end_;
    if (kind == SSL_ERROR_SSL) is_broken_ = true;
    if (error_ == 0 && kind == SSL_ERROR_SSL) error_ = ERR_peek_last_error();
    if (system_error_ == 0 && kind == SSL_ERROR_SYSCALL && !is_end) system_error_ = kernel_error_;
    return is_end ? Status::cut_off : Status::failed;
}

// What was received at once may hold more messages than a peer may send, and data behind them.
TlsChannel::Status TlsChannel::status_of_reading(int result) {
    const Status status = status_of(result);
    if (status != Status::ok || messages_ <= kMessagesMax) return status;
    is_broken_ = true;
    if (system_error_ == 0) system_error_ = EPROTO;
    return Status::failed;
}

// Called for each message and for the head of each record.
void TlsChannel::on_message(int written, int version, int type, const void* bytes, std::size_t size,
                            SSL*, void* self) {
    auto& channel = *static_cast<TlsChannel*>(self);
    // Its level and its kind.
    if (written != 0 && type == SSL3_RT_ALERT && size == 2) {
        channel.sent_alert_ = static_cast<const unsigned char*>(bytes)[1];
    }
    if (type != SSL3_RT_HANDSHAKE) return;
    if (written == 0 && channel.is_shaken_) ++channel.messages_;
    // In TLS 1.3, a server's ticket comes when the handshake is over, and the client waits for the
    // answer to its request: the kernel may send both in one segment. It waits for 200 ms at most.
    if (written != 0 && version == TLS1_3_VERSION && size != 0) {
        channel.has_more_to_send_ =
            *static_cast<const unsigned char*>(bytes) == SSL3_MT_NEWSESSION_TICKET;
    }
}

int TlsChannel::on_session(SSL* tls, SSL_SESSION* session) {
    auto* const self = static_cast<TlsChannel*>(SSL_get_ex_data(tls, channel_index()));
    if (self == nullptr) return 0;  // OpenSSL keeps the session
    self->session_.reset(session);
    return 1;
}

void TlsChannel::keep_sessions(SSL_CTX* context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, &TlsChannel::on_session);
}

bool use_record_memory() {
    return CRYPTO_set_mem_functions(&openssl_malloc, &openssl_realloc, &openssl_free) == 1;
}

void* openssl_malloc(std::size_t size, const char*, int) {
    if (size >= TlsChannel::kRecordBytesMax && size <= kBufferBytes) [[unlikely]] {
        if (void* const buffer = take_buffer()) return buffer;
    }
    return size != 0 ? std::malloc(size) : nullptr;
}

void* openssl_realloc(void* block, std::size_t size, const char*, int) {
    if (size == 0) {
        openssl_free(block, nullptr, 0);
        return nullptr;
    }
    if (index_of(block) >= kBuffers) return std::realloc(block, size);
    if (size <= kBufferBytes) return block;
    void* const larger = std::malloc(size);
    if (larger == nullptr) return nullptr;
    std::memcpy(larger, block, kBufferBytes);
    openssl_free(block, nullptr, 0);
    return larger;
}

void openssl_free(void* block, const char*, int) {
    const std::size_t index = index_of(block);
    if (index >= kBuffers) [[likely]]
        return std::free(block);
    slots[index].is_taken.store(false, std::memory_order_release);
}

}  // namespace tidegate
