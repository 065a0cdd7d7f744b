#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "http/gather.hpp"

namespace tidegate::http_gather_test {

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

struct Pieces {
    void add(std::string_view piece) {
        if (!piece.empty()) all.push_back(piece);
    }
    std::vector<std::string_view> all;
};

struct Gathered {
    Gathered(http::BodyKind kind, const http::BodyBatch& batch, const http::Fields& trailers = {}) {
        http::gather(kind, batch, trailers, head, tail, pieces);
    }
    // What the kernel would get, in this order.
    std::string sent() const {
        std::string text;
        for (const std::string_view piece : pieces.all) text += piece;
        return text;
    }
    std::string head = "HEAD ";
    std::string tail = "what was there";
    Pieces pieces;
};

}  // namespace

TEST_CASE("gather: a small body leaves with its head as one piece") {
    const Gathered gathered(http::BodyKind::length, batch_of("hello"));
    CHECK(gathered.head == "HEAD hello");
    CHECK(gathered.tail.empty());
    CHECK(gathered.pieces.all == std::vector<std::string_view>{gathered.head});
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
    Pieces pieces;
    http::gather(http::BodyKind::length, {}, {}, head, tail, pieces);
    CHECK(pieces.all.empty());
}

}  // namespace tidegate::http_gather_test
