#include <ratelimit.pb.h>

#include <string>

#include <doctest/doctest.h>

#include "faces/rls_call.hpp"

namespace tidegate::faces::rls_call_test {

using namespace std::chrono_literals;

namespace {

using envoy::RateLimitRequest;
using envoy::RateLimitResponse;

RateLimitRequest good() {
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
    RateLimitRequest request = good();
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
    CHECK(read_rls_call(good().SerializeAsString())->descriptors[0].hits == 1);
}

TEST_CASE("rls_call: what is out of bounds is refused with a reason") {
    CHECK(error_of(good()).empty());
    CHECK_FALSE(read_rls_call("\xff").has_value());
    auto request = good();
    request.clear_domain();
    CHECK(error_of(request) == "the domain is empty");
    request = good();
    request.clear_descriptors();
    CHECK(error_of(request) == "the list of descriptors is empty");
    request = good();
    for (int i = 0; i < 64; ++i) *request.add_descriptors() = request.descriptors(0);
    CHECK(error_of(request) == "there are more than 64 descriptors");
    request = good();
    for (int i = 0; i < 16; ++i) request.mutable_descriptors(0)->add_entries()->set_key("k");
    CHECK(error_of(request) == "a descriptor has more than 16 entries");
    request = good();
    request.mutable_descriptors(0)->clear_entries();
    CHECK(error_of(request) == "a descriptor has no entries");
    request = good();
    request.mutable_descriptors(0)->mutable_entries(0)->clear_key();
    CHECK(error_of(request) == "an entry of a descriptor has no key");
    request = good();
    request.mutable_descriptors(0)->set_is_negative_hits(true);
    CHECK(error_of(request).find("is_negative_hits") != std::string::npos);
    request = good();
    request.mutable_descriptors(0)->mutable_hits_addend()->set_value(1ULL << 32);
    CHECK(error_of(request).find("hits_addend") != std::string::npos);
    for (const int unit : {0, -1, 8}) {
        request = good();
        request.mutable_descriptors(0)->mutable_limit()->set_unit(unit);
        CHECK(error_of(request).find("unit") != std::string::npos);
    }
}

TEST_CASE("rls_call: bytes that are not UTF-8 are values, too") {
    auto request = good();
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

}  // namespace tidegate::faces::rls_call_test
