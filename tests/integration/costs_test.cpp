// Costs that are known afterwards: what a request reserves by its body, and settles by its answer.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::costs_test {

namespace {

using nlohmann::json;

std::string tokens_policy(const std::string& cost, int quota = 5'000) {
    return "  tokens:\n    key: ip\n    limits: [" + std::to_string(quota) + "/h]\n    cost: {" +
           cost + "}\n";
}

// One route with a limit of requests and one of tokens.
std::string counting(const std::string& url, const std::string& cost, int quota = 5'000,
                     const std::string& more_of_route = "", const std::string& store = "") {
    return store + "policies:\n  requests: {key: ip, limits: [1000/h]}\n" +
           tokens_policy(cost, quota) + "upstreams: {api: {servers: [" + url +
           "]}}\nroutes: [{name: all, upstream: api, policies: [requests, tokens]" + more_of_route +
           "}]\n";
}

std::string chat(const std::string& members) {
    return post_request("/v1/chat", "{\"model\":\"gpt-x\",\"messages\":[]" + members + "}",
                        "Content-Type: application/json\r\n");
}

std::string usage_answer(int input, int output) {
    return ok(R"({"usage":{"prompt_tokens":)" + std::to_string(input) + R"(,"completion_tokens":)" +
                  std::to_string(output) + "}}",
              "Content-Type: application/json\r\n");
}

// What the limit of tokens has counted for 127.0.0.1.
std::int64_t counted(const Tidegate& tidegate) {
    const json all =
        json::parse(tidegate.admin("/api/inspect?identifier=ip:127.0.0.1").value().body);
    for (const json& policy : all.at("identifiers").at(0).at("policies")) {
        if (policy["policy"] == "tokens") return policy["limits"][0]["counted"];
    }
    return -1;
}

}  // namespace

