#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "balance/retry_budget.hpp"

namespace tidegate::balance::retry_budget_test {
namespace {

std::size_t begun_of(RetryBudget& budget, std::size_t requests) {
    std::vector<RetryBudget::Retry> retries;
    while (auto retry = budget.try_begin(requests)) retries.push_back(std::move(*retry));
    CHECK(budget.retries() == retries.size());
    return retries.size();
}

}  // namespace

TEST_CASE("retry_budget: it allows a fifth of the requests in flight, and at least three") {
    RetryBudget budget;
    CHECK(begun_of(budget, 0) == 3);
    CHECK(begun_of(budget, 1) == 3);
    CHECK(begun_of(budget, 19) == 3);
    CHECK(begun_of(budget, 20) == 4);
    CHECK(begun_of(budget, 1'000) == 200);
    CHECK(budget.retries() == 0);
}

TEST_CASE("retry_budget: a retry that ends makes room for another, once") {
    RetryBudget budget;
    auto first = budget.try_begin(0);
    auto second = budget.try_begin(0);
    auto third = budget.try_begin(0);
    REQUIRE(third);
    CHECK_FALSE(budget.try_begin(0));
    {
        const RetryBudget::Retry moved = std::move(*first);
        CHECK_FALSE(budget.try_begin(0));
    }
    first.reset();
    CHECK(budget.retries() == 2);
    *second = std::move(*third);
    third.reset();
    CHECK(budget.retries() == 1);
    second.reset();
    CHECK(budget.retries() == 0);
}

TEST_CASE("retry_budget: threads together begin no more than there may be") {
    RetryBudget budget;
    std::atomic<int> begun{0};
    std::atomic<bool> too_many{false};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            for (int i = 0; i < 20'000; ++i) {
                const auto retry = budget.try_begin(0);
                if (!retry) continue;
                if (++begun > 3) too_many = true;
                --begun;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_FALSE(too_many);
    CHECK(budget.retries() == 0);
}

}  // namespace tidegate::balance::retry_budget_test
