#include "http/websocket.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/text.hpp"

namespace tidegate::http {

namespace {

constexpr std::string_view kWebSocket = "websocket";
constexpr std::string_view kKeyField = "Sec-WebSocket-Key";
constexpr std::string_view kVersionField = "Sec-WebSocket-Version";
constexpr std::string_view kAcceptField = "Sec-WebSocket-Accept";

constexpr std::uint64_t kControlBytesMax = 125;
constexpr std::size_t kMaskBytes = 4;

// The value of the only field of that name that goes to the other end; empty if there is none, or
// more than one.
std::string_view end_to_end_value(const Fields& fields, std::string_view name) {
    return single_value_where(fields, [&](const Field& field) { return is_named(field, name); });
}

// Whether a list of all fields `id` has `wanted`. `only`: and nothing else.
bool lists(const Fields& fields, FieldName id, std::string_view wanted, bool only = false) {
    bool is_there = false;
    for (const Field& field : fields) {
        if (field.id != id) continue;
        std::string_view list = field.value;
        std::string_view item;
        while (next_list_item(list, item)) {
            if (equal_ignoring_case(item, wanted)) {
                is_there = true;
            } else if (only) {
                return false;
            }
        }
    }
    return is_there;
}

// Base64 of 16 bytes.
bool is_key(std::string_view text) {
    constexpr std::size_t kDigits = 22;
    if (text.size() != kDigits + 2 || !text.ends_with("==")) return false;
    return std::all_of(text.begin(), text.begin() + kDigits,
                       [](char c) { return is_alphanumeric(c) || c == '+' || c == '/'; });
}

unsigned char byte_at(std::string_view bytes, std::size_t at) {
    return static_cast<unsigned char>(bytes[at]);
}

}  // namespace

WebSocketRequest websocket_request(const RequestHead& head, const Framing& framing) {
    if (head.minor_version == 0 || !lists(head.fields, FieldName::upgrade, kWebSocket) ||
        !lists(head.fields, FieldName::connection, "upgrade")) {
        return WebSocketRequest::none;
    }
    if (head.method != "GET" || framing.body != BodyKind::none) return WebSocketRequest::malformed;
    if (end_to_end_value(head.fields, kVersionField) != kWebSocketVersion) {
        return WebSocketRequest::other_version;
    }
    return is_key(websocket_key(head)) ? WebSocketRequest::handshake : WebSocketRequest::malformed;
}

WebSocketRequest websocket_connect(const RequestHead& head, std::string_view protocol) {
    // The names are those of `Upgrade` (RFC 9110 section 7.8).
    if (!equal_ignoring_case(protocol, kWebSocket)) return WebSocketRequest::none;
    const bool is_known = end_to_end_value(head.fields, kVersionField) == kWebSocketVersion;
    return is_known ? WebSocketRequest::handshake : WebSocketRequest::other_version;
}

bool is_websocket_key(const Field& field) {
    return field.id == FieldName::other && equal_as_variable(field.name, kKeyField);
}

bool is_websocket_accept(const Field& field) {
    return field.id == FieldName::other && equal_ignoring_case(field.name, kAcceptField);
}

std::string_view websocket_key(const RequestHead& head) {
    return end_to_end_value(head.fields, kKeyField);
}

bool accepts_websocket(const ResponseHead& head, std::string_view accept_value) {
    return head.minor_version == 1 && lists(head.fields, FieldName::upgrade, kWebSocket, true) &&
           lists(head.fields, FieldName::connection, "upgrade") && !accept_value.empty() &&
           end_to_end_value(head.fields, kAcceptField) == accept_value;
}

FrameFollower::Followed FrameFollower::follow(std::string_view bytes) {
    assert(!bytes.empty());
    if (payload_left_ > 0) {
        const std::size_t there =
            bytes.size() < payload_left_ ? bytes.size() : static_cast<std::size_t>(payload_left_);
        payload_left_ -= there;
        return {Step::payload, there};
    }
    constexpr Followed kIncomplete{Step::incomplete, 0};
    constexpr Followed kMalformed{Step::malformed, 0};
    WebSocketFrameHead next;
    next.is_final = (byte_at(bytes, 0) & 0x80) != 0;
    next.opcode = byte_at(bytes, 0) & 0x0f;
    if (!may_follow(next)) return kMalformed;
    if (bytes.size() < 2) return kIncomplete;

    const bool is_masked = (byte_at(bytes, 1) & 0x80) != 0;
    if (is_masked != (source_ == FrameSource::client)) return kMalformed;
    const std::uint64_t length = byte_at(bytes, 1) & 0x7f;
    if (next.is_control() && length > kControlBytesMax) return kMalformed;
    constexpr std::uint64_t kTwoBytesMin = 126;
    constexpr std::uint64_t kEightBytesMin = 65'536;
    const std::size_t more = length < kTwoBytesMin ? 0 : length == kTwoBytesMin ? 2 : 8;
    next.head_bytes = 2 + more + (is_masked ? kMaskBytes : 0);
    if (bytes.size() < 2 + more) return kIncomplete;
    next.payload_bytes = more == 0   ? length
                         : more == 2 ? big_endian<std::uint16_t>(bytes, 2)
                                     : big_endian<std::uint64_t>(bytes, 2);
    // Section 5.2: in as few bytes as it takes, and at most 63 bits.
    if ((more == 2 && next.payload_bytes < kTwoBytesMin) ||
        (more == 8 && next.payload_bytes < kEightBytesMin) || next.payload_bytes >> 63 != 0) {
        return kMalformed;
    }
    if (bytes.size() < next.head_bytes) return kIncomplete;

    head_ = next;
    payload_left_ = next.payload_bytes;
    if (next.is(WebSocketFrameHead::Opcode::close)) has_closed_ = true;
    if (!next.is_control()) {
        constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
        if (!next.is(WebSocketFrameHead::Opcode::continuation)) message_bytes_ = 0;
        message_bytes_ += next.payload_bytes > kMost - message_bytes_ ? kMost - message_bytes_
                                                                      : next.payload_bytes;
        is_in_message_ = !next.is_final;
    }
    return {Step::head, next.head_bytes};
}

// Sections 5.4 and 5.5. Reserved bits and opcodes belong to extensions, which the ends agree upon.
bool FrameFollower::may_follow(const WebSocketFrameHead& next) const {
    if (has_closed_) return false;
    if (next.is_control()) return next.is_final;
    return next.is(WebSocketFrameHead::Opcode::continuation) == is_in_message_;
}

std::string close_frame(CloseCode code, std::string_view reason,
                        const std::optional<std::array<unsigned char, 4>>& mask) {
    constexpr unsigned char kFinalClose = 0x88;
    constexpr unsigned char kMasked = 0x80;
    const auto number = static_cast<std::uint16_t>(code);
    std::string payload;
    payload += static_cast<char>(number >> 8);
    payload += static_cast<char>(number & 0xff);
    payload += reason;
    assert(payload.size() <= kControlBytesMax);
    std::string frame;
    frame += static_cast<char>(kFinalClose);
    frame += static_cast<char>(payload.size() | (mask ? kMasked : 0U));
    if (!mask) return frame += payload;
    for (const unsigned char byte : *mask) frame += static_cast<char>(byte);
    for (std::size_t i = 0; i < payload.size(); ++i) {
        frame += static_cast<char>(byte_at(payload, i) ^ (*mask)[i % kMaskBytes]);
    }
    return frame;
}

}  // namespace tidegate::http
