// Frames of a WebSocket: in whatever portions they come, the same frames, the same end, the same
// verdict, which is that of a plain reader. The first byte says which end sends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "http/websocket.hpp"

namespace {

using namespace tidegate::http;
using Step = FrameFollower::Step;

struct Frames {
    std::vector<std::pair<unsigned, std::uint64_t>>
        heads;              // first byte less reserved bits, payload
    std::size_t bytes = 0;  // of whole frames and whole heads
    bool malformed = false;
    bool at_frame_end = true;
    bool has_closed = false;

    bool operator==(const Frames&) const = default;
};

Frames followed(std::string_view bytes, FrameSource source, std::size_t portion) {
    FrameFollower follower(source);
    Frames frames;
    for (std::size_t end = 0; end < bytes.size() && !frames.malformed;) {
        end = std::min(end + portion, bytes.size());
        while (frames.bytes < end) {
            const auto [step, size] =
                follower.follow(bytes.substr(frames.bytes, end - frames.bytes));
            FUZZ_CHECK((size == 0) == (step == Step::incomplete || step == Step::malformed));
            FUZZ_CHECK(frames.bytes + size <= end);
            frames.bytes += size;
            if (step == Step::head) {
                const WebSocketFrameHead& head = follower.head();
                FUZZ_CHECK(size == head.head_bytes && size <= kFrameHeadBytesMax);
                FUZZ_CHECK(head.is_control() || follower.message_bytes() >= head.payload_bytes);
                frames.heads.emplace_back(head.opcode | (head.is_final ? 0x80U : 0U),
                                          head.payload_bytes);
            }
            frames.malformed = step == Step::malformed;
            if (size == 0) break;
        }
        FUZZ_CHECK(frames.malformed || end - frames.bytes < kFrameHeadBytesMax);
    }
    frames.at_frame_end = follower.is_at_frame_end();
    frames.has_closed = follower.has_closed();
    return frames;
}

// The second opinion, byte by byte as section 5.2 draws it.
class PlainReader {
  public:
    PlainReader(std::string_view bytes, bool of_client) : bytes_(bytes), of_client_(of_client) {}

    Frames read() {
        while (!frames_.malformed && at_ < bytes_.size() && read_frame()) {
        }
        return frames_;
    }

  private:
    std::optional<unsigned> next() {
        if (at_ >= bytes_.size()) return std::nullopt;
        return static_cast<unsigned char>(bytes_[at_++]);
    }
    bool refuse() {
        frames_.malformed = true;
        return false;
    }
    // False: there is no more.
    bool read_frame() {
        const unsigned first = *next();
        const unsigned opcode = first % 16;
        const bool fin = first >= 128;
        if (frames_.has_closed) return refuse();
        if (opcode >= 8 && !fin) return refuse();
        if (opcode == 0 && !open_) return refuse();
        if (opcode > 0 && opcode < 8 && open_) return refuse();
        const auto second = next();
        if (!second) return false;
        if ((*second >= 128) != of_client_) return refuse();
        std::uint64_t length = *second % 128;
        if (opcode >= 8 && length > 125) return refuse();
        if (length > 125) {
            const int size = length == 126 ? 2 : 8;
            length = 0;
            for (int i = 0; i < size; ++i) {
                const auto byte = next();
                if (!byte) return false;
                length = length * 256 + *byte;
            }
            if (length >= std::uint64_t{1} << 63) return refuse();
            if (length <= (size == 2 ? 125U : 65'535U)) return refuse();
        }
        for (int i = 0; of_client_ && i < 4; ++i) {
            if (!next()) return false;
        }
        frames_.heads.emplace_back(opcode + (fin ? 128 : 0), length);
        if (opcode < 8) open_ = !fin;
        if (opcode == 8) frames_.has_closed = true;
        const std::uint64_t there = bytes_.size() - at_;
        frames_.at_frame_end = length <= there;
        at_ += std::min(length, there);
        frames_.bytes = at_;
        return frames_.at_frame_end;
    }

    std::string_view bytes_;
    bool of_client_;
    std::size_t at_ = 0;
    bool open_ = false;
    Frames frames_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const bool of_client = data[0] % 2 == 1;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    const FrameSource source = of_client ? FrameSource::client : FrameSource::server;
    const Frames whole = followed(bytes, source, std::max<std::size_t>(1, bytes.size()));
    FUZZ_CHECK(PlainReader(bytes, of_client).read() == whole);
    for (const std::size_t portion : {1UL, 2UL, 5UL}) {
        FUZZ_CHECK(followed(bytes, source, portion) == whole);
    }
    return 0;
}
