#include <algorithm>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "http/body.hpp"

namespace tidegate::http::body_test {

namespace {

Framing framing(BodyKind kind, std::uint64_t length = 0) {
    Framing made;
    made.body = kind;
    made.length = length;
    return made;
}

struct Relayed {
    std::string out;
    std::size_t consumed = 0;
    bool done = false;
    bool bad = false;
};

// Sends `input` through, in portions, from a sender that frames it as `from` says to a receiver
// that gets `to`; at the end of the input the sender closes.
Relayed relay(const Framing& from, BodyKind to, std::string_view input, std::size_t portion) {
    BodyReader reader;
    reader.start(from);
    Relayed result;
    std::string held;
    const auto write = [&](const BodyBatch& batch) {
        append_batch_prefix(to, batch, result.out);
        for (const std::string_view piece : batch.view()) result.out += piece;
        append_batch_suffix(to, batch, reader.trailers(), result.out);
        held.erase(0, batch.consumed);
        result.consumed += batch.consumed;
        result.done = batch.done;
        result.bad = batch.bad;
    };
    for (;;) {
        const BodyBatch batch = reader.take(held, {1024, 16});
        write(batch);
        if (batch.done || batch.bad) return result;
        if (batch.count > 0) continue;
        if (input.empty()) {
            if (reader.end_of_input()) write(reader.take({}, {}));
            return result;
        }
        held += input.substr(0, portion);
        input.remove_prefix(std::min(portion, input.size()));
    }
}

// What a chunked message holds, whatever its chunks.
std::string content(std::string_view chunked) {
    return relay(framing(BodyKind::chunked), BodyKind::length, chunked, chunked.size()).out;
}

}  // namespace

TEST_CASE("body: none is done before it begins") {
    BodyReader reader;
    reader.start(framing(BodyKind::none));
    CHECK(reader.done());
    CHECK(reader.take("GET / HTTP/1.1", {}).consumed == 0);
    CHECK_FALSE(reader.end_of_input());
}

TEST_CASE("body: of known length all but the end may go past the reader") {
    BodyReader reader;
    reader.start(framing(BodyKind::length, 1'000'000));
    const std::uint64_t middle = reader.spliceable();
    CHECK(middle > 990'000);
    CHECK(middle < 1'000'000);
    reader.skip(middle);
    CHECK(reader.spliceable() == 0);
    CHECK_FALSE(reader.done());
    const std::string end(reader.left() + 1, 'x');
    CHECK(reader.take(end, {}).consumed == end.size() - 1);
    CHECK(reader.done());
}

TEST_CASE("body: one that is short, in chunks or ended by a close has to be read") {
    BodyReader reader;
    for (const Framing& read : {framing(BodyKind::length, 100), framing(BodyKind::chunked),
                                framing(BodyKind::until_close), framing(BodyKind::none)}) {
        reader.start(read);
        CHECK(reader.spliceable() == 0);
    }
}

TEST_CASE("body: one of known length ends at its last byte, however it is cut") {
    for (std::size_t portion = 1; portion < 16; ++portion) {
        CAPTURE(portion);
        const auto result =
            relay(framing(BodyKind::length, 8), BodyKind::length, "12345678GET /", portion);
        CHECK(result.done);
        CHECK(result.out == "12345678");
        CHECK(result.consumed == 8);
    }
}

TEST_CASE("body: one of known length that breaks off is never done") {
    const auto result = relay(framing(BodyKind::length, 9), BodyKind::length, "12345678", 3);
    CHECK_FALSE(result.done);
    CHECK(result.out == "12345678");
}

TEST_CASE("body: how much is still to come is known of a length, and of the chunk that has begun") {
    BodyReader reader;
    reader.start(framing(BodyKind::length, 10));
    CHECK(reader.announced() == 10);
    reader.take("1234", {});
    CHECK(reader.left() == 6);
    CHECK(reader.announced() == 6);
    reader.start(framing(BodyKind::chunked));
    CHECK(reader.announced() == 0);
    CHECK(reader.left() == std::numeric_limits<std::uint64_t>::max());
    reader.take("ff\r\nabc", {});
    CHECK(reader.announced() == 252);
}

TEST_CASE("body: chunks are taken apart and put together anew, however they are cut") {
    const std::string input = "3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nX-T: 1\r\n\r\nGET /";
    for (std::size_t portion = 1; portion <= input.size(); ++portion) {
        CAPTURE(portion);
        const auto result = relay(framing(BodyKind::chunked), BodyKind::chunked, input, portion);
        CHECK(result.done);
        CHECK(result.consumed == input.size() - 5);
        CHECK(content(result.out) == "abcd");
        CHECK(result.out.find("x=y") == std::string::npos);
        CHECK(result.out.ends_with("0\r\nX-T: 1\r\n\r\n"));
    }
}

TEST_CASE("body: chunks that stand ready together leave as one, up to the pieces of a batch") {
    std::string input;
    for (std::size_t i = 0; i < BodyBatch::kPiecesMax + 3; ++i) input += "1\r\nx\r\n";
    BodyReader reader;
    reader.start(framing(BodyKind::chunked));
    const BodyBatch first = reader.take(input, {});
    CHECK(first.count == BodyBatch::kPiecesMax);
    CHECK(first.content_bytes == BodyBatch::kPiecesMax);
    const BodyBatch second = reader.take(std::string_view(input).substr(first.consumed), {});
    CHECK(second.count == 3);
    CHECK_FALSE(second.done);
}

TEST_CASE("body: broken chunks are bad, what stood before them may be sent but no end after it") {
    const auto result =
        relay(framing(BodyKind::chunked), BodyKind::chunked, "3\r\nabc\r\nzz\r\n", 100);
    CHECK(result.bad);
    CHECK_FALSE(result.done);
    CHECK(result.out == "3\r\nabc\r\n");
}

TEST_CASE("body: one that its sender's end delimits becomes chunks with a last one") {
    for (const std::size_t portion : {1U, 2U, 10U}) {
        const auto result =
            relay(framing(BodyKind::until_close), BodyKind::chunked, "abcd", portion);
        CHECK(result.done);
        CHECK(result.out.ends_with("0\r\n\r\n"));
        CHECK(content(result.out) == "abcd");
    }
    CHECK(relay(framing(BodyKind::until_close), BodyKind::chunked, "", 1).out == "0\r\n\r\n");
    CHECK(relay(framing(BodyKind::until_close), BodyKind::until_close, "abcd", 3).out == "abcd");
}

TEST_CASE("body: an end ends neither a length nor chunks") {
    BodyReader reader;
    for (const auto& cut : {framing(BodyKind::length, 3), framing(BodyKind::chunked)}) {
        reader.start(cut);
        CHECK_FALSE(reader.end_of_input());
        CHECK_FALSE(reader.done());
    }
}

TEST_CASE("body: trailers that frame or name a hop are left out") {
    const auto result =
        relay(framing(BodyKind::chunked), BodyKind::chunked,
              "0\r\nContent-Length: 3\r\nHost: b\r\nTransfer-Encoding: chunked\r\n"
              "Content_Length: 4\r\nConnection: close\r\nTrailer: x\r\nX: y\r\n\r\n",
              1000);
    CHECK(result.out == "0\r\nX: y\r\n\r\n");
}

TEST_CASE("body: trailers go with the coding that carries them") {
    CHECK(
        relay(framing(BodyKind::chunked), BodyKind::until_close, "1\r\na\r\n0\r\nX: y\r\n\r\n", 99)
            .out == "a");
}

TEST_CASE("body: a reader that begins anew remembers nothing") {
    BodyReader reader;
    reader.start(framing(BodyKind::chunked));
    reader.take("0\r\nX: y\r\n\r\n", {1024, 16});
    CHECK(reader.done());
    CHECK(reader.trailers().size() == 1);
    reader.start(framing(BodyKind::chunked));
    CHECK_FALSE(reader.done());
    CHECK(reader.trailers().empty());
}

}  // namespace tidegate::http::body_test
