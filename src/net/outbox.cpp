#include "net/outbox.hpp"

#include <algorithm>

namespace tidegate {

std::size_t Outbox::bytes() const {
    std::size_t sum = pipe_ != nullptr ? pipe_->size() : 0;
    for (std::size_t i = first_; i < count_; ++i) sum += (*pieces_)[i].iov_len;
    return sum;
}

IoStatus Outbox::flush(Connection& connection) {
    if (pipe_ != nullptr) [[unlikely]] {
        const IoStatus status = pipe_->drain(connection);
        if (status != IoStatus::would_block) pipe_ = nullptr;
        if (status != IoStatus::ok) return status;
    }
    while (first_ != count_) {
        const IoResult result = connection.write_some({pieces_->data() + first_, count_ - first_});
        if (result.status != IoStatus::ok) return result.status;
        std::size_t left = result.bytes;
        while (left > 0) {
            iovec& piece = (*pieces_)[first_];
            const std::size_t gone = std::min(left, piece.iov_len);
            piece.iov_base = static_cast<char*>(piece.iov_base) + gone;
            piece.iov_len -= gone;
            left -= gone;
            if (piece.iov_len == 0) ++first_;
        }
    }
    clear();
    return IoStatus::ok;
}

Task<IoStatus> Outbox::flush_all(Connection& connection, Sleeper& sleeper,
                                 std::chrono::milliseconds patience) {
    for (;;) {
        const IoStatus status = flush(connection);
        if (status != IoStatus::would_block) co_return status;
        sleeper.allow(patience);
        connection.watch_write(&sleeper.wakeup());
        while (!connection.writable() && !sleeper.expired()) co_await sleeper.sleep();
        if (!connection.writable()) {
            clear();
            co_return IoStatus::failed;
        }
        sleeper.allow_forever();
    }
}

}  // namespace tidegate
