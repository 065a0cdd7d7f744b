// What requests cost that end otherwise than with an answer that says it, and whose client takes
// it.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/http2_world.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::costs_ends_test {

namespace {

// A route whose policy of tokens reserves 500, with `more` in its cost.
std::string reserving(const std::string& url, const std::string& settle,
                      const std::string& policies = "", const std::string& named = "") {
    return "policies:\n" + policies +
           "  tokens: {key: ip, limits: [9000/h], cost: {reserve: 500, " + settle +
           "}}\nupstreams: {api: {servers: [" + url +
           "]}}\nroutes: [{name: all, upstream: api, policies: [" + named + "tokens]}]\n";
}

std::int64_t counted(const Tidegate& tidegate, const std::string& name = "tokens") {
    const auto all =
        nlohmann::json::parse(tidegate.admin("/api/inspect?identifier=ip:127.0.0.1").value().body);
    for (const auto& policy : all.at("identifiers").at(0).at("policies")) {
        if (policy["policy"] == name) return policy["limits"][0]["counted"];
    }
    return -1;
}

double unknown(const Tidegate& tidegate, const std::string& reason) {
    return tidegate.metric("tidegate_cost_unknown_total{route=\"all\",reason=\"" + reason + "\"}");
}

std::string event(const std::string& json) {
    return "data: " + json + "\n\n";
}

}  // namespace

TEST_CASE("costs: a stream that ends before it says its usage costs what was reserved") {
    const std::string start =
        R"({"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}})";
    const std::string zero =
        R"({"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}})";
    const std::string error = R"({"type":"error","error":{"type":"overloaded_error"}})";
    const std::string chunk_of_zeros =
        R"({"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":0,"completion_tokens":0}})";
    const std::string end_of_zeros =
        R"({"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}})";
    const struct {
        std::string body;
        int cost;
        int unknown;
    } kCases[] = {
        {event(start) + event(R"({"type":"content_block_delta"})"), 500, 1},
        {event(zero) + event(error), 500, 1},
        {event(start) + event(R"({"type":"message_stop"})"), 500, 1},
        {event(chunk_of_zeros) + event(R"({"error":{"code":500}})") + event("[DONE]"), 500, 1},
        {event(start) + event(R"({"type":"message_delta","usage":{"output_tokens":7}})"), 32, 0},
        {event(chunk_of_zeros) + event(end_of_zeros) + event("[DONE]"), 0, 0},
    };
    for (const auto& one : kCases) {
        CAPTURE(one.body);
        const Upstream upstream(ok(one.body, "Content-Type: text/event-stream\r\n"));
        const Tidegate tidegate(reserving(upstream.url(), "settle: auto"));
        CHECK(tidegate.get().status() == 200);
        CHECK(tidegate.access_log(1)[0].at("usage_cost") == one.cost);
        CHECK_SOON(counted(tidegate) == one.cost);
        CHECK(unknown(tidegate, "cut") == one.unknown);
    }
}

TEST_CASE("costs: an answer that has come whole is settled, though its client does not take it") {
    const std::string rest(40'000, 'x');
    const Upstream upstream(Upstream::answering([&](const Message& request) {
        if (request.target() == "/json") {
            return ok(R"({"text":")" + rest +
                          R"(","usage":{"prompt_tokens":10,"completion_tokens":5000}})",
                      "Content-Type: application/json\r\n");
        }
        return ok(
            event(
                R"({"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}})") +
                event(R"({"text":")" + rest + "\"}") +
                event(R"({"type":"message_delta","usage":{"output_tokens":5000}})"),
            "Content-Type: text/event-stream\r\n");
    }));
    for (const char* const path : {"/json", "/events"}) {
        CAPTURE(path);
        Http2Proxy proxy(reserving(upstream.url(), "settle: auto"));
        {
            H2Client client(proxy.port(), {.stream_window = 0});
            const int stream = client.begin({.path = path});
            CHECK(client.await_head(stream).status() == 200);
            CHECK_SOON(proxy.tidegate().metric_sum("tidegate_upstream_server_active",
                                                   "upstream=\"api\"") == 0);
            client.reset(stream);
            client.run_for(milliseconds{10});
        }
        CHECK_SOON(counted(proxy.tidegate()) == 5'010);
    }
    Http2Proxy proxy(reserving(upstream.url(), "settle: {bytes_out: 1}"));
    {
        H2Client client(proxy.port(), {.stream_window = 0});
        const int stream = client.begin({.path = "/json"});
        CHECK(client.await_head(stream).status() == 200);
        CHECK_SOON(proxy.tidegate().metric_sum("tidegate_upstream_server_active",
                                               "upstream=\"api\"") == 0);
        client.reset(stream);
        client.run_for(milliseconds{10});
    }
    CHECK(proxy.tidegate().access_log(1)[0].at("usage_cost") == 500);
}

TEST_CASE("costs: the answer to a client that takes nothing is read on, for so long as it may be") {
    const std::string body = R"({"text":")" + std::string(400'000, 'x') +
                             R"(","usage":{"prompt_tokens":10,"completion_tokens":5000}})";
    const Upstream upstream(ok(body, "Content-Type: application/json\r\n"));
    Http2Proxy proxy("timeouts: {client_write: 300ms}\n" +
                     reserving(upstream.url(), "settle: auto, settle_after_leaving: 20s"));
    H2Client client(proxy.port(), {.stream_window = 0});
    client.begin({.path = "/"});
    CHECK(client.run_until([&] {
        return proxy.tidegate().metric_sum("tidegate_requests_total", "outcome=\"aborted\"") == 1;
    }));
    CHECK(counted(proxy.tidegate()) == 5'010);
}

TEST_CASE("costs: a request that the proxy answers by itself costs nothing") {
    const Upstream upstream(ok());
    const Tidegate tidegate(reserving(upstream.url(), "settle: auto"));
    CHECK(tidegate.client()
              .ask("OPTIONS / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n")
              .status() == 200);
    CHECK(tidegate.access_log(1)[0].at("usage_cost") == 0);
    CHECK_SOON(counted(tidegate) == 0);
    CHECK(upstream.requests() == 0);
}

TEST_CASE("costs: a policy that finds no usage is counted, though another one finds some") {
    const Upstream upstream(ok(R"({"usage":{"prompt_tokens":10,"completion_tokens":5}})",
                               "Content-Type: application/json\r\n"));
    const Tidegate tidegate(
        reserving(upstream.url(), "settle: openai",
                  "  other: {key: ip, limits: [9000/h], cost: {reserve: 700, settle: anthropic}}\n",
                  "other, "));
    CHECK(tidegate.get().status() == 200);
    CHECK_SOON(counted(tidegate) == 15);
    CHECK(counted(tidegate, "other") == 700);
    CHECK(unknown(tidegate, "no_usage") == 1);
    CHECK(tidegate.metric("tidegate_usage_total{route=\"all\",model=\"other\",kind=\"output\"}") ==
          5);
}

}  // namespace tidegate::test::costs_ends_test
