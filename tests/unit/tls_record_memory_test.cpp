#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tls/channel.hpp"
#include "tls/record_memory.hpp"

namespace tidegate {

namespace {

constexpr std::size_t kRecordBuffer = TlsChannel::kRecordBytesMax + 300;

void* take(std::size_t size) {
    return take_openssl_memory(size, __FILE__, __LINE__);
}

void* resize(void* block, std::size_t size) {
    return resize_openssl_memory(block, size, __FILE__, __LINE__);
}

void give(void* block) {
    give_openssl_memory(block, __FILE__, __LINE__);
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

TEST_CASE("The buffer of a record serves the next record, which may be a little longer") {
    void* const first = take_filled(kRecordBuffer);
    give(first);
    void* const second = take_filled(kRecordBuffer + 500);
    CHECK(second == first);
    give(second);
}

TEST_CASE("However many buffers of records are taken at once, none is lent twice") {
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

TEST_CASE("What is no buffer of a record never gets one") {
    void* const buffer = take_filled(kRecordBuffer);
    give(buffer);
    for (const std::size_t size : {1UL, 200UL, 16'000UL, 18'000UL, 100'000UL}) {
        void* const other = take_filled(size);
        CHECK(other != buffer);
        give(other);
    }
}

TEST_CASE("Another thread may give a buffer back, and has buffers of its own") {
    void* const ours = take_filled(kRecordBuffer);
    void* theirs = nullptr;
    std::thread([&theirs, ours] {
        theirs = take_filled(kRecordBuffer);
        give(ours);
    }).join();
    CHECK(theirs != ours);
    void* const again = take_filled(kRecordBuffer);
    CHECK(again == ours);
    give(again);
    give(theirs);
}

TEST_CASE("OpenSSL's memory keeps its bytes when it is resized") {
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

TEST_CASE("No bytes of OpenSSL's memory are no block") {
    CHECK(take(0) == nullptr);
    give(nullptr);
    CHECK(resize(nullptr, 0) == nullptr);
    void* const buffer = take_filled(kRecordBuffer);
    CHECK(resize(buffer, 0) == nullptr);
    void* const again = resize(nullptr, kRecordBuffer);
    CHECK(again != nullptr);
    give(again);
}

}  // namespace tidegate
