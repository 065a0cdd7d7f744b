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
// it for the alignment: 16,716 bytes where it reads.
constexpr std::size_t kBufferBytes = 16'896;
// An asio::ssl::stream has two blocks of 17 KiB for as long as it lives.
static_assert(kBufferBytes < 17'408);

// One for a record that is read, one for a record that is written.
constexpr std::size_t kOfThread = 2;
constexpr std::size_t kThreads = 64;
constexpr std::size_t kBuffers = kOfThread * kThreads;
using Buffer = std::array<std::byte, kBufferBytes>;
static_assert(sizeof(Buffer) % 64 == 0);

// In static memory, so that an address alone tells a buffer from a block of malloc()'s: nearly all
// that is given back is such a block. A page that was never used takes no memory.
alignas(64) constinit std::array<Buffer, kBuffers> buffers{};

// Each in a cache line of its own, as it is written for each record.
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
