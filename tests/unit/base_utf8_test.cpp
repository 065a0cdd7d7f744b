#include <doctest/doctest.h>

#include "base/utf8.hpp"

namespace tidegate::base_utf8_test {

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

}  // namespace tidegate::base_utf8_test
