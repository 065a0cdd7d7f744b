// Spans in the JSON of OTLP.
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "telemetry/trace_export.hpp"

namespace tidegate::telemetry::otlp_json_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

TraceRecord request() {
    TraceRecord record;
    record.trace = {0x0a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff};
    record.span = {1, 2, 3, 4, 5, 6, 7, 8};
    record.is_sampled = true;
    record.request.time = std::chrono::system_clock::time_point(1'700'000'000s);
    record.request.duration = 5ms;
    record.request.method = "GET";
    record.request.path = "/a";
    record.request.host = "api.example:8443";
    record.request.route = "api";
    record.request.request_id = "r1";
    record.scheme = "https";
    record.path_template = "/{id}";
    record.request.version = HttpVersion::http_2;
    record.request.status = 200;
    return record;
}

json spans_of(const TraceRecord& record) {
    OtlpBatch batch({"edge", "1.2.3", "one"});
    batch.add(record);
    CHECK(batch.spans() == record.spans());
    return json::parse(batch.finish())["resourceSpans"][0]["scopeSpans"][0]["spans"];
}

// The value of an attribute; null: there is none.
json attribute(const json& of, const std::string& key) {
    for (const auto& one : of["attributes"]) {
        if (one["key"] == key) return one["value"].begin().value();
    }
    return nullptr;
}

TEST_CASE("otlp_json: a batch names its service, and its scope") {
    OtlpBatch batch({"ed\"ge", "1.2.3", "one"});
    batch.add(request());
    batch.add(request());
    CHECK(batch.spans() == 2);
    const json all = json::parse(batch.finish());
    const json& resource = all["resourceSpans"][0];
    CHECK(attribute(resource["resource"], "service.name") == "ed\"ge");
    CHECK(attribute(resource["resource"], "service.version") == "1.2.3");
    CHECK(attribute(resource["resource"], "service.instance.id") == "one");
    CHECK(resource["scopeSpans"][0]["scope"]["name"] == "tidegate");
    CHECK(resource["scopeSpans"][0]["spans"].size() == 2);
    batch.clear();
    CHECK(batch.spans() == 0);
    batch.add(request());
    CHECK(json::parse(batch.finish())["resourceSpans"][0]["scopeSpans"][0]["spans"].size() == 1);
}

TEST_CASE("otlp_json: the request is a server's span, with the attributes of HTTP") {
    const json span = spans_of(request())[0];
    CHECK(span["name"] == "GET /{id}");
    CHECK(span["kind"] == 2);
    CHECK(span["traceId"] == "0a0102030405060708090a0b0c0d0eff");
    CHECK(span["spanId"] == "0102030405060708");
    CHECK_FALSE(span.contains("parentSpanId"));
    CHECK_FALSE(span.contains("traceState"));
    CHECK(span["flags"] == 1);
    CHECK(span["startTimeUnixNano"] == "1700000000000000000");
    CHECK(span["endTimeUnixNano"] == "1700000000005000000");
    CHECK_FALSE(span.contains("status"));
    CHECK(attribute(span, "http.request.method") == "GET");
    CHECK(attribute(span, "url.path") == "/a");
    CHECK(attribute(span, "url.scheme") == "https");
    CHECK(attribute(span, "server.address") == "api.example");
    CHECK(attribute(span, "server.port") == "8443");
    CHECK(attribute(span, "network.protocol.version") == "2");
    CHECK(attribute(span, "http.route") == "/{id}");
    CHECK(attribute(span, "tidegate.route") == "api");
    CHECK(attribute(span, "http.response.status_code") == "200");
    CHECK(attribute(span, "error.type") == nullptr);
    CHECK(attribute(span, "tidegate.request_id") == "r1");
    CHECK(attribute(span, "tidegate.outcome") == "forwarded");
}

TEST_CASE("otlp_json: a span is named by its method and the path of its route") {
    TraceRecord record = request();
    const auto name = [&] { return spans_of(record)[0]["name"]; };
    record.path_template = R"(/v\d+/"[^/]+")";
    CHECK(name() == R"(GET /v\d+/"[^/]+")");
    CHECK(attribute(spans_of(record)[0], "http.route") == R"(/v\d+/"[^/]+")");
    record.path_template.clear();
    CHECK(name() == "GET");
    CHECK(attribute(spans_of(record)[0], "http.route") == nullptr);
    // Names that clients choose have no bound.
    record.request.method = "BREW";
    CHECK(name() == "HTTP");
    record.request.method = {};
    CHECK(name() == "HTTP");
    record.path_template = "/**";
    CHECK(name() == "HTTP /**");
}

TEST_CASE("otlp_json: a caller's span and state are there, and a failure is an error") {
    TraceRecord record = request();
    record.parent = SpanId{8, 7, 6, 5, 4, 3, 2, 1};
    record.state = "a=\"1\"";
    record.is_sampled = false;
    record.request.status = 502;
    record.request.outcome = Outcome::failed;
    record.request.error = "upstream broken";
    const json span = spans_of(record)[0];
    CHECK(span["parentSpanId"] == "0807060504030201");
    CHECK(span["traceState"] == "a=\"1\"");
    CHECK(span["flags"] == 0);
    CHECK(span["status"]["code"] == 2);
    CHECK(attribute(span, "error.type") == "upstream broken");
}

TEST_CASE("otlp_json: a refusal is no error of the server") {
    TraceRecord record = request();
    record.request.status = 429;
    record.request.outcome = Outcome::limited;
    const json span = spans_of(record)[0];
    CHECK_FALSE(span.contains("status"));
    CHECK(attribute(span, "error.type") == nullptr);
}

TEST_CASE("otlp_json: text of a client cannot break out of its string") {
    TraceRecord record = request();
    record.request.method = "BR\"EW";
    record.request.path = "/\"}],\xff\x01";
    record.request.host = "[::1]:80";
    const json span = spans_of(record)[0];
    CHECK(attribute(span, "http.request.method") == "_OTHER");
    CHECK(attribute(span, "http.request.method_original") == "BR\"EW");
    CHECK(attribute(span, "url.path") == "/\"}],\xef\xbf\xbd\x01");
    CHECK(attribute(span, "server.address") == "::1");
    record.request.host = "[::1]";
    CHECK(attribute(spans_of(record)[0], "server.address") == "::1");
    CHECK(attribute(spans_of(record)[0], "server.port") == nullptr);
}

TEST_CASE("otlp_json: the span of a decision has the charge and the verdict") {
    TraceRecord record = request();
    TraceRecord::Decide decide;
    decide.id = {9, 9, 9, 9, 9, 9, 9, 9};
    decide.after = 1ms;
    record.request.decision = 2ms;
    record.request.store = "redis";
    record.request.verdict = "limited";
    record.request.limited_by = "burst-1s";
    decide.policies = {"burst", "day"};
    decide.identifiers = {{0xab}};
    record.decide = decide;
    const json span = spans_of(record)[1];
    CHECK(span["name"] == "decide");
    CHECK(span["kind"] == 3);
    CHECK(span["spanId"] == "0909090909090909");
    CHECK(span["parentSpanId"] == "0102030405060708");
    CHECK(span["startTimeUnixNano"] == "1700000000001000000");
    CHECK(span["endTimeUnixNano"] == "1700000000003000000");
    CHECK(attribute(span, "tidegate.store") == "redis");
    CHECK(attribute(span, "tidegate.verdict") == "limited");
    CHECK(attribute(span, "tidegate.limit") == "burst-1s");
    CHECK(attribute(span, "tidegate.shadow_limit") == nullptr);
    const json policies = attribute(span, "tidegate.policies")["values"];
    REQUIRE(policies.size() == 2);
    CHECK(policies[1]["stringValue"] == "day");
    const json identifiers = attribute(span, "tidegate.identifiers")["values"];
    REQUIRE(identifiers.size() == 1);
    CHECK(identifiers[0]["stringValue"] == "ab" + std::string(62, '0'));
}

TEST_CASE("otlp_json: each try is a client's span, and the second says that it is one") {
    TraceRecord record = request();
    TraceRecord::Forward failed;
    failed.id = {1};
    failed.server = "backend:3000";
    failed.address = "10.0.0.7:3000";
    failed.error = "upstream unreachable";
    TraceRecord::Forward good;
    good.id = {2};
    good.server = "unix:/run/api.sock";
    good.address = "/run/api.sock";
    good.status = 404;
    record.forwards = {failed, good};
    const json spans = spans_of(record);
    REQUIRE(spans.size() == 3);
    CHECK(spans[1]["name"] == "forward");
    CHECK(spans[1]["kind"] == 3);
    CHECK(spans[1]["status"]["code"] == 2);
    CHECK(attribute(spans[1], "error.type") == "upstream unreachable");
    CHECK(attribute(spans[1], "server.address") == "backend");
    CHECK(attribute(spans[1], "server.port") == "3000");
    CHECK(attribute(spans[1], "network.peer.address") == "10.0.0.7");
    CHECK(attribute(spans[1], "http.request.resend_count") == nullptr);
    CHECK(attribute(spans[2], "http.request.resend_count") == "1");
    CHECK(attribute(spans[2], "server.address") == "/run/api.sock");
    CHECK(attribute(spans[2], "network.peer.address") == "/run/api.sock");
    CHECK(attribute(spans[2], "http.response.status_code") == "404");
    CHECK(attribute(spans[2], "error.type") == "404");  // of a client's span, a 4xx is an error
}

// The attributes of a span, whose order means nothing, by key.
json attributes_of(const json& span) {
    json all = json::object();
    for (const auto& one : span["attributes"]) {
        CHECK_FALSE(all.contains(one["key"].get<std::string>()));
        all[one["key"].get<std::string>()] = one["value"].begin().value();
    }
    return all;
}

TEST_CASE("otlp_json: all attributes of a request of which all is known") {
    TraceRecord record = request();
    record.request.status = 429;
    record.request.grpc_status = 8;
    record.request.outcome = Outcome::unavailable;
    record.request.error = "store unavailable";
    record.request.face = Face::check;
    TraceRecord::Decide decide;
    record.request.store = "redis";
    record.request.verdict = "unavailable";
    record.request.limited_by = "burst-1s";
    record.request.shadow_limited_by = "trial-1s";
    record.request.limited_identifier = "user:alice";
    record.request.limit_count = 10;
    record.request.limit_quota = 11;
    record.request.cost = 0;
    record.request.tier = "pro";
    record.request.retry_after = 3;
    decide.policies = {"burst"};
    decide.identifiers = {{0xab}};
    record.decide = decide;
    const json spans = spans_of(record);
    CHECK(attributes_of(spans[0]) == json::parse(R"({
        "http.request.method": "GET", "url.path": "/a", "url.scheme": "https",
        "server.address": "api.example", "server.port": "8443", "network.protocol.version": "2",
        "http.route": "/{id}", "tidegate.route": "api", "http.response.status_code": "429", "rpc.grpc.status_code": "8",
        "error.type": "store unavailable", "tidegate.request_id": "r1",
        "tidegate.face": "check", "tidegate.outcome": "unavailable",
        "tidegate.error": "store unavailable"})"));
    CHECK(spans[0]["status"]["code"] == 2);
    CHECK(attributes_of(spans[1]) == json::parse(R"({
        "tidegate.store": "redis", "tidegate.verdict": "unavailable",
        "tidegate.limit": "burst-1s", "tidegate.shadow_limit": "trial-1s",
        "tidegate.count": "10", "tidegate.quota": "11", "tidegate.cost": "0",
        "tidegate.tier": "pro", "tidegate.retry_after": "3",
        "tidegate.policies": {"values": [{"stringValue": "burst"}]},
        "tidegate.identifiers": {"values": [{"stringValue":
            "ab00000000000000000000000000000000000000000000000000000000000000"}]}})"));
    CHECK(spans[1]["status"]["code"] == 2);
}

TEST_CASE("otlp_json: money is a decimal number of dollars") {
    TraceRecord record = request();
    record.request.limit_quota = {500'000'000, true};
    record.request.cost = {20, true};
    record.decide = TraceRecord::Decide{};
    const std::string text = spans_of(record)[1].dump();
    CHECK(text.find(R"({"key":"tidegate.quota","value":{"doubleValue":500.0}})") !=
          std::string::npos);
    CHECK(text.find(R"({"key":"tidegate.cost","value":{"doubleValue":2e-05}})") !=
          std::string::npos);
}

TEST_CASE("otlp_json: a record keeps copies of the texts that spans show, and no other") {
    std::string text = "known";
    RequestRecord request;
    for (const RequestField& field : kRequestFields) {
        const auto* const member = std::get_if<std::string_view RequestRecord::*>(&field.member);
        if (member != nullptr) request.** member = text;
    }
    const std::array<std::string_view, 1> identifiers{text};
    request.identifiers = identifiers;
    request.status = 404;
    TraceRecord record;
    record.set_request(request);
    text = "other";
    CHECK(record.request.path == "known");
    CHECK(record.request.shadow_limited_by == "known");
    CHECK(record.request.client.empty());
    CHECK(record.request.user_agent.empty());
    CHECK(record.request.identifiers.empty());
    CHECK(record.request.limited_identifier.empty());
    CHECK(record.request.status == 404);
    const TraceRecord moved = std::move(record);
    CHECK(moved.request.error == "known");
}

TEST_CASE("otlp_json: what is not known is no attribute") {
    TraceRecord record;
    record.request.request_id = "r1";
    record.scheme = "http";
    record.decide.emplace();
    const json spans = spans_of(record);
    CHECK(attributes_of(spans[0]) == json::parse(R"({
        "http.request.method": "_OTHER", "url.scheme": "http",
        "network.protocol.version": "1.1", "tidegate.request_id": "r1",
        "tidegate.face": "proxy", "tidegate.outcome": "forwarded"})"));
    CHECK(attributes_of(spans[1]) == json::parse(R"({
        "tidegate.policies": {"values": []}, "tidegate.identifiers": {"values": []}})"));
}

TEST_CASE("otlp_json: rejected spans are read as text and as a number, and nothing else counts") {
    CHECK(rejected_spans(R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}})") == 3);
    CHECK(rejected_spans(R"({"partialSuccess":{"rejectedSpans":4}})") == 4);
    for (const char* const other :
         {"", "{}", "x", "[]", R"({"partialSuccess":{}})", R"({"partialSuccess":7})",
          R"({"partialSuccess":{"rejectedSpans":"-1"}})",
          R"({"partialSuccess":{"rejectedSpans":null}})"}) {
        CHECK(rejected_spans(other) == 0);
    }
}

}  // namespace
}  // namespace tidegate::telemetry::otlp_json_test
