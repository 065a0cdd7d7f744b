// A request's wait for one of the upstream's connections: its place in the line of the process.
//
// Belongs to the thread of its pool. A seat may be granted by any thread, which then wakes this
// one; where it is this thread, the connection that had the seat may come with it.
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

// One of the upstream's `max_connections`. Gives the seat back unless a connection takes it over.
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
    // The seat is the caller's, who gives it back.
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
    // All outlive this. `wakeup` is woken when there is something to look at.
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
    // True: the seat is the caller's now.
    bool accept() { return has_seat_ || waiter_.accept(); }
    // Ends the wait in favour of a request of another address.
    void push_out();
    bool is_pushed_out() const { return is_pushed_out_; }

    const ActiveRequest& request() const { return request_; }
    // What came with the seat, without a seat of its own; once. Its connection may be null.
    Spare take_spare() { return std::move(spare_); }
    // Ends the wait, without a seat. Returns what came with one.
    Spare leave() {
        waiter_.leave();
        return take_spare();
    }

    // Gives a seat back of which this thread can offer the connection, too. Returns the connection
    // if the seat went to another thread, or to no request.
    static Spare give_back(balance::Seats& seats, Spare spare);

  private:
    // Outlives the wait while the news of a grant is on its way.
    struct Sleeping {
        Executor executor;
        Wakeup* wakeup;  // null: the wait is over
    };

    static void on_granted(void* self) noexcept;

    const std::shared_ptr<Sleeping> sleeping_;
    ActiveRequest& request_;
    Spare spare_;
    balance::SeatWaiter waiter_;  // destroyed first: a grant writes to the others
    bool has_seat_ = false;
    bool is_pushed_out_ = false;
};

}  // namespace tidegate::upstream
