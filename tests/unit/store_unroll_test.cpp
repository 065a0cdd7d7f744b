#include <array>
#include <string>

#include <doctest/doctest.h>

#include "store/lua_files.hpp"
#include "store/unroll.hpp"

namespace tidegate::store {

TEST_CASE("unroll: a list has an item for each limit, with its number") {
    CHECK(unroll("local {{q$, w$}} = f()", 1) == "local q1, w1 = f()");
    CHECK(unroll("local {{q$, w$}} = f()", 3) == "local q1, w1, q2, w2, q3, w3 = f()");
    CHECK(unroll("{{a$}}{{b$}}", 2) == "a1, a2b1, b2");
}

TEST_CASE("unroll: a format is there as often as there are limits, unseparated") {
    CHECK(unroll("'<I4{{I4dd}}'", 1) == "'<I4I4dd'");
    CHECK(unroll("'<I4{{I4dd}}d'", 3) == "'<I4I4ddI4ddI4ddd'");
}

TEST_CASE("unroll: a block is there for each limit, the last one first") {
    const std::string text = "before\n--each limit\nx$ = $\ny$()\n--end\nafter\n";
    CHECK(unroll(text, 1) == "before\nx1 = 1\ny1()\nafter\n");
    CHECK(unroll(text, 2) == "before\nx2 = 2\ny2()\nx1 = 1\ny1()\nafter\n");
    // What is said behind the mark is said to the reader.
    CHECK(unroll("--each limit, the last one first\na$\n--end\n", 2) == "a2\na1\n");
    CHECK(unroll("--each limit\na$\n--end\nm\n--each limit\nb$\n--end\n", 2) ==
          "a2\na1\nm\nb2\nb1\n");
}

TEST_CASE("unroll: lists and counts inside a block are the same for each limit") {
    CHECK(unroll("--each limit\nf($, {{e$}}, LIMITS)\n--end\n", 2) ==
          "f(2, e1, e2, 2)\nf(1, e1, e2, 2)\n");
}

TEST_CASE("unroll: the number of limits and the bytes before the names are numbers") {
    CHECK(unroll("HEAD + 5 * LIMITS", 1) == "44 + 5 * 1");
    CHECK(unroll("HEAD + 5 * LIMITS", 12) == "352 + 5 * 12");
}

TEST_CASE("unroll: text without marks, and marks without an end, stay as they are") {
    CHECK(unroll("", 3).empty());
    CHECK(unroll("local a = {}\nlocal t = {{1, 2}\n", 3) == "local a = {}\nlocal t = {{1, 2}\n");
    CHECK(unroll("--each limit\na$\n", 3) == "--each limit\na$\n");
}

TEST_CASE("unroll: lines stand where the text says so") {
    CHECK(with_lines("a\n    --window\nb\n", "--window", "  w$\n") == "a\n  w$\nb\n");
    CHECK(with_lines("--window\n", "--window", "w\n") == "w\n");
    CHECK(with_lines("a\n  --window\nb\n", "--window", "") == "a\nb\n");
    CHECK(with_lines("no such mark  ", "--window", "w\n") == "no such mark  ");
}

TEST_CASE("unroll: in a loop nothing stands for the number") {
    CHECK(in_loop("u$ = u$ + 1\n") == "u = u + 1\n");
    CHECK(in_loop("").empty());
}

TEST_CASE("unroll: nothing is left of the marks in the scripts") {
    constexpr std::array kMarks{"{{", "}}", "$", "--each", "--end", "--window", "LIMITS", "HEAD"};
    for (std::size_t limits = 1; limits <= 8; ++limits) {
        const std::string text =
            unroll(with_lines(lua::short_way, "--window", lua::short_window), limits);
        for (const char* mark : kMarks) {
            CAPTURE(mark);
            CHECK(text.find(mark) == std::string::npos);
        }
        CHECK(text.find("u" + std::to_string(limits) + " + cost") != std::string::npos);
        CHECK(text.find("u" + std::to_string(limits + 1)) == std::string::npos);
    }
    const std::string middle = with_lines(lua::middle_way, "--window", in_loop(lua::short_window));
    for (const char* mark : kMarks) {
        CAPTURE(mark);
        CHECK(middle.find(mark) == std::string::npos);
    }
    CHECK(middle.find("u + cost") != std::string::npos);
}

}  // namespace tidegate::store
