#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "net/transfer.hpp"

namespace tidegate::net_buffer_test {

namespace {

void append(Buffer& buffer, std::string_view bytes) {
    const std::span<char> space = buffer.space();
    REQUIRE(space.size() >= bytes.size());
    std::copy(bytes.begin(), bytes.end(), space.begin());
    buffer.commit(bytes.size());
}

}  // namespace

TEST_CASE("buffer: holds no block before it is written to, nor after it was released") {
    BufferPool pool;
    Buffer buffer(pool);
    CHECK(buffer.capacity() == 0);
    CHECK(buffer.empty());
    append(buffer, "abc");
    CHECK(buffer.capacity() == BufferPool::kSmall);
    buffer.release();
    CHECK(buffer.capacity() == 0);
    CHECK(buffer.empty());
    CHECK(buffer.data().empty());
}

TEST_CASE("buffer: what is consumed goes from the front, and views of the rest stay") {
    BufferPool pool;
    Buffer buffer(pool);
    append(buffer, "headbody");
    const std::string_view body = buffer.data().substr(4);
    buffer.consume(4);
    append(buffer, "more");
    CHECK(body == "body");
    CHECK(buffer.data() == "bodymore");
    CHECK(buffer.data().data() == body.data());
}

TEST_CASE("buffer: an emptied one has its whole room again") {
    BufferPool pool;
    Buffer buffer(pool);
    append(buffer, std::string(BufferPool::kSmall, 'x'));
    CHECK(buffer.space().empty());
    buffer.consume(BufferPool::kSmall - 1);
    CHECK(buffer.space().empty());
    buffer.consume(1);
    CHECK(buffer.space().size() == BufferPool::kSmall);
}

TEST_CASE("buffer: room is made by moving what is left to the front") {
    BufferPool pool;
    Buffer buffer(pool);
    append(buffer, std::string(BufferPool::kSmall - 4, 'x') + "rest");
    buffer.consume(BufferPool::kSmall - 4);
    buffer.make_room(buffer.capacity());
    CHECK(buffer.data() == "rest");
    CHECK(buffer.capacity() == BufferPool::kSmall);
    CHECK(buffer.space().size() == BufferPool::kSmall - 4);
}

TEST_CASE("buffer: room is made by a larger block when there has to be more") {
    BufferPool pool;
    Buffer buffer(pool);
    append(buffer, std::string(BufferPool::kSmall, 'x'));
    for (const std::size_t capacity : {BufferPool::kSmall + 1, BufferPool::kLarge + 1}) {
        buffer.make_room(capacity);
        CHECK(buffer.capacity() >= capacity);
        CHECK(buffer.data() == std::string(BufferPool::kSmall, 'x'));
    }
}

TEST_CASE("buffer: two can be swapped, one of them without a block") {
    BufferPool pool;
    Buffer full(pool);
    Buffer empty(pool);
    append(full, "abc");
    full.consume(1);
    full.swap(empty);
    CHECK(full.capacity() == 0);
    CHECK(empty.data() == "bc");
}

TEST_CASE("buffer_pool: a block that was given back is the next one taken, of its size") {
    BufferPool pool;
    std::size_t small = 1;
    std::size_t large = BufferPool::kSmall + 1;
    char* const first = pool.take(small);
    char* const second = pool.take(large);
    CHECK(small == BufferPool::kSmall);
    CHECK(large == BufferPool::kLarge);
    pool.give(first, small);
    pool.give(second, large);
    CHECK(pool.take(large) == second);
    CHECK(pool.take(small) == first);
    pool.give(first, small);
    pool.give(second, large);
}

TEST_CASE("buffer_pool: a block above the largest size has exactly the size asked for") {
    BufferPool pool;
    std::size_t size = BufferPool::kLarge + 1;
    char* const block = pool.take(size);
    CHECK(size == BufferPool::kLarge + 1);
    std::memset(block, 0, size);
    pool.give(block, size);
}

}  // namespace tidegate::net_buffer_test
