#include "net/wakeup.hpp"

namespace tidegate {

Turn& Turn::of(const Executor& executor) {
    return asio::use_service<Turn>(asio::query(executor, asio::execution::context));
}

Turn::Turn(asio::execution_context& context)
    : service(context), executor_(static_cast<asio::io_context&>(context).get_executor()) {}

void Turn::add(Duty& duty) {
    if (duty.is_linked()) return;
    if (!is_running_ && duties_.empty()) {
        asio::post(executor_, [this] {
            if (!duties_.empty()) run([] {});
        });
    }
    duties_.push_back(duty);
}

// Duties that are added meanwhile are for another turn: other events get theirs.
void Turn::end() noexcept {
    is_running_ = false;
    Duties now;
    now.swap(duties_);
    while (!now.empty()) {
        Duty& first = now.front();
        now.pop_front();
        first.end_of_turn();
    }
}

}  // namespace tidegate
