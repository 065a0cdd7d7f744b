// The one place where a coroutine sleeps.
//
// Whoever has news sets a flag of its own and wakes the sleeper, who looks at all the flags it
// cares for and sleeps again if none is set. So a coroutine waits for any of several events
// without cancelling the others, and a completion that comes late only wakes it once in vain.
// Single-threaded.
#pragma once

#include <utility>

#include <boost/asio/execution_context.hpp>
#include <boost/intrusive/list.hpp>

#include "net/asio.hpp"
#include "net/turn.hpp"

namespace tidegate {

// In a list while it is to be woken later; destroyed, it is in none.
using WakeupHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Wakeup : public WakeupHook {
  public:
    explicit Wakeup(Executor executor)
        : executor_(std::move(executor)),
          due_(&asio::use_service<Due>(asio::query(executor_, asio::execution::context))) {}
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;

    // Sleeps until woken. At most one sleeper.
    auto wait() { return Sleep{*this}; }

    // Not a sleep: whatever else is ready goes first. No wake() ends it.
    auto step_aside() { return asio::post(executor_, as_values); }

    // Runs the sleeper before returning. Only from an event handler that touches nothing
    // afterwards: the sleeper may destroy whatever it likes.
    void wake_now() {
        if (!sleeper_) return;
        if (is_linked()) unlink();
        Waiting sleeper = std::move(sleeper_);
        sleeper.resume();
    }

    // Runs the sleeper at the end of this turn (see Turn), after the caller has returned.
    void wake_later() {
        if (sleeper_ && !is_linked()) due_->add(*this);
    }

  private:
    struct Sleep {
        static bool await_ready() noexcept { return false; }
        template <class Promise>
        void await_suspend(std::coroutine_handle<Promise> sleeper) const noexcept {
            wakeup.sleeper_ = Waiting(sleeper);
        }
        static void await_resume() noexcept {}

        Wakeup& wakeup;
    };

    // Those of an event loop that are to be woken at the end of a turn.
    class Due final : public asio::execution_context::service, private Turn::Duty {
      public:
        using key_type = Due;
        static inline asio::execution_context::id id;

        explicit Due(asio::execution_context& context)
            : service(context),
              turn_(Turn::of(static_cast<asio::io_context&>(context).get_executor())) {}

        void add(Wakeup& wakeup) {
            list_.push_back(wakeup);
            turn_.add(*this);
        }

      private:
        using List = boost::intrusive::list<Wakeup, boost::intrusive::constant_time_size<false>>;

        void end_of_turn() noexcept override {
            List now;
            now.swap(list_);
            while (!now.empty()) {
                Wakeup& first = now.front();
                now.pop_front();
                first.wake_now();
            }
        }
        // Who sleeps when the loop is gone never wakes: its frame goes, too.
        void shutdown() override {
            while (!list_.empty()) {
                Wakeup& first = list_.front();
                list_.pop_front();
                const Waiting sleeper = std::move(first.sleeper_);
            }
        }

        Turn& turn_;
        List list_;
    };

    Executor executor_;
    Due* due_;
    Waiting sleeper_;
};

}  // namespace tidegate
