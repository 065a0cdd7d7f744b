// The names of what identifiers are made of.
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "ask/identifiers.hpp"

namespace tidegate::ask::identifiers_test {

TEST_CASE("identifiers: a part is known by its text and by no other") {
    using Kind = limit::KeyPart::Kind;
    const std::vector<limit::KeyPart> parts{
        {.kind = Kind::ip, .name = {}},
        {.kind = Kind::user, .name = {}},
        {.kind = Kind::header, .name = "x-tenant"},
        {.kind = Kind::header, .name = "tenant"},
        {.kind = Kind::query, .name = "x-tenant"},
        {.kind = Kind::constant, .name = "user"},
        {.kind = Kind::claim, .name = "org id"},
    };
    for (const limit::KeyPart& part : parts) {
        for (const limit::KeyPart& other : parts) {
            CAPTURE(part_text(part));
            CAPTURE(part_text(other));
            CHECK(is_part_text(part_text(part), other) == (&part == &other));
        }
        for (const std::string_view text : {"", "header", "header:", "header:x", ":x-tenant"}) {
            CHECK_FALSE(is_part_text(text, part));
        }
    }
}

}  // namespace tidegate::ask::identifiers_test
