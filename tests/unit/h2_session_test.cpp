#include <array>
#include <cstdlib>

#include <doctest/doctest.h>

#include "h2/frames.hpp"
#include "h2/session.hpp"
#include "h2_world.hpp"

namespace tidegate::h2_session_test {

using namespace h2_world;

TEST_CASE("h2 frame heads: heads are found wherever the bytes are cut") {
    const std::string bytes = std::string(24, 'P') + settings() + data(3, "abc", true) +
                              frame(NGHTTP2_PRIORITY, 0, 5, number(7, 4) + "w") +
                              frame(200, 255, 0x7fffffff, std::string(300, 'x')) + ping();
    for (std::size_t portion = 1; portion <= bytes.size(); ++portion) {
        h2::FrameHeads heads(24);
        std::string seen;
        for (std::size_t at = 0; at < bytes.size(); at += portion) {
            std::string_view part = std::string_view(bytes).substr(at, portion);
            while (!part.empty()) {
                const auto step = heads.next(part);
                part.remove_prefix(step.bytes);
                const h2::FrameHead& head = heads.head();
                if (!step.found) continue;
                seen += std::to_string(head.type) + ',' + std::to_string(head.length) + ',' +
                        std::to_string(head.flags) + ',' + std::to_string(head.stream) + ',' +
                        std::to_string(head.dependency) + ' ';
            }
        }
        CHECK(seen == "4,0,0,0,0 0,3,1,3,0 2,5,0,5,7 200,300,255,2147483647,0 6,8,0,0,0 ");
    }
}

TEST_CASE("h2 frame heads: a header block goes on until its last frame is whole") {
    h2::FrameHeads heads(0);
    const auto read = [&](std::string_view bytes) {
        while (!bytes.empty()) bytes.remove_prefix(heads.next(bytes).bytes);
    };
    read(frame(NGHTTP2_HEADERS, 0, 1, "abc"));
    CHECK(heads.is_in_block());
    CHECK(heads.continuations() == 0);
    read(frame(NGHTTP2_CONTINUATION, 0, 1, "abc"));
    CHECK(heads.continuations() == 1);
    const std::string last = frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, "abc");
    read(std::string_view(last).substr(0, last.size() - 1));
    CHECK(heads.is_in_block());
    read("c");
    CHECK_FALSE(heads.is_in_block());
    read(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 3));
    CHECK_FALSE(heads.is_in_block());
    CHECK(heads.continuations() == 0);
}

TEST_CASE("h2 memory: the frame buffer alone has pages of its own, and is dropped") {
    h2::Memory memory;
    void* const other = memory.allocate(16'384);
    CHECK_FALSE(memory.has_frame_buffer());
    char* const buffer = static_cast<char*>(memory.allocate(16'394));
    REQUIRE(memory.has_frame_buffer());
    CHECK(reinterpret_cast<std::uintptr_t>(buffer) % 4'096 == 0);
    buffer[0] = buffer[16'393] = 'x';
    memory.drop_frame_buffer();
    CHECK(buffer[0] == 0);
    CHECK(buffer[16'393] == 0);
    buffer[0] = 'y';
    char* const second = static_cast<char*>(memory.allocate(16'394));
    second[0] = 'z';
    memory.drop_frame_buffer();
    CHECK(second[0] == 'z');
    memory.release(second);
    CHECK(memory.has_frame_buffer());
    memory.release(buffer);
    CHECK_FALSE(memory.has_frame_buffer());
    memory.release(other);
}

TEST_CASE("h2 memory: it knows the frame buffer of the nghttp2 that is there") {
    h2::Memory memory;
    nghttp2_mem functions{
        &memory,
        [](std::size_t bytes, void* self) {
            return static_cast<h2::Memory*>(self)->allocate(bytes);
        },
        [](void* block, void* self) { static_cast<h2::Memory*>(self)->release(block); },
        [](std::size_t count, std::size_t bytes, void*) { return std::calloc(count, bytes); },
        [](void* block, std::size_t bytes, void* self) {
            return static_cast<h2::Memory*>(self)->resize(block, bytes);
        }};
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session* session = nullptr;
    nghttp2_session_server_new3(&session, callbacks, nullptr, nullptr, &functions);
    CHECK(memory.has_frame_buffer());
    nghttp2_session_del(session);
    CHECK_FALSE(memory.has_frame_buffer());
    nghttp2_session_callbacks_del(callbacks);
}

TEST_CASE(
    "h2 memory: a session goes on after its buffer was dropped, in the middle of streams, too") {
    World world;
    world.begin();
    for (std::uint32_t id = 1; id < 2'000; id += 2) {
        Stream* const stream = world.ask(id, request_with({{"x-id", std::to_string(id)}}));
        REQUIRE(stream);
        CHECK_FALSE(world.server.is_idle());
        world.server.send_head(*stream, 200, "X-Id: " + std::to_string(id) + "\r\n", true);
        const std::string content(id, 'x');
        const std::array<std::string_view, 1> pieces{content};
        world.server.offer(*stream, pieces, true);
        const auto frames = world.sent();
        REQUIRE(frames.size() >= 2);
        CHECK(frames[0].fields.back().second == std::to_string(id));
        world.server.release(*stream);
        world.receive(window_update(0, id));
        REQUIRE(world.server.is_idle());
        world.server.drop_memory();
    }
}

}  // namespace tidegate::h2_session_test
