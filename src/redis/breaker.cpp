#include "redis/breaker.hpp"

namespace tidegate::redis {

namespace {

constexpr milliseconds kFirstPause{50};
// A server that ends a connection sooner has only accepted it.
constexpr milliseconds kShortLived{1'000};

}  // namespace

bool Breaker::on_connected(SteadyTime now) {
    on_answer();
    connected_at_ = now;
    was_answered_ = false;
    return std::exchange(state_, State::up) == State::down;
}

void Breaker::on_connection_lost() {
    if (state_ == State::up) state_ = State::connecting;
}

void Breaker::on_timeouts(int count) {
    unanswered_ += count;
    if (count != 0) options_.unanswered->fetch_add(count);
}

// At least one of its own: a breaker whose client has nothing to send stays as it is.
bool Breaker::must_open() const {
    return state_ != State::down && unanswered_ > 0 && unanswered_in_a_row() >= options_.failures;
}

// Twice the last, and of that a random half to whole: a hundred proxies do not come back at once.
milliseconds Breaker::pause_after_failure(std::minstd_rand& random) {
    last_pause_ = std::min(std::max(last_pause_ * 2, kFirstPause), options_.probe_every);
    std::uniform_int_distribution<milliseconds::rep> share(last_pause_.count() / 2,
                                                           last_pause_.count());
    return milliseconds{share(random)};
}

// A server that accepts every connection and closes it must not get attempts without a pause.
milliseconds Breaker::pause_after_loss(SteadyTime now, std::minstd_rand& random) {
    const bool was_short = now - connected_at_ < kShortLived;
    const bool was_cut = state_ != State::down;  // and not given up for its silence
    if (!was_short || (was_cut && was_answered_)) reset_pauses();
    if (!was_short || (was_cut && may_reconnect(now))) return milliseconds{0};
    return pause_after_failure(random);
}

// A healthy server whose connections an operator or a proxy cuts now and then is back at once.
bool Breaker::may_reconnect(SteadyTime now) {
    constexpr std::chrono::nanoseconds kShare =
        std::chrono::nanoseconds(std::chrono::seconds(1)) / kReconnects;
    // The moment before which kReconnects are spent moves on by a share of a second with each.
    const SteadyTime begun = std::max(reconnects_spent_until_, now - std::chrono::seconds(1));
    if (begun + kShare > now) return false;
    reconnects_spent_until_ = begun + kShare;
    return true;
}

}  // namespace tidegate::redis
