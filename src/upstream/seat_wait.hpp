// A request's wait for a seat, one of the upstream's `max_connections`: its place in the queue of
// the process.
//
// Belongs to the thread of its pool. Any thread may grant the seat, or push the request out, and
// then wakes this thread. If this thread itself grants the seat, the connection that had the seat
// may come with it.
#pragma once

#include <memory>
#include <utility>

#include <boost/intrusive/list.hpp>

#include "balance/seats.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/wakeup.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

class ActiveRequest;

// Holds one of the upstream's `max_connections`, and gives it back unless a connection takes it
// over.
class Seat {
  public:
    Seat() = default;
    explicit Seat(balance::Seats& seats) : seats_(&seats) {}
    Seat(Seat&& other) noexcept : seats_(std::exchange(other.seats_, nullptr)) {}
    Seat& operator=(Seat&& other) noexcept {
        give_back();
        seats_ = std::exchange(other.seats_, nullptr);
        return *this;
    }
    ~Seat() { give_back(); }

    explicit operator bool() const { return seats_ != nullptr; }
    // From now on the caller has the seat, and must give it back.
    void release() { seats_ = nullptr; }

  private:
    void give_back() {
        if (seats_ != nullptr) std::exchange(seats_, nullptr)->give_back();
    }

    balance::Seats* seats_ = nullptr;
};

// A connection that has just served a request, and the server that it leads to.
struct Spare {
    ServerPtr server;
    ConnectionPtr connection;
};

// In the list of its pool while it waits.
class SeatWait : public boost::intrusive::list_base_hook<
                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    // All outlive this. It wakes `wakeup` when accept() or is_pushed_out() may have changed.
    SeatWait(const Executor& executor, balance::Seats& seats, Wakeup& wakeup,
             ActiveRequest& request);
    ~SeatWait();

    using Answer = balance::SeatWaiter::Answer;
    // Requires that this does not wait. `waiting` or `taken`: accept() says when the request has a
    // seat.
    Answer take() {
        const Answer answer = waiter_.take();
        has_seat_ = answer == Answer::taken;
        return answer;
    }
    // True: the caller has the seat now.
    bool accept() { return has_seat_ || waiter_.accept(); }
    // The caller's seat is this request's now. It leaves the queue.
    void take_over_seat();
    // The wait has ended in favour of a request of another address.
    bool is_pushed_out() const { return waiter_.is_pushed_out(); }

    // No seat was granted yet, and the request was not pushed out.
    bool is_waiting() const { return waiter_.is_waiting(); }

    ActiveRequest& request() { return request_; }
    // The connection that came with the seat, once. It has no other seat. May be null.
    Spare take_spare() { return std::move(spare_); }
    // Ends the wait. A seat that was granted and not accepted goes to the next waiter. Returns the
    // connection that came with it.
    Spare leave() {
        waiter_.leave();
        return take_spare();
    }

    // Gives a seat back, and offers the connection that had it. Returns the connection unless a
    // request of this thread got the seat, and the connection with it.
    static Spare give_back(balance::Seats& seats, Spare spare);

  private:
    // Outlives the wait while a notification is on its way.
    struct Sleeping {
        Executor executor;
        Wakeup* wakeup;  // null: the wait is over
    };

    static void on_changed(void* self) noexcept;

    const std::shared_ptr<Sleeping> sleeping_;
    ActiveRequest& request_;
    Spare spare_;
    balance::SeatWaiter waiter_;  // destroyed before the members that a grant writes
    bool has_seat_ = false;
};

}  // namespace tidegate::upstream
