#include "upstream/health_check_grpc.hpp"

#include <optional>

#include "http/grpc.hpp"

namespace tidegate::upstream {

namespace {

using http::GrpcServing;
using http::GrpcStatus;

constexpr std::string_view kNoGrpcAnswer = "its answer is not gRPC";

// Why the call itself failed.
std::string fault_of_status(int status) {
    const std::string number = "grpc-status " + std::to_string(status);
    switch (static_cast<GrpcStatus>(status)) {
        case GrpcStatus::unimplemented:
            return "it has no health service of gRPC (" + number + ")";
        case GrpcStatus::not_found:
            return "its health service does not know the service (" + number + ")";
        default:
            return "its health service answers " + number;
    }
}

}  // namespace

std::string fault_of_grpc_health(const http::ResponseHead& head, const http::Fields& trailers,
                                 std::string_view body) {
    constexpr int kOk = 200;
    if (head.status != kOk) return "it answers " + std::to_string(head.status);
    const auto type = http::single_value(head.fields, http::FieldName::content_type);
    if (!http::is_grpc_content_type(type)) return std::string(kNoGrpcAnswer);
    // Trailers alone are one head.
    auto status = http::grpc_status_in(trailers);
    if (!status && body.empty()) status = http::grpc_status_in(head.fields);
    if (!status) return std::string(kNoGrpcAnswer);
    if (*status != static_cast<int>(GrpcStatus::ok)) return fault_of_status(*status);
    const http::GrpcMessage message = http::read_grpc_message(body);
    const auto serving =
        body.size() <= kGrpcHealthBytesMax && message.fault == http::GrpcMessage::Fault::none
            ? http::read_grpc_health_response(message.bytes)
            : std::nullopt;
    if (!serving) return "its answer is no HealthCheckResponse";
    switch (*serving) {
        case GrpcServing::serving:
            return {};
        case GrpcServing::not_serving:
            return "it says NOT_SERVING";
        case GrpcServing::no_service:
            return "it says SERVICE_UNKNOWN";
        case GrpcServing::unknown:
            break;
    }
    return "it says UNKNOWN";
}

}  // namespace tidegate::upstream
