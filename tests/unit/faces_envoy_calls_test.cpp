#include <external_auth.pb.h>
#include <ratelimit.pb.h>

#include <string>

#include <doctest/doctest.h>

#include "faces/envoy_calls.hpp"

namespace tidegate::faces::envoy_calls_test {

namespace {

using envoy::CheckRequest;
using envoy::CheckResponse;

CheckRequest authz_request() {
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
    auto request = authz_request();
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
    auto raw = authz_request();
    auto& one = *http_of(raw).mutable_header_map()->add_headers();
    one.set_key("x-a");
    one.set_raw_value("\xff");
    CHECK(read_authz_call(raw.SerializeAsString())->head.ends_with("x-a: \xff\r\n\r\n"));
}

TEST_CASE("authz_call: no value breaks out of its line") {
    const auto with_header = [](const std::string& name, const std::string& value) {
        auto request = authz_request();
        (*http_of(request).mutable_headers())[name] = value;
        return request;
    };
    CHECK(is_call(with_header("x-a", "b c")));
    CHECK_FALSE(is_call(with_header("x-a", "b\r\nx-user: root")));
    CHECK_FALSE(is_call(with_header("x-a", "b\nx-user: root")));
    CHECK_FALSE(is_call(with_header("x-a: b", "c")));
    CHECK_FALSE(is_call(with_header("", "c")));
    for (const char* text : {"", "/ HTTP/1.1", "/\r\nx", "/\t"}) {
        auto request = authz_request();
        http_of(request).set_path(text);
        CHECK_FALSE(is_call(request));
        request = authz_request();
        http_of(request).set_host(text);
        CHECK_FALSE(is_call(request));
    }
    for (const char* text : {"", "GET /"}) {
        auto request = authz_request();
        http_of(request).set_method(text);
        CHECK_FALSE(is_call(request));
    }
    CHECK_FALSE(is_call(CheckRequest()));
    CHECK_FALSE(read_authz_call("\xff").has_value());
}

TEST_CASE("authz_call: a request has a body where Envoy tells of one, by fields, size or bytes") {
    const auto has_body = [](auto change) {
        auto request = authz_request();
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

TEST_CASE("authz_call: a CONNECT without a path stays a CONNECT, so that the proxy refuses it") {
    auto request = authz_request();
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

using namespace std::chrono_literals;

namespace {

using envoy::RateLimitRequest;
using envoy::RateLimitResponse;

RateLimitRequest rls_request() {
    RateLimitRequest request;
    request.set_domain("edge");
    auto& entry = *request.add_descriptors()->add_entries();
    entry.set_key("remote_address");
    entry.set_value("203.0.113.7");
    return request;
}

std::string error_of(const RateLimitRequest& request) {
    const auto call = read_rls_call(request.SerializeAsString());
    return call ? "" : call.error();
}

RateLimitResponse written(const RlsAnswer& answer) {
    std::string bytes;
    append_rls_answer(answer, bytes);
    RateLimitResponse response;
    REQUIRE(response.ParseFromString(bytes));
    return response;
}

}  // namespace

TEST_CASE("rls_call: a call has descriptors with their hits and limits") {
    RateLimitRequest request = rls_request();
    request.set_hits_addend(3);
    auto& own = *request.add_descriptors();
    own.add_entries()->set_key("a");
    own.mutable_hits_addend();
    own.mutable_limit()->set_requests_per_unit(7);
    own.mutable_limit()->set_unit(7);
    const auto call = read_rls_call(request.SerializeAsString());
    REQUIRE(call.has_value());
    CHECK(call->domain == "edge");
    REQUIRE(call->descriptors.size() == 2);
    CHECK(call->descriptors[0].entries[0].first == "remote_address");
    CHECK(call->descriptors[0].entries[0].second == "203.0.113.7");
    CHECK(call->descriptors[0].hits == 3);
    CHECK_FALSE(call->descriptors[0].limit.has_value());
    CHECK(call->descriptors[1].hits == 0);
    CHECK(call->descriptors[1].limit->requests == 7);
    CHECK(call->descriptors[1].limit->unit == rls::Unit::week);
    CHECK(read_rls_call(rls_request().SerializeAsString())->descriptors[0].hits == 1);
}

TEST_CASE("rls_call: what is out of bounds is refused with a reason") {
    CHECK(error_of(rls_request()).empty());
    CHECK_FALSE(read_rls_call("\xff").has_value());
    auto request = rls_request();
    request.clear_domain();
    CHECK(error_of(request) == "the domain is empty");
    request = rls_request();
    request.clear_descriptors();
    CHECK(error_of(request) == "the list of descriptors is empty");
    request = rls_request();
    for (int i = 0; i < 64; ++i) *request.add_descriptors() = request.descriptors(0);
    CHECK(error_of(request) == "there are more than 64 descriptors");
    request = rls_request();
    for (int i = 0; i < 16; ++i) request.mutable_descriptors(0)->add_entries()->set_key("k");
    CHECK(error_of(request) == "a descriptor has more than 16 entries");
    request = rls_request();
    request.mutable_descriptors(0)->clear_entries();
    CHECK(error_of(request) == "a descriptor has no entries");
    request = rls_request();
    request.mutable_descriptors(0)->mutable_entries(0)->clear_key();
    CHECK(error_of(request) == "an entry of a descriptor has no key");
    request = rls_request();
    request.mutable_descriptors(0)->set_is_negative_hits(true);
    CHECK(error_of(request).find("is_negative_hits") != std::string::npos);
    request = rls_request();
    request.mutable_descriptors(0)->mutable_hits_addend()->set_value(1ULL << 32);
    CHECK(error_of(request).find("hits_addend") != std::string::npos);
    for (const int unit : {0, -1, 8}) {
        request = rls_request();
        request.mutable_descriptors(0)->mutable_limit()->set_unit(unit);
        CHECK(error_of(request).find("unit") != std::string::npos);
    }
}

TEST_CASE("rls_call: bytes that are not UTF-8 are values, too") {
    auto request = rls_request();
    request.mutable_descriptors(0)->mutable_entries(0)->set_value("\xff\xfe");
    CHECK(read_rls_call(request.SerializeAsString())->descriptors[0].entries[0].second ==
          "\xff\xfe");
}

TEST_CASE("rls_call: an answer says of each descriptor what is left and when more comes") {
    RlsAnswer answer;
    answer.statuses.resize(2);
    answer.statuses[0].limit = RlsAnswer::Limit{"name", 10, rls::Unit::hour};
    answer.statuses[0].remaining = 4;
    answer.statuses[0].until_reset = 1'500'000us;
    answer.statuses[1].remaining = 1LL << 40;
    answer.fields = {{"RateLimit", "x"}};
    answer.body = "only of a refusal";
    const auto response = written(answer);
    CHECK(response.overall_code() == RateLimitResponse::OK);
    REQUIRE(response.statuses_size() == 2);
    CHECK(response.statuses(0).current_limit().requests_per_unit() == 10);
    CHECK(response.statuses(0).current_limit().unit() == 3);
    CHECK(response.statuses(0).current_limit().name() == "name");
    CHECK(response.statuses(0).limit_remaining() == 4);
    CHECK(response.statuses(0).duration_until_reset().seconds() == 1);
    CHECK(response.statuses(0).duration_until_reset().nanos() == 500'000'000);
    CHECK_FALSE(response.statuses(1).has_current_limit());
    CHECK(response.statuses(1).limit_remaining() == 0xffffffff);
    CHECK(response.response_headers_to_add(0).key() == "RateLimit");
    CHECK(response.raw_body().empty());

    answer.is_over = answer.statuses[1].is_over = true;
    const auto refused = written(answer);
    CHECK(refused.overall_code() == RateLimitResponse::OVER_LIMIT);
    CHECK(refused.statuses(0).code() == RateLimitResponse::OK);
    CHECK(refused.statuses(1).code() == RateLimitResponse::OVER_LIMIT);
    CHECK(refused.raw_body() == answer.body);
}

}  // namespace tidegate::faces::envoy_calls_test
