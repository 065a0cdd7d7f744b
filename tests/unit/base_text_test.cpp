#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "base/secrets.hpp"
#include "base/text.hpp"

namespace tidegate::base_text_test {

namespace {

TEST_CASE("ascii: only the letters A to Z have a lower case") {
    CHECK(to_lower('A') == 'a');
    CHECK(to_lower('Z') == 'z');
    for (const char c : {'@', '[', '`', '{', '0', 'a', '\xc4', '\xe4', '\0'})
        CHECK(to_lower(c) == c);
    CHECK(to_lower(std::string("X-Api-KEY_1")) == "x-api-key_1");
    CHECK(is_alphanumeric('0'));
    CHECK_FALSE(is_alphanumeric('_'));
    CHECK_FALSE(is_alphanumeric('\xc4'));
}

TEST_CASE("hex: digits are read in either case and written in lower case") {
    CHECK(hex_value('0') == 0);
    CHECK(hex_value('9') == 9);
    CHECK(hex_value('a') == 10);
    CHECK(hex_value('F') == 15);
    for (const char c : {'g', 'G', '/', ':', '@', '`', '\xff'}) CHECK(hex_value(c) == -1);
    CHECK(hex_byte('7', 'F') == 0x7f);
    CHECK(hex_byte('0', 'x') == -1);
    CHECK(hex_byte('x', '0') == -1);
    std::string out;
    append_hex(0x0a, out);
    append_percent_encoded('/', out);
    append_percent_encoded('\xfe', out);
    append_hex64(0x123456789abcdef0, out);
    CHECK(out == "0a%2F%FE123456789abcdef0");
    const auto text = hex_of(std::array<unsigned char, 2>{0x00, 0xc7});
    CHECK(std::string(text.data(), text.size()) == "00c7");
}

TEST_CASE("numbers: all of the text is the number, and it fits") {
    CHECK(parse_number<std::uint16_t>("65535") == 65'535);
    CHECK(parse_number<std::uint16_t>("007") == 7);
    CHECK(parse_number<std::int64_t>("-1") == -1);
    for (const char* text : {"", "65536", "-1", "+1", " 1", "1 ", "1x", "0x1", "1e3"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_number<std::uint16_t>(text).has_value());
    }
    std::string out = "n=";
    append_number(INT64_MIN, out);
    append_number(UINT64_MAX, out);
    CHECK(out == "n=-922337203685477580818446744073709551615");
}

TEST_CASE("constant time: only the same bytes in the same number are equal") {
    CHECK(equal_in_constant_time("", ""));
    CHECK(equal_in_constant_time("secret", "secret"));
    CHECK_FALSE(equal_in_constant_time("secres", "secret"));
    CHECK_FALSE(equal_in_constant_time("", "secret"));
    CHECK_FALSE(equal_in_constant_time("s", ""));
    CHECK_FALSE(equal_in_constant_time("secret", "secretsecret"));
    CHECK_FALSE(equal_in_constant_time("secretsecret", "secret"));
    CHECK_FALSE(equal_in_constant_time("\xff", "\x7f"));
}

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

}  // namespace

}  // namespace tidegate::base_text_test
