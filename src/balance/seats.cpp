#include "balance/seats.hpp"

#include <cassert>

namespace tidegate::balance {

SeatWaiter::Answer SeatWaiter::take() {
    assert(state_ == State::idle);
    if (seats_.try_take()) return Answer::taken;
    if (seats_.waiting() >= seats_.queue_max_) return Answer::full;
    const std::lock_guard lock(seats_.mutex_);
    const Answer answer = seats_.count_in();
    if (answer == Answer::waiting) {
        state_ = State::waiting;
        seats_.queue_.push_back(*this);
    }
    return answer;
}

// Takes the mutex even to look: when this returns, the thread that granted the seat no longer uses
// the waiter, so its owner may destroy it.
bool SeatWaiter::accept() {
    if (state_.load(std::memory_order_relaxed) == State::idle) return false;
    const std::lock_guard lock(seats_.mutex_);
    if (state_ != State::granted) return false;
    state_ = State::idle;
    return true;
}

void SeatWaiter::leave() {
    if (state_.load(std::memory_order_relaxed) == State::idle) return;
    const std::lock_guard lock(seats_.mutex_);
    if (state_ == State::granted) {
        seats_.hand_on();
    } else {
        seats_.queue_.erase(seats_.queue_.iterator_to(*this));
        seats_.word_.fetch_sub(Seats::kOneWaiting, std::memory_order_relaxed);
    }
    state_ = State::idle;
}

Seats::Seats(std::uint32_t max, std::uint32_t queue_max)
    : max_(max), queue_max_(queue_max), word_(max) {
    assert(max >= 1);
}

bool Seats::try_take() {
    Word old = word();
    do {
        if (free_in(old) == 0) return false;  // always so while a request waits
    } while (!word_.compare_exchange_weak(old, old - kOneFree, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    return true;
}

void Seats::give_back() {
    assert(taken() > 0);
    Word old = word();
    while (waiting_in(old) == 0) {
        if (word_.compare_exchange_weak(old, old + kOneFree, std::memory_order_release,
                                        std::memory_order_relaxed)) {
            return;
        }
    }
    const std::lock_guard lock(mutex_);
    hand_on();
}

// Counts a waiter, unless a seat came free or the queue is full. Requires the mutex.
SeatWaiter::Answer Seats::count_in() {
    Word old = word();
    for (;;) {
        if (free_in(old) == 0 && waiting_in(old) >= queue_max_) return SeatWaiter::Answer::full;
        const bool is_free = free_in(old) > 0;
        const Word changed = is_free ? old - kOneFree : old + kOneWaiting;
        if (word_.compare_exchange_weak(old, changed, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
            return is_free ? SeatWaiter::Answer::taken : SeatWaiter::Answer::waiting;
        }
    }
}

// Gives a seat to the first waiter. Requires the mutex, so no request begins to wait meanwhile: if
// all waiters have left, the seat is free.
void Seats::hand_on() {
    if (queue_.empty()) {
        word_.fetch_add(kOneFree, std::memory_order_release);
        return;
    }
    SeatWaiter& first = queue_.front();
    queue_.pop_front();
    word_.fetch_sub(kOneWaiting, std::memory_order_relaxed);
    first.state_ = SeatWaiter::State::granted;
    first.on_granted_(first.owner_);
}

}  // namespace tidegate::balance
