// Reservations that were settled are remembered for as long as they could be settled.
#include <chrono>

#include <doctest/doctest.h>

#include "store/settled_ids.hpp"

namespace tidegate::store {

using namespace std::chrono_literals;

TEST_CASE("settled ids: the first claim counts, until the id expires") {
    using Claim = SettledIds::Claim;
    SettledIds ids;
    const SettledIds::Time begin{1h};
    CHECK(ids.claim("a", begin, begin + 60s) == Claim::first);
    CHECK(ids.claim("a", begin + 59s, begin + 60s) == Claim::again);
    CHECK(ids.claim("b", begin + 59s, begin + 119s) == Claim::first);
    // Long after that nobody asks any more: an id is refused once it has expired.
    CHECK(ids.claim("c", begin + 100s, begin + 160s) == Claim::first);
    CHECK(ids.claim("b", begin + 101s, begin + 119s) == Claim::again);
}

}  // namespace tidegate::store
