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
    const Gathered with_length(http::BodyKind::length, batch_of(content));
    CHECK(with_length.head == "HEAD ");
    CHECK(with_length.tail.empty());
    const Gathered in_chunks(http::BodyKind::chunked, batch_of(content));
    CHECK(in_chunks.head == "HEAD 1388\r\n");
    CHECK(in_chunks.tail == "\r\n0\r\n\r\n");
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
