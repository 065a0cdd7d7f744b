// Exchanges that wait for the next request, so that idle connections hold none.
#pragma once

#include <memory>
#include <vector>

#include "proxy/exchange.hpp"

namespace tidegate::proxy {

// One a worker, one thread.
class ExchangePool {
  public:
    ExchangePool(Executor executor, DeadlineWheel& wheel, BufferPool& buffers)
        : executor_(executor), wheel_(wheel), buffers_(buffers) {}

    std::unique_ptr<Exchange> take() {
        if (free_.empty()) return std::make_unique<Exchange>(executor_, wheel_, buffers_);
        auto exchange = std::move(free_.back());
        free_.pop_back();
        return exchange;
    }
    // Keeps it for another request, unless it was a tunnel or there are enough.
    void give(std::unique_ptr<Exchange> exchange) {
        const bool was_tunnel = exchange->upstream == nullptr;
        if (was_tunnel || free_.size() == kKept) return;
        exchange->reset();
        free_.push_back(std::move(exchange));
    }

  private:
    static constexpr std::size_t kKept = 256;

    Executor executor_;
    DeadlineWheel& wheel_;
    BufferPool& buffers_;
    std::vector<std::unique_ptr<Exchange>> free_;
};

}  // namespace tidegate::proxy
