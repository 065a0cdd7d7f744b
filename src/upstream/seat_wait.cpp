#include "upstream/seat_wait.hpp"

#include "upstream/fair_share.hpp"

namespace tidegate::upstream {

namespace {

// The connection that this thread offers while it gives a seat back.
thread_local Spare* offered = nullptr;

}  // namespace

SeatWait::SeatWait(const Executor& executor, balance::Seats& seats, Wakeup& wakeup,
                   ActiveRequest& request)
    : sleeping_(std::make_shared<Sleeping>(Sleeping{executor, &wakeup})),
      request_(request),
      waiter_(seats, &SeatWait::on_changed, this, request.key()) {
    request_.waits_for_seat = true;
}

SeatWait::~SeatWait() {
    sleeping_->wakeup = nullptr;
    request_.waits_for_seat = false;
}

void SeatWait::take_over_seat() {
    waiter_.leave();  // a seat that was granted meanwhile goes on
    has_seat_ = true;
    sleeping_->wakeup->wake_later();
}

Spare SeatWait::give_back(balance::Seats& seats, Spare spare) {
    offered = &spare;
    seats.give_back();
    offered = nullptr;
    return spare;
}

// On the thread that gave the seat back or needed the place.
void SeatWait::on_changed(void* self) noexcept {
    auto& wait = *static_cast<SeatWait*>(self);
    const Executor& executor = wait.sleeping_->executor;
    if (offered != nullptr && executor.running_in_this_thread()) {
        wait.spare_ = std::move(*offered);
    }
    asio::post(executor, [sleeping = wait.sleeping_] {
        if (sleeping->wakeup != nullptr) sleeping->wakeup->wake_later();
    });
}

}  // namespace tidegate::upstream
