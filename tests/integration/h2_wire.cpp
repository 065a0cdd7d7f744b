#include "integration/h2_wire.hpp"

#include <charconv>
#include <stdexcept>

namespace tidegate::test {
namespace {

constexpr std::size_t kHeadBytes = 9;

std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + size; ++i) {
        if (i >= bytes.size()) throw MalformedMessage("a frame that is too short");
        value = value << 8 | static_cast<unsigned char>(bytes[i]);
    }
    return value;
}

// Of a literal: seven bits, and more bytes of seven where those do not do.
std::string length_of(std::size_t size) {
    if (size < 127) return std::string(1, static_cast<char>(size));
    std::string text(1, '\x7f');
    for (size -= 127; size >= 128; size /= 128) text += static_cast<char>(size % 128 + 128);
    return text + static_cast<char>(size);
}

// What padding and priority leave of the payload of HEADERS.
std::string_view block_of(const H2Frame& frame) {
    std::string_view block = frame.payload;
    std::size_t padding = 0;
    if (frame.has(NGHTTP2_FLAG_PADDED)) {
        padding = number_at(block, 0, 1);
        block.remove_prefix(1);
    }
    if (frame.has(NGHTTP2_FLAG_PRIORITY))
        block.remove_prefix(std::min<std::size_t>(5, block.size()));
    block.remove_suffix(std::min(padding, block.size()));
    return block;
}

}  // namespace

std::uint32_t H2Frame::word(std::size_t at) const {
    return number_at(payload, at, 4);
}

int H2Frame::status() const {
    for (const auto& [name, value] : fields) {
        int status = 0;
        if (name != ":status") continue;
        std::from_chars(value.data(), value.data() + value.size(), status);
        return status;
    }
    return 0;
}

std::string h2_number(std::uint64_t value, int bytes) {
    std::string text;
    for (int at = bytes - 1; at >= 0; --at) text += static_cast<char>(value >> (8 * at) & 0xff);
    return text;
}

std::string h2_frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                     std::string_view payload) {
    std::string bytes = h2_number(payload.size(), 3) + h2_number(type, 1) + h2_number(flags, 1) +
                        h2_number(stream, 4);
    return bytes.append(payload);
}

std::string h2_settings(const H2Entries& entries) {
    std::string payload;
    for (const auto& [id, value] : entries) payload += h2_number(id, 2) + h2_number(value, 4);
    return h2_frame(NGHTTP2_SETTINGS, 0, 0, payload);
}

std::string h2_preface(const H2Entries& entries) {
    return NGHTTP2_CLIENT_MAGIC + h2_settings(entries);
}

std::string h2_block(const FieldList& fields) {
    std::string block;
    for (const auto& [name, value] : fields) {
        block += '\0';  // a literal that is not kept, with its name
        block += length_of(name.size()) + name + length_of(value.size()) + value;
    }
    return block;
}

std::string h2_headers(std::uint32_t stream, const FieldList& fields, bool is_end) {
    const int end = is_end ? NGHTTP2_FLAG_END_STREAM : 0;
    return h2_frame(NGHTTP2_HEADERS, static_cast<std::uint8_t>(NGHTTP2_FLAG_END_HEADERS | end),
                    stream, h2_block(fields));
}

std::string h2_data(std::uint32_t stream, std::string_view bytes, bool is_end) {
    return h2_frame(NGHTTP2_DATA, is_end ? NGHTTP2_FLAG_END_STREAM : 0, stream, bytes);
}

std::string h2_window_update(std::uint32_t stream, std::uint32_t bytes) {
    return h2_frame(NGHTTP2_WINDOW_UPDATE, 0, stream, h2_number(bytes, 4));
}

std::string h2_reset(std::uint32_t stream, std::uint32_t error) {
    return h2_frame(NGHTTP2_RST_STREAM, 0, stream, h2_number(error, 4));
}

std::string h2_ping(std::uint8_t flags) {
    return h2_frame(NGHTTP2_PING, flags, 0, "12345678");
}

