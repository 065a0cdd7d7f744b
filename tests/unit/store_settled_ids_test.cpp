// Reservations that were settled are remembered for as long as they could be settled.
#include <chrono>

#include <doctest/doctest.h>

#include "store/settled_ids.hpp"

namespace tidegate::store::settled_ids_test {

using namespace std::chrono_literals;

TEST_CASE("settled ids: the first claim counts, and the others learn its cost, until it expires") {
    using State = SettledIds::Claim::State;
    SettledIds ids;
    const SettledIds::Time begin{1h};
    CHECK(ids.claim("a", 3, begin, begin + 60s).state == State::first);
    CHECK(ids.claim("a", 3, begin, begin + 60s).state == State::settling);
    ids.settled("a");
    for (const std::int64_t cost : {3, 4}) {
        const auto again = ids.claim("a", cost, begin + 59s, begin + 60s);
        CHECK(again.state == State::settled);
        CHECK(again.cost == 3);
    }
    CHECK(ids.claim("b", 1, begin + 59s, begin + 119s).state == State::first);
    // Long after that no process asks any more: an id is refused once it has expired.
    CHECK(ids.claim("c", 1, begin + 100s, begin + 160s).state == State::first);
    CHECK(ids.claim("b", 1, begin + 101s, begin + 119s).state == State::settling);
    CHECK(ids.claim("a", 4, begin + 101s, begin + 119s).state == State::first);
}

TEST_CASE("settled ids: a settlement that could not be corrected is claimed anew, with any cost") {
    using State = SettledIds::Claim::State;
    SettledIds ids;
    const SettledIds::Time begin{1h};
    CHECK(ids.claim("a", 3, begin, begin + 60s).state == State::first);
    ids.forget("a");
    CHECK(ids.claim("a", 4, begin, begin + 60s).state == State::first);
    ids.settled("a");
    CHECK(ids.claim("a", 3, begin, begin + 60s).cost == 4);
}

}  // namespace tidegate::store::settled_ids_test
