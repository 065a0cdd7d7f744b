#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "base/utf8.hpp"

namespace tidegate::base_utf8_test {

namespace {

TEST_CASE("utf8: a prefix ends before the character that does not fit") {
    CHECK(utf8_prefix("abc", 5) == "abc");
    CHECK(utf8_prefix("abc", 2) == "ab");
    CHECK(utf8_prefix("abc", 0) == "");
    CHECK(utf8_prefix("\xf0\x9f\x8c\x8az", 4) == "\xf0\x9f\x8c\x8a");
    CHECK(utf8_prefix("\xf0\x9f\x8c\x8az", 3) == "");
    CHECK(utf8_prefix("a\xe2\x82\xac", 3) == "a");
    CHECK(utf8_prefix("\x80\x80\x80\x80\x80", 4) == "\x80\x80\x80\x80");
}

TEST_CASE("utf8: valid and invalid sequences are distinguished") {
    CHECK(is_utf8(""));
    CHECK(is_utf8("a\xc3\xa9\xf0\x9f\x8c\x8a"));
    CHECK_FALSE(is_utf8("a\xc3"));
    CHECK_FALSE(is_utf8("\xed\xbf\xbf"));
}

TEST_CASE("utf8: white space and what is not seen is cut off at both ends, and nowhere else") {
    for (const std::string_view blank : {" ",
                                         "\t",
                                         "\v",
                                         "\x1f",
                                         "\x7f",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe1\x9a\x80",
                                         "\xe1\xa0\x8e",
                                         "\xe2\x80\x80",
                                         "\xe2\x80\x8a",
                                         "\xe2\x80\x8b",
                                         "\xe2\x80\xa8",
                                         "\xe2\x80\xa9",
                                         "\xe2\x80\xaf",
                                         "\xe2\x81\x9f",
                                         "\xe3\x80\x80",
                                         "\xef\xbb\xbf",
                                         "\x85",
                                         "\xa0"}) {
        const std::string some(blank);
        CAPTURE(some);
        CHECK(without_outer_blanks(some + "a b" + some) == "a b");
        CHECK(without_outer_blanks("a b" + some + some) == "a b");
        CHECK(without_outer_blanks("a" + some + "b") == "a" + some + "b");
        CHECK(without_outer_blanks(some + some).empty());
    }
    CHECK(without_outer_blanks(" \xc2\xa0\t\xe3\x80\x80"
                               "a\xa0 \x85") == "a");
    CHECK(without_outer_blanks("").empty());
    // Bytes of other characters stay, also where they look like those of Latin-1.
    for (const std::string_view text :
         {"\xc3\xa0", "\xc3\x85", "\xe4\xb8\xa0", "\xc3", "\xff", "\x80", "\xa1"}) {
        CAPTURE(text);
        CHECK(without_outer_blanks(text) == text);
    }
}

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

}  // namespace tidegate::base_utf8_test
