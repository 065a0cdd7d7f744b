// Reads and writes gRPC as its PROTOCOL-HTTP2 document puts it on HTTP/2: which requests are calls,
// their deadlines, statuses, and the trailers that an answer without messages consists of. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/head.hpp"

namespace tidegate::http {

// Numbers are those of the protocol.
enum class GrpcStatus : std::uint8_t {
    ok = 0,
    cancelled = 1,
    unknown = 2,
    invalid_argument = 3,
    deadline_exceeded = 4,
    not_found = 5,
    already_exists = 6,
    permission_denied = 7,
    resource_exhausted = 8,
    failed_precondition = 9,
    aborted = 10,
    out_of_range = 11,
    unimplemented = 12,
    internal = 13,
    unavailable = 14,
    data_loss = 15,
    unauthenticated = 16,
};

inline constexpr int kGrpcStatusMax = 16;
inline constexpr std::string_view kGrpcContentType = "application/grpc";

// `application/grpc`, also with `+proto` and the like or parameters; not `application/grpc-web`,
// which is another protocol.
bool is_grpc_content_type(std::string_view value);

// Whether the protocol of an answer with this content type tells a status of gRPC behind its head:
// gRPC, gRPC-Web, and streams of Connect.
bool may_end_with_grpc_status(std::string_view content_type);

// Whether the request is a call: POST with that content type. Requires HTTP/2.
bool is_grpc_call(const RequestHead& head);

// The status of gRPC for an answer of Tidegate's own with this status of HTTP.
GrpcStatus grpc_status_of(int http_status);

// The number in the field `grpc-status` of `fields`; nothing if it is missing, there twice, or no
// status that the protocol knows.
std::optional<int> grpc_status_in(const Fields& fields);

// The value of `grpc-timeout`: at most eight digits and a unit. Nothing if it is malformed. Times
// above 24 hours count as that.
std::optional<std::chrono::nanoseconds> parse_grpc_timeout(std::string_view value);

// Appends `text` as the value of grpc-message: percent-encoded but for printable ASCII.
void append_grpc_message(std::string_view text, std::string& out);

// Appends the value of grpc-status-details-bin: google.rpc.Status with a google.rpc.RetryInfo of
// `retry_after`, in base64 without padding.
void append_retry_details(GrpcStatus status, std::string_view message,
                          std::chrono::microseconds retry_after, std::string& out);

// A body that holds one message, as a call or an answer of one has it.
struct GrpcMessage {
    enum class Fault : std::uint8_t {
        none,
        malformed,   // not exactly one message
        compressed,  // which Tidegate never agrees to
    };
    Fault fault = Fault::none;
    std::string_view bytes;  // goes into the body
};

inline constexpr std::size_t kGrpcMessageHeadBytes = 5;

// The health service of gRPC (grpc.health.v1), as its client.
inline constexpr std::string_view kGrpcHealthPath = "/grpc.health.v1.Health/Check";
// Numbers are those of the protocol.
enum class GrpcServing : std::uint8_t { unknown = 0, serving = 1, not_serving = 2, no_service = 3 };

// Appends the message that asks about `service`; empty: about the server as a whole.
void append_grpc_health_request(std::string_view service, std::string& out);
// Returns the status in a HealthCheckResponse. Nothing if the bytes are none, or hold a status that
// the protocol does not know. Fields that are not known are passed over.
std::optional<GrpcServing> read_grpc_health_response(std::string_view message);

GrpcMessage read_grpc_message(std::string_view body);
// Appends the head of a message of so many bytes, which is not compressed.
void append_grpc_message_head(std::uint32_t bytes, std::string& out);

}  // namespace tidegate::http