TEST_CASE("costs: a request reserves what it may use, and settles what its answer says") {
    std::atomic<bool> may_answer{false};
    const Upstream upstream(Upstream::answering([&](const Message&) {
        while (!may_answer) std::this_thread::sleep_for(milliseconds{1});
        return usage_answer(100, 20);
    }));
    Tidegate tidegate(counting(upstream.url(), "reserve: {plus_body: 0}, settle: auto"));
    auto client = tidegate.client();
    client.send(chat(",\"max_tokens\":700"));
    CHECK_SOON(counted(tidegate) == 700);
    may_answer = true;
    CHECK(client.response().status() == 200);
    CHECK_SOON(counted(tidegate) == 120);
    CHECK(client.ask(chat("")).status() == 200);
    CHECK_SOON(counted(tidegate) == 240);
    const auto line = tidegate.access_log(2)[0];
    CHECK(line.at("usage_reserved") == 700);
    CHECK(line.at("usage_cost") == 120);
    CHECK(line.at("usage_input") == 100);
    CHECK(line.at("usage_output") == 20);
    CHECK(line.at("usage_model") == "gpt-x");
    CHECK(tidegate.metric("tidegate_usage_total{route=\"all\",model=\"other\",kind=\"output\"}") ==
          40);
    CHECK(tidegate.metric("tidegate_usage_cost_total{policy=\"tokens\"}") == 240);
    CHECK(tidegate.metric("tidegate_usage_reserved_total{policy=\"tokens\"}") == 1'700);
}

TEST_CASE("costs: metrics name the models of the price list, and a reload takes another list") {
    const Upstream upstream(Upstream::answering([](const Message& request) {
        const std::string model = request.target().substr(1);
        return ok(
            R"({"model":")" + model + R"(","usage":{"prompt_tokens":0,"completion_tokens":10}})",
            "Content-Type: application/json\r\n");
    }));
    const TemporaryFolder folder;
    const auto write_prices = [&](const std::string& models) {
        return folder.write("prices.yaml",
                            "models: {" + models + "}\nunknown: {input: 1, output: 1}\n");
    };
    const std::string prices =
        write_prices("gpt-x-mini*: {input: 1, output: 2}, gpt-x*: {input: 1, output: 10}");
    Tidegate tidegate(
        "threads: 1\nprices: " + prices +
        "\npolicies:\n  tokens: {key: ip, limits: [5000/h], cost: {reserve: 100, settle: auto}}\n"
        "  budget:\n    key: [ip, route]\n    limits: [{quota: 5, unit: usd, per: 1h}]\n"
        "    cost: {reserve: 0.5, settle: auto, unit: usd}\nupstreams: {api: {servers: [" +
        upstream.url() + "]}}\nroutes: [{name: all, upstream: api, policies: [tokens, budget]}]\n");
    const auto post = [&](const std::string& path, const std::string& model) {
        CHECK(tidegate.client()
                  .ask(post_request(path, R"({"model":")" + model + "\"}",
                                    "Content-Type: application/json\r\n"))
                  .status() == 200);
    };
    const auto output = [&](const std::string& model) {
        return tidegate.metric("tidegate_usage_total{route=\"all\",model=\"" + model +
                               "\",kind=\"output\"}");
    };
    const auto dollars = [&](const std::string& model) {
        return tidegate.metric("tidegate_usage_usd_total{policy=\"budget\",model=\"" + model +
                               "\"}");
    };
    post("/gpt-x", "gpt-x");
    post("/gpt-x-mini-2026", "gpt-x");  // the answer names another one with a price
    post("/unpriced", "gpt-x");
    post("/claude", "claude");
    CHECK_SOON(output("gpt-x*") == 20);
    CHECK_SOON(output("gpt-x-mini*") == 10);
    CHECK_SOON(output("other") == 10);
    // Once, though the policy counts two identifiers.
    CHECK(dollars("gpt-x*") == doctest::Approx(0.0002));
    CHECK(dollars("gpt-x-mini*") == doctest::Approx(0.00002));
    CHECK(dollars("other") == doctest::Approx(0.00001));
    const auto line = tidegate.access_log(4)[0];
    CHECK(line.at("usage_reserved") == 100);
    CHECK(line.at("usage_usd") == 0.0001);

    write_prices("claude*: {input: 1, output: 3}, gpt-x*: {input: 1, output: 10}");
    CHECK(tidegate.reload().status() == 200);
    post("/claude", "claude");
    post("/gpt-x-mini", "gpt-x-mini");
    CHECK_SOON(output("claude*") == 10);
    CHECK_SOON(output("gpt-x*") == 30);
    CHECK(output("gpt-x-mini*") == 10);
    CHECK(output("other") == 10);

    // There is a sample once a second.
    const auto live = [&] { return json::parse(tidegate.admin("/api/live").value().body); };
    CHECK_SOON(!live().at("policies").empty());
    CHECK(live().at("policies").at(0).at("unit") == "tokens");
    CHECK(live().at("policies").at(1).at("unit") == "usd");
    CHECK_SOON(live().at("totals").at("costs").dump() == "[[0,60,600],[1,0.00036,3.0]]");
}

