// How many steps of TLS handshakes a turn of the event loop takes: a step costs hundreds of
// microseconds, so a flood of new clients would keep those that are connected waiting.
//
// A handshake that is ready asks before each step. A step that a turn does not admit waits in a
// queue, first in, first out, and goes on at the end of one of the next turns. In between, the
// worker serves the other connections. Owned by a worker, one thread.
#pragma once

#include <boost/intrusive/list.hpp>

#include "net/wakeup.hpp"

namespace tidegate::client {

class HandshakeTurns final : private Turn::Duty {
  public:
    static constexpr int kStepsATurn = 8;

    // Of one handshake, which sleeps on `wakeup`.
    class Place : public boost::intrusive::list_base_hook<
                      boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
      public:
        explicit Place(Wakeup& wakeup) : wakeup_(wakeup) {}

      private:
        friend class HandshakeTurns;
        Wakeup& wakeup_;
        bool is_called_ = false;  // its next step is admitted
    };

    explicit HandshakeTurns(const Executor& executor) : turn_(Turn::of(executor)) {}

    // True: a step may be made, now. False: `place` is in the queue, and is woken when its step is
    // admitted. A handshake that is woken asks again.
    bool may_step(Place& place);

  private:
    using Queue = boost::intrusive::list<Place, boost::intrusive::constant_time_size<false>>;

    void end_of_turn() noexcept override;

    Turn& turn_;
    Queue queue_;
    int left_ = kStepsATurn;  // of this turn
};

}  // namespace tidegate::client
