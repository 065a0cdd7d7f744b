#include "upstream/seat_wait.hpp"

namespace tidegate::upstream {

SeatWait::SeatWait(const Executor& executor, balance::Seats& seats, Wakeup& wakeup,
                   const ActiveRequest& request)
    : sleeping_(std::make_shared<Sleeping>(Sleeping{executor, &wakeup})),
      request_(request),
      waiter_(seats, &SeatWait::on_granted, this) {}

SeatWait::~SeatWait() {
    sleeping_->wakeup = nullptr;
}

void SeatWait::push_out() {
    waiter_.leave();
    unlink();
    is_pushed_out_ = true;
    sleeping_->wakeup->wake_later();
}

// On the thread that gave the seat back.
void SeatWait::on_granted(void* self) noexcept {
    const auto& wait = *static_cast<const SeatWait*>(self);
    asio::post(wait.sleeping_->executor, [sleeping = wait.sleeping_] {
        if (sleeping->wakeup != nullptr) sleeping->wakeup->wake_later();
    });
}

}  // namespace tidegate::upstream
