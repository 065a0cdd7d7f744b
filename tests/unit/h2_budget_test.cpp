#include <doctest/doctest.h>

#include "h2/budget.hpp"
#include "h2_world.hpp"

namespace tidegate::h2_budget_test {

using namespace h2_world;

TEST_CASE("h2 budget: the burst may be taken at once, then what comes back") {
    h2::AbuseBudget budget({3, {100, 1s}});
    h2::Time now{1'000s};
    for (int i = 0; i < 3; ++i) CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
    now += 9ms;
    CHECK_FALSE(budget.take(now));
    now += 1ms;
    CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
    now += 1h;
    for (int i = 0; i < 3; ++i) CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
}

TEST_CASE("h2 budget: an answer that ended well gives one back, and never more than the burst") {
    h2::AbuseBudget budget({2, {1, 1h}});
    const h2::Time now{1'000s};
    for (int i = 0; i < 100; ++i) budget.give_one();
    CHECK(budget.take(now));
    CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
    budget.give_one();
    CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
}

TEST_CASE("h2 budget: a frame of DATA earns an update, large ones more, frames cut small none") {
    h2::UpdateAllowance updates;
    CHECK(updates.take());  // the one at the beginning
    CHECK_FALSE(updates.take());
    updates.data_was_sent(10, false);
    CHECK(updates.take());
    CHECK_FALSE(updates.take());
    updates.data_was_sent(16'384, false);
    for (int i = 0; i < 5; ++i) CHECK(updates.take());
    CHECK_FALSE(updates.take());
    updates.data_was_sent(1, true);
    CHECK_FALSE(updates.take());
}

}  // namespace tidegate::h2_budget_test
