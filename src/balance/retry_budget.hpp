// How many requests that a server has refused may be on a further attempt at a time: a fifth of
// those of the upstream in flight, and at least three. So an upstream that has too much to do gets
// few requests beyond those of clients. Attempts that cost a server nothing (a connection that is
// refused, a GOAWAY) need no budget.
//
// One object for all threads: an atomic that only retries touch.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>

namespace tidegate::balance {

class RetryBudget {
  public:
    static constexpr std::size_t kPercent = 20;
    static constexpr std::size_t kMin = 3;

    // Counts one retry for as long as it lives. The budget must outlive it.
    class Retry {
      public:
        Retry(Retry&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)) {}
        Retry& operator=(Retry&& other) noexcept {
            std::swap(budget_, other.budget_);
            return *this;
        }
        ~Retry() {
            if (budget_ != nullptr) budget_->retries_.fetch_sub(1, std::memory_order_relaxed);
        }

      private:
        friend class RetryBudget;
        explicit Retry(RetryBudget& budget) : budget_(&budget) {}

        RetryBudget* budget_;
    };

    // Empty: the budget is spent. `requests` counts those of the upstream in flight, see
    // count_active().
    std::optional<Retry> try_begin(std::size_t requests) {
        const std::size_t most = std::max(kMin, requests * kPercent / 100);
        std::size_t retries = retries_.load(std::memory_order_relaxed);
        do {
            if (retries >= most) return std::nullopt;
        } while (!retries_.compare_exchange_weak(retries, retries + 1, std::memory_order_relaxed));
        return Retry(*this);
    }

    std::size_t retries() const { return retries_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::size_t> retries_{0};
};

}  // namespace tidegate::balance
