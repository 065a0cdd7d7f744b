#include <string>

#include <doctest/doctest.h>

#include "proxy/gather.hpp"

using namespace tidegate;

namespace {

http::BodyBatch batch_of(std::string_view content, bool done = true) {
    http::BodyBatch batch;
    batch.pieces[0] = content.substr(0, content.size() / 2);
    batch.pieces[1] = content.substr(content.size() / 2);
    batch.count = 2;
    batch.content_bytes = content.size();
    batch.done = done;
    return batch;
}

struct Gathered {
    Gathered(http::BodyKind kind, const http::BodyBatch& batch, const http::Fields& trailers = {}) {
        proxy::gather(kind, batch, trailers, head, tail, outbox);
    }
    // What arrives at the other end.
    std::string sent() {
        asio::io_context io;
        Readiness readiness{io};
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        {
            const ConnectionPtr ours(new Connection(readiness, ends[0]));
            CHECK(outbox.flush(*ours) == IoStatus::ok);
        }
        std::string all(100'000, ' ');
        const ssize_t bytes = ::read(ends[1], all.data(), all.size());
        ::close(ends[1]);
        all.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
        return all;
    }
    std::string head = "HEAD ";
    std::string tail = "what was there";
    Outbox outbox;
};

}  // namespace

TEST_CASE("gather: a small body leaves with its head as one piece") {
    const Gathered gathered(http::BodyKind::length, batch_of("hello"));
    CHECK(gathered.head == "HEAD hello");
    CHECK(gathered.tail.empty());
    CHECK_FALSE(gathered.outbox.empty());
}

TEST_CASE("gather: a small body in chunks is framed, its trailers and its end behind it") {
    CHECK(Gathered(http::BodyKind::chunked, batch_of("hello", false)).head ==
          "HEAD 5\r\nhello\r\n");
    const http::Fields trailers{{http::FieldName::other, "X-Sum", "1"}};
    CHECK(Gathered(http::BodyKind::chunked, batch_of("hello"), trailers).head ==
          "HEAD 5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n");
}

TEST_CASE("gather: a large body is not copied") {
    const std::string content(5'000, 'x');
    Gathered with_length(http::BodyKind::length, batch_of(content));
    CHECK(with_length.head == "HEAD ");
    CHECK(with_length.sent() == "HEAD " + content);
    Gathered in_chunks(http::BodyKind::chunked, batch_of(content));
    CHECK(in_chunks.head == "HEAD 1388\r\n");
    CHECK(in_chunks.sent() == "HEAD 1388\r\n" + content + "\r\n0\r\n\r\n");
}

TEST_CASE("gather: what arrives is the same whatever is copied") {
    for (const std::size_t size : {1U, 2'047U, 2'048U, 2'049U}) {
        const std::string content(size, 'x');
        Gathered gathered(http::BodyKind::length, batch_of(content));
        CHECK((gathered.head.size() > 5) == (size <= 2'048));
        CHECK(gathered.sent() == "HEAD " + content);
    }
}

TEST_CASE("gather: without a body there is the head alone, and without a head nothing") {
    const Gathered gathered(http::BodyKind::none, {});
    CHECK(gathered.head == "HEAD ");
    std::string head;
    std::string tail;
    Outbox outbox;
    proxy::gather(http::BodyKind::length, {}, {}, head, tail, outbox);
    CHECK(outbox.empty());
}
