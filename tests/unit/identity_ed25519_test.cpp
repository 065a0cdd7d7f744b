#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "identity/jwk.hpp"
#include "token_maker.hpp"

namespace tidegate::identity::ed25519_test {
namespace {

std::string bytes_of(std::string_view hex) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    }
    return bytes;
}

// RFC 8032 section 7.1, test 3.
constexpr const char* kKey = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
constexpr const char* kMessage = "af82";
constexpr const char* kFirstHalf =
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac";
constexpr const char* kSecondHalf =
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";
// The same number and the order of the group together.
constexpr const char* kSecondHalfAndOrder =
    "05d391b0a77904e98404ef037747a56e4a7c15e9716ed28dc027beceea1ec41a";

TEST_CASE("Ed25519: the example of RFC 8032 is right, and nothing else") {
    const PublicKey key = read_ed25519_key(bytes_of(kKey));
    REQUIRE(key != nullptr);
    const std::string message = bytes_of(kMessage);
    const std::string signature = bytes_of(std::string(kFirstHalf) + kSecondHalf);
    CHECK(is_signed_with_ed25519(*key, message, signature));
    CHECK_FALSE(is_signed_with_ed25519(*key, message + "x", signature));
    CHECK_FALSE(is_signed_with_ed25519(*key, message, signature.substr(1)));
    CHECK_FALSE(is_signed_with_ed25519(*key, message, signature + "x"));
    CHECK_FALSE(is_signed_with_ed25519(*key, message, ""));
    for (std::size_t i = 0; i < signature.size(); ++i) {
        std::string changed = signature;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        CHECK_FALSE(is_signed_with_ed25519(*key, message, changed));
    }
}

TEST_CASE("Ed25519: a signature has one form") {
    const PublicKey key = read_ed25519_key(bytes_of(kKey));
    REQUIRE(key != nullptr);
    CHECK_FALSE(is_signed_with_ed25519(*key, bytes_of(kMessage),
                                       bytes_of(std::string(kFirstHalf) + kSecondHalfAndOrder)));
}

TEST_CASE("Ed25519: a malformed key, or one that accepts any signature, is refused") {
    for (const std::string_view hex : {
             // points of small order, with both signs of x
             "0000000000000000000000000000000000000000000000000000000000000000",
             "0000000000000000000000000000000000000000000000000000000000000080",
             "0100000000000000000000000000000000000000000000000000000000000000",
             "0100000000000000000000000000000000000000000000000000000000000080",
             "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
             "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
             "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
             "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
             "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             // y is not below p
             "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
             // no x belongs to y = 2
             "0200000000000000000000000000000000000000000000000000000000000000",
             "",
             "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb9115489080",
             "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb91154890802500",
         }) {
        CAPTURE(hex);
        CHECK(read_ed25519_key(bytes_of(hex)) == nullptr);
    }
    for (int i = 0; i < 50; ++i) {
        CHECK(read_ed25519_key(test::SigningKey::ed25519().number("x")) != nullptr);
    }
}

}  // namespace
}  // namespace tidegate::identity::ed25519_test
