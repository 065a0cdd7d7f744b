#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include "net/byte_stream.hpp"

namespace tidegate::net_message_reader_test {
namespace {

using LocalSocket = asio::basic_stream_socket<asio::local::stream_protocol, Executor>;

// A reader of what the test sends.
struct World {
    World() {
        LocalSocket near(io.get_executor());
        asio::local::connect_pair(near, peer);
        stream.emplace(StreamSocket(std::move(near)));
        reader.emplace(*stream, 100);
    }

    // What `task` returns after the peer has sent `bytes`, one by one, and closed.
    template <class T>
    T after(std::string_view bytes, Task<T> task) {
        std::optional<T> result;
        spawn(io.get_executor(), std::move(task),
              [&](const std::exception_ptr&, T value) { result = std::move(value); });
        io.restart();
        for (const char byte : bytes) {
            asio::write(peer, asio::buffer(&byte, 1));
            io.poll();
        }
        error_code ignored;
        if (!bytes.empty()) peer.shutdown(asio::socket_base::shutdown_send, ignored);
        io.run();
        REQUIRE(result.has_value());
        return *result;
    }

    asio::io_context io{1};
    LocalSocket peer{io.get_executor()};
    std::optional<ByteStream> stream;
    std::optional<MessageReader> reader;
};

// The body of an answer that has at most 10 bytes, or `! ` and why there is none.
Task<std::string> whole_answer(MessageReader& reader) {
    http::ResponseHead head;
    std::string text;
    bool is_read = co_await reader.read_head(head);
    if (is_read) is_read = co_await reader.read_body(head, 10, text);
    co_return is_read ? text : "! " + reason_of(reader.fault());
}

std::string answer_of(std::string_view bytes) {
    World world;
    return world.after(bytes, whole_answer(*world.reader));
}

TEST_CASE("message_reader: an answer has the body that its head announces, or all until the end") {
    CHECK(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcde") == "abc");
    CHECK(answer_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX: y\r\n\r\n") == "abcde");
    CHECK(answer_of("HTTP/1.1 200 OK\r\n\r\nuntil") == "until");
    CHECK(answer_of("HTTP/1.1 204 No Content\r\n\r\nnobody's") == "");
}

TEST_CASE("message_reader: an answer that breaks off is a fault") {
    CHECK(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab") ==
          "! it closed the connection");
    CHECK(answer_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n") ==
          "! it closed the connection");
    CHECK(answer_of("HTTP/1.1 200 OK\r\n") == "! it closed the connection");
}

TEST_CASE("message_reader: bytes that are not HTTP are refused with the reason") {
    CHECK(answer_of("hello\r\n\r\n") ==
          "! it is not HTTP as it should be (The status line is malformed.)");
    CHECK(answer_of("HTTP/1.1 200 OK\r\nX: " + std::string(100, 'x')) ==
          "! it is not HTTP as it should be (The header section is larger than allowed.)");
    CHECK(answer_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n") ==
          "! it is not HTTP as it should be (The body has a broken chunk.)");
    CHECK(answer_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n")
              .starts_with("! it is not HTTP as it should be (Transfer-Encoding must be"));
}

TEST_CASE("message_reader: a body of just the bound is taken, one byte more is not") {
    const std::string too_long =
        "! it is not HTTP as it should be (The body is longer than allowed.)";
    for (const std::string framing : {"Content-Length: 10\r\n\r\n", "\r\n"}) {
        CHECK(answer_of("HTTP/1.1 200 OK\r\n" + framing + "0123456789") == "0123456789");
    }
    CHECK(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0") == too_long);
    CHECK(answer_of("HTTP/1.1 200 OK\r\n\r\n01234567890") == too_long);
    CHECK(answer_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "9\r\n012345678\r\n2\r\n90") == too_long);
}

Task<std::string> all_requests(MessageReader& reader) {
    std::string seen;
    while (true) {
        http::RequestHead head;
        const bool is_read = co_await reader.read_head(head);
        if (!is_read) co_return seen + (reader.fault().ec == asio::error::eof ? "end" : "fault");
        http::Framing framing;
        http::local_request_framing(head, framing);
        reader.begin_body(framing);
        http::BodyBatch batch;
        while (!batch.done && !batch.bad) {
            batch = co_await reader.read_body();
            for (const std::string_view piece : batch.view()) seen += piece;
        }
        seen += std::string(head.target) + " ";  // its views outlast the body
    }
}

TEST_CASE("message_reader: one request follows the other, also when they come together") {
    constexpr std::string_view kRequests =
        "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nabGET /b HTTP/1.1\r\n\r\n"
        "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nc\r\n0\r\n\r\n"
        "GET /d HTTP/1.0\r\n\r\n";
    World one_by_one;
    CHECK(one_by_one.after(kRequests, all_requests(*one_by_one.reader)) == "ab/a /b c/c /d end");
    CHECK(one_by_one.reader->is_heard());

    World together;
    asio::write(together.peer, asio::buffer(kRequests));
    together.peer.close();
    CHECK(together.after("", all_requests(*together.reader)) == "ab/a /b c/c /d end");

    World silent;
    silent.peer.close();
    CHECK(silent.after("", all_requests(*silent.reader)) == "end");
    CHECK_FALSE(silent.reader->is_heard());
}

}  // namespace
}  // namespace tidegate::net_message_reader_test