TEST_CASE("costs: the answer to a request for more than a quota says that it never passes") {
    const Upstream upstream(usage_answer(1, 1));
    const std::string yaml =
        "threads: 1\npolicies:\n  tokens: {key: ip, limits: [5000/h], body: BODY,"
        " cost: {reserve: {plus_body: 0}, settle: auto}}\n"
        "  budget: {key: ip, limits: [{quota: 2, unit: usd, per: 1h}],"
        " cost: {reserve: 0.5, settle: {header: x-cost}, unit: usd}}\n"
        "upstreams: {api: {servers: [" +
        upstream.url() + "]}}\nroutes: [{name: all, upstream: api, policies: [tokens, budget]}]\n";
    const auto with = [&](const std::string& body) {
        return std::string(yaml).replace(yaml.find("BODY"), 4, body);
    };
    for (const std::string body : {"problem", "openai", "anthropic"}) {
        Tidegate tidegate(with(body));
        const Message answer = tidegate.client().ask(chat(",\"max_tokens\":6000"));
        CHECK(answer.status() == 429);
        CHECK_FALSE(answer.has("Retry-After"));
        CHECK(answer.body.find("would use 6000 tokens of a quota of 5000 (limit `tokens-1h`): it "
                               "never passes. Ask for less.") != std::string::npos);
        const auto line = tidegate.access_log(1)[0];
        CHECK(line.at("refusal") == "too_large");
        CHECK(line.at("cost") == 6'000);
        CHECK(line.at("quota") == 5'000);
        CHECK_FALSE(line.contains("retry_after"));
        if (body != "problem") continue;
        for (int i = 0; i < 4; ++i) tidegate.client().ask(chat(",\"max_tokens\":1"));
        const Message later = tidegate.client().ask(chat(",\"max_tokens\":1"));
        CHECK(later.status() == 429);
        CHECK(later.body.find("never passes") == std::string::npos);
        const auto money = tidegate.access_log(6)[5];
        CHECK_FALSE(money.contains("refusal"));
        CHECK(money.at("limited_by") == "budget-1h");
        CHECK(money.at("quota") == 2.0);
        CHECK(money.at("cost") == 0.5);
        const json denials = json::parse(tidegate.admin("/api/denials").value().body);
        CHECK(denials.at("denials").at(0).at("unit") == "usd");
        CHECK(denials.at("denials").at(0).at("quota") == 2.0);
    }
}

TEST_CASE("costs: a maximum in another case, or of another API, reserves no less") {
    std::atomic<bool> may_answer{false};
    const Upstream upstream(Upstream::answering([&](const Message&) {
        while (!may_answer) std::this_thread::sleep_for(milliseconds{1});
        return usage_answer(1, 1);
    }));
    const std::pair<const char*, int> requests[] = {
        {R"(,"max_tokens":5,"Max_Tokens":3000)", 3'000},
        {R"(,"Max_Tokens":5)", 1'000},
        {R"(,"max_output_tokens":5)", 1'000},
        {R"(,"max_tokens":5,"max_output_tokens":2000)", 2'000}};
    for (const auto& [members, reserved] : requests) {
        CAPTURE(members);
        may_answer = false;
        Tidegate tidegate(counting(upstream.url(), "reserve: {plus_body: 0}, settle: auto"));
        auto client = tidegate.client();
        client.send(chat(members));
        CHECK_SOON(counted(tidegate) == reserved);
        may_answer = true;
        CHECK(client.response().status() == 200);
    }
}

TEST_CASE("costs: a refusal takes nothing of any policy, and the upstream does not see it") {
    const Upstream upstream(usage_answer(1, 1));
    Tidegate tidegate(counting(upstream.url(), "reserve: {plus_body: 0}, settle: auto"));
    auto client = tidegate.client();
    CHECK(client.ask(chat(",\"max_tokens\":6000")).status() == 429);
    CHECK(counted(tidegate) == 0);
    CHECK(upstream.requests() == 0);
    CHECK(client.ask(chat(",\"max_tokens\":5000")).status() == 200);
}

TEST_CASE("costs: errors without usage cost nothing, and what is unknown stays reserved") {
    const Upstream upstream(Upstream::answering([](const Message& request) -> std::string {
        if (request.target() == "/error") return "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
        if (request.target() == "/gzip") {
            return ok("x", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n");
        }
        if (request.target() == "/cut") {
            return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                   "999\r\n\r\n"
                   R"({"usage":{"prompt_tokens":1,"completion_tokens":1}})";
        }
        return ok("{}", "Content-Type: application/json\r\n");
    }));
    Tidegate tidegate(
        counting(upstream.url(), "reserve: {plus_body: 0, default: 10}, settle: auto"));
    const auto post = [&](const std::string& path) {
        return tidegate.client().ask(post_request(path, "{}", "Accept-Encoding: gzip\r\n"));
    };
    CHECK(post("/error").status() == 500);
    CHECK_SOON(counted(tidegate) == 0);
    CHECK(post("/nothing").status() == 200);
    CHECK_FALSE(upstream.last().has("Accept-Encoding"));
    CHECK(post("/gzip").status() == 200);
    const auto unknown = [&](const std::string& reason) {
        return tidegate.metric("tidegate_cost_unknown_total{route=\"all\",reason=\"" + reason +
                               "\"}");
    };
    CHECK_SOON(unknown("no_usage") == 1);
    CHECK_SOON(unknown("compressed") == 1);
    CHECK(counted(tidegate) == 20);
}

TEST_CASE("costs: a stream that is cut costs the larger of its reserve and what it said") {
    const Upstream upstream([](Conversation& connection) {
        Message request;
        if (!connection.read(request)) return;
        connection.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            "Transfer-Encoding: chunked\r\n\r\n");
        connection.send(
            chunk("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,"
                  "\"completion_tokens\":150}}\n\n"));
        connection.reset();
    });
    Tidegate tidegate(
        counting(upstream.url(), "reserve: {plus_body: 0, default: 10}, settle: auto"));
    tidegate.client().ask(chat(",\"max_tokens\":30"));
    CHECK_SOON(counted(tidegate) == 200);
    tidegate.client().ask(chat(",\"max_tokens\":1000"));
    CHECK_SOON(counted(tidegate) == 1'200);
}

TEST_CASE("costs: a client that leaves behind the last event costs what the answer has said") {
    std::string events;
    std::string request;
    std::string last;  // bytes of the last event
    SUBCASE("`[DONE]`") {
        events =
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}}\n\n"
            "data: [DONE]\n\n";
        request = chat(",\"max_tokens\":500");
        last = "[DONE]";
    }
    SUBCASE("`response.completed`") {
        events =
            "event: response.completed\ndata: {\"type\":\"response.completed\","
            "\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":6,"
            "\"total_tokens\":11}}}\n\n";
        request = post_request("/v1/responses", R"({"input":"x","max_output_tokens":500})");
        last = "\"total_tokens\":11";
    }
    const Upstream upstream([&](Conversation& connection) {
        Message asked;
        if (!connection.read(asked)) return;
        connection.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            "Transfer-Encoding: chunked\r\n\r\n" +
            chunk(events));
        connection.wait_for_end();
    });
    Tidegate tidegate(counting(upstream.url(), "reserve: {plus_body: 0}, settle: auto"));
    {
        auto client = tidegate.client();
        client.send(request);
        std::string got;
        while (got.find(last) == std::string::npos) got += client.some();
        client.reset();
    }
    CHECK_SOON(counted(tidegate) == 11);
}

TEST_CASE("costs: `ask_usage` asks for the chunk with the usage, and takes it out again") {
    const Upstream upstream(Upstream::answering([](const Message& request) -> std::string {
        std::string body =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            "Transfer-Encoding: chunked\r\n\r\n" +
            chunk("data: {\"choices\":[{\"delta\":{}}]}\n\n");
        if (json::parse(request.body).value("/stream_options/include_usage"_json_pointer, false)) {
            body += chunk("data: {\"choices\":[],\"usage\":{\"prompt_to") +
                    chunk("kens\":7,\"completion_tokens\":8}}\n\n");
        }
        return body + chunk("data: [DONE]\n\n") + "0\r\n\r\n";
    }));
    Tidegate tidegate(counting(
        upstream.url(), "reserve: {plus_body: 0}, settle: openai, ask_usage: on, write_cap: on"));
    auto client = tidegate.client();
    const Message answer = client.ask(chat(",\"stream\":true"));
    CHECK(answer.body == "data: {\"choices\":[{\"delta\":{}}]}\n\ndata: [DONE]\n\n");
    const json sent = json::parse(upstream.last().body);
    CHECK(sent["stream_options"]["include_usage"] == true);
    CHECK(sent["max_completion_tokens"] == 1'000);
    CHECK_SOON(counted(tidegate) == 15);

    const Message own = client.ask(
        chat(",\"stream\":true,\"max_tokens\":5,\"stream_options\":{\"include_usage\":true}"));
    CHECK(own.body.find("\"prompt_tokens\":7") != std::string::npos);
    CHECK_SOON(counted(tidegate) == 30);

    // APIs that do not know these members refuse them, so such bodies go as they came.
    for (const std::string body :
         {R"({"model":"m","input":"x","stream":true})", R"({"model":"m","input":"x"})"}) {
        client.ask(post_request("/v1/responses", body));
        CHECK(upstream.last().body == body);
    }
    client.ask(post_request("/v1/completions", R"({"prompt":"x","stream":true})"));
    CHECK(upstream.last().body ==
          R"({"prompt":"x","stream":true,"stream_options":{"include_usage":true}})");

    // A body whose hash a field names goes as it came.
    const std::string hashed = R"({"messages":[],"stream":true,"max_tokens":5})";
    client.ask(post_request("/", hashed, "Content-Digest: sha-256=:x:\r\n"));
    CHECK(upstream.last().body == hashed);
    // Without a maximum of its own it reserves the largest, as none can be written into it.
    const int before = upstream.requests();
    const std::string open = R"({"messages":[],"stream":true})";
    CHECK(client.ask(post_request("/", open, "Content-Digest: sha-256=:x:\r\n")).status() == 429);
    CHECK(upstream.requests() == before);
}

TEST_CASE("costs: bodies that cannot be read first are refused, longer ones take the largest") {
    const Upstream upstream(ok());
    Tidegate tidegate(counting(upstream.url(), "reserve: {default: 100, max: 900}, settle: auto",
                               5'000, ", inspect_body: 1KiB"));
    auto client = tidegate.client();
    CHECK(client.ask(post_request("/", "x", "Content-Encoding: gzip\r\n")).status() == 415);
    CHECK(upstream.requests() == 0);
    const std::string longer(3'000, 'x');
    CHECK(tidegate.client().ask(post_request("/", longer)).status() == 200);
    CHECK(upstream.last().body == longer);
    CHECK(counted(tidegate) == 900);
    // Its length is known only at its end.
    auto chunked = tidegate.client();
    chunked.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
                 chunk(longer));
    chunked.send(chunk("end") + "0\r\n\r\n");
    CHECK(chunked.response().status() == 200);
    CHECK(upstream.last().body == longer + "end");
    CHECK(counted(tidegate) == 1'800);
}

TEST_CASE(
    "costs: a held body takes no room once it was sent, unless it may have to be sent again") {
    std::atomic<bool> may_answer{false};
    const Upstream upstream(Upstream::answering([&](const Message& request) {
        while (request.target() == "/slow" && !may_answer) {
            std::this_thread::sleep_for(milliseconds{1});
        }
        return usage_answer(1, 1);
    }));
    Tidegate tidegate("threads: 1\nlimits_on_requests: {held_bodies: 1MiB}\n" +
                      counting(upstream.url(), "reserve: {default: 1}, settle: auto", 100'000'000,
                               ", inspect_body: 512KiB"));
    // The room is for one such body of an address.
    const std::string body = "{\"x\":\"" + std::string(400'000, 'x') + "\"}";
    const auto post = [&](const std::string& path) { return post_request(path, body); };
    const auto other = [&] { return tidegate.client().ask(post("/")).status(); };
    std::string slow = post("/slow");
    SUBCASE("nothing sends a POST again that was sent whole") {
        auto client = tidegate.client();
        client.send(slow);
        CHECK_SOON(upstream.requests() == 1);
        CHECK_SOON(other() == 200);
        may_answer = true;
        CHECK(client.response().status() == 200);
    }
    SUBCASE("clients that leave give their room back, each once") {
        for (int i = 0; i < 6; ++i) {
            const bool is_whole = i % 2 == 0;
            const int before = upstream.requests();
            auto client = tidegate.client();
            client.send(is_whole ? slow : slow.substr(0, 300'000));
            if (is_whole) CHECK_SOON(upstream.requests() > before);
            client.reset();
            CHECK_SOON(other() == 200);
        }
    }
    // Each byte is free again, and none twice: the room is for one body as before. The proxy keeps
    // that of a PUT until its answer begins, as the server may have closed the idle connection.
    may_answer = true;
    CHECK(tidegate.get("/slow").status() == 200);
    may_answer = false;
    const int before = upstream.requests();
    slow.replace(0, 4, "PUT");
    auto client = tidegate.client();
    client.send(slow);
    CHECK_SOON(upstream.requests() > before);
    CHECK(other() == 503);
    may_answer = true;
    CHECK(client.response().status() == 200);
    CHECK_SOON(other() == 200);
}

TEST_CASE("costs: empty bodies whose end comes late, of one client at once" *
          only_over_http1("what comes late is a chunk")) {
    const Upstream upstream(usage_answer(1, 1));
    Tidegate tidegate("threads: 1\n" + counting(upstream.url(), "settle: auto"));
    std::vector<RawClient> clients;
    for (int i = 0; i < 4; ++i) {
        clients.push_back(tidegate.client());
        clients.back().send(
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
            "Transfer-Encoding: chunked\r\n\r\n");
        // The proxy waits for the body.
        CHECK(clients.back().response().status() == 100);
    }
    clients.pop_back();
    for (RawClient& client : clients) {
        client.send("0\r\n\r\n");
        CHECK(client.response().status() == 200);
    }
}

TEST_CASE("costs: the proxy lets a client go on that waits to send its body") {
    const Upstream upstream(usage_answer(3, 4));
    Tidegate tidegate(counting(upstream.url(), "settle: auto"));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    CHECK(client.response().status() == 100);
    client.send("{}");
    CHECK(client.response().status() == 200);
    CHECK_FALSE(upstream.last().has("Expect"));
    CHECK_SOON(counted(tidegate) == 7);
}

TEST_CASE("costs: members of a body are keys, and one that is there twice is refused") {
    const Upstream upstream(ok());
    Tidegate tidegate(
        "policies:\n  tool: {key: \"body:/params/name\", limits: [1/h]}\n"
        "  login: {key: \"body_lower:/email\", limits: [1/h]}\n"
        "  form: {key: \"form:user\", limits: [1/h]}\n"
        "upstreams: {api: {servers: [" +
        upstream.url() +
        "]}}\nroutes:\n"
        "  - {name: mcp, upstream: api, match: {path: /mcp}, policies: [tool]}\n"
        "  - {name: login, upstream: api, match: {path: /login}, policies: [login]}\n"
        "  - {name: form, upstream: api, match: {path: /form}, policies: [form]}\n");
    const auto post = [&](const std::string& path, const std::string& body,
                          const std::string& type = "application/json") {
        return tidegate.client()
            .ask(post_request(path, body, "Content-Type: " + type + "\r\n"))
            .status();
    };
    CHECK(post("/mcp", R"({"params":{"name":"search"}})") == 200);
    CHECK(post("/mcp", R"({"params":{"name":"search"}})") == 429);
    CHECK(post("/mcp", R"({"params":{"name":"other"}})") == 200);
    CHECK(post("/mcp", R"({"params":{"name":"a","name":"b"}})") == 400);
    const auto reason = [&](const std::string& body) {
        const auto answer = tidegate.client().ask(post_request("/mcp", body));
        return std::string(json::parse(answer.body).at("detail"));
    };
    CHECK(reason(R"({"params":{"name":"a","name":"b"}})")
              .starts_with("The body has the member `/params/name` more than once"));
    CHECK(reason("name=a").starts_with("The body is not a JSON object"));
    CHECK(post("/login", R"({"email":"A@example.com"})") == 200);
    CHECK(post("/login", R"({"email":"a@EXAMPLE.com"})") == 429);
    const std::string form = "application/x-www-form-urlencoded";
    CHECK(post("/form", "user=a%20b&x=1", form) == 200);
    CHECK(post("/form", "x=2&user=a+b", form) == 429);
    CHECK(post("/form", "user=a&user=b", form) == 400);
    // Servlets take the one of the query.
    CHECK(post("/form?user=victim", "user=d", form) == 400);
    CHECK(post("/form?a&%75ser[]", "user=d", form) == 400);
    CHECK(post("/form?users=1&x=user", "user=d", form) == 200);
    // An upstream that ignores the case of names may take the other one.
    CHECK(post("/mcp", R"({"params":{"name":"a","Name":"b"}})") == 400);
    CHECK(post("/mcp", R"({"Params":{"name":"a"}})") == 400);
    CHECK(post("/mcp", "{\"param\u017F\":{\"name\":\"a\"},\"params\":{\"name\":\"b\"}}") == 400);
    // Express reads `victim` here, and another name each time.
    const std::string utf_7 = "application/json; charset=utf-7";
    CHECK(post("/mcp", R"({"params":{"name":"v+AGk-ctim"}})", utf_7) == 415);
    CHECK(post("/form", "user=c", form + "; charset=iso-2022-jp") == 415);
    CHECK(post("/form", "user=c", form + "; charset=UTF-8") == 200);
    CHECK(post("/mcp", R"({"params":{"name":"d"}})", "text/plain\r\nContent-Type: " + utf_7) ==
          415);
    const std::string longer = R"({"email":"b@example.com","x":")" + std::string(1'100'000, 'x');
    CHECK(post("/login", longer + "\"}") == 413);
}

TEST_CASE("costs: a soft policy lets all pass, and tells the upstream when it is over") {
    const Upstream upstream(ok());
    Tidegate tidegate(
        "policies: {soft: {key: ip, limits: [1/h], mode: soft}}\n"
        "upstreams: {api: {servers: [" +
        upstream.url() + "]}}\nroutes: [{name: all, upstream: api, policies: [soft]}]\n");
    CHECK(tidegate.get("/", "X-Tidegate-Over: forged\r\n").status() == 200);
    CHECK_FALSE(upstream.last().has("X-Tidegate-Over"));
    CHECK(tidegate.get("/", "X_Tidegate_Over: forged\r\n").status() == 200);
    CHECK(upstream.last().field("X-Tidegate-Over") == "soft");
    CHECK_FALSE(tidegate.get("/").has("RateLimit"));
    const auto lines = tidegate.access_log(3);
    CHECK(std::count_if(lines.begin(), lines.end(), [](const json& line) {
              return line.value("soft_over", "") == "soft-1h";
          }) == 2);
    CHECK(tidegate.metric(
              "tidegate_decisions_total{policy=\"soft\",limit=\"1h\",outcome=\"soft_over\"}") == 2);
}

TEST_CASE("costs: the answer to a client that has left is read on, for so long as it may be") {
    std::atomic<bool> has_left{false};
    const Upstream upstream([&](Conversation& connection) {
        Message request;
        if (!connection.read(request)) return;
        const std::string body = R"({"usage":{"prompt_tokens":1,"completion_tokens":2}})";
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body.substr(0, 9));
        while (!has_left) std::this_thread::sleep_for(milliseconds{1});
        std::this_thread::sleep_for(milliseconds{50});
        connection.send(body.substr(9));
        connection.wait_for_end();
    });
    Tidegate tidegate(counting(upstream.url(),
                               "reserve: {plus_body: 0}, settle: auto, settle_after_leaving: 20s"));
    {
        auto client = tidegate.client();
        client.send(chat(",\"max_tokens\":500"));
        client.some();
        client.reset();
    }
    has_left = true;
    CHECK_SOON(counted(tidegate) == 3);
}

TEST_CASE("costs: many requests at once never reserve more than the quota, in Redis neither") {
    const RedisServer redis;
    std::atomic<int> admitted{0};
    const Upstream upstream(Upstream::answering([&](const Message&) {
        ++admitted;
        std::this_thread::sleep_for(milliseconds{200});
        return usage_answer(40, 60);
    }));
    const std::string store =
        "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis.port()) +
        "\", timeout: 5s}}\n";
    Tidegate one(
        counting(upstream.url(), "reserve: {plus_body: 0}, settle: auto", 4'000, "", store));
    Tidegate other(
        counting(upstream.url(), "reserve: {plus_body: 0}, settle: auto", 4'000, "", store));
    std::vector<std::thread> clients;
    std::atomic<int> refused{0};
    for (int i = 0; i < 200; ++i) {
        clients.emplace_back([&, i] {
            const auto answer =
                (i % 2 == 0 ? one : other).client().ask(chat(",\"max_tokens\":100"));
            if (answer.status() == 429) ++refused;
        });
    }
    for (std::thread& client : clients) client.join();
    CHECK(admitted <= 40);
    CHECK(admitted + refused == 200);
    CHECK_SOON(counted(one) == 100 * admitted);
}

}  // namespace tidegate::test::costs_test
