#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "base/ascii.hpp"
#include "base/byte_words.hpp"

namespace tidegate::base_byte_words_test {

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

}  // namespace

TEST_CASE("byte words: letters become lower case, and nothing else changes") {
    for_each_byte([](const std::string& text) {
        std::string expected = text;
        for (char& c : expected) c = lower(c);
        REQUIRE(to_lower(load_word<std::uint64_t>(text.data())) ==
                load_word<std::uint64_t>(expected.data()));
    });
}

TEST_CASE("byte words: the printable bytes before the first other one are counted") {
    for_each_byte([](const std::string& text) {
        std::size_t size = 0;
        while (size < text.size() && text[size] >= 0x20 && text[size] <= 0x7e) ++size;
        REQUIRE(printable_size(text) == size);
    });
}

TEST_CASE("byte words: a text is printable up to its first other byte, in whole words") {
    for (std::size_t size = 0; size < 40; ++size) {
        const std::size_t looked_at = size / 8 * 8;
        std::string text(size, 'x');
        REQUIRE(printable_size(text) == looked_at);
        for (std::size_t at = 0; at < size; ++at) {
            text[at] = '\n';
            REQUIRE(printable_size(text) == std::min(at, looked_at));
            text[at] = 'x';
        }
    }
}

TEST_CASE("byte words: a byte that is neither a digit nor a lower-case letter is replaced") {
    for_each_byte([](const std::string& text) {
        std::string expected = text;
        for (char& c : expected)
            if (!is_digit(c) && !is_lower(c)) c = '-';
        REQUIRE(replace_others(load_word<std::uint64_t>(text.data()), '-') ==
                load_word<std::uint64_t>(expected.data()));
    });
}

TEST_CASE("byte words: a word is the same when it is made before the program runs") {
    static constexpr char kText[] = "AbCd\x80\xff-1";
    static constexpr auto kWord = load_word<std::uint64_t>(kText);
    static constexpr auto kShort = load_word<std::uint16_t>(kText);
    std::string text(kText);
    CHECK(load_word<std::uint64_t>(text.data()) == kWord);
    CHECK(load_word<std::uint16_t>(text.data()) == kShort);
}

}  // namespace tidegate::base_byte_words_test
