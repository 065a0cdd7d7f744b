#include <string>

#include <doctest/doctest.h>

#include "base/quote.hpp"

namespace tidegate::base_quote_test {
namespace {

TEST_CASE("quote: text stands between backquotes, a long one cut off at a whole character") {
    CHECK(quote("a b") == "`a b`");
    CHECK(quote("") == "``");
    CHECK(quote("\u00e4\u4e2d") == "`\u00e4\u4e2d`");
    const std::string long_text = std::string(59, 'x') + "\u00e4";
    CHECK(quote(long_text) == "`" + std::string(59, 'x') + "...`");
}

TEST_CASE("quote: control characters are shown as bytes") {
    CHECK(quote("a\nb\x7f\x1b[2J") == "`a\\x0ab\\x7f\\x1b[2J`");
    CHECK(quote("a\u009bb") == "`a\\xc2\\x9bb`");
    CHECK(quote("\u202eevil") == "`\\xe2\\x80\\xaeevil`");
    CHECK(quote("\u2066x\u2069") == "`\\xe2\\x81\\xa6x\\xe2\\x81\\xa9`");
    for (const char* hidden : {"\u200b", "\u200f", "\u2028", "\u2029", "\u202a", "\ufeff"}) {
        CHECK(quote(hidden).starts_with("`\\xe"));
    }
    for (const char* shown : {"\u2010", "\u2027", "\u202f", "\u2070", "\ufefe"}) {
        CHECK(quote(shown) == std::string("`") + shown + "`");
    }
    CHECK(quote("\u2030\u00a0") == "`\u2030\u00a0`");
}

TEST_CASE("quote: what is displayed of a text is whole, and bytes that are not UTF-8 are shown") {
    CHECK(displayable("") == "");
    CHECK(displayable(std::string(100, 'x')) == std::string(100, 'x'));
    CHECK(displayable("a\u00e4\U0001f30a\n") == "a\u00e4\U0001f30a\\x0a");
    CHECK(displayable("\x9b[2J\xff\xc3") == "\\x9b[2J\\xff\\xc3");
    CHECK(displayable("\xe2\x80") == "\\xe2\\x80");
    CHECK(displayable("al\u00adice") == "al\\xc2\\xadice");
}

}  // namespace
}  // namespace tidegate::base_quote_test
