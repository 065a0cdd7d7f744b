#include "ask/key_wait.hpp"

#include <utility>

namespace tidegate::ask {

// Only the executor's thread touches the members; any thread may drop the last reference.
struct KeyWait::State {
    Wakeup* wakeup;  // null: its KeyWait is gone
    bool is_over = false;

    void end() {
        is_over = true;
        if (wakeup != nullptr) wakeup->wake_later();
    }
};

KeyWait::KeyWait(Executor executor, Wakeup& wakeup, identity::KeySource& source,
                 const identity::KeyFetches& seen, std::uint64_t client,
                 std::chrono::steady_clock::time_point until)
    : source_(source), timer_(executor), state_(std::make_shared<State>(State{&wakeup})) {
    using Refusal = identity::KeySource::WaitRefusal;
    const auto waiting = source_.wait(seen, client, [executor, state = state_] {
        asio::post(executor, [state] { state->end(); });
    });
    number_ = waiting.number;
    if (number_ == 0) {
        state_->is_over = true;
        is_refused_ = waiting.refusal == Refusal::too_many_waiters;
        return;
    }
    timer_.expires_at(until);
    timer_.async_wait([state = state_](const error_code& ec) {
        if (!ec) state->end();
    });
}

KeyWait::~KeyWait() {
    state_->wakeup = nullptr;
    // Also when this was woken: the thread that posted may still hold the lock, and the event loop
    // it posted to must not end before it lets go.
    if (number_ != 0) source_.leave(number_);
}

bool KeyWait::is_over() const {
    return state_->is_over;
}

}  // namespace tidegate::ask
