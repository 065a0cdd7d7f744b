#include <external_auth.pb.h>

#include <string>

#include <doctest/doctest.h>

#include "faces/authz_call.hpp"

namespace tidegate::faces::authz_call_test {

namespace {

using envoy::CheckRequest;
using envoy::CheckResponse;

CheckRequest good() {
    CheckRequest request;
    auto& attributes = *request.mutable_attributes();
    attributes.mutable_source()->mutable_address()->mutable_socket_address()->set_address(
        "203.0.113.7");
    auto& http = *attributes.mutable_request()->mutable_http();
    http.set_method("POST");
    http.set_path("/v1/x?q=1");
    http.set_host("api.example");
    http.set_scheme("https");
    return request;
}

envoy::AttributeContext::HttpRequest& http_of(CheckRequest& request) {
    return *request.mutable_attributes()->mutable_request()->mutable_http();
}

bool is_call(const CheckRequest& request) {
    return read_authz_call(request.SerializeAsString()).has_value();
}

CheckResponse written(const AuthzAnswer& answer) {
    std::string bytes;
    append_authz_answer(answer, bytes);
    CheckResponse response;
    REQUIRE(response.ParseFromString(bytes));
    return response;
}

}  // namespace

TEST_CASE("authz_call: the attributes become the head of a request") {
    auto request = good();
    auto& headers = *http_of(request).mutable_headers();
    headers[":path"] = "/other";
    headers["x-a"] = "b";
    headers["content-length"] = "5";
    headers["transfer-encoding"] = "chunked";
    headers["host"] = "other.example";
    const auto call = read_authz_call(request.SerializeAsString());
    REQUIRE(call.has_value());
    CHECK(call->head == "POST /v1/x?q=1 HTTP/1.1\r\nHost: api.example\r\nx-a: b\r\n\r\n");
    CHECK(call->scheme == "https");
    REQUIRE(call->source.has_value());
    CHECK(call->source->to_string() == "203.0.113.7");

    // Newer Envoys send the fields in another form.
    auto raw = good();
    auto& one = *http_of(raw).mutable_header_map()->add_headers();
    one.set_key("x-a");
    one.set_raw_value("\xff");
    CHECK(read_authz_call(raw.SerializeAsString())->head.ends_with("x-a: \xff\r\n\r\n"));
}

TEST_CASE("authz_call: no value breaks out of its line") {
    const auto with_header = [](const std::string& name, const std::string& value) {
        auto request = good();
        (*http_of(request).mutable_headers())[name] = value;
        return request;
    };
    CHECK(is_call(with_header("x-a", "b c")));
    CHECK_FALSE(is_call(with_header("x-a", "b\r\nx-user: root")));
    CHECK_FALSE(is_call(with_header("x-a", "b\nx-user: root")));
    CHECK_FALSE(is_call(with_header("x-a: b", "c")));
    CHECK_FALSE(is_call(with_header("", "c")));
    for (const char* text : {"", "/ HTTP/1.1", "/\r\nx", "/\t"}) {
        auto request = good();
        http_of(request).set_path(text);
        CHECK_FALSE(is_call(request));
        request = good();
        http_of(request).set_host(text);
        CHECK_FALSE(is_call(request));
    }
    for (const char* text : {"", "GET /"}) {
        auto request = good();
        http_of(request).set_method(text);
        CHECK_FALSE(is_call(request));
    }
    CHECK_FALSE(is_call(CheckRequest()));
    CHECK_FALSE(read_authz_call("\xff").has_value());
}

TEST_CASE("authz_call: a request has a body where Envoy tells of one, by fields, size or bytes") {
    const auto has_body = [](auto change) {
        auto request = good();
        change(http_of(request));
        return read_authz_call(request.SerializeAsString())->has_body;
    };
    const auto with_header = [&](const std::string& name, const std::string& value) {
        return has_body([&](auto& http) { (*http.mutable_headers())[name] = value; });
    };
    CHECK_FALSE(has_body([](auto&) {}));
    CHECK_FALSE(with_header("content-length", "0"));
    CHECK_FALSE(with_header("x-content-length", "7"));
    CHECK(with_header("content-length", "7"));
    CHECK(with_header("content-length", ""));
    CHECK(with_header("transfer-encoding", "chunked"));
    CHECK(has_body([](auto& http) {
        auto& one = *http.mutable_header_map()->add_headers();
        one.set_key("content-length");
        one.set_raw_value("10");
    }));
    CHECK(has_body([](auto& http) { http.set_size(7); }));
    CHECK_FALSE(has_body([](auto& http) { http.set_size(-1); }));
    CHECK(has_body([](auto& http) { http.set_body("x"); }));
    CHECK(has_body([](auto& http) { http.set_raw_body("x"); }));
}

TEST_CASE("authz_call: CONNECT is told as a client sends it, so that it is refused as its own") {
    auto request = good();
    http_of(request).set_method("CONNECT");
    http_of(request).clear_path();
    CHECK(read_authz_call(request.SerializeAsString())->head.starts_with("CONNECT "));
}

TEST_CASE("authz_call: fields of an answer take the place of those that are there") {
    AuthzAnswer answer;
    answer.is_admitted = true;
    answer.request_fields = {{"x-user", "alice"}};
    answer.removed_fields = {"x-tier"};
    answer.answer_fields = {{"RateLimit", "x"}};
    const auto ok = written(answer);
    CHECK(ok.status().code() == 0);
    CHECK(ok.ok_response().headers(0).header().value() == "alice");
    CHECK_FALSE(ok.ok_response().headers(0).append().value());
    CHECK(ok.ok_response().headers(0).append_action() ==
          envoy::HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
    CHECK(ok.ok_response().headers_to_remove(0) == "x-tier");
    CHECK(ok.ok_response().response_headers_to_add(0).header().key() == "RateLimit");

    answer = {};
    answer.status = 429;
    answer.grpc_status = 8;
    answer.body = "{}";
    answer.answer_fields = {{"Retry-After", "1"}};
    const auto denied = written(answer);
    CHECK(denied.status().code() == 8);
    CHECK(denied.denied_response().status().code() == 429);
    CHECK(denied.denied_response().body() == "{}");
    CHECK(denied.denied_response().headers(0).header().key() == "Retry-After");
}

}  // namespace tidegate::faces::authz_call_test
