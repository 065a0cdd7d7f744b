#include <doctest/doctest.h>

#include "limit/concurrency.hpp"

namespace tidegate::limit::concurrency_test {

TEST_CASE("slots: the last slot is given, the one after it is not") {
    CHECK(passes({.held = 1, .mine = false}, 2, 1));
    CHECK_FALSE(passes({.held = 2, .mine = false}, 2, 1));
    CHECK(passes({.held = 0, .mine = false}, 1, 100));  // whatever it costs
}

TEST_CASE("slots: a holder of a slot passes even when too many are held") {
    CHECK(passes({.held = 5, .mine = true}, 2, 1));
    CHECK(verdict_of({.held = 2, .mine = true}, 3, true).remaining == 1);
    CHECK(verdict_of({.held = 2, .mine = false}, 3, true).remaining == 0);
}

TEST_CASE("slots: a cost of 0 passes while no more are held than there are") {
    CHECK(passes({.held = 2, .mine = false}, 2, 0));
    CHECK_FALSE(passes({.held = 3, .mine = false}, 2, 0));
    CHECK(retry_of_slot(2, 0) == kRetryOfSlot);
}

TEST_CASE("slots: without any slot there is no time to return at") {
    CHECK(retry_of_slot(0, 1) == kNever);
    CHECK(retry_of_slot(1, 1) == std::chrono::seconds{1});
    CHECK(verdict_of({}, 0, false).next_unit == Micros{0});
}

}  // namespace tidegate::limit::concurrency_test
