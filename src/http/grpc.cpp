#include "http/grpc.hpp"

#include <algorithm>

#include "base/base64.hpp"
#include "base/text.hpp"

namespace tidegate::http {

namespace {

// Fields that begin with a length, in the encoding of protocol buffers.
constexpr unsigned kLengthDelimited = 2;

void append_varint(std::uint64_t number, std::string& out) {
    constexpr unsigned kMore = 0x80;
    for (; number >= kMore; number >>= 7) out += static_cast<char>((number & 0x7f) | kMore);
    out += static_cast<char>(number);
}

// A field of protocol buffers that holds a number.
void append_number_field(unsigned field, std::uint64_t value, std::string& out) {
    if (value == 0) return;  // absent means the same
    append_varint(field << 3, out);
    append_varint(value, out);
}

// Appends a field that holds text or a message.
void append_bytes_field(unsigned field, std::string_view bytes, std::string& out) {
    append_varint(field << 3 | kLengthDelimited, out);
    append_varint(bytes.size(), out);
    out += bytes;
}

// Takes a number off the front of `bytes`. False: they are cut off inside it, or it is no number.
bool take_varint(std::string_view& bytes, std::uint64_t& number) {
    constexpr unsigned kMore = 0x80;
    number = 0;
    for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
        const auto byte = static_cast<unsigned char>(bytes.front());
        bytes.remove_prefix(1);
        number |= std::uint64_t{byte & 0x7fU} << shift;
        if (byte < kMore) return true;
    }
    return false;
}

// Takes the value of a field that is not a number. False: there is less, or its type is unknown.
bool skip_value(std::string_view& bytes, unsigned type) {
    constexpr unsigned kFixed64 = 1;
    constexpr unsigned kFixed32 = 5;
    std::uint64_t size = 0;
    if (type == kFixed64) {
        size = 8;
    } else if (type == kFixed32) {
        size = 4;
    } else if (type != kLengthDelimited || !take_varint(bytes, size)) {
        return false;
    }
    if (size > bytes.size()) return false;
    bytes.remove_prefix(size);
    return true;
}

}  // namespace

bool is_grpc_content_type(std::string_view value) {
    if (value.size() < kGrpcContentType.size() ||
        !equal_ignoring_case(value.substr(0, kGrpcContentType.size()), kGrpcContentType)) {
        return false;
    }
    value.remove_prefix(kGrpcContentType.size());
    return value.empty() || value.front() == '+' || value.front() == ';' || value.front() == ' ';
}

bool may_end_with_grpc_status(std::string_view content_type) {
    constexpr std::string_view kConnectStream = "application/connect+";
    const auto begins_with = [&](std::string_view beginning) {
        return equal_ignoring_case(content_type.substr(0, beginning.size()), beginning);
    };
    return begins_with(kGrpcContentType) || begins_with(kConnectStream);
}

bool is_grpc_call(const RequestHead& head) {
    if (head.method != "POST") return false;
    return is_grpc_content_type(single_value(head.fields, FieldName::content_type));
}

GrpcStatus grpc_status_of(int http_status) {
    switch (http_status) {
        case 400:
            return GrpcStatus::invalid_argument;
        case 401:
            return GrpcStatus::unauthenticated;
        case 403:
            return GrpcStatus::permission_denied;
        case 404:
        case 501:
        case 505:
            return GrpcStatus::unimplemented;
        case 408:
        case 504:
            return GrpcStatus::deadline_exceeded;
        case 413:
        case 414:
        case 429:
        case 431:
            return GrpcStatus::resource_exhausted;
        case 502:
        case 503:
            return GrpcStatus::unavailable;
        default:
            return GrpcStatus::unknown;
    }
}

std::optional<int> grpc_status_in(const Fields& fields) {
    const std::string_view value = single_value(fields, "grpc-status");
    const auto number = parse_number<unsigned>(value);
    if (!number || value.size() > 2 || *number > unsigned{kGrpcStatusMax}) return std::nullopt;
    return static_cast<int>(*number);
}

