#include "http2_request.hpp"

#include <stdexcept>
#include <utility>

namespace bench {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::size_t kHeadBytes = 9;
constexpr std::size_t kFrameBytesMax = 16'384;  // of a peer that announces no more

enum Type : std::uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kGoAway = 7 };
constexpr std::uint8_t kAcknowledges = 0x1;  // of SETTINGS
constexpr std::uint8_t kEndStream = 0x1;
constexpr std::uint8_t kEndHeaders = 0x4;
constexpr std::uint8_t kPadded = 0x8;
constexpr std::uint8_t kHasPriority = 0x20;

// On stream 0 or 1.
void add_frame(std::string& to, Type type, std::uint8_t flags, char stream,
               std::string_view payload) {
    to += '\0';
    to += static_cast<char>(payload.size() >> 8);
    to += static_cast<char>(payload.size() & 0xff);
    to += static_cast<char>(type);
    to += static_cast<char>(flags);
    to.append(3, '\0');
    to += stream;
    to += payload;
}

std::uint8_t byte_at(std::string_view bytes, std::size_t at) {
    return static_cast<std::uint8_t>(bytes.at(at));
}

// How many bytes the first change of the table's size has (RFC 7541 section 6.3); 0: none is first.
std::size_t size_update_bytes(std::string_view block) {
    if ((byte_at(block, 0) & 0xe0) != 0x20) return 0;
    std::size_t bytes = 1;
    if ((byte_at(block, 0) & 0x1f) == 0x1f) {
        while ((byte_at(block, bytes++) & 0x80) != 0) {
        }
    }
    return bytes;
}

}  // namespace

Http2Request::Http2Request(std::string_view authority) : output_(kPreface) {
    // Of the static table: GET, https, /; and the name of `:authority`, whose value is not kept.
    std::string fields = "\x82\x87\x84\x01";
    fields += static_cast<char>(authority.size());
    fields += authority;
    add_frame(output_, kSettings, 0, 0, "");
    add_frame(output_, kHeaders, kEndStream | kEndHeaders, 1, fields);
}

std::string Http2Request::take_output() {
    return std::exchange(output_, {});
}

void Http2Request::receive(std::string_view bytes) {
    input_ += bytes;
    std::string_view left = input_;
    while (left.size() >= kHeadBytes) {
        const std::size_t size = static_cast<std::size_t>(byte_at(left, 0)) << 16 |
                                 static_cast<std::size_t>(byte_at(left, 1)) << 8 | byte_at(left, 2);
        if (size > kFrameBytesMax) throw std::runtime_error("the answer is not HTTP/2");
        if (left.size() < kHeadBytes + size) break;
        take({byte_at(left, 3), byte_at(left, 4), left.substr(kHeadBytes, size)});
        left.remove_prefix(kHeadBytes + size);
    }
    input_.erase(0, input_.size() - left.size());
}

// There is one stream, so each frame of a stream is its.
void Http2Request::take(const Frame& frame) {
    if (frame.type == kReset || frame.type == kGoAway) {
        throw std::runtime_error("the server does not serve the request");
    }
    if (frame.type == kSettings && (frame.flags & kAcknowledges) == 0) {
        add_frame(output_, kSettings, kAcknowledges, 0, "");
        has_settings_ = true;
    }
    if (frame.type == kHeaders && !has_status_) read_status(frame);
    if ((frame.type == kHeaders || frame.type == kData) && (frame.flags & kEndStream) != 0) {
        has_answer_ = true;
    }
}

void Http2Request::read_status(const Frame& frame) {
    const std::size_t before =
        ((frame.flags & kPadded) != 0 ? 1U : 0U) + ((frame.flags & kHasPriority) != 0 ? 5U : 0U);
    std::string_view block = frame.payload.substr(before);
    while (const std::size_t bytes = size_update_bytes(block)) block = block.substr(bytes);
    if (byte_at(block, 0) != 0x88) throw std::runtime_error("the answer is not 200");
    has_status_ = true;
}

}  // namespace bench
