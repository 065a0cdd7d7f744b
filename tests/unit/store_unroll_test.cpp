#include <string>

#include <doctest/doctest.h>

#include "store/lua_files.hpp"
#include "store/unroll.hpp"

namespace tidegate::store::unroll_test {
namespace {

// The branch for one limit alone: nothing before it and nothing after it.
std::string branch(const std::string& lines, const std::string& window = "") {
    return unroll("--each number of limits\n" + lines + "--end\n", window, 1);
}

}  // namespace

TEST_CASE("unroll: a list has an item for each limit, with its number") {
    CHECK(unroll("local {{q$, w$}} = f()\n", "", 1) == "local q1, w1 = f()\n");
    CHECK(unroll("local {{q$, w$}} = f()\n", "", 3) == "local q1, w1, q2, w2, q3, w3 = f()\n");
    CHECK(unroll("{{a$}}{{b$}}", "", 2) == "a1, a2b1, b2");
}

TEST_CASE("unroll: a format is there as often as there are limits, unseparated") {
    CHECK(unroll("'<I4{{I4dd}}'", "", 1) == "'<I4I4dd'");
    CHECK(unroll("'<I4{{I4dd}}d'", "", 3) == "'<I4I4ddI4ddI4ddd'");
}

TEST_CASE("unroll: the branch is there for each number of limits") {
    const std::string text = "before\n--each number of limits\nn == LIMITS\n--end\nafter\n";
    CHECK(unroll(text, "", 1) == "before\nn == 1\nafter\n");
    CHECK(unroll(text, "", 3) == "before\nn == 1\nn == 2\nn == 3\nafter\n");
    CHECK(unroll("--each number of limits\n  {{a$}}\n  --end\n", "", 2) == "  a1\n    a1, a2\n  ");
}

TEST_CASE("unroll: a branch has the window of each limit, the last one first") {
    const std::string text = "--each number of limits\nif LIMITS\n--each window\n--end\n";
    CHECK(unroll(text, "u$ = u$ + $\n", 2) ==
          "if 1\nu1 = u1 + 1\nif 2\nu2 = u2 + 2\nu1 = u1 + 1\n");
    CHECK(branch("", "w$\n").empty());
}

TEST_CASE("unroll: outside the branch LIMITS is the most, and a window has no number") {
    const std::string text = "if n > LIMITS\n--window\n--each number of limits\n--end\n{{a$}}\n";
    CHECK(unroll(text, "u$ = u$ + 1\n", 2) == "if n > 2\nu = u + 1\na1, a2\n");
}

TEST_CASE("unroll: comments are removed, and code before a comment stays") {
    CHECK(unroll("-- one {{a$}} LIMITS --window\na\n  -- two\n--\nb  -- three\n\n", "", 2) ==
          "a\nb  -- three\n\n");
    CHECK(branch("a\n-- b\n--each window\n", "-- c\nd$\n") == "a\nd1\n");
}

TEST_CASE("unroll: text without directives, and directives without an end, stay as they are") {
    CHECK(unroll("", "", 3).empty());
    CHECK(unroll("\n", "", 3) == "\n");
    CHECK(unroll("no end of line", "", 3) == "no end of line");
    CHECK(unroll("local a = {}\nlocal t = {{1, 2}\n", "", 3) ==
          "local a = {}\nlocal t = {{1, 2}\n");
    CHECK(unroll("--each number of limits\na\n", "", 3) == "--each number of limits\na\n");
}

TEST_CASE("unroll: the fast path has no directive left, and a window for each limit of a branch") {
    for (std::size_t most = 1; most <= 8; ++most) {
        const std::string text = unroll(lua::fast_path, lua::fast_path_window, most);
        for (const char* mark :
             {"{{", "}}", "$", "--each", "--end", "--window", "LIMITS", "    -- "}) {
            CAPTURE(mark);
            CHECK(text.find(mark) == std::string::npos);
        }
        const std::string last = std::to_string(most);
        const std::string too_many = std::to_string(most + 1);
        CHECK(text.find("if limits > " + last + " then") != std::string::npos);
        CHECK(text.find("units = units + cost") != std::string::npos);
        CHECK(text.find("elseif limits == " + last + " then") != std::string::npos);
        CHECK(text.find("units" + last + " = units" + last + " + cost") != std::string::npos);
        CHECK(text.find("elseif limits == " + too_many) == std::string::npos);
        CHECK(text.find("units" + too_many) == std::string::npos);
    }
}

}  // namespace tidegate::store::unroll_test
