// The bound on the connections to an upstream (`max_connections`), as one number of the process,
// and the queue of requests that wait for a seat.
//
// One atomic word counts free seats and waiters, and never shows a free seat while a request waits:
//
// - A thread takes a seat by one exchange of the word that requires a free seat. So no request
// takes
//   a seat past the queue.
// - A thread gives a seat back by one exchange that requires an empty queue. If a request waits,
// the
//   thread locks the mutex and hands the seat to the first waiter; the seat never becomes free.
// - A thread counts its waiter, under the mutex, by one exchange that requires that no seat is
// free.
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

// A request that takes a seat, and waits for it if it must. Belongs to one thread; only the grant
// comes from others. Destroying it ends the wait.
class SeatWaiter : public boost::intrusive::list_base_hook<> {
  public:
    // The waiter was granted a seat. Called under the mutex by the thread that gave the seat back:
    // it tells the waiter's thread, and calls nothing of Seats. It is not called any more once
    // accept() or leave() has returned; what it sent may arrive later.
    using OnGranted = void (*)(void* owner) noexcept;

    // `seats` and `owner` outlive this.
    SeatWaiter(Seats& seats, OnGranted on_granted, void* owner)
        : seats_(seats), on_granted_(on_granted), owner_(owner) {}
    SeatWaiter(const SeatWaiter&) = delete;
    SeatWaiter& operator=(const SeatWaiter&) = delete;
    ~SeatWaiter() { leave(); }

    enum class Answer : std::uint8_t {
        taken,    // the seat is the caller's, who gives it back
        waiting,  // until accept() or leave()
        full,     // as many wait as may
    };
    // Requires that this does not wait.
    Answer take();
    // True: a seat was granted, and is the caller's now, who gives it back.
    bool accept();
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

    // Takes a free seat. False: there is none, or others wait for one.
    bool try_take();
    // Requires a seat that was taken or granted.
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
