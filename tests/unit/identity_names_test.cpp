#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "identity/names.hpp"

namespace tidegate::identity {
namespace {

TEST_CASE("names: a user is 1 to 256 bytes of UTF-8 without controls") {
    CHECK(is_safe_user("a"));
    CHECK(is_safe_user("alice@example.com"));
    CHECK(is_safe_user("https://idp.example/users/7 {x}%"));
    CHECK(is_safe_user("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
    CHECK(is_safe_user("\xc2\xa0"));
    CHECK(is_safe_user(std::string(256, 'a')));

    CHECK(!is_safe_user(""));
    CHECK(!is_safe_user(std::string(257, 'a')));
    for (const std::string_view text : {"a\nb", "\ra", "a\t", "\x1b[2J", "\x7f", "\xc2\x85", "\xff",
                                        "\xc0\xaf", "\xed\xa0\x80", "a\xc3", "\xc2\x80"}) {
        CAPTURE(text);
        CHECK(!is_safe_user(text));
    }
    CHECK(!is_safe_user(std::string_view("a\0b", 3)));
}

TEST_CASE("names: a user has no space at either end, where a field's value would lose it") {
    CHECK(is_safe_user("al ice"));
    for (const std::string_view text : {" alice", "alice ", " "}) {
        CAPTURE(text);
        CHECK(!is_safe_user(text));
    }
}

TEST_CASE("names: a tier is named as tiers are in the configuration") {
    CHECK(is_tier_name("pro"));
    CHECK(is_tier_name("Pro-2_b.c"));
    CHECK(is_tier_name(std::string(64, 'a')));
    CHECK(!is_tier_name(""));
    CHECK(!is_tier_name(std::string(65, 'a')));
    for (const std::string_view text : {"a b", "a/b", "a:b", "\xc3\xa9", "a\n", "a,b", "{a}"}) {
        CAPTURE(text);
        CHECK(!is_tier_name(text));
    }
}

}  // namespace
}  // namespace tidegate::identity
