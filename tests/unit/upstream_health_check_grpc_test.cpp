// What the answer of a gRPC health service means for its server.
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "http/grpc.hpp"
#include "upstream/health_check_grpc.hpp"

namespace tidegate::upstream::health_check_grpc_test {

namespace {

struct Answer {
    int status = 200;
    std::string_view type = "application/grpc+proto";
    std::string_view status_in_head{};
    std::string_view status_in_trailers = "0";
};

std::string framed(std::string_view message) {
    std::string out;
    http::append_grpc_message_head(static_cast<std::uint32_t>(message.size()), out);
    return out.append(message);
}

std::string fault_of(const Answer& answer, std::string_view body) {
    http::ResponseHead head;
    head.status = answer.status;
    head.fields.push_back({http::FieldName::content_type, "content-type", answer.type});
    http::Fields trailers;
    const auto add = [](http::Fields& to, std::string_view value) {
        if (!value.empty()) to.push_back({http::FieldName::other, "grpc-status", value});
    };
    add(head.fields, answer.status_in_head);
    add(trailers, answer.status_in_trailers);
    return fault_of_grpc_health(head, trailers, body);
}

}  // namespace

TEST_CASE("health_check_grpc: SERVING is healthy, and nothing else is") {
    CHECK(fault_of({}, framed("\x08\x01")).empty());
    CHECK(fault_of({}, framed("\x08\x02")) == "it says NOT_SERVING");
    CHECK(fault_of({}, framed("\x08\x03")) == "it says SERVICE_UNKNOWN");
    CHECK(fault_of({}, framed("")) == "it says UNKNOWN");
}

TEST_CASE("health_check_grpc: a call that fails says why") {
    CHECK(fault_of({.status_in_head = "12", .status_in_trailers = ""}, "") ==
          "it has no health service of gRPC (grpc-status 12)");
    CHECK(fault_of({.status_in_trailers = "5"}, "") ==
          "its health service does not know the service (grpc-status 5)");
    CHECK(fault_of({.status_in_trailers = "14"}, framed("\x08\x01")) ==
          "its health service answers grpc-status 14");
    CHECK(fault_of({.status = 404}, "") == "it answers 404");
}

TEST_CASE("health_check_grpc: an answer that is not gRPC is a fault") {
    const std::string good = framed("\x08\x01");
    CHECK(fault_of({.type = "text/html"}, good) == "its answer is not gRPC");
    CHECK(fault_of({.status_in_trailers = ""}, good) == "its answer is not gRPC");
    CHECK(fault_of({.status_in_trailers = "zero"}, good) == "its answer is not gRPC");
    // With messages, the status of the head does not count.
    CHECK(fault_of({.status_in_head = "0", .status_in_trailers = ""}, good) ==
          "its answer is not gRPC");
    const std::string none = "its answer is no HealthCheckResponse";
    CHECK(fault_of({}, "") == none);
    CHECK(fault_of({}, good.substr(0, good.size() - 1)) == none);
    CHECK(fault_of({}, good + good) == none);
    CHECK(fault_of({}, framed("\x08\x09")) == none);
    std::string compressed = good;
    compressed[0] = 1;
    CHECK(fault_of({}, compressed) == none);
    // Unknown fields may be long, but not without end.
    const std::string padded = std::string("\x12\xd0\x1f") + std::string(4'048, 'x') + "\x08\x01";
    CHECK(fault_of({}, framed(padded)).empty());
    const std::string huge = std::string("\x12\xa0\x1f") + std::string(4'000, 'x');
    CHECK(fault_of({}, framed(huge + huge + "\x08\x01")) == none);
}

}  // namespace tidegate::upstream::health_check_grpc_test
