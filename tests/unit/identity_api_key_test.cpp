#include <cctype>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <openssl/evp.h>

#include "identity/api_key.hpp"

namespace tidegate::identity::api_key_test {

namespace {

constexpr std::string_view kAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";  // FIPS 180-4

std::string digest_of(std::string_view key) {
    unsigned char digest[32];
    REQUIRE(EVP_Digest(key.data(), key.size(), digest, nullptr, EVP_sha256(), nullptr) == 1);
    std::string hex;
    for (const unsigned char byte : digest) {
        hex += "0123456789abcdef"[byte >> 4];
        hex += "0123456789abcdef"[byte & 15];
    }
    return hex;
}

std::string owner(const ApiKeys& keys, std::string_view key) {
    const auto found = keys.find(key);
    return found ? std::string(found->user) + "/" + std::string(found->tier) : "nobody";
}

TEST_CASE("api_keys: a key is known by its SHA-256") {
    ApiKeys keys;
    CHECK(keys.add(kAbc, "alice", "pro").empty());
    CHECK(keys.add(digest_of("other"), "bob", "").empty());
    CHECK(owner(keys, "abc") == "alice/pro");
    CHECK(owner(keys, "other") == "bob/");
    CHECK(owner(keys, "abd") == "nobody");
    CHECK(owner(keys, kAbc) == "nobody");  // a reader of the file does not have the key
    CHECK(owner(keys, "") == "nobody");
    CHECK(keys.size() == 2);
}

TEST_CASE("api_keys: without keys no user is found") {
    CHECK(owner(ApiKeys(), "abc") == "nobody");
}

TEST_CASE("api_keys: a user may have several keys") {
    ApiKeys keys;
    CHECK(keys.add(digest_of("old"), "alice", "").empty());
    CHECK(keys.add(digest_of("new"), "alice", "pro").empty());
    CHECK(owner(keys, "old") == "alice/");
    CHECK(owner(keys, "new") == "alice/pro");
}

TEST_CASE("api_keys: digits are read in either case, and a digest stands there once") {
    ApiKeys keys;
    std::string upper(kAbc);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    CHECK(keys.add(upper, "alice", "").empty());
    CHECK(owner(keys, "abc") == "alice/");
    CHECK(keys.add(kAbc, "mallory", "").find("twice") != std::string_view::npos);
    CHECK(owner(keys, "abc") == "alice/");
    CHECK(keys.size() == 1);
}

TEST_CASE("api_keys: a malformed digest, user or tier is refused") {
    ApiKeys keys;
    const std::string digest(kAbc);
    for (const std::string& wrong :
         {std::string(), digest.substr(1), digest + "0", "g" + digest.substr(1),
          "sha256:" + digest.substr(7), digest.substr(0, 63) + " ", std::string("abc")}) {
        CHECK_MESSAGE(keys.add(wrong, "alice", "").find("64 hex") != std::string_view::npos, wrong);
    }
    for (const std::string& wrong :
         {std::string(), std::string("a\nb"), std::string("a\xff"), std::string(257, 'a')})
        CHECK(keys.add(digest, wrong, "").find("user") != std::string_view::npos);
    for (const std::string& wrong : {std::string("a b"), std::string(65, 'a')})
        CHECK(keys.add(digest, "alice", wrong).find("tier") != std::string_view::npos);
    CHECK(keys.size() == 0);
    CHECK(owner(keys, "abc") == "nobody");
}

TEST_CASE("api_keys: the longest names come back whole") {
    ApiKeys keys;
    const std::string user(256, 'u');
    const std::string tier(64, 't');
    CHECK(keys.add(digest_of("1"), user, tier).empty());
    CHECK(keys.add(digest_of("2"), "b", "").empty());
    CHECK(owner(keys, "1") == user + "/" + tier);
    CHECK(owner(keys, "2") == "b/");
}

TEST_CASE("api_keys: of many keys each is found, and no other") {
    ApiKeys keys;
    constexpr int kMany = 5'000;
    for (int i = 0; i < kMany; ++i) {
        const std::string number = std::to_string(i);
        REQUIRE(keys.add(digest_of("key-" + number), "user-" + number, "t" + number).empty());
    }
    for (int i = 0; i < kMany; ++i) {
        const std::string number = std::to_string(i);
        REQUIRE(owner(keys, "key-" + number) == "user-" + number + "/t" + number);
        REQUIRE(owner(keys, "no-" + number) == "nobody");
    }
}

TEST_CASE("api_keys: no more than the bound are taken") {
    ApiKeys keys;
    std::string digest(64, '0');
    for (std::size_t i = 0; i < ApiKeys::kKeysMax; ++i) {
        std::uint64_t number = i;
        for (std::size_t at = 0; at < 16; ++at, number >>= 4)
            digest[at] = "0123456789abcdef"[number & 15];
        REQUIRE(keys.add(digest, "u", "").empty());
    }
    CHECK(keys.add(kAbc, "u", "").find("1,000,000") != std::string_view::npos);
    CHECK(keys.size() == ApiKeys::kKeysMax);
}

}  // namespace

}  // namespace tidegate::identity::api_key_test
