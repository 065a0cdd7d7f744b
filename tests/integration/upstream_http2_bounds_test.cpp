// What requests of different clients that share a connection to a server in HTTP/2 may do to each
// other: resets, large heads, and header blocks that drip.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/grpc_world.hpp"
#include "integration/h2_proxy.hpp"
#include "integration/h2_upstream.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::upstream_http2_bounds_test {

namespace {

// One worker, so that the test knows whose connections are counted.
std::string to(const std::string& url, const std::string& more = "") {
    return "threads: 1\n" + unlimited({url}, more);
}

// Answers later.
std::optional<H2Reply> later(const H2Call&) {
    return std::nullopt;
}

// Whether it holds once the client has sent what it has to send.
template <class Holds>
bool holds(H2Client& client, const Holds& condition) {
    client.run_for(milliseconds{1});
    return condition();
}

}  // namespace

TEST_CASE("upstream http2 bounds: a client that cancels all it asks for costs others nothing") {
    H2Upstream upstream(later);
    H2Proxy proxy(to(upstream.url()));
    H2Client honest = proxy.client();
    const int kept = honest.begin({.path = "/kept"});
    CHECK_SOON(upstream.whole_calls() == 1);
    H2Client hostile = proxy.client();
    std::size_t asked = 1;
    const auto began = Clock::now();
    for (int round = 0; round < 10; ++round) {
        std::vector<int> streams;
        for (int i = 0; i < 20; ++i) streams.push_back(hostile.begin({.path = "/x"}));
        asked += streams.size();
        CHECK_SOON(holds(hostile, [&] { return upstream.whole_calls() == asked; }));
        for (const int stream : streams) hostile.reset(stream);
        hostile.run_for(milliseconds{1});
        const auto resets = [&] {
            const auto calls = upstream.calls();
            return static_cast<std::size_t>(std::count_if(
                calls.begin(), calls.end(), [](const H2Call& one) { return one.reset; }));
        };
        CHECK_SOON(resets() == asked - 1);
    }
    const auto calls = upstream.calls();
    const auto on_first = std::count_if(calls.begin(), calls.end(), [](const H2Call& one) {
        return one.connection == 1 && one.reset;
    });
    // 100, and 3 a second beside.
    const auto took = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began);
    CHECK(on_first >= 80);
    CHECK(on_first <= 100 + 3 * (took.count() + 1));
    CHECK(upstream.connections() >= 2);
    upstream.answer(upstream.call("/kept"), {.body = "kept"});
    CHECK(honest.answer(kept).body == "kept");
}

