// The heads of the frames in what the other side sends (RFC 9113 section 4.1), found wherever the
// bytes are cut. nghttp2 says nothing of frames and header blocks that it ignores: the abuse budget
// counts the former, and the time of a header block runs for the latter, too. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidegate::h2 {

struct FrameHead {
    std::uint32_t length = 0;
    std::uint8_t type = 0;
    std::uint8_t flags = 0;
    std::uint32_t stream = 0;
    std::uint32_t dependency = 0;  // of PRIORITY

    bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
};

inline constexpr std::size_t kFrameHeadBytes = 9;

class FrameHeads {
  public:
    // `preface`: bytes before the first frame. A server sends none.
    explicit FrameHeads(std::uint32_t preface) : payload_left_(preface) {}

    struct Step {
        std::size_t bytes = 0;  // looked at: up to the end of the head, or all; of PRIORITY, also
                                // what it depends on
        bool found = false;     // head() is new
    };
    Step next(std::string_view bytes);

    const FrameHead& head() const { return head_; }
    // A header block has begun and not come to its end.
    bool is_in_block() const { return is_in_block_; }
    // Of the block that goes on.
    std::uint32_t continuations() const { return continuations_; }

  private:
    void read_head();
    bool reads_on();
    void end_payload();

    std::uint32_t payload_left_;
    std::array<unsigned char, kFrameHeadBytes + 4> bytes_{};
    std::uint8_t have_ = 0;  // of bytes_
    std::uint8_t need_ = kFrameHeadBytes;
    bool is_in_block_ = false;
    std::uint32_t continuations_ = 0;
    FrameHead head_;
};

}  // namespace tidegate::h2
