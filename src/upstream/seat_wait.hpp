// A request's wait for one of the upstream's connections: its place in the line of the process.
//
// Belongs to the thread of its pool. A seat may be granted by any thread, which then wakes this
// one.
#pragma once

#include <memory>

#include <boost/intrusive/list.hpp>

#include "balance/seats.hpp"
#include "net/asio.hpp"
#include "net/wakeup.hpp"

namespace tidegate::upstream {

class ActiveRequest;

// In the list of its pool while it waits.
class SeatWait : public boost::intrusive::list_base_hook<
                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    // All outlive this. `wakeup` is woken when there is something to look at.
    SeatWait(const Executor& executor, balance::Seats& seats, Wakeup& wakeup,
             const ActiveRequest& request);
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
    // Ends the wait in favour of a request of another address, and takes it out of the list.
    void push_out();
    bool is_pushed_out() const { return is_pushed_out_; }

    const ActiveRequest& request() const { return request_; }

  private:
    // Outlives the wait while the news of a grant is on its way.
    struct Sleeping {
        Executor executor;
        Wakeup* wakeup;  // null: the wait is over
    };

    static void on_granted(void* self) noexcept;

    const std::shared_ptr<Sleeping> sleeping_;
    const ActiveRequest& request_;
    balance::SeatWaiter waiter_;
    bool has_seat_ = false;
    bool is_pushed_out_ = false;
};

}  // namespace tidegate::upstream
