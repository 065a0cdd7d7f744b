#include "tls/record_memory.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <openssl/crypto.h>

#include "tls/channel.hpp"

namespace tidegate {

namespace {

// The largest record with its head and its tag (RFC 8446 section 5.2), and what OpenSSL has before
// it for the alignment.
constexpr std::size_t kBufferBytes = 17'408;

struct Buffer {
    alignas(64) std::array<std::byte, kBufferBytes> bytes;
    std::atomic<bool> is_taken;
};
// One for a record that is read, one for a record that is written.
constexpr std::size_t kOfThread = 2;
constexpr std::size_t kThreads = 64;
// In static memory, so that an address alone tells a buffer from a block of malloc()'s: nearly all
// that is given back is such a block. A page that was never used takes no memory.
std::array<Buffer, kOfThread * kThreads> buffers;

// The first of this thread's. With more threads, some share theirs.
std::size_t first_of_thread() {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t first = kOfThread * (next++ % kThreads);
    return first;
}

// Null: all are taken.
void* take_buffer() {
    const std::size_t first = first_of_thread();
    for (std::size_t i = first; i < first + kOfThread; ++i) {
        if (!buffers[i].is_taken.exchange(true, std::memory_order_acquire)) {
            return buffers[i].bytes.data();
        }
    }
    return nullptr;
}

// Null: it is none of them.
Buffer* buffer_at(const void* block) {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(buffers.data());
    return offset < sizeof buffers ? &buffers[offset / sizeof(Buffer)] : nullptr;
}

}  // namespace

void use_record_memory() {
    CRYPTO_set_mem_functions(&take_openssl_memory, &resize_openssl_memory, &give_openssl_memory);
}

void* take_openssl_memory(std::size_t size, const char*, int) {
    if (size >= TlsChannel::kRecordBytesMax && size <= kBufferBytes) [[unlikely]] {
        if (void* const buffer = take_buffer()) return buffer;
    }
    return size != 0 ? std::malloc(size) : nullptr;
}

void* resize_openssl_memory(void* block, std::size_t size, const char*, int) {
    if (size == 0) {
        give_openssl_memory(block, nullptr, 0);
        return nullptr;
    }
    if (buffer_at(block) == nullptr) return std::realloc(block, size);
    if (size <= kBufferBytes) return block;
    void* const larger = std::malloc(size);
    if (larger == nullptr) return nullptr;
    std::memcpy(larger, block, kBufferBytes);
    give_openssl_memory(block, nullptr, 0);
    return larger;
}

void give_openssl_memory(void* block, const char*, int) {
    Buffer* const buffer = buffer_at(block);
    if (buffer == nullptr) [[likely]]
        return std::free(block);
    buffer->is_taken.store(false, std::memory_order_release);
}

}  // namespace tidegate