std::optional<std::chrono::nanoseconds> parse_grpc_timeout(std::string_view value) {
    using std::chrono::nanoseconds;
    constexpr std::size_t kDigitsMax = 8;
    constexpr std::int64_t kLongest = nanoseconds(std::chrono::hours{24}).count();
    if (value.size() < 2 || value.size() > kDigitsMax + 1) return std::nullopt;
    const auto number = parse_number<std::uint32_t>(value.substr(0, value.size() - 1));
    if (!number) return std::nullopt;
    std::int64_t unit = 0;
    switch (value.back()) {
        case 'H':
            unit = nanoseconds(std::chrono::hours{1}).count();
            break;
        case 'M':
            unit = nanoseconds(std::chrono::minutes{1}).count();
            break;
        case 'S':
            unit = nanoseconds(std::chrono::seconds{1}).count();
            break;
        case 'm':
            unit = nanoseconds(std::chrono::milliseconds{1}).count();
            break;
        case 'u':
            unit = nanoseconds(std::chrono::microseconds{1}).count();
            break;
        case 'n':
            unit = 1;
            break;
        default:
            return std::nullopt;
    }
    if (*number > kLongest / unit) return nanoseconds{kLongest};
    return nanoseconds{*number * unit};
}

void append_grpc_message(std::string_view text, std::string& out) {
    for (const char c : text) {
        if (c >= ' ' && c <= '~' && c != '%') {
            out += c;
        } else {
            append_percent_encoded(c, out);
        }
    }
}

GrpcMessage read_grpc_message(std::string_view body) {
    GrpcMessage message;
    message.fault = GrpcMessage::Fault::malformed;
    if (body.size() < kGrpcMessageHeadBytes) return message;
    const auto length = big_endian<std::uint32_t>(body, 1);
    if (body.size() - kGrpcMessageHeadBytes != length) return message;
    if (body[0] != 0) {
        if (body[0] == 1) message.fault = GrpcMessage::Fault::compressed;
        return message;
    }
    return {GrpcMessage::Fault::none, body.substr(kGrpcMessageHeadBytes)};
}

void append_grpc_message_head(std::uint32_t bytes, std::string& out) {
    out += '\0';
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(bytes >> shift & 0xff);
}

void append_grpc_health_request(std::string_view service, std::string& out) {
    if (!service.empty()) append_bytes_field(1, service, out);
}

std::optional<GrpcServing> read_grpc_health_response(std::string_view message) {
    constexpr std::uint64_t kStatusField = 1;
    std::uint64_t status = 0;
    while (!message.empty()) {
        std::uint64_t tag = 0;
        if (!take_varint(message, tag) || tag >> 3 == 0) return std::nullopt;
        const auto type = static_cast<unsigned>(tag & 7);
        std::uint64_t number = 0;
        if (type != 0 ? !skip_value(message, type) : !take_varint(message, number)) {
            return std::nullopt;
        }
        if (tag >> 3 != kStatusField) continue;
        if (type != 0) return std::nullopt;
        status = number;
    }
    if (status > std::uint64_t{3}) return std::nullopt;
    return static_cast<GrpcServing>(status);
}

void append_retry_details(GrpcStatus status, std::string_view message,
                          std::chrono::microseconds retry_after, std::string& out) {
    constexpr std::int64_t kSecond = 1'000'000;
    constexpr std::int64_t kNanosOfMicro = 1'000;
    const std::int64_t micros = std::max<std::int64_t>(retry_after.count(), 0);
    std::string duration;  // google.protobuf.Duration: seconds = 1, nanos = 2
    append_number_field(1, static_cast<std::uint64_t>(micros / kSecond), duration);
    append_number_field(2, static_cast<std::uint64_t>(micros % kSecond * kNanosOfMicro), duration);
    std::string retry_info;  // google.rpc.RetryInfo: retry_delay = 1
    append_bytes_field(1, duration, retry_info);
    std::string any;  // google.protobuf.Any: type_url = 1, value = 2
    append_bytes_field(1, "type.googleapis.com/google.rpc.RetryInfo", any);
    append_bytes_field(2, retry_info, any);
    std::string whole;  // google.rpc.Status: code = 1, message = 2, details = 3
    append_number_field(1, static_cast<std::uint64_t>(status), whole);
    append_bytes_field(2, message, whole);
    append_bytes_field(3, any, whole);
    append_base64(whole, kBase64Digits, out);
}

}  // namespace tidegate::http
