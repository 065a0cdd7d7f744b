#include "balance/max_connections.hpp"

#include <algorithm>
#include <cassert>

namespace tidegate::balance {

SeatQueue::SeatQueue(std::uint32_t max) : share_(std::max<std::size_t>(1, max / 4)) {}

void SeatQueue::push(Request& request) {
    assert(request.line == nullptr);
    const auto [found, is_new] = lines_.try_emplace(request.address);
    Line& line = found->second;
    if (is_new) turns_.push_back(line);
    request.line = &line;
    queue_.push_back(request);
    line.requests.push_back(request);
    if (request.address && line.requests.size() == share_ + 1) crowds_.push_back(&line);
}

void SeatQueue::erase(Request& request) {
    Line& line = *request.line;
    if (request.address && line.requests.size() == share_ + 1) {
        crowds_.erase(std::find(crowds_.begin(), crowds_.end(), &line));
    }
    request.line = nullptr;
    queue_.erase(queue_.iterator_to(request));
    line.requests.erase(line.requests.iterator_to(request));
    if (!line.requests.empty()) return;
    turns_.erase(turns_.iterator_to(line));
    lines_.erase(request.address);
}

SeatQueue::Request* SeatQueue::first_besides(std::span<const IpAddress> crowds) {
    for (Line& line : turns_) {
        Request& first = line.requests.front();
        const auto is_its = [&](const IpAddress& crowd) { return first.address == crowd; };
        if (std::none_of(crowds.begin(), crowds.end(), is_its)) return &first;
    }
    return nullptr;
}

void SeatQueue::pass_turn(const Request& request) {
    turns_.splice(turns_.end(), turns_, turns_.iterator_to(*request.line));
}

SeatQueue::Request* SeatQueue::last_of_crowds_besides(const std::optional<IpAddress>& address) {
    Line* largest = nullptr;
    for (Line* crowd : crowds_) {
        if (crowd->requests.front().address == address) continue;
        if (largest == nullptr || crowd->requests.size() > largest->requests.size())
            largest = crowd;
    }
    return largest == nullptr ? nullptr : &largest->requests.back();
}

SeatWaiter::Answer SeatWaiter::take() {
    assert(state_ == State::idle);
    if (seats_.try_take()) return Answer::taken;
    const bool is_full = seats_.waiting() >= seats_.queue_max_;
    if (is_full && !seats_.has_crowds_.load(std::memory_order_relaxed)) return Answer::full;
    const std::lock_guard lock(seats_.mutex_);
    Answer answer = seats_.count_in();
    if (answer == Answer::full && seats_.push_out_for(address)) answer = seats_.count_in();
    if (answer == Answer::waiting) {
        seats_.push(*this);
    }
    return answer;
}

// The waiter takes the mutex even to look: when this returns, the thread that granted the seat no
// longer uses the waiter, so its owner may destroy it.
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
    if (state_ == State::granted) seats_.hand_on();
    if (state_ == State::waiting) seats_.remove(*this, State::idle);
    state_ = State::idle;
}

Seats::Seats(std::uint32_t max, std::uint32_t queue_max)
    : max_(max), queue_max_(queue_max), word_(max), queue_(queue_max) {
    assert(max >= 1);
}

bool Seats::try_take() {
    Word old = word();
    do {
        if (free_in(old) == 0) return false;  // no seat is free while a request waits
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

void Seats::give_back_besides(std::span<const IpAddress> crowds) {
    assert(taken() > 0);
    {
        const std::lock_guard lock(mutex_);
        if (SeatQueue::Request* const first = queue_.first_besides(crowds)) {
            queue_.pass_turn(*first);
            remove(static_cast<SeatWaiter&>(*first), SeatWaiter::State::granted);
            return;
        }
    }
    give_back();
}

bool Seats::has_waiters_besides(std::span<const IpAddress> crowds) {
    if (waiting() == 0) return false;
    const std::lock_guard lock(mutex_);
    return queue_.first_besides(crowds) != nullptr;
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

// Puts a waiter into the queue that count_in() has counted. Requires the mutex.
void Seats::push(SeatWaiter& waiter) {
    try {
        queue_.push(waiter);
    } catch (...) {
        word_.fetch_sub(kOneWaiting, std::memory_order_relaxed);
        throw;
    }
    note_crowds();
    waiter.state_ = SeatWaiter::State::waiting;
}

// Ends the wait of a request of another address, if that address has more than its share of places.
// Requires the mutex.
bool Seats::push_out_for(const std::optional<IpAddress>& address) {
    SeatQueue::Request* const last = queue_.last_of_crowds_besides(address);
    if (last == nullptr) return false;
    remove(static_cast<SeatWaiter&>(*last), SeatWaiter::State::pushed_out);
    return true;
}

// Gives a seat to the first waiter. Requires the mutex, so no request begins to wait meanwhile: if
// all waiters have left, the seat is free.
void Seats::hand_on() {
    if (SeatQueue::Request* const first = queue_.first()) {
        remove(static_cast<SeatWaiter&>(*first), SeatWaiter::State::granted);
    } else {
        word_.fetch_add(kOneFree, std::memory_order_release);
    }
}

// Takes the waiter out of the queue, and notifies it unless it left by itself. Requires the mutex.
void Seats::remove(SeatWaiter& waiter, SeatWaiter::State state) {
    queue_.erase(waiter);
    note_crowds();
    word_.fetch_sub(kOneWaiting, std::memory_order_relaxed);
    waiter.state_ = state;
    if (state != SeatWaiter::State::idle) waiter.on_changed_(waiter.owner_);
}

}  // namespace tidegate::balance
