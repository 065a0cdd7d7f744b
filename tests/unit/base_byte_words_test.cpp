#include <array>
#include <string>

#include <doctest/doctest.h>

#include "base/byte_words.hpp"

using namespace tidegate;

namespace {

// Every byte at every place, between bytes of another kind.
template <class Check>
void for_each_byte(Check check) {
    for (const char around : {'a', 'Z', '\x80', '\xff', '\0', '\x7f'}) {
        for (std::size_t at = 0; at < 8; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                std::string text(8, around);
                text[at] = static_cast<char>(byte);
                check(text);
            }
        }
    }
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool all_printable(std::string_view text) {
    for (const char c : text)
        if (c < 0x20 || c > 0x7e) return false;
    return true;
}

}  // namespace

TEST_CASE("byte words: letters become lower case, and nothing else changes") {
    for_each_byte([](const std::string& text) {
        std::string expected = text;
        for (char& c : expected) c = lower(c);
        REQUIRE(to_lower(load_word<std::uint64_t>(text.data())) ==
                load_word<std::uint64_t>(expected.data()));
    });
}

TEST_CASE("byte words: a word is printable if each of its bytes is") {
    for_each_byte([](const std::string& text) {
        REQUIRE(is_printable(load_word<std::uint64_t>(text.data())) == all_printable(text));
    });
}

TEST_CASE("byte words: every byte of a text counts, whatever its length") {
    CHECK_FALSE(is_printable(""));
    CHECK_FALSE(is_printable("seven77"));
    for (std::size_t size = 8; size < 40; ++size) {
        std::string text(size, 'x');
        REQUIRE(is_printable(text));
        for (char& c : text) {
            c = '\n';
            REQUIRE_FALSE(is_printable(text));
            c = 'x';
        }
    }
}

TEST_CASE("byte words: a word is the same when it is made before the program runs") {
    static constexpr char kText[] = "AbCd\x80\xff-1";
    static constexpr auto kWord = load_word<std::uint64_t>(kText);
    static constexpr auto kShort = load_word<std::uint16_t>(kText);
    std::string text(kText);
    CHECK(load_word<std::uint64_t>(text.data()) == kWord);
    CHECK(load_word<std::uint16_t>(text.data()) == kShort);
}
