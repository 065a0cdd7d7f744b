#include <array>
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "store/freed_identifiers.hpp"

namespace tidegate::store::freed_identifiers_test {

using namespace std::chrono_literals;

TEST_CASE("freed identifiers: known from when they were added, and beside others") {
    FreedIdentifiers freed;
    const FreedIdentifiers::Time now{1h};
    const std::array<limit::ChargeItem, 2> items{limit::ChargeItem{nullptr, "user:a"},
                                                 limit::ChargeItem{nullptr, "user:b"}};
    CHECK_FALSE(freed.any(items, now));
    freed.add("user:b", now);
    CHECK(freed.any(items, now));
    CHECK(freed.any(items, now - 1s));
    CHECK_FALSE(freed.any(items, now + 1ns));
    CHECK_FALSE(freed.any({items.data(), 1}, now));
    // Another worker was quicker.
    freed.add("user:b", now - 1s);
    CHECK(freed.any(items, now));
    freed.add("user:c", now + 1s);
    CHECK_FALSE(freed.any(items, now + 1ns));
}

}  // namespace tidegate::store::freed_identifiers_test
