#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "base/secrets.hpp"

namespace tidegate::base_secrets_test {
namespace {

TEST_CASE("secrets: the end of a text is hashed as its bytes are, whatever is behind them") {
    const std::string text = "\xff\x01\x80\x7f\x02\xfe\x03\xfd";
    for (std::size_t size = 1; size < 8; ++size) {
        std::uint64_t expected = 0;
        for (std::size_t i = 0; i < size; ++i) {
            expected |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
        }
        CHECK_MESSAGE(read_short(text.data(), size) == expected, size);
        // Without room behind: a sanitizer sees what is read too far.
        const std::string alone = text.substr(0, size);
        CHECK(hash_text(alone, 7, 9) == hash_text(std::string_view(text).substr(0, size), 7, 9));
    }
}

TEST_CASE("secrets: texts of all sizes that differ in one byte have other hashes") {
    for (std::size_t size = 1; size < 40; ++size) {
        const std::string text(size, 'a');
        for (std::size_t i = 0; i < size; ++i) {
            std::string other = text;
            other[i] = 'b';
            CHECK(hash_text(text, 7, 9) != hash_text(other, 7, 9));
        }
        CHECK(hash_text(text, 7, 9) != hash_text(text + 'a', 7, 9));
        CHECK(hash_text(text, 7, 9) != hash_text(text, 8, 9));
    }
}

TEST_CASE("secrets: only the same text equals a secret, and an empty one equals an empty one") {
    CHECK(equal_in_constant_time("secret", "secret"));
    CHECK_FALSE(equal_in_constant_time("secreT", "secret"));
    CHECK_FALSE(equal_in_constant_time("secret1", "secret"));
    CHECK_FALSE(equal_in_constant_time("", "secret"));
    CHECK(equal_in_constant_time("", ""));
    CHECK_FALSE(equal_in_constant_time("x", ""));
}

}  // namespace
}  // namespace tidegate::base_secrets_test
