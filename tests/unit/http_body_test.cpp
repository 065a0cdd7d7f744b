#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "http/framing.hpp"

namespace tidegate::http::body_test {

namespace {

using State = ChunkedDecoder::State;

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

struct Decoded {
    bool ok = false;
    std::string body;
    std::string trailers;
    std::size_t consumed = 0;
};

// Feeds `input` in portions of `portion` bytes, as a connection that holds what was not consumed.
Decoded decode(std::string_view input, std::size_t portion) {
    ChunkedDecoder decoder;
    Fields trailers;
    Decoded result;
    std::string held;
    while (true) {
        const auto step = decoder.next(held, {1024, 16}, trailers);
        result.body += step.data;
        result.consumed += step.consumed;
        if (step.state == State::bad) return result;
        if (step.state == State::done) {
            result.ok = true;
            for (const Field& field : trailers) {
                result.trailers += std::string(field.name) + "=" + std::string(field.value) + ";";
            }
            return result;
        }
        held.erase(0, step.consumed);
        if (step.state == State::more && step.consumed == 0) {
            if (input.empty()) return result;
            held += input.substr(0, portion);
            input.remove_prefix(std::min(portion, input.size()));
        }
    }
}

TEST_CASE("chunked: a body is the same however it is cut") {
    const std::string_view message =
        "5\r\nhello\r\n1;name=value\r\n \r\nA ; x=\"y\"\r\n0123456789\r\n0\r\nX-Sum: 7\r\nB: "
        "\r\n\r\nNEXT";
    for (std::size_t portion = 1; portion <= message.size(); ++portion) {
        CAPTURE(portion);
        const Decoded decoded = decode(message, portion);
        CHECK(decoded.ok);
        CHECK(decoded.body == "hello 0123456789");
        CHECK(decoded.trailers == "X-Sum=7;B=;");
        CHECK(decoded.consumed == message.size() - 4);
    }
}

TEST_CASE("chunked: any deviation from the grammar is refused") {
    for (const std::string_view message : {
             "5\nhello\r\n0\r\n\r\n",           // LF alone after the size
             "5\r\nhello\n0\r\n\r\n",           // LF alone after the content
             "5\r\nhelloX\r\n0\r\n\r\n",        // longer than it says
             "\r\n0\r\n\r\n",                   // no size
             "-1\r\n\r\n",                      // a sign
             "0x5\r\nhello\r\n0\r\n\r\n",       // a prefix
             " 5\r\nhello\r\n0\r\n\r\n",        // a space before
             "1000000000000000\r\n",            // sixteen digits
             "5 x\r\nhello\r\n0\r\n\r\n",       // no semicolon before an extension
             "5;a=\x01\r\nhello\r\n0\r\n\r\n",  // a control in an extension
             "5;a\rb\r\nhello\r\n0\r\n\r\n",    // CR inside an extension
             "5;\r\nhello\r\n0\r\n\r\n",        // an extension without a name
             "5 \r\nhello\r\n0\r\n\r\n",        // white space before nothing
             "5;a \r\nhello\r\n0\r\n\r\n",
             "5;=x\r\nhello\r\n0\r\n\r\n",
             "5; ;a\r\nhello\r\n0\r\n\r\n",
             "5;a;\r\nhello\r\n0\r\n\r\n",
             "5;a=\r\nhello\r\n0\r\n\r\n",  // a value that is not there
             "5;a=;b\r\nhello\r\n0\r\n\r\n",
             "5;a=b c\r\nhello\r\n0\r\n\r\n",      // two values
             "5;a=\"b\r\nhello\r\n0\r\n\r\n",      // a quote that does not end
             "5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n",  // nor this, whose last is escaped
             "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n",
             "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n",  // a line end between quotes
             "5;a=\"\x7f\"\r\nhello\r\n0\r\n\r\n",
             "5;a[b]\r\nhello\r\n0\r\n\r\n",  // no token
             "5\r\nhello\r\n0;\r\n\r\n",
             "5;a\nhello\r\n0\r\n\r\n",   // LF alone behind an extension
             "0\r\nbad trailer\r\n\r\n",  // no colon
             "0\r\nA : b\r\n\r\n",        // a space before the colon
             "0\r\nA: b\n\r\n",           // LF alone in the trailers
             "0\r\n folded: x\r\n\r\n",
         }) {
        CAPTURE(message);
        CHECK_FALSE(decode(message, message.size()).ok);
        CHECK_FALSE(decode(message, 1).ok);
    }
}

TEST_CASE("chunked: extensions that follow the grammar are skipped") {
    for (const std::string_view extension :
         {"", ";a", " ;a", "\t; a = b", ";a=b;c;d=\"e\"", ";a=\"\"", ";a=\"x;y=\\\" \xff\t\"",
          ";!#$%&'*+-.^_`|~=1"}) {
        CAPTURE(extension);
        const std::string message = "5" + std::string(extension) + "\r\nhello\r\n0\r\n\r\n";
        CHECK(decode(message, message.size()).ok);
        CHECK(decode(message, 1).body == "hello");
    }
}

TEST_CASE("chunked: a body that breaks off is never done") {
    const std::string_view message = "5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    for (std::size_t length = 0; length < message.size(); ++length) {
        CAPTURE(length);
        CHECK_FALSE(decode(message.substr(0, length), 1).ok);
    }
}

TEST_CASE("chunked: a size line without end is refused once it is too long") {
    ChunkedDecoder decoder;
    Fields trailers;
    const std::string line = "1;" + std::string(ChunkedDecoder::kSizeLineMax, 'x');
    CHECK(decoder.next(line, {1024, 16}, trailers).state == State::bad);
}

TEST_CASE("chunked: more trailers than allowed are refused") {
    std::string message = "0\r\n";
    for (int i = 0; i < 17; ++i) message += "A: b\r\n";
    message += "\r\n";
    CHECK_FALSE(decode(message, message.size()).ok);
}

TEST_CASE("chunked: sizes are written in hexadecimal") {
    std::string out;
    append_chunk_size(0x1a2b, out);
    CHECK(out == "1a2b\r\n");
}

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

}  // namespace

}  // namespace tidegate::http::body_test
