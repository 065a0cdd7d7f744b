#include <chrono>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "http/grpc.hpp"

namespace tidegate::http::grpc_test {

using namespace std::chrono_literals;
using namespace std::string_view_literals;

namespace {

RequestHead head_with(std::string_view method, std::string_view content_type) {
    RequestHead head;
    head.method = method;
    head.fields.push_back({FieldName::content_type, "content-type", content_type});
    return head;
}

std::string message(std::string_view text) {
    std::string out;
    append_grpc_message(text, out);
    return out;
}

std::string body(char flag, std::size_t length, std::string_view content) {
    std::string out;
    append_grpc_message_head(static_cast<std::uint32_t>(length), out);
    out[0] = flag;
    return out.append(content);
}

}  // namespace

TEST_CASE("grpc: a call is a POST of application/grpc, with or without a format") {
    for (const char* type : {"application/grpc", "application/grpc+proto", "application/grpc+json",
                             "application/grpc; charset=utf-8", "Application/gRPC"}) {
        CAPTURE(type);
        CHECK(is_grpc_call(head_with("POST", type)));
        CHECK_FALSE(is_grpc_call(head_with("GET", type)));
    }
    for (const char* type : {"application/grpc-web", "application/grpc-web+proto",
                             "application/json", "application/grpcx", "application/grp", ""}) {
        CAPTURE(type);
        CHECK_FALSE(is_grpc_call(head_with("POST", type)));
    }
    auto twice = head_with("POST", "application/grpc");
    twice.fields.push_back(twice.fields.front());
    CHECK_FALSE(is_grpc_call(twice));
}

TEST_CASE("grpc: the content type of an answer tells whether a status may follow its head") {
    for (const char* type : {"application/grpc", "Application/gRPC+proto", "application/grpc-web",
                             "application/grpc-web-text+proto", "application/connect+json"}) {
        CHECK_MESSAGE(may_end_with_grpc_status(type), type);
    }
    for (const char* type : {"", "application/json", "application/proto", "text/plain"}) {
        CHECK_FALSE_MESSAGE(may_end_with_grpc_status(type), type);
    }
}

TEST_CASE("grpc: statuses of HTTP have one of gRPC, and limits are RESOURCE_EXHAUSTED") {
    CHECK(grpc_status_of(401) == GrpcStatus::unauthenticated);
    CHECK(grpc_status_of(403) == GrpcStatus::permission_denied);
    CHECK(grpc_status_of(404) == GrpcStatus::unimplemented);
    CHECK(grpc_status_of(400) == GrpcStatus::invalid_argument);
    CHECK(grpc_status_of(413) == GrpcStatus::resource_exhausted);
    CHECK(grpc_status_of(429) == GrpcStatus::resource_exhausted);
    CHECK(grpc_status_of(502) == GrpcStatus::unavailable);
    CHECK(grpc_status_of(503) == GrpcStatus::unavailable);
    CHECK(grpc_status_of(504) == GrpcStatus::deadline_exceeded);
    CHECK(grpc_status_of(418) == GrpcStatus::unknown);
    CHECK(static_cast<int>(GrpcStatus::resource_exhausted) == 8);
    CHECK(static_cast<int>(GrpcStatus::unauthenticated) == kGrpcStatusMax);
}

TEST_CASE("grpc: a status is read where it is one, and there once") {
    const auto status = [](std::string_view value) {
        return grpc_status_in({{FieldName::other, "grpc-status", value}});
    };
    CHECK(status("0") == 0);
    CHECK(status("16") == 16);
    for (const char* value : {"17", "-1", "", "1x", "007", "4294967296"}) {
        CAPTURE(value);
        CHECK_FALSE(status(value).has_value());
    }
    CHECK_FALSE(grpc_status_in({}).has_value());
    const Field one{FieldName::other, "grpc-status", "5"};
    CHECK_FALSE(grpc_status_in({one, one}).has_value());
}

TEST_CASE("grpc: a timeout has up to eight digits and a unit") {
    CHECK(parse_grpc_timeout("1H") == 1h);
    CHECK(parse_grpc_timeout("2M") == 2min);
    CHECK(parse_grpc_timeout("3S") == 3s);
    CHECK(parse_grpc_timeout("250m") == 250ms);
    CHECK(parse_grpc_timeout("99999999u") == 99'999'999us);
    CHECK(parse_grpc_timeout("0n") == 0ns);
    CHECK(parse_grpc_timeout("99999999H") == 24h);
    for (const char* value : {"", "S", "1", "1 S", "-1S", "1.5S", "123456789S", "1s", "1h"}) {
        CAPTURE(value);
        CHECK_FALSE(parse_grpc_timeout(value).has_value());
    }
}

TEST_CASE("grpc: a message is percent-encoded but for printable ASCII") {
    CHECK(message("The request is over a limit.") == "The request is over a limit.");
    CHECK(message("100% sure\r\n\xc3\xa9\x7f") == "100%25 sure%0D%0A%C3%A9%7F");
}

// The bytes are those of Google's library for Python: code 8, the message, and a RetryInfo of 1.5
// s.
TEST_CASE("grpc: details of a retry are google.rpc.Status in base64 without padding") {
    std::string out;
    append_retry_details(GrpcStatus::resource_exhausted, "over", 1'500'000us, out);
    CHECK(out ==
          "CAgSBG92ZXIaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIARCAyrXuAQ");
}

TEST_CASE("grpc: a body is one message that is not compressed") {
    using Fault = GrpcMessage::Fault;
    CHECK(read_grpc_message(body(0, 3, "abc")).bytes == "abc");
    CHECK(read_grpc_message(body(0, 0, "")).fault == Fault::none);
    CHECK(read_grpc_message(body(1, 3, "abc")).fault == Fault::compressed);
    CHECK(read_grpc_message(body(2, 3, "abc")).fault == Fault::malformed);
    CHECK(read_grpc_message(body(0, 2, "abc")).fault == Fault::malformed);
    CHECK(read_grpc_message(body(0, 4, "abc")).fault == Fault::malformed);
    CHECK(read_grpc_message(body(0, 0xffffffff, "abc")).fault == Fault::malformed);
    const std::string whole = body(0, 3, "abc");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CHECK(read_grpc_message(whole.substr(0, size)).fault == Fault::malformed);
    }
}

