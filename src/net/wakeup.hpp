// Where a coroutine sleeps, and when it is woken: at once, at the end of a turn of the event loop,
// or at a deadline. Single-threaded.
#pragma once

#include <cassert>
#include <chrono>
#include <utility>

#include <boost/asio/execution_context.hpp>
#include <boost/intrusive/list.hpp>

#include "net/asio.hpp"
#include "net/deadline.hpp"

namespace tidegate {

// A turn of the event loop: an answer of Redis, or what the connections of clients and upstreams
// have brought; in any case with what else is ready on those connections.
//
// The turn does its duties once, at its end and before the loop asks the kernel for the next event,
// however many parts asked for one: to post a duty would cost a system call and an event of its
// own. A duty that is asked for outside of a turn, or while one ends, gets a turn that is posted.
// Single-threaded.
class Turn final : public asio::execution_context::service {
  public:
    using key_type = Turn;
    static inline asio::execution_context::id id;

    // Something to do at the end of a turn. Destroyed, it is not done.
    class Duty : public boost::intrusive::list_base_hook<
                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
      public:
        Duty() = default;
        Duty(const Duty&) = delete;
        Duty& operator=(const Duty&) = delete;

        // May destroy this, and others.
        virtual void end_of_turn() noexcept = 0;

      protected:
        ~Duty() = default;
    };

    // Delivers its events in every turn.
    class Source {
      public:
        virtual void deliver() noexcept = 0;

      protected:
        ~Source() = default;
    };

    // The Turn of the loop of `executor`.
    static Turn& of(const Executor& executor) {
        return asio::use_service<Turn>(asio::query(executor, asio::execution::context));
    }
    // For use_service() only.
    explicit Turn(asio::execution_context& context)
        : service(context), executor_(static_cast<asio::io_context&>(context).get_executor()) {}

    // Has `duty` done once, at the end of this turn or, outside of any and while one ends, of the
    // next. It may be added again from within itself.
    void add(Duty& duty) {
        if (duty.is_linked()) return;
        if (!is_running_ && duties_.empty()) {
            asio::post(executor_, [this] {
                if (!duties_.empty()) run([] {});
            });
        }
        duties_.push_back(duty);
    }

    // Sets the only source; null removes it.
    void set_source(Source* source) {
        assert(source == nullptr || source_ == nullptr);
        source_ = source;
    }

    // Runs `event` as a turn: then the source delivers its events, so that what the duties find is
    // not older than `event`. Requires that no turn is running.
    template <class Event>
    void run(Event event) noexcept {
        assert(!is_running_);
        is_running_ = true;
        event();
        if (source_ != nullptr) source_->deliver();
        end();
    }

  private:
    using Duties = boost::intrusive::list<Duty, boost::intrusive::constant_time_size<false>>;

    // Duties that are added meanwhile are for another turn: other events get theirs.
    void end() noexcept {
        is_running_ = false;
        Duties now;
        now.swap(duties_);
        while (!now.empty()) {
            Duty& first = now.front();
            now.pop_front();
            first.end_of_turn();
        }
    }
    void shutdown() override { duties_.clear(); }

    Executor executor_;
    Source* source_ = nullptr;
    Duties duties_;
    bool is_running_ = false;
};

// Links a Wakeup into a list while it is to be woken later; its destructor unlinks it.
using WakeupHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

// The one place where a coroutine sleeps.
//
// A component with news sets a flag of its own and wakes the sleeper, which checks all the flags
// that concern it and sleeps again if none is set. So a coroutine waits for any of several events
// without cancelling the others, and a completion that comes late only wakes it once too often.
class Wakeup : public WakeupHook {
  public:
    explicit Wakeup(Executor executor)
        : executor_(std::move(executor)),
          due_(&asio::use_service<Due>(asio::query(executor_, asio::execution::context))) {}
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;

    // Sleeps until woken. At most one sleeper.
    auto wait() { return Sleep{*this}; }

    // Lets everything else that is ready run first. It is no sleep: no wake ends it.
    auto yield() { return asio::post(executor_, as_values); }

    // Runs the sleeper before returning. Only from an event handler that touches nothing
    // afterwards: the sleeper may destroy whatever it likes.
    void wake_now() {
        if (!sleeper_) return;
        if (is_linked()) unlink();
        SuspendedTask sleeper = std::move(sleeper_);
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
            wakeup.sleeper_ = SuspendedTask(sleeper);
        }
        static void await_resume() noexcept {}

        Wakeup& wakeup;
    };

    // The Wakeups of an event loop that are due at the end of a turn.
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
        // A coroutine that sleeps when the loop ends never wakes: its frame is destroyed, too.
        void shutdown() override {
            while (!list_.empty()) {
                Wakeup& first = list_.front();
                list_.pop_front();
                const SuspendedTask sleeper = std::move(first.sleeper_);
            }
        }

        Turn& turn_;
        List list_;
    };

    Executor executor_;
    Due* due_;
    SuspendedTask sleeper_;
};

// A coroutine's sleep with a deadline. It ends when another component wakes wakeup(), and when the
// allowed time has run out.
class Sleeper {
  public:
    Sleeper(Executor executor, DeadlineWheel& wheel)
        : wheel_(wheel), wakeup_(std::move(executor)), deadline_(&Sleeper::on_expired, this) {}

    // Allows `time` from now on, in place of what was allowed before.
    void allow(std::chrono::milliseconds time) {
        expired_ = false;
        wheel_.set(deadline_, time);
    }
    void allow_forever() {
        expired_ = false;
        deadline_.clear();
    }
    bool expired() const { return expired_; }

    // The time to a tick of the wheel: reading it costs nothing.
    SteadyTime now() const { return wheel_.now(); }

    auto sleep() { return wakeup_.wait(); }
    // A coroutine that never has to wait calls it to let the others run.
    auto yield() { return wakeup_.yield(); }
    Wakeup& wakeup() { return wakeup_; }

  private:
    static void on_expired(void* self) {
        auto& sleeper = *static_cast<Sleeper*>(self);
        sleeper.expired_ = true;
        sleeper.wakeup_.wake_later();
    }

    DeadlineWheel& wheel_;
    Wakeup wakeup_;
    Deadline deadline_;
    bool expired_ = false;
};

}  // namespace tidegate
