#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "identity/digest.hpp"

namespace tidegate::identity::keyed_digest_test {
namespace {

TEST_CASE("keyed_digest: the same text has the same name, however it is cut, on every thread") {
    const KeyedDigest digest;
    const auto name = digest.of({"abcdef"});
    CHECK(digest.of({"abcdef"}) == name);
    CHECK(digest.of({"abc", "", "def"}) == name);
    KeyedDigest::Value elsewhere{};
    std::thread([&] { elsewhere = digest.of({"abcdef"}); }).join();
    CHECK(elsewhere == name);
}

TEST_CASE("keyed_digest: other texts have other names") {
    const KeyedDigest digest;
    const std::string text(8'192, 'a');
    for (std::size_t at = 0; at < text.size(); at += 97) {
        std::string other = text;
        other[at] = 'b';
        CHECK(digest.of({other}) != digest.of({text}));
    }
    CHECK(digest.of({"a"}) != digest.of({std::string_view("a\0", 2)}));
    CHECK(digest.of({""}) != digest.of({std::string_view("\0", 1)}));
}

TEST_CASE("keyed_digest: each has a key of its own") {
    CHECK(KeyedDigest().of({"abc"}) != KeyedDigest().of({"abc"}));
}

TEST_CASE("keyed_digest: two of one thread do not disturb each other") {
    const KeyedDigest one;
    const KeyedDigest two;
    const auto first = one.of({"abc"});
    two.of({"def"});
    CHECK(one.of({"abc"}) == first);
}

}  // namespace
}  // namespace tidegate::identity::keyed_digest_test
