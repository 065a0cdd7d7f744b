#include <string>

#include <doctest/doctest.h>

#include "doctor/answer.hpp"

namespace tidegate::doctor {

namespace {

Answer read(const std::string& bytes) {
    AnswerReader reader;
    REQUIRE(reader.feed(bytes));
    auto answer = reader.next();
    REQUIRE(answer);
    return *answer;
}

constexpr const char* kNested =
    "*3\r\n*4\r\n$4\r\nname\r\n$1\r\na\r\n$6\r\nquorum\r\n:2\r\n*0\r\n*2\r\n*1\r\n+x\r\n$-1\r\n";

}  // namespace

TEST_CASE("answer: every kind is read") {
    CHECK(read("+OK\r\n").text == "OK");
    CHECK(read("$3\r\na\r\n\r\n").text == "a\r\n");
    CHECK(read(":-7\r\n").integer == -7);
    CHECK(read(":7\r\n").text == "7");
    CHECK(read("$-1\r\n").kind == Answer::Kind::nil);
    CHECK(read("*-1\r\n").kind == Answer::Kind::nil);
    CHECK(read("*0\r\n").kind == Answer::Kind::list);
    CHECK(read("-NOPERM no\r\n").is_error("NOPERM"));
    CHECK_FALSE(read("+NOPERM no\r\n").is_error("NOPERM"));
}

TEST_CASE("answer: lists in lists keep what is theirs, wherever the bytes are cut") {
    const std::string bytes = kNested;
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        AnswerReader reader;
        REQUIRE(reader.feed(bytes.substr(0, cut)));
        auto answer = reader.next();
        CHECK(answer.has_value() == (cut == bytes.size()));
        if (!answer) {
            REQUIRE(reader.feed(bytes.substr(cut)));
            answer = reader.next();
        }
        REQUIRE(answer);
        REQUIRE(answer->items.size() == 3);
        CHECK(answer->items[0].value_of("name") == "a");
        CHECK(answer->items[0].value_of("quorum") == "2");
        CHECK(answer->items[0].value_of("missing").empty());
        CHECK(answer->items[1].items.empty());
        CHECK(answer->items[2].items[0].items[0].text == "x");
        CHECK(answer->items[2].items[1].kind == Answer::Kind::nil);
    }
}

TEST_CASE("answer: answers come one after the other") {
    AnswerReader reader;
    REQUIRE(reader.feed("+a\r\n+b\r\n+"));
    CHECK(reader.next()->text == "a");
    CHECK(reader.next()->text == "b");
    CHECK_FALSE(reader.next());
    REQUIRE(reader.feed("c\r\n"));
    CHECK(reader.next()->text == "c");
}

TEST_CASE("answer: a list that claims to be huge takes no memory for it") {
    AnswerReader reader;
    REQUIRE(reader.feed("*2147483647\r\n+a\r\n"));
    CHECK_FALSE(reader.next());
}

TEST_CASE("answer: lists without an end are refused") {
    AnswerReader reader;
    std::string bytes;
    for (int i = 0; i < 100; ++i) bytes += "*1\r\n";
    REQUIRE(reader.feed(bytes));
    CHECK_FALSE(reader.next());
    CHECK(reader.is_broken());
}

TEST_CASE("answer: more than any answer needs is refused") {
    AnswerReader long_text;
    CHECK_FALSE(long_text.feed(std::string(2 << 20, 'x')));
    CHECK(long_text.is_broken());
    AnswerReader many;
    std::string values = "*100000\r\n";
    for (int i = 0; i < 20'000; ++i) values += ":1\r\n";
    REQUIRE(many.feed(values));
    CHECK_FALSE(many.next());
    CHECK(many.is_broken());
}

TEST_CASE("answer: what is not RESP breaks it for good") {
    AnswerReader reader;
    REQUIRE(reader.feed("HTTP/1.1 400 Bad Request\r\n"));
    CHECK_FALSE(reader.next());
    CHECK(reader.is_broken());
    CHECK_FALSE(reader.feed("+OK\r\n"));
}

TEST_CASE("answer: a password that an old server repeats is not shown") {
    CHECK(shown_error("ERR unknown command `AUTH`, with args beginning with: `secret`, ", "") ==
          "`ERR unknown command `AUTH``");
    CHECK(shown_error("a\x1b[2J", "") == "`a\\x1b[2J`");
}

TEST_CASE("answer: a password is not shown, however its server repeats it") {
    CHECK(shown_error("ERR what is AUTH secret? secretsecret", "secret") ==
          "`ERR what is AUTH ***? ******`");
    // What is cut off or written otherwise is hidden before that.
    CHECK(shown_error("ERR " + std::string(53, 'x') + "secret", "secret").find("sec") ==
          std::string::npos);
    CHECK(shown_error("ERR a\x1b", "a\x1b") == "`ERR ***`");
    CHECK(without_secret("any", "") == "any");
    CHECK(without_secret("", "any").empty());
}

TEST_CASE("answer: what only a newer protocol has is a value or breaks it") {
    for (const char* bytes : {",1.5\r\n", "#t\r\n", "_\r\n", "%1\r\n+a\r\n,1\r\n", "~1\r\n#f\r\n",
                              "(1\r\n", "=5\r\ntxt:a\r\n", ">1\r\n,1\r\n"}) {
        CAPTURE(bytes);
        AnswerReader reader;
        REQUIRE(reader.feed(bytes));
        const auto answer = reader.next();
        CHECK(answer.has_value() != reader.is_broken());
    }
}

}  // namespace tidegate::doctor
