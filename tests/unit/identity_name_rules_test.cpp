#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "identity/identifier.hpp"

namespace tidegate::identity::name_rules_test {
namespace {

TEST_CASE("names: a user is 1 to 256 bytes of UTF-8 without controls") {
    CHECK(is_safe_user("a"));
    CHECK(is_safe_user("alice@example.com"));
    CHECK(is_safe_user("https://idp.example/users/7 {x}%"));
    CHECK(is_safe_user("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
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

TEST_CASE("names: a user has no blank at either end, where a field's value or a reader loses it") {
    CHECK(is_safe_user("al ice"));
    CHECK(is_safe_user("\u5c71\u7530\u3000\u592a\u90ce"));
    for (const std::string_view text : {" alice", "alice ", " ", "alice\u00a0", "\u3000alice",
                                        "alice\u2003", "\u2800", "alice\u202f", "\u1680alice"}) {
        CAPTURE(text);
        CHECK(!is_safe_user(text));
    }
}

TEST_CASE("names: a user has no character that a reader does not see, or that turns the text") {
    for (const std::string_view hidden :
         {"\u200b",     "\u200c",     "\u200d",    "\u200e",     "\u200f",     "\u202a",
          "\u202b",     "\u202c",     "\u202d",    "\u202e",     "\u2028",     "\u2029",
          "\u2066",     "\u2067",     "\u2068",    "\u2069",     "\ufeff",     "\u00ad",
          "\u034f",     "\u061c",     "\u115f",    "\u1160",     "\u17b4",     "\u180b",
          "\u180e",     "\u2060",     "\u2064",    "\u206f",     "\u3164",     "\ufe00",
          "\ufe0f",     "\uffa0",     "\ufff9",    "\U0001bca0", "\U0001d173", "\U000e0001",
          "\U000e0061", "\U000e007f", "\U000e0100"}) {
        CAPTURE(hidden);
        CHECK(!is_safe_user("ali" + std::string(hidden) + "ce"));
        CHECK(!is_safe_user(std::string(hidden) + "alice"));
        CHECK(!is_safe_user("alice" + std::string(hidden)));
    }
    // Their neighbours are seen.
    for (const std::string_view shown :
         {"\u00ac", "\u00ae", "\u0350", "\u061b", "\u2010", "\u2027", "\u2030", "\u2070", "\ufe10",
          "\ufefc", "\ufffc", "\U0001f600", "e\u0301", "\u00e9", "\u05d0\u05d1", "\u0627\u0628"}) {
        CAPTURE(shown);
        CHECK(is_safe_user("ali" + std::string(shown)));
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
}  // namespace tidegate::identity::name_rules_test
