// Messages that arrive in two parts, wherever they are cut, are the same messages; messages that
// end early are never taken for whole ones. In both directions.
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::cutting_test {

namespace {

// Long enough for the first part to be read alone, most times.
constexpr milliseconds kBetween{2};

const std::string kLengthRequest =
    "POST /l HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nContent-Length: 10\r\n\r\n0123456789";
const std::string kChunkedRequest =
    "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "4;x=y\r\n0123\r\n006\r\n456789\r\n0\r\nX-Sum: 45\r\nX-End: 1\r\n\r\n";

const std::string kEarly = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
const std::string kLengthAnswer =
    "HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 10\r\n\r\n0123456789";
const std::string kChunkedAnswer =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    "4;x=y\r\n0123\r\n006\r\n456789\r\n0\r\nX-Sum: 45\r\nX-End: 1\r\n\r\n";
const std::string kOpenAnswer = "HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n0123456789";

// Everything that may not differ between one message and another.
std::string essence(const Message& message) {
    std::string text = message.start_line + "\n";
    for (const auto& [name, value] : message.fields) {
        if (same_name(name, "X-Request-Id") || same_name(name, "Date")) continue;
        text += name + ": " + value + "\n";
    }
    text += "\n" + message.body + "\n";
    for (const auto& [name, value] : message.trailers) text += name + ": " + value + "\n";
    return text + (message.broken ? "broken" : "whole");
}

// The number behind the last `/` of the target.
std::size_t cut_of(const Message& request) {
    return std::stoul(request.target().substr(request.target().rfind('/') + 1));
}

// Sends the first bytes of `bytes`, as many as the request's path says, a pause, and the rest.
Upstream::Handler cutting(const std::string& bytes, bool then_close) {
    return [bytes, then_close](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            const std::size_t cut = cut_of(request);
            conversation.send(std::string_view(bytes).substr(0, cut));
            std::this_thread::sleep_for(kBetween);
            if (!conversation.send(std::string_view(bytes).substr(cut)) || then_close) return;
        }
    };
}

// Sends only the first bytes, then ends or resets.
Upstream::Handler truncating(const std::string& bytes, bool by_reset) {
    return [bytes, by_reset](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(std::string_view(bytes).substr(0, cut_of(request)));
        if (!by_reset) return;
        std::this_thread::sleep_for(kBetween);
        conversation.reset();
    };
}

// Reads interim answers and the final one. Nothing when it is visibly broken.
std::string clean_answer(RawClient& client) {
    try {
        for (;;) {
            const Message answer = client.response();
            if (answer.broken) return "";
            if (answer.status() >= 200) return essence(answer);
        }
    } catch (const MalformedMessage&) {
        return "";
    }
}

bool is_bad_gateway(const std::string& text) {
    return text.rfind("HTTP/1.1 502 ", 0) == 0;
}

}  // namespace

TEST_CASE("cutting: a request is the same wherever it is cut, and so is what follows it") {
    const Upstream upstream(
        Upstream::answering([](const Message& request) { return ok(request.body); }));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    for (const std::string& whole : {kLengthRequest, kChunkedRequest}) {
        auto uncut = tidegate.client();
        CHECK(uncut.ask(whole).body == "0123456789");
        const std::string expected = essence(upstream.last());
        for (std::size_t cut = 1; cut < whole.size(); ++cut) {
            CAPTURE(cut);
            auto client = tidegate.client();
            client.send(std::string_view(whole).substr(0, cut));
            std::this_thread::sleep_for(kBetween);
            client.send(whole.substr(cut) + get_request("/next"));
            CHECK(client.response().body == "0123456789");
            CHECK(client.response().status() == 200);
            const auto seen = upstream.seen();
            CHECK(seen.back().target() == "/next");
            CHECK(essence(seen[seen.size() - 2]) == expected);
        }
    }
}

TEST_CASE("cutting: requests that come byte by byte are the requests that were sent") {
    const Upstream upstream(
        Upstream::answering([](const Message& request) { return ok(request.body); }));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    for (const char byte : kLengthRequest + kChunkedRequest + get_request("/end")) {
        client.send({&byte, 1});
        std::this_thread::sleep_for(milliseconds{1});
    }
    CHECK(client.response().body == "0123456789");
    CHECK(client.response().body == "0123456789");
    CHECK(client.response().body.empty());
    CHECK(upstream.requests() == 3);
    CHECK(upstream.seen()[1].trailers == FieldList{{"X-Sum", "45"}, {"X-End", "1"}});
}

