// Clients and servers that send, stop or leave while the other side has not finished.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::both_sides_test {

namespace {

// Waits until `condition` holds, or for as long as anything may take.
template <class Condition>
bool eventually(Condition condition) {
    const auto deadline = Clock::now() + kPatience;
    while (!condition() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds{2});
    return condition();
}

const std::string kUpload = "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nbegin";
const std::string kChunkedUpload =
    "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n";

}  // namespace

TEST_CASE("both sides: an answer before the end of the upload is whole, then both sides close" *
          only_over_http1("the connection stays")) {
    for (const std::string& upload : {kUpload, kChunkedUpload}) {
        std::atomic<bool> upstream_closed{false};
        const Upstream upstream([&](Conversation& conversation) {
            Message request;
            if (!conversation.read_head(request)) return;
            if (request.method() == "GET") {
                conversation.send(ok("next"));
                return conversation.wait_for_end();
            }
            conversation.send(ok("early"));  // and would go on with this connection
            conversation.wait_for_end();
            upstream_closed = true;
        });
        const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
        auto client = tidegate.client();
        client.send(upload);
        const auto answer = client.response();
        CHECK(answer.body == "early");
        CHECK(same_name(answer.field("Connection"), "close"));
        CHECK(eventually([&] { return upstream_closed.load(); }));
        // What the client still sends is neither body nor request any more.
        client.send(get_request("/smuggled"));
        CHECK(client.closed());
        CHECK(tidegate.get("/next").body == "next");
        CHECK(upstream.connections() == 2);
        CHECK(upstream.requests() == 2);
    }
}

TEST_CASE("both sides: an upload goes on while its answer already streams, and can end whole" *
          only_over_http1("what is read are chunks")) {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("first"));
        std::string body;
        while (body.size() < 10) body += conversation.some();
        conversation.send(chunk(body) + "0\r\n\r\n");
        conversation.wait_for_end();
    });
    const Tidegate tidegate(unlimited({upstream.url()}, "request_buffer: off"));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    std::string seen;
    while (seen.find("first") == std::string::npos) seen += client.some();
    client.send("56789");
    seen += client.rest();
    CHECK(seen.find("\r\n0123456789\r\n0\r\n\r\n") != std::string::npos);
}

TEST_CASE("both sides: a server that answers and resets while the upload goes on has answered") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno");
    });
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send(kUpload);
    std::this_thread::sleep_for(milliseconds{50});
    client.send(std::string(50'000, 'x'));
    const auto answer = client.response();
    CHECK(answer.status() == 413);
    CHECK(answer.body == "no");
}

TEST_CASE("both sides: a broken upload is 400 before the answer, and changes nothing after it" *
          only_over_http1("what is broken are chunks")) {
    std::atomic<bool> go{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        if (request.target() == "/late") return conversation.wait_for_end();
        conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
        eventually([&] { return go.load(); });
        conversation.send("56789");
        conversation.wait_for_end();
    });
    const Tidegate tidegate(simple(upstream.url()));
    const std::string fields =
        " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin";
    auto late = tidegate.client();
    late.send("POST /late" + fields);
    std::this_thread::sleep_for(milliseconds{20});
    late.send("\nzz");
    CHECK(late.response().status() == 400);
    CHECK(late.closed());
    auto early = tidegate.client();
    early.send("POST /early" + fields);
    std::string seen;
    while (seen.find("01234") == std::string::npos) seen += early.some();
    early.send("\nzz" + get_request("/smuggled"));
    std::this_thread::sleep_for(milliseconds{20});
    go = true;
    seen += early.rest();
    CHECK(seen.find("0123456789") != std::string::npos);
    CHECK(seen.find("HTTP/", 9) == std::string::npos);
    CHECK(upstream.requests() == 2);
}

