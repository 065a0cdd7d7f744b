#include "h2/frame_heads.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>

namespace tidegate::h2 {

FrameHeads::Step FrameHeads::next(std::string_view bytes) {
    std::size_t at = std::min<std::size_t>(payload_left_, bytes.size());
    if (payload_left_ > 0) {
        payload_left_ -= static_cast<std::uint32_t>(at);
        if (payload_left_ > 0) return {at, false};
        end_payload();
    }
    do {
        const std::size_t part = std::min<std::size_t>(need_ - have_, bytes.size() - at);
        if (part > 0) std::memcpy(bytes_.data() + have_, bytes.data() + at, part);
        have_ = static_cast<std::uint8_t>(have_ + part);
        at += part;
        if (have_ < need_) return {at, false};
    } while (reads_on());
    read_head();
    return {at, true};
}

bool FrameHeads::reads_on() {
    constexpr std::array<unsigned char, 4> kPriority{0, 0, 5, NGHTTP2_PRIORITY};
    if (need_ > kFrameHeadBytes || std::memcmp(bytes_.data(), kPriority.data(), 4) != 0) {
        return false;
    }
    need_ = static_cast<std::uint8_t>(bytes_.size());
    return true;
}

void FrameHeads::read_head() {
    const auto& b = bytes_;
    const auto word = [&b](std::size_t at) {
        return (b[at] & 0x7fU) << 24U | static_cast<std::uint32_t>(b[at + 1]) << 16U |
               static_cast<std::uint32_t>(b[at + 2]) << 8U | b[at + 3];
    };
    const bool has_dependency = need_ > kFrameHeadBytes;
    head_ = {
        static_cast<std::uint32_t>(b[0]) << 16U | static_cast<std::uint32_t>(b[1]) << 8U | b[2],
        b[3], b[4], word(5), has_dependency ? word(kFrameHeadBytes) : 0};
    payload_left_ = head_.length - (need_ - static_cast<std::uint32_t>(kFrameHeadBytes));
    have_ = 0;
    need_ = kFrameHeadBytes;
    if (head_.type == NGHTTP2_HEADERS || head_.type == NGHTTP2_PUSH_PROMISE) {
        is_in_block_ = true;
        continuations_ = 0;
    } else if (head_.type == NGHTTP2_CONTINUATION) {
        ++continuations_;
    }
    if (payload_left_ == 0) end_payload();
}

void FrameHeads::end_payload() {
    const bool is_of_block = head_.type == NGHTTP2_HEADERS || head_.type == NGHTTP2_PUSH_PROMISE ||
                             head_.type == NGHTTP2_CONTINUATION;
    if (is_of_block && head_.has(NGHTTP2_FLAG_END_HEADERS)) is_in_block_ = false;
}

}  // namespace tidegate::h2
