// Malformed answers are 502, and bytes behind a good one belong to no request.
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::answers_test {

namespace {

const std::string kStatus = "HTTP/1.1 200 OK\r\n";
const std::string kChunked = kStatus + "Transfer-Encoding: chunked\r\n\r\n";
const std::string kNul(1, '\0');

// Each answer comes on a connection of its own, which then stays silent: the proxy has to see what
// is wrong.
void is_bad_gateway_each(const std::vector<std::string>& answers) {
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(answers[std::stoul(request.target().substr(1))]);
        conversation.wait_for_end();
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    for (std::size_t i = 0; i < answers.size(); ++i) {
        CAPTURE(answers[i]);
        const auto answer = client.get("/" + std::to_string(i));
        CHECK(answer.status() == 502);
        CHECK(answer.field("Content-Type") == "application/problem+json");
    }
    // Each once, and none of the connections again.
    CHECK(upstream.requests() == static_cast<int>(answers.size()));
    CHECK(upstream.connections() == static_cast<int>(answers.size()));
}

std::vector<std::string> with_each(const std::string& begin, const std::vector<std::string>& parts,
                                   const std::string& end) {
    std::vector<std::string> answers;
    for (const std::string& part : parts) answers.push_back(begin + part + end);
    return answers;
}

}  // namespace

TEST_CASE("answers: any length but one number, and any coding but one `chunked`, are 502") {
    is_bad_gateway_each(with_each(kStatus,
                                  {
                                      "Content-Length:",
                                      "Content-Length: -1",
                                      "Content-Length: +2",
                                      "Content-Length: 0x2",
                                      "Content-Length: 2,2",
                                      "Content-Length: 2 2",
                                      "Content-Length: 2.0",
                                      "Content-Length: two",
                                      "Content-Length: 99999999999999999999",
                                      "Content-Length: 18446744073709551618",
                                      "Content-Length: 2" + kNul,
                                      "Content-Length: \x0b"
                                      "2",
                                      "Content-Length: 2\r\nContent-Length: 2",
                                      "Content-Length: 2\r\nContent-Length: 3",
                                      "Content-Length: 2\r\ncontent-length:",
                                      "Content-Length : 2",
                                      "Content-Length\t: 2",
                                      "Transfer-Encoding:",
                                      "Transfer-Encoding: gzip",
                                      "Transfer-Encoding: gzip, chunked",
                                      "Transfer-Encoding: chunked, gzip",
                                      "Transfer-Encoding: chunked, chunked",
                                      "Transfer-Encoding: identity",
                                      "Transfer-Encoding: xchunked",
                                      "Transfer-Encoding: chunked;q=1",
                                      "Transfer-Encoding: \x0b"
                                      "chunked",
                                      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                                      "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
                                      "Transfer-Encoding : chunked",
                                      "Transfer-Encoding: chunked\r\nContent-Length: 2",
                                      "Content-Length: 2\r\nTransfer-Encoding: chunked",
                                      "Transfer-Encoding:\r\n chunked",
                                  },
                                  "\r\n\r\nok"));
    is_bad_gateway_each(
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
         "HTTP/1.1 204 No\r\nContent-Length: -1\r\n\r\n",
         "HTTP/1.1 304 No\r\nTransfer-Encoding: gzip\r\n\r\n",
         "HTTP/1.1 103 No\r\nContent-Length: x\r\n\r\n" + ok()});
}

TEST_CASE("answers: a head that breaks the grammar is 502") {
    is_bad_gateway_each({
        "ok\r\n\r\n",  // HTTP/0.9
        "<html>hello</html>\r\n\r\n",
        "\r\n" + ok(),
        " " + ok(),
        "HTTP/0.9 200 OK\r\n\r\n",
        "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.10 200 OK\r\nContent-Length: 0\r\n\r\n",
        "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 -20 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200\tOK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 O" + kNul + "K\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 O\x1b[2JK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        kStatus + "Content-Length: 0\n\r\n",
        kStatus + "Content-Length: 0\r\n\n",
        kStatus + "X-A: \x01\r\nContent-Length: 0\r\n\r\n",
        kStatus + "X-A: a\x7f\r\nContent-Length: 0\r\n\r\n",
        kStatus + "X-A: a" + kNul + "b\r\nContent-Length: 0\r\n\r\n",
        kStatus + "X-A: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
        kStatus + "X-A: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        kStatus + " X-A: a\r\nContent-Length: 0\r\n\r\n",
        kStatus + "X A: a\r\nContent-Length: 0\r\n\r\n",
        kStatus + ": a\r\nContent-Length: 0\r\n\r\n",
        kStatus + "X-A\r\nContent-Length: 0\r\n\r\n",
        kStatus + "X-\xc3\xa9: a\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: a\r\n b\r\n\r\n" + ok(),
    });
}

TEST_CASE("answers: chunks that are wrong from the start are 502") {
    is_bad_gateway_each(with_each(kChunked,
                                  {
                                      "\r\n",
                                      "zz\r\n",
                                      "+2\r\nok",
                                      "-2\r\nok",
                                      "0x2\r\nok",
                                      " 2\r\nok",
                                      "2 \r\nok",
                                      "2\nok",
                                      "2;\nok",
                                      "2;a\rb\r\nok",
                                      "10000000000000002\r\nok",
                                      "2\r\nok\n",
                                      "2\r\nokay\r\n",
                                      "0\n\r\n",
                                      "0\r\n\n",
                                      "0\r\nX: y\n\r\n",
                                      "0\r\nX : y\r\n\r\n",
                                      "0\r\n X: y\r\n\r\n",
                                      "0\r\nX: " + kNul + "\r\n\r\n",
                                  },
                                  ""));
}

TEST_CASE("answers: chunks that go wrong later break the answer off") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(kChunked + chunk("good"));
        std::this_thread::sleep_for(milliseconds{20});
        conversation.send("2\nbad");
        conversation.wait_for_end();
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    for (int i = 1; i <= 2; ++i) {
        auto client = tidegate.client();
        client.send(get_request("/"));
        const std::string seen = client.rest();
        CHECK(seen.find("bad") == std::string::npos);
        CHECK(seen.find("0\r\n\r\n") == std::string::npos);
        CHECK(upstream.connections() == i);
    }
}

TEST_CASE("answers: bytes behind an answer that has no body are part of no answer") {
    const std::string poisoned = ok("poisoned");
    const std::vector<std::string> answers = {
        "HTTP/1.1 204 No Content\r\n\r\n" + poisoned,
        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n" + poisoned,
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        ok("") + poisoned,
        kChunked + "0\r\n\r\n" + poisoned,
        ok("", "Connection: close\r\n"),
    };
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        if (request.target() == "/good") {
            conversation.send(ok("good"));
        } else {
            conversation.send(answers[std::stoul(request.target().substr(1))]);
            std::this_thread::sleep_for(milliseconds{5});
        }
        if (conversation.read(request)) conversation.send(poisoned);
    });
    for (std::size_t i = 0; i < answers.size(); ++i) {
        CAPTURE(answers[i]);
        const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
        auto client = tidegate.client();
        client.send(get_request("/" + std::to_string(i)) + get_request("/good"));
        CHECK(client.response().status() < 400);
        CHECK(client.response().body == "good");
    }
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send("HEAD /4 HTTP/1.1\r\nHost: a\r\n\r\n" + get_request("/good"));
    CHECK(client.response_to_head().status() == 200);
    CHECK(client.response().body == "good");
}

}  // namespace tidegate::test::answers_test
