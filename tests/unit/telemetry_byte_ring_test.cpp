#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "telemetry/byte_ring.hpp"

namespace tidegate::telemetry::byte_ring_test {
namespace {

std::string take_all(ByteRing& ring) {
    const auto pieces = ring.peek();
    std::string all = std::string(pieces[0]) + std::string(pieces[1]);
    ring.pop(all.size());
    return all;
}

TEST_CASE("byte_ring: the capacity is a power of two") {
    CHECK(ByteRing(0).capacity() == 1);
    CHECK(ByteRing(8).capacity() == 8);
    CHECK(ByteRing(9).capacity() == 16);
}

TEST_CASE("byte_ring: a piece that does not fit is refused whole, and fits once there is room") {
    ByteRing ring(8);
    CHECK(ring.push("abcde"));
    CHECK_FALSE(ring.push("fghi"));
    CHECK(ring.push("fgh"));
    CHECK_FALSE(ring.push("i"));
    CHECK(ring.push(""));
    CHECK(ring.used() == 8);
    CHECK(take_all(ring) == "abcdefgh");
    CHECK(take_all(ring).empty());
    CHECK(ring.push("12345678"));
    CHECK_FALSE(ring.push("123456789"));
}

TEST_CASE("byte_ring: order is kept around the end") {
    ByteRing ring(8);
    std::string in;
    std::string out;
    for (char c = 'a'; c <= 'z'; ++c) {
        const std::string word(1 + static_cast<std::size_t>(c) % 5, c);
        if (!ring.push(word)) {
            out += take_all(ring);
            REQUIRE(ring.push(word));
        }
        in += word;
    }
    CHECK(out + take_all(ring) == in);
}

TEST_CASE("byte_ring: between two threads nothing is lost and nothing doubled") {
    ByteRing ring(64);
    std::string in;
    for (int i = 0; i < 20'000; ++i) in += std::to_string(i) + "\n";
    std::thread producer([&] {
        for (std::size_t at = 0; at < in.size();) {
            const auto piece = std::string_view(in).substr(at, 1 + at % 40);
            if (ring.push(piece)) {
                at += piece.size();
            } else {
                std::this_thread::yield();
            }
        }
    });
    std::string out;
    while (out.size() < in.size()) {
        out += take_all(ring);
        std::this_thread::yield();
    }
    producer.join();
    CHECK(out == in);
}

}  // namespace
}  // namespace tidegate::telemetry::byte_ring_test
