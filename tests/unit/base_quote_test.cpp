#include <string>

#include <doctest/doctest.h>

#include "base/quote.hpp"

namespace tidegate {
namespace {

TEST_CASE("quote: text stands between backquotes, a long one cut off at a whole character") {
    CHECK(quote("a b") == "`a b`");
    CHECK(quote("") == "``");
    CHECK(quote("\u00e4\u4e2d") == "`\u00e4\u4e2d`");
    const std::string long_text = std::string(59, 'x') + "\u00e4";
    CHECK(quote(long_text) == "`" + std::string(59, 'x') + "...`");
}

TEST_CASE("quote: what a terminal would obey is shown as bytes") {
    CHECK(quote("a\nb\x7f\x1b[2J") == "`a\\x0ab\\x7f\\x1b[2J`");
    CHECK(quote("a\u009bb") == "`a\\xc2\\x9bb`");
    CHECK(quote("\u202eevil") == "`\\xe2\\x80\\xaeevil`");
    CHECK(quote("\u2066x\u2069") == "`\\xe2\\x81\\xa6x\\xe2\\x81\\xa9`");
    CHECK(quote("\u2030\u00a0") == "`\u2030\u00a0`");
}

}  // namespace
}  // namespace tidegate
