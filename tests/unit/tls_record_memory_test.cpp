#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tls/channel.hpp"
#include "tls/record_memory.hpp"

namespace tidegate::tls_record_memory_test {

namespace {

constexpr std::size_t kRecordBuffer = TlsChannel::kRecordBytesMax + 300;

void* take(std::size_t size) {
    return openssl_malloc(size, __FILE__, __LINE__);
}

void* resize(void* block, std::size_t size) {
    return openssl_realloc(block, size, __FILE__, __LINE__);
}

void give(void* block) {
    openssl_free(block, __FILE__, __LINE__);
}

void* take_filled(std::size_t size, char filling = 'x') {
    void* const block = take(size);
    REQUIRE(block != nullptr);
    std::memset(block, filling, size);
    return block;
}

std::string_view bytes_of(const void* block, std::size_t size) {
    return {static_cast<const char*>(block), size};
}

}  // namespace

TEST_CASE("record memory: a thread has two buffers for records, used again at once") {
    void* const first = take_filled(kRecordBuffer);
    void* const second = take_filled(kRecordBuffer);
    CHECK(first != second);
    give(first);
    give(second);
    // malloc() would have given these what was freed.
    void* const others[] = {std::malloc(kRecordBuffer), std::malloc(kRecordBuffer)};
    for (int i = 0; i < 3; ++i) {
        void* const again = take_filled(kRecordBuffer + 200);
        CHECK(again == first);
        give(again);
    }
    for (void* const other : others) std::free(other);
}

TEST_CASE("record memory: however many buffers are taken at once, none is lent twice") {
    std::vector<void*> taken;
    for (char filling = 'a'; filling <= 'z'; ++filling) {
        taken.push_back(take_filled(kRecordBuffer, filling));
    }
    char filling = 'a';
    for (void* const block : taken) {
        CHECK(bytes_of(block, kRecordBuffer) == std::string(kRecordBuffer, filling++));
        give(block);
    }
}

TEST_CASE("record memory: other sizes come from malloc") {
    void* const buffer = take_filled(kRecordBuffer);
    give(buffer);
    for (const std::size_t size : {1UL, 200UL, 16'000UL, 17'408UL, 100'000UL}) {
        void* const other = take_filled(size);
        CHECK(other != buffer);
        give(other);
    }
}

TEST_CASE("record memory: another thread has its own buffers, and may free this one's") {
    void* const ours = take_filled(kRecordBuffer);
    std::thread([ours] { give(ours); }).join();
    void* theirs = nullptr;
    std::thread([&theirs] { theirs = take_filled(kRecordBuffer); }).join();
    CHECK(theirs != ours);
    void* const again = take_filled(kRecordBuffer);
    CHECK(again == ours);
    give(again);
    give(theirs);
}

TEST_CASE("record memory: bytes are kept when a block is reallocated") {
    for (const std::size_t size : {100UL, kRecordBuffer, 40'000UL}) {
        for (const std::size_t resized : {50UL, 300UL, kRecordBuffer, 50'000UL}) {
            void* const block = resize(take_filled(size, 'y'), resized);
            REQUIRE(block != nullptr);
            const std::size_t kept = std::min(size, resized);
            CHECK(bytes_of(block, kept) == std::string(kept, 'y'));
            std::memset(block, 'z', resized);
            give(block);
        }
    }
}

TEST_CASE("record memory: a size of 0 returns null, and to reallocate to 0 frees") {
    CHECK(take(0) == nullptr);
    give(nullptr);
    CHECK(resize(nullptr, 0) == nullptr);
    void* const buffer = take_filled(kRecordBuffer);
    CHECK(resize(buffer, 0) == nullptr);
    void* const again = resize(nullptr, kRecordBuffer);
    CHECK(again != nullptr);
    give(again);
}

}  // namespace tidegate::tls_record_memory_test
