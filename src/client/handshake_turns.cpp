#include "client/handshake_turns.hpp"

#include <utility>

namespace tidegate::client {

bool HandshakeTurns::may_step(Place& place) {
    if (std::exchange(place.is_called_, false)) return true;
    if (place.is_linked()) return false;
    turn_.add(*this);
    if (queue_.empty() && left_ > 0) {
        --left_;
        return true;
    }
    queue_.push_back(place);
    return false;
}

void HandshakeTurns::end_of_turn() noexcept {
    while (left_ > 0 && !queue_.empty()) {
        --left_;
        Place& first = queue_.front();
        queue_.pop_front();
        first.is_called_ = true;
        first.wakeup_.wake_now();
    }
    left_ = kStepsATurn;
    if (!queue_.empty()) turn_.add(*this);
}

}  // namespace tidegate::client
