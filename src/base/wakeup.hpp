// The one place where a coroutine sleeps.
//
// Whoever has news sets a flag of its own and wakes the sleeper, who looks at all the flags it
// cares for and sleeps again if none is set. So a coroutine waits for any of several events
// without cancelling the others, and a completion that comes late only wakes it once in vain.
// Single-threaded.
#pragma once

#include <optional>
#include <utility>

#include "base/asio.hpp"

namespace tidegate {

class Wakeup {
  public:
    explicit Wakeup(Executor executor) : executor_(std::move(executor)) {}
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;

    // Sleeps until woken. At most one sleeper.
    Task<> wait() {
        return asio::async_initiate<decltype(use_task), void()>(
            [this](Handler handler) { sleeper_.emplace(std::move(handler)); }, use_task);
    }

    // Not a sleep: whatever else is ready goes first. Nobody can wake it.
    Task<> step_aside() { return asio::post(executor_, use_task); }

    // Runs the sleeper before returning. Only from an event handler that touches nothing
    // afterwards: the sleeper may destroy whatever it likes.
    void wake_now() {
        if (!sleeper_) return;
        Handler handler = std::move(*sleeper_);
        sleeper_.reset();
        std::move(handler)();
    }

    // Runs the sleeper from the event loop, after the caller has returned. The sleeper must
    // outlive that: it is asleep, so its frame does.
    void wake_later() {
        if (!sleeper_) return;
        Handler handler = std::move(*sleeper_);
        sleeper_.reset();
        asio::post(executor_, std::move(handler));
    }

  private:
    using Handler = asio::async_result<asio::use_awaitable_t<Executor>, void()>::handler_type;

    Executor executor_;
    std::optional<Handler> sleeper_;
};

}  // namespace tidegate
