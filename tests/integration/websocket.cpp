#include "integration/websocket.hpp"

#include <stdexcept>

#include <openssl/evp.h>

namespace tidegate::test {

namespace {

constexpr std::string_view kKey = "dGhlIHNhbXBsZSBub25jZQ==";
constexpr std::array<unsigned char, 4> kMask{0x12, 0x34, 0x56, 0x78};

unsigned at(const std::string& bytes, std::size_t position) {
    return static_cast<unsigned char>(bytes[position]);
}

}  // namespace

int WebSocketFrame::close_code() const {
    if (opcode != kClose || payload.size() < 2) return 0;
    return static_cast<int>(at(payload, 0) * 256 + at(payload, 1));
}

std::string frame_bytes(int opcode, std::string_view payload, bool is_masked, bool is_final) {
    const unsigned mask = is_masked ? 0x80 : 0;
    std::string bytes(1, static_cast<char>((is_final ? 0x80 : 0) | opcode));
    const std::size_t size = payload.size();
    int length_bytes = 0;
    if (size < 126) {
        bytes += static_cast<char>(mask | size);
    } else if (size < 65'536) {
        bytes += static_cast<char>(mask | 126);
        length_bytes = 2;
    } else {
        bytes += static_cast<char>(mask | 127);
        length_bytes = 8;
    }
    for (int i = length_bytes - 1; i >= 0; --i) bytes += static_cast<char>(size >> (8 * i) & 0xff);
    if (!is_masked) return bytes.append(payload);
    for (const unsigned char one : kMask) bytes += static_cast<char>(one);
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(payload[i] ^ kMask[i % 4]);
    return bytes;
}

bool FrameReader::fill(std::size_t size) {
    while (buffer_.size() < size) {
        const std::string some = more_();
        if (some.empty()) return false;
        buffer_ += some;
    }
    return true;
}

WebSocketFrame FrameReader::next() {
    WebSocketFrame frame;
    if (!fill(2)) return frame;
    frame.is_masked = at(buffer_, 1) >= 128;
    std::size_t size = at(buffer_, 1) % 128;
    std::size_t head = 2;
    if (size >= 126) {
        const std::size_t length_bytes = size == 126 ? 2 : 8;
        head += length_bytes;
        if (!fill(head)) return frame;
        size = 0;
        for (std::size_t i = 2; i < head; ++i) size = size * 256 + at(buffer_, i);
    }
    const std::size_t mask = head;
    if (frame.is_masked) head += 4;
    if (!fill(head + size)) return frame;
    frame.payload = buffer_.substr(head, size);
    for (std::size_t i = 0; frame.is_masked && i < size; ++i) {
        frame.payload[i] = static_cast<char>(frame.payload[i] ^ buffer_[mask + i % 4]);
    }
    frame.is_final = at(buffer_, 0) >= 128;
    frame.opcode = static_cast<int>(at(buffer_, 0) % 16);
    buffer_.erase(0, head + size);
    return frame;
}

std::string accept_value(const std::string& key) {
    const std::string text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
        throw std::runtime_error("no SHA-1");
    }
    std::array<unsigned char, 64> encoded;
    const int length = EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(size));
    return {encoded.begin(), encoded.begin() + length};
}

std::string handshake_fields() {
    return "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Key: " +
           std::string(kKey) + "\r\n";
}

std::string switching_answer(const Message& request, const std::string& more_fields) {
    return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Accept: " +
           accept_value(request.field("Sec-WebSocket-Key")) + "\r\n" + more_fields + "\r\n";
}

WebSocketClient::WebSocketClient(std::uint16_t port, const std::string& path,
                                 const std::string& more_fields, const std::string& early)
    : client_(port), reader_([this] { return client_.some(); }) {
    client_.send(get_request(path, handshake_fields() + more_fields) + early);
    answer_ = client_.response();
    if (answer_.status() != 101 ||
        answer_.field("Sec-WebSocket-Accept") != accept_value(std::string(kKey))) {
        throw std::runtime_error("no tunnel: " + answer_.start_line);
    }
}

std::string WebSocketClient::ask(std::string_view payload) {
    send(payload);
    return next().payload;
}

void echo_frames(Conversation& conversation) {
    Message request;
    while (conversation.read(request)) {
        if (!request.has("Upgrade")) {
            if (!conversation.send(ok())) return;
            continue;
        }
        conversation.send(switching_answer(request));
        FrameReader frames([&] { return conversation.some(); });
        for (;;) {
            const WebSocketFrame frame = frames.next();
            if (frame.opcode < 0) return;
            const int opcode = frame.opcode == kPing ? kPong : frame.opcode;
            conversation.send(frame_bytes(opcode, frame.payload, false, frame.is_final));
            if (opcode == kClose) return;
        }
    }
}

}  // namespace tidegate::test
