// A turn of the event loop: one event, with everything that it is found to have brought.
//
// What several parts of a turn ask for is done once, at its end and before the loop asks the kernel
// for the next event: to post it would cost a system call and an event of its own.
// Single-threaded.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/intrusive/list.hpp>

#include "base/asio.hpp"

namespace tidegate {

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

        // May destroy this. Must not throw.
        virtual void end_of_turn() = 0;

      protected:
        ~Duty() = default;
    };

    // The one of the loop of `executor`.
    static Turn& of(const Executor& executor);
    // For use_service() only.
    explicit Turn(asio::execution_context& context);

    // Has `duty` done once, at the end of this turn or, outside of any, of one that is made for it.
    // It may be added again from within itself, for another turn.
    void add(Duty& duty);

    // Runs `event`, which must not throw, as a turn. Not from within another.
    template <class Event>
    void run(Event event) {
        is_running_ = true;
        event();
        end();
    }

  private:
    using Duties = boost::intrusive::list<Duty, boost::intrusive::constant_time_size<false>>;

    void end();
    void shutdown() override { duties_.clear(); }

    Executor executor_;
    Duties duties_;
    bool is_running_ = false;
};

}  // namespace tidegate
