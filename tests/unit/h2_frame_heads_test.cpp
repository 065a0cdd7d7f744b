#include <doctest/doctest.h>

#include "h2/frame_heads.hpp"
#include "h2_world.hpp"

namespace tidegate::h2_frame_heads_test {

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

}  // namespace tidegate::h2_frame_heads_test
