// Seats bounds the connections to an upstream (`max_connections`) by one number of the process, and
// SeatQueue holds the requests that wait for a seat.
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
// If the queue is full, the last request of an address with more than a quarter of the places
// leaves it in favour of a request of another address.
//
// So "no seat is free, I wait" and "no request waits, the seat is free" cannot both succeed: the
// later exchange fails, because the word has changed, and its thread looks again. The queue changes
// under the mutex only, together with its count in the word.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include <boost/container/static_vector.hpp>
#include <boost/intrusive/list.hpp>

#include "base/ip.hpp"

namespace tidegate::balance {

// The queue of requests that wait for a seat: in the order in which they came, and in a line for
// each client address, so that one address keeps neither all places of the queue nor the seats that
// come free from others.
//
// An address with more than a quarter of the places is a crowd; at most three can be. Part of
// Seats, under its mutex. What a call costs hardly depends on how many requests wait.
class SeatQueue {
    struct Line;
    using Hook = boost::intrusive::list_member_hook<>;

  public:
    // A request that may wait, as the queue sees it. Must not be destroyed while it waits.
    struct Request {
        explicit Request(const std::optional<IpAddress>& of) : address(of) {}

        // Empty: a client without an address. Such clients are never a crowd.
        const std::optional<IpAddress> address;
        Hook in_queue;
        Hook in_line;
        Line* line = nullptr;  // null: it does not wait
    };

    // At most `max` requests wait.
    explicit SeatQueue(std::uint32_t max);

    bool is_empty() const { return queue_.empty(); }
    // May throw std::bad_alloc, and then changes nothing.
    void push(Request& request);
    // Requires that it waits.
    void erase(Request& request);

    // Null: the queue is empty.
    Request* first() { return is_empty() ? nullptr : &queue_.front(); }
    // The first of the address whose turn it is, of all addresses but those of `crowds`; null:
    // there is none. An address has its turn when it has waited longest or, after pass_turn(), when
    // all others have had one.
    Request* first_besides(std::span<const IpAddress> crowds);
    // Requires that it waits.
    void pass_turn(const Request& request);

    bool has_crowds() const { return !crowds_.empty(); }
    // The last request of the crowd with the most requests, of all crowds but `address`; null:
    // there is none.
    Request* last_of_crowds_besides(const std::optional<IpAddress>& address);

  private:
    using Queue =
        boost::intrusive::list<Request,
                               boost::intrusive::member_hook<Request, Hook, &Request::in_queue>,
                               boost::intrusive::constant_time_size<false>>;
    struct Line : boost::intrusive::list_base_hook<> {
        boost::intrusive::list<Request,
                               boost::intrusive::member_hook<Request, Hook, &Request::in_line>>
            requests;
    };
    const std::size_t share_;
    Queue queue_;
    std::map<std::optional<IpAddress>, Line> lines_;  // none is empty
    boost::intrusive::list<Line, boost::intrusive::constant_time_size<false>> turns_;
    boost::container::static_vector<Line*, 3> crowds_;
};

class Seats;

// A request that takes a seat, or waits for one. Belongs to one thread; only the grant, and the end
// of the wait in favour of another request, may come from another. Destroying it ends the wait.
class SeatWaiter : private SeatQueue::Request {
  public:
    // The waiter was granted a seat, or pushed out. Seats calls this under the mutex, on the thread
    // that gave the seat back or needed the place. It must only notify the waiter's thread, and
    // call nothing of Seats. Seats does not call it after accept() or leave() has returned; its
    // notification may arrive later.
    using OnChanged = void (*)(void* owner) noexcept;

    // `seats` and `owner` outlive this. `client`: its address, if it has one.
    SeatWaiter(Seats& seats, OnChanged on_changed, void* owner,
               const std::optional<IpAddress>& client = {})
        : Request(client), seats_(seats), on_changed_(on_changed), owner_(owner) {}
    SeatWaiter(const SeatWaiter&) = delete;
    SeatWaiter& operator=(const SeatWaiter&) = delete;
    ~SeatWaiter() { leave(); }

    enum class Answer : std::uint8_t {
        taken,    // the caller has the seat, and must give it back
        waiting,  // until accept() or leave()
        full,     // `queue_max` requests wait already, and none made room
    };
    // Requires that this does not wait.
    Answer take();
    // True: a seat was granted. The caller has it now, and must give it back.
    bool accept();
    // False: it does not wait, or a seat was granted. Another thread may grant one meanwhile.
    bool is_waiting() const { return state_.load(std::memory_order_acquire) == State::waiting; }
    // The wait has ended in favour of a request of another address.
    bool is_pushed_out() const {
        return state_.load(std::memory_order_acquire) == State::pushed_out;
    }
    // Ends the wait. A seat that was granted meanwhile goes to the next waiter.
    void leave();

  private:
    friend class Seats;
    enum class State : std::uint8_t { idle, waiting, granted, pushed_out };

    Seats& seats_;
    OnChanged on_changed_;
    void* owner_;
    // The thread of the waiter sets idle and waiting, others turn waiting into granted or
    // pushed_out; under the mutex.
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
    // The same, but the waiter is the first of the address whose turn it is, of all addresses but
    // those of `crowds`, if such a waiter is left.
    void give_back_besides(std::span<const IpAddress> crowds);
    // A request waits whose address is none of `crowds`.
    bool has_waiters_besides(std::span<const IpAddress> crowds);

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
    bool push_out_for(const std::optional<IpAddress>& address);
    void push(SeatWaiter& waiter);
    void hand_on();
    void remove(SeatWaiter& waiter, SeatWaiter::State state);
    void note_crowds() { has_crowds_.store(queue_.has_crowds(), std::memory_order_relaxed); }

    const std::uint32_t max_;
    const std::uint32_t queue_max_;
    alignas(64) std::atomic<Word> word_;
    alignas(64) std::mutex mutex_;
    SeatQueue queue_;
    std::atomic<bool> has_crowds_{false};  // of the queue
};

}  // namespace tidegate::balance
