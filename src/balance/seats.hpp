// The bound on the connections to an upstream (`max_connections`), as one number of the process,
// and the queue of requests that wait for a seat.
//
// One atomic word counts free seats and waiters, and never shows a free seat while a request waits.
//
// Taking: one exchange of the word, which requires a free seat. So no request overtakes the queue.
//
// Giving back: one exchange, which requires an empty queue. If a request waits, the thread locks
// the mutex and hands the seat to the first waiter; the seat never becomes free in between.
//
// Waiting: under the mutex, one exchange that requires that no seat is free.
//
// So "no seat is free, I wait" and "no request waits, the seat is free" cannot both succeed: the
// later exchange fails, because the word has changed, and its thread looks again. The queue changes
// under the mutex only, together with its count in the word.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <boost/intrusive/list.hpp>

namespace tidegate::balance {

class Seats;

// A request that takes a seat, or waits for one. Belongs to one thread; only the grant may come
// from another. Destroying it ends the wait.
class SeatWaiter : public boost::intrusive::list_base_hook<> {
  public:
    // The waiter was granted a seat. Seats calls this under the mutex, on the thread that gave the
    // seat back. It must only notify the waiter's thread, and call nothing of Seats. Seats does not
    // call it after accept() or leave() has returned; its notification may arrive later.
    using OnGranted = void (*)(void* owner) noexcept;

    // `seats` and `owner` outlive this.
    SeatWaiter(Seats& seats, OnGranted on_granted, void* owner)
        : seats_(seats), on_granted_(on_granted), owner_(owner) {}
    SeatWaiter(const SeatWaiter&) = delete;
    SeatWaiter& operator=(const SeatWaiter&) = delete;
    ~SeatWaiter() { leave(); }

    enum class Answer : std::uint8_t {
        taken,    // the caller has the seat, and must give it back
        waiting,  // until accept() or leave()
        full,     // `queue_max` requests wait already
    };
    // Requires that this does not wait.
    Answer take();
    // True: a seat was granted. The caller has it now, and must give it back.
    bool accept();
    // False: it does not wait, or a seat was granted. Another thread may grant one meanwhile.
    bool is_waiting() const { return state_.load(std::memory_order_acquire) == State::waiting; }
    // Ends the wait. A seat that was granted meanwhile goes to the next waiter.
    void leave();

  private:
    friend class Seats;
    enum class State : std::uint8_t { idle, waiting, granted };

    Seats& seats_;
    OnGranted on_granted_;
    void* owner_;
    // Its thread makes it idle or waiting, a giver turns waiting into granted; under the mutex.
    std::atomic<State> state_{State::idle};
};

class Seats {
  public:
    // At most `max` seats are taken, and at most `queue_max` requests wait. Requires max >= 1.
    Seats(std::uint32_t max, std::uint32_t queue_max);

    // Takes a free seat. False: none is free, as always while a request waits.
    bool try_take();
    // Gives the seat to the first waiter, or makes it free. Requires a seat that was taken or
    // granted.
    void give_back();

    std::uint32_t taken() const { return max_ - free_in(word()); }
    std::uint32_t waiting() const { return waiting_in(word()); }

  private:
    friend class SeatWaiter;
    using Word = std::uint64_t;  // waiters above, free seats below
    static constexpr Word kOneFree = 1;
    static constexpr Word kOneWaiting = Word{1} << 32;
    static std::uint32_t free_in(Word word) { return static_cast<std::uint32_t>(word); }
    static std::uint32_t waiting_in(Word word) { return static_cast<std::uint32_t>(word >> 32); }

    Word word() const { return word_.load(std::memory_order_relaxed); }
    SeatWaiter::Answer count_in();
    void hand_on();

    const std::uint32_t max_;
    const std::uint32_t queue_max_;
    alignas(64) std::atomic<Word> word_;
    alignas(64) std::mutex mutex_;
    boost::intrusive::list<SeatWaiter, boost::intrusive::constant_time_size<false>> queue_;
};

}  // namespace tidegate::balance
