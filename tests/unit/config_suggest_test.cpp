#include <doctest/doctest.h>

#include "config/suggest.hpp"

namespace tidegate::config::suggest_test {

TEST_CASE("suggest: the nearest word is suggested") {
    const std::vector<std::string_view> known{"upstream", "upstreams", "limits", "on_store_failure",
                                              "key"};
    CHECK(nearest("upstrem", known) == "upstream");
    CHECK(nearest("upstraems", known) == "upstreams");
    CHECK(nearest("limit", known) == "limits");
    CHECK(nearest("limtis", known) == "limits");
    CHECK(nearest("Limits", known) == "limits");
    CHECK(nearest("on-store-failure", known) == "on_store_failure");
    CHECK(nearest("kye", known) == "key");
}

TEST_CASE("suggest: a word that goes on where another ends is suggested, if none is nearer") {
    CHECK(nearest("warning", {"debug", "info", "warn", "error"}) == "warn");
    CHECK(nearest("err", {"debug", "info", "warn", "error"}) == "error");
    CHECK(nearest("up", {"upstream"}).empty());
}

TEST_CASE("suggest: a word far from all others has no suggestion") {
    const std::vector<std::string_view> known{"upstream", "limits", "key"};
    CHECK(nearest("zzz", known).empty());
    CHECK(nearest("", known).empty());
    CHECK(nearest("a", known).empty());
    CHECK(nearest(std::string(10'000, 'u'), known).empty());
    CHECK(nearest("limits", {}).empty());
}

TEST_CASE("suggest: words are listed as a sentence wants them") {
    CHECK(one_of({}) == "");
    CHECK(one_of({"a"}) == "`a`");
    CHECK(one_of({"a", "b", "c"}) == "`a`, `b` or `c`");
}

}  // namespace tidegate::config::suggest_test
