#include <doctest/doctest.h>

#include "http/chunked.hpp"

namespace tidegate::http::chunked_test {

using State = ChunkedDecoder::State;

namespace {

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

}  // namespace

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

}  // namespace tidegate::http::chunked_test