TEST_CASE(
    "both sides: when a client leaves, the proxy ends its request at the server, at any stage") {
    struct Stage {
        std::string request;
        std::string answer;   // what the server had sent by then
        bool by_end = false;  // in HTTP/2 too, an end is enough: more of the request was to come
    };
    const std::vector<Stage> stages = {
        {get_request("/"), ""},
        {get_request("/"), "HTTP/1.1 200 OK\r\nContent-Le"},
        {get_request("/"), "HTTP/1.1 103 Early Hints\r\n\r\n"},
        {get_request("/"), "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"},
        {get_request("/"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"},
        {get_request("/"), "HTTP/1.1 200 OK\r\n\r\npart"},
        {kUpload, "", true},
        {kChunkedUpload, "", true},
        {kUpload, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart", true},
        {get_request("/") + get_request("/behind"), ""},
    };
    for (const bool by_reset : {false, true}) {
        for (const Stage& stage : stages) {
            if (!by_reset && over_http2() && !stage.by_end) continue;
            // There, requests do not wait for each other.
            if (over_http2() && stage.request.find("/behind") != std::string::npos) continue;
            CAPTURE(by_reset);
            CAPTURE(stage.request);
            CAPTURE(stage.answer);
            std::atomic<bool> reached{false};
            std::atomic<bool> left{false};
            const Upstream upstream([&](Conversation& conversation) {
                Message request;
                if (!conversation.read_head(request)) return;
                conversation.send(stage.answer);
                reached = true;
                conversation.wait_for_end();
                left = true;
            });
            const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
            auto client = tidegate.client();
            client.send(stage.request);
            CHECK(eventually([&] { return reached.load(); }));
            std::this_thread::sleep_for(milliseconds{20});
            if (by_reset) {
                client.reset();
            } else {
                client.finish_sending();
            }
            CHECK(eventually([&] { return left.load(); }));
            CHECK(upstream.requests() == 1);
        }
    }
}

TEST_CASE(
    "both sides: only an idempotent request that is still at hand is sent again, and only once") {
    struct Case {
        std::string request;
        bool again;
    };
    std::vector<Case> cases;
    for (const std::string method : {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"}) {
        cases.push_back({method + " /x HTTP/1.1\r\nHost: a\r\n\r\n", true});
        cases.push_back({method + " /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", true});
        cases.push_back({method + " /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "0\r\n\r\n",
                         false});
    }
    for (const std::string method : {"POST", "PATCH", "GETS", "PROPFIND"}) {
        cases.push_back({method + " /x HTTP/1.1\r\nHost: a\r\n\r\n", false});
    }
    for (const bool by_reset : {false, true}) {
        for (const Case& one : cases) {
            CAPTURE(one.request);
            // Where no length is known, the end of a body may be at hand with its head.
            if (over_http2() && one.request.find("chunked") != std::string::npos) continue;
            const Upstream upstream([&](Conversation& conversation) {
                Message request;
                if (!conversation.read(request)) return;
                conversation.send(ok("first"));
                if (conversation.number() > 1) return;
                conversation.read(request);
                if (by_reset) conversation.reset();
            });
            const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
            auto client = tidegate.client();
            CHECK(client.get("/first").status() == 200);
            client.send(one.request);
            CHECK(client.response_to_head().status() == (one.again ? 200 : 502));
            CHECK(upstream.requests() == (one.again ? 3 : 2));
        }
    }
}

TEST_CASE(
    "both sides: no request is sent again after a byte of its answer, or from a fresh connection") {
    for (const bool fresh : {false, true}) {
        CAPTURE(fresh);
        const Upstream upstream([&](Conversation& conversation) {
            Message request;
            if (!conversation.read(request)) return;
            if (!fresh) {
                conversation.send(ok("first"));
                if (!conversation.read(request)) return;
                conversation.send("H");
            }
        });
        const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
        auto client = tidegate.client();
        if (!fresh) CHECK(client.get("/first").status() == 200);
        CHECK(client.get("/second").status() == 502);
        CHECK(upstream.requests() == (fresh ? 1 : 2));
    }
}

TEST_CASE("both sides: if no connection may stay idle, none is used again") {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\n" + unlimited({upstream.url()}, "idle_connections: 0"));
    auto client = tidegate.client();
    for (int i = 0; i < 3; ++i) CHECK(client.get().status() == 200);
    CHECK(upstream.connections() == 3);
}

TEST_CASE("both sides: an idle connection on which the server spoke, ended or reset is not used") {
    for (const std::string& way :
         {std::string("speak"), std::string("end"), std::string("reset")}) {
        CAPTURE(way);
        std::atomic<int> done{0};
        const Upstream upstream([&](Conversation& conversation) {
            Message request;
            if (!conversation.read(request)) return;
            conversation.send(ok("asked"));
            std::this_thread::sleep_for(milliseconds{20});
            if (way == "speak") conversation.send("HTTP/1.1 408 Request Timeout\r\n\r\n");
            if (way == "reset") conversation.reset();
            ++done;
            if (way == "speak") conversation.wait_for_end();
        });
        const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
        auto client = tidegate.client();
        for (int i = 1; i <= 3; ++i) {
            // Not repeatable: it must not meet the dead connection at all.
            CHECK(client.ask(post_request("/", "body")).body == "asked");
            CHECK(eventually([&] { return done == i; }));
            std::this_thread::sleep_for(milliseconds{20});
        }
        CHECK(upstream.connections() == 3);
    }
}

}  // namespace tidegate::test::both_sides_test