TEST_CASE("upstream http2 bounds: a head that is larger than the server takes is answered 431") {
    H2Upstream upstream(always({.body = "ok"}),
                        {.settings = {{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2'000}}});
    const Tidegate tidegate(to(upstream.url()));
    // The server's settings come with its first answer.
    CHECK(tidegate.get("/first").status() == 200);
    const std::string large = "X-Large: " + std::string(2'000, 'x') + "\r\n";
    const Message refused = tidegate.client().get("/large", large);
    CHECK(refused.status() == 431);
    CHECK(refused.body.find("larger than the upstream takes") != std::string::npos);
    CHECK(tidegate.get("/next").status() == 200);
    CHECK(upstream.whole_calls() == 2);
    CHECK(upstream.connections() == 1);
    CHECK(tidegate.access_log(2).at(1).at("error") == "client: head too large");
}

TEST_CASE("upstream http2 bounds: how large heads may be is known on the next connection") {
    H2Upstream upstream(
        always({.body = "ok"}),
        {.settings = {{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2'000}}, .is_second = true});
    const Tidegate tidegate(to(upstream.url()));
    CHECK(tidegate.get("/first").status() == 200);
    upstream.close(1);
    CHECK_SOON(upstream.open() == 0);
    const std::string large = "X-Large: " + std::string(2'000, 'x') + "\r\n";
    CHECK(tidegate.client().get("/large", large).status() == 431);
    CHECK(tidegate.get("/next").status() == 200);
    CHECK(upstream.whole_calls() == 2);
    CHECK(upstream.connections() == 2);
}

TEST_CASE("upstream http2 bounds: trailers that are larger than the server takes are not sent") {
    H2Upstream upstream(always({.body = "ok"}),
                        {.settings = {{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2'000}}});
    H2Proxy proxy(to(upstream.url()));
    H2Client client = proxy.client();
    CHECK(client.get("/first").status() == 200);
    const FieldList small{{"x-sum", std::string(1'000, 'x')}};
    CHECK(
        client.ask({.method = "POST", .path = "/small", .body = "a", .trailers = small}).status() ==
        200);
    CHECK(upstream.call("/small").trailers == small);
    const FieldList large{{"x-sum", std::string(2'000, 'x')}};
    // At once, and behind a body that has begun.
    const H2Answer whole =
        client.ask({.method = "POST", .path = "/large", .body = "a", .trailers = large});
    CHECK(whole.status() == 431);
    CHECK(whole.body.find("larger than the upstream takes") != std::string::npos);
    const int slow = client.begin({.method = "POST", .path = "/slow", .stays_open = true});
    client.send(slow, std::string(100, 'b'));
    CHECK_SOON(holds(client, [&] { return upstream.calls().back().body.size() == 100; }));
    client.finish(slow, large);
    CHECK(client.answer(slow).status() == 431);
    CHECK(client.get("/next").status() == 200);
    CHECK(upstream.whole_calls() == 3);
    CHECK(upstream.connections() == 1);
}

TEST_CASE("upstream http2 bounds: a server that takes one request at a time gets one") {
    H2Upstream upstream(later, {.settings = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1}}});
    H2Proxy proxy(to(upstream.url()));
    H2Client client = proxy.client();
    const int first = client.begin({.path = "/first"});
    CHECK_SOON(upstream.whole_calls() == 1);
    upstream.answer(upstream.call("/first"), {});
    CHECK(client.answer(first).status() == 200);
    std::vector<int> streams;
    for (int i = 0; i < 5; ++i) {
        streams.push_back(client.begin({.path = "/" + std::to_string(i)}));
    }
    CHECK_SOON(holds(client, [&] { return upstream.whole_calls() == 6; }));
    CHECK(upstream.connections() == 5);
    for (int i = 0; i < 5; ++i) {
        upstream.answer(upstream.call("/" + std::to_string(i)), {.body = std::to_string(i)});
    }
    for (int i = 0; i < 5; ++i) {
        CHECK(client.answer(streams[static_cast<std::size_t>(i)]).body == std::to_string(i));
    }
}

TEST_CASE("upstream http2 bounds: a server that takes no requests is asked twice, and left") {
    H2Upstream upstream(later, {.settings = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0}}});
    const Tidegate tidegate(to(upstream.url(), "max_connections: 2"));
    for (int i = 0; i < 3; ++i) CHECK(tidegate.get().status() == 503);
    CHECK(upstream.connections() <= 6);
    CHECK_SOON(upstream.open() == 0);
    CHECK(tidegate.access_log(1).at(0).at("error") == "upstream: refused");
}

TEST_CASE("upstream http2 bounds: both sides may send at any time") {
    H2Upstream upstream([](const H2Call&) { return H2Reply{.body = "a", .stays_open = true}; },
                        {.early = true});
    H2Proxy proxy(to(upstream.url()));
    H2Client client = proxy.client();
    const int stream =
        client.begin({.method = "POST",
                      .path = "/chat",
                      .fields = {{"content-type", "application/grpc"}, {"te", "trailers"}},
                      .stays_open = true});
    CHECK(client.some(stream) == "a");
    const H2Call call = upstream.call("/chat");
    const std::string large(200'000, 'x');
    for (const std::string& word : std::vector<std::string>{"one", "two", large}) {
        const std::size_t before = upstream.call("/chat").body.size();
        CHECK(client.send(stream, word));
        CHECK_SOON(holds(
            client, [&] { return upstream.call("/chat").body.size() == before + word.size(); }));
        upstream.go_on(call, "+" + word);
        std::string heard;
        while (heard.size() < word.size() + 1) {
            const std::string more = client.some(stream);
            // The stream has ended.
            if (more.empty()) break;
            heard += more;
        }
        CHECK(heard == "+" + word);
    }
    // Each side ends by itself.
    client.finish(stream);
    CHECK_SOON(holds(client, [&] { return upstream.call("/chat").is_whole; }));
    upstream.go_on(call, "end", true, {{"grpc-status", "0"}});
    const H2Answer answer = client.answer(stream);
    CHECK(answer.is_whole);
    CHECK(answer.status() == 200);
    REQUIRE(answer.trailers.size() == 1);
    CHECK(answer.trailers[0].second == "0");
}

TEST_CASE("upstream http2 bounds: 100 Continue comes before the body that waits for it") {
    H2Upstream upstream(later);
    const Tidegate tidegate(to(upstream.url(), "request_buffer: off"));
    RawClient client = tidegate.client();
    client.send(
        "POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    CHECK_SOON(upstream.calls().size() == 1);
    CHECK(upstream.call("/up").field("expect") == "100-continue");
    CHECK(upstream.call("/up").body.empty());
    upstream.interim(upstream.call("/up"), 100);
    CHECK(client.response().status() == 100);
    client.send("hello");
    CHECK_SOON(upstream.call("/up").is_whole);
    CHECK(upstream.call("/up").body == "hello");
    upstream.answer(upstream.call("/up"), {.body = "done"});
    CHECK(client.response().body == "done");
}

}  // namespace tidegate::test::upstream_http2_bounds_test