TEST_CASE("grpc health: the question names the service, or is empty") {
    std::string out;
    append_grpc_health_request("", out);
    CHECK(out.empty());
    append_grpc_health_request("a.B", out);
    CHECK(out ==
          "\x0a\x03"
          "a.B");
    out.clear();
    append_grpc_health_request(std::string(200, 'x'), out);
    CHECK(out.starts_with("\x0a\xc8\x01x"));
}

TEST_CASE("grpc health: an answer is one status that is known, and fields to pass over") {
    using namespace std::string_literals;
    CHECK(read_grpc_health_response("") == GrpcServing::unknown);
    CHECK(read_grpc_health_response("\x08\x00"s) == GrpcServing::unknown);
    CHECK(read_grpc_health_response("\x08\x01") == GrpcServing::serving);
    CHECK(read_grpc_health_response("\x08\x02") == GrpcServing::not_serving);
    CHECK(read_grpc_health_response("\x08\x03") == GrpcServing::no_service);
    // The last one counts; others are another version's.
    CHECK(read_grpc_health_response("\x08\x02\x08\x01") == GrpcServing::serving);
    CHECK(read_grpc_health_response("\x12\x02hi\x08\x01\x1d"
                                    "1234\x21"
                                    "12345678\x28\x7f") == GrpcServing::serving);
    for (const std::string_view wrong :
         {"\x08"sv, "\x08\x04"sv, "\x08\x81"sv,
          "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv, "\x0a\x01x"sv, "\x0a\x05x"sv,
          "\x12\x05x"sv, "\x1d\x01"sv, "\x0b\x08\x01"sv, "\x00\x01"sv, "\x08\x01\x12"sv, "{}"sv}) {
        CAPTURE(wrong);
        CHECK_FALSE(read_grpc_health_response(wrong).has_value());
    }
}

}  // namespace tidegate::http::grpc_test
