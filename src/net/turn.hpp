// A turn of the event loop: an answer of Redis, or what the connections of clients and upstreams
// have brought; in any case with what else is ready on those connections.
//
// What several parts of it ask for is done once, at its end and before the loop asks the kernel for
// the next event: to post it would cost a system call and an event of its own. What is asked for
// outside of a turn, or while one ends, has a turn posted. Single-threaded.
#pragma once

#include <cassert>

#include <boost/asio/execution_context.hpp>
#include <boost/intrusive/list.hpp>

#include "net/asio.hpp"

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

        // May destroy this, and others.
        virtual void end_of_turn() noexcept = 0;

      protected:
        ~Duty() = default;
    };

    // Those whose news belong to every turn.
    class Source {
      public:
        virtual void tell() noexcept = 0;

      protected:
        ~Source() = default;
    };

    // The one of the loop of `executor`.
    static Turn& of(const Executor& executor);
    // For use_service() only.
    explicit Turn(asio::execution_context& context);

    // Has `duty` done once, at the end of this turn or, outside of any and while one ends, of the
    // next. It may be added again from within itself.
    void add(Duty& duty);

    // At most one; null: none any more.
    void set_source(Source* source) {
        assert(source == nullptr || source_ == nullptr);
        source_ = source;
    }

    // Runs `event` as a turn: then the source tells its news, so that what the duties find is not
    // older than the event. Not from within another turn.
    template <class Event>
    void run(Event event) noexcept {
        assert(!is_running_);
        is_running_ = true;
        event();
        if (source_ != nullptr) source_->tell();
        end();
    }

  private:
    using Duties = boost::intrusive::list<Duty, boost::intrusive::constant_time_size<false>>;

    void end() noexcept;
    void shutdown() override { duties_.clear(); }

    Executor executor_;
    Source* source_ = nullptr;
    Duties duties_;
    bool is_running_ = false;
};

}  // namespace tidegate