TEST_CASE("cutting: a request that ends early is answered with an error or not at all") {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    for (const std::string& whole : {kLengthRequest, kChunkedRequest}) {
        for (std::size_t cut = 0; cut < whole.size(); ++cut) {
            CAPTURE(cut);
            auto client = tidegate.client();
            client.send(std::string_view(whole).substr(0, cut));
            client.finish_sending();
            const std::string answer = client.rest();
            CHECK((answer.empty() || answer.rfind("HTTP/1.1 4", 0) == 0));
        }
    }
    for (const auto& request : upstream.seen()) CHECK(request.broken);
    CHECK(tidegate.get().status() == 200);
}

TEST_CASE("cutting: an answer is the same wherever it is cut") {
    for (const std::string& whole : {kLengthAnswer, kChunkedAnswer, kEarly + kLengthAnswer,
                                     kEarly + kEarly + kChunkedAnswer}) {
        const Upstream upstream(cutting(whole, false));
        const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
        auto client = tidegate.client();
        client.send(get_request("/0"));
        const std::string expected = clean_answer(client);
        CHECK(expected.find("0123456789") != std::string::npos);
        for (std::size_t cut = 1; cut < whole.size(); ++cut) {
            CAPTURE(cut);
            client.send(get_request("/" + std::to_string(cut)));
            CHECK(clean_answer(client) == expected);
        }
        CHECK(upstream.connections() == 1);
    }
}

TEST_CASE("cutting: an answer that only the end delimits is the same wherever it is cut") {
    const Upstream upstream(cutting(kOpenAnswer, true));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    for (std::size_t cut = 1; cut < kOpenAnswer.size(); ++cut) {
        CAPTURE(cut);
        auto client = tidegate.client();
        const auto answer = client.get("/" + std::to_string(cut));
        CHECK(answer.field("Transfer-Encoding") == "chunked");
        CHECK(answer.body == "0123456789");
        CHECK_FALSE(answer.broken);
    }
}

TEST_CASE("cutting: an answer to HTTP/1.0 is the same wherever it is cut, and has no interim") {
    const std::string whole = kEarly + kChunkedAnswer;
    const Upstream upstream(cutting(whole, false));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    for (std::size_t cut = 1; cut < whole.size(); ++cut) {
        CAPTURE(cut);
        auto client = tidegate.client();
        client.send("GET /" + std::to_string(cut) + " HTTP/1.0\r\n\r\n");
        const std::string answer = client.rest();
        CHECK(answer.starts_with("HTTP/1.1 200 OK\r\nDate: "));
        CHECK(answer.ends_with(" GMT\r\nConnection: close\r\n\r\n0123456789"));
        CHECK_FALSE(client.was_reset());
    }
}

TEST_CASE("cutting: an answer that ends early is 502 or broken, never a clean end") {
    for (const std::string& whole : {kLengthAnswer, kChunkedAnswer, kEarly + kChunkedAnswer}) {
        for (const bool by_reset : {false, true}) {
            CAPTURE(by_reset);
            const Upstream upstream(truncating(whole, by_reset));
            const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
            for (std::size_t cut = 0; cut < whole.size(); ++cut) {
                CAPTURE(cut);
                auto client = tidegate.client();
                client.send(get_request("/" + std::to_string(cut)));
                const std::string answer = clean_answer(client);
                CHECK((answer.empty() || is_bad_gateway(answer)));
            }
        }
    }
}

TEST_CASE("cutting: HTTP/1.0 sees an answer that ends early by a reset, or by its length") {
    const Upstream upstream(truncating(kChunkedAnswer, false));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    for (std::size_t cut = 0; cut < kChunkedAnswer.size(); ++cut) {
        CAPTURE(cut);
        auto client = tidegate.client();
        client.send("GET /" + std::to_string(cut) + " HTTP/1.0\r\n\r\n");
        CHECK((is_bad_gateway(client.rest()) || client.was_reset()));
    }
}

TEST_CASE("cutting: an answer that only the end delimits is broken by a reset at any byte") {
    const Upstream upstream(truncating(kOpenAnswer, true));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    for (std::size_t cut = 0; cut <= kOpenAnswer.size(); ++cut) {
        CAPTURE(cut);
        auto client = tidegate.client();
        client.send(get_request("/" + std::to_string(cut)));
        const std::string answer = clean_answer(client);
        CHECK((answer.empty() || is_bad_gateway(answer)));
    }
}

}  // namespace tidegate::test::cutting_test