FieldList h2_request(const std::string& method, const std::string& path, const FieldList& more) {
    FieldList fields{{":method", method},
                     {":scheme", client_scheme()},
                     {":path", path},
                     {":authority", "example.test"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
}

Socket connect_h2(std::uint16_t port, const std::string& from) {
    auto socket = Socket::try_connect(port, from);
    if (!socket) throw std::runtime_error("nobody listens on port " + std::to_string(port));
    if (!ListenerPort::speaks_tls(port)) return std::move(*socket);
    SslPtr tls = tls_to_listener();
    offer_protocols(tls.get(), {"h2"});
    if (socket->begin_tls(std::move(tls)) && alpn_of(socket->tls()) != "h2") {
        throw std::runtime_error("the listener does not choose h2");
    }
    return std::move(*socket);
}

std::string alpn_of(SSL* tls) {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    if (tls != nullptr) SSL_get0_alpn_selected(tls, &name, &size);
    return {name, name + size};
}

H2FrameReader::H2FrameReader() {
    nghttp2_hd_inflater* made = nullptr;
    if (nghttp2_hd_inflate_new(&made) != 0) throw std::bad_alloc();
    inflater_.reset(made);
}

H2FrameReader::~H2FrameReader() = default;
H2FrameReader::H2FrameReader(H2FrameReader&&) noexcept = default;

std::optional<H2Frame> H2FrameReader::next() {
    if (bytes_.size() < kHeadBytes) return std::nullopt;
    const std::size_t size = number_at(bytes_, 0, 3);
    if (bytes_.size() < kHeadBytes + size) return std::nullopt;
    H2Frame frame;
    frame.type = static_cast<std::uint8_t>(bytes_[3]);
    frame.flags = static_cast<std::uint8_t>(bytes_[4]);
    frame.stream = number_at(bytes_, 5, 4) & 0x7fff'ffff;
    frame.payload = bytes_.substr(kHeadBytes, size);
    bytes_.erase(0, kHeadBytes + size);
    if (frame.is(NGHTTP2_HEADERS) && frame.has(NGHTTP2_FLAG_END_HEADERS)) {
        frame.fields = decode(frame);
    }
    return frame;
}

FieldList H2FrameReader::decode(const H2Frame& frame) {
    FieldList fields;
    std::string_view left = block_of(frame);
    for (int flags = 0; (flags & NGHTTP2_HD_INFLATE_FINAL) == 0;) {
        nghttp2_nv field{};
        flags = 0;
        const auto used = nghttp2_hd_inflate_hd2(inflater_.get(), &field, &flags,
                                                 reinterpret_cast<const std::uint8_t*>(left.data()),
                                                 left.size(), 1);
        if (used < 0) throw MalformedMessage("a header block that cannot be decoded");
        left.remove_prefix(static_cast<std::size_t>(used));
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            fields.emplace_back(std::string(field.name, field.name + field.namelen),
                                std::string(field.value, field.value + field.valuelen));
        }
    }
    nghttp2_hd_inflate_end_headers(inflater_.get());
    return fields;
}

H2Wire::H2Wire(std::uint16_t port, const H2Entries& entries, const std::string& from)
    : H2Wire(connect_h2(port, from)) {
    send(h2_preface(entries));
    await(NGHTTP2_SETTINGS);
    send(h2_frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
}

H2Wire::H2Wire(Socket connected) : socket_(std::move(connected)) {}

std::optional<H2Frame> H2Wire::next(milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (;;) {
        if (auto frame = reader_.next()) return frame;
        const auto bytes = socket_.receive(deadline);
        if (bytes.empty()) return std::nullopt;
        reader_.take(bytes);
    }
}

H2Frame H2Wire::await(std::uint8_t type, std::uint32_t stream, milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
        auto frame = next(std::max(left, milliseconds{0}));
        if (!frame) throw MalformedMessage("closed without frame " + std::to_string(type));
        if (frame->is(type) && (stream == 0 || frame->stream == stream)) return std::move(*frame);
    }
}

std::vector<H2Frame> H2Wire::rest() {
    std::vector<H2Frame> frames;
    while (auto frame = next()) frames.push_back(std::move(*frame));
    return frames;
}

H2Frame H2Wire::ask(std::uint32_t stream, const FieldList& fields) {
    send(h2_headers(stream, fields));
    return await(NGHTTP2_HEADERS, stream);
}

}  // namespace tidegate::test
