#include "client/stream.hpp"

namespace tidegate::client {

void Stream::begin_rest(std::chrono::milliseconds patience) {
    patience_ = patience;
    const SteadyTime now = sleeper().now();
    const std::int64_t taken = taken_of(given_);
    pace_.begin_wait(now, taken);
    sleeper().allow(pace_.time_left(patience_, now, taken));
}

IoStatus Stream::try_rest() {
    IoStatus status = http1_ ? http1_->try_rest() : http2_->try_rest();
    if (status == IoStatus::would_block) {
        if (!sleeper().expired()) return status;
        const auto left = pace_.time_left(patience_, sleeper().now(), taken_of(given_));
        if (left.count() > 0) {
            sleeper().allow(left);
            return status;
        }
        http1_ ? http1_->give_up() : http2_->give_up();
        status = IoStatus::failed;
    }
    pace_.end_wait(sleeper().now());
    if (status == IoStatus::ok) sleeper().allow_forever();
    return status;
}

Task<IoStatus> Stream::send_rest(std::chrono::milliseconds patience) {
    begin_rest(patience);
    for (;;) {
        const IoStatus status = try_rest();
        if (status != IoStatus::would_block) co_return status;
        co_await sleeper().sleep();
    }
}

}  // namespace tidegate::client
