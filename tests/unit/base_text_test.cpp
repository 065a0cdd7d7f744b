#include <array>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "base/ascii.hpp"
#include "base/constant_time.hpp"
#include "base/hex.hpp"
#include "base/numbers.hpp"

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

}  // namespace
}  // namespace tidegate::base_text_test
