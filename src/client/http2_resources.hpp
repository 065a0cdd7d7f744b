// What the HTTP/2 connections of a worker share. Outlives them; one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "client/body_budget.hpp"
#include "client/http2_stream.hpp"
#include "config/config.hpp"
#include "h2/settings.hpp"
#include "h2/stream.hpp"

namespace tidegate::client {

class Http2Resources {
  public:
    Http2Resources(Executor executor, DeadlineWheel& deadlines, BufferPool& buffers)
        : executor_(std::move(executor)), deadlines_(deadlines), buffers_(buffers) {}

    // `config` is in force, for connections from now on.
    void use(const config::Config& config);

    // Streams are reused, so that a request allocates nothing that the one before it had room for,
    // and idle connections hold none.
    std::unique_ptr<Http2Stream> take(Http2Link& link, h2::Stream* stream);
    void give_back(std::unique_ptr<Http2Stream> stream);

    h2::Settings settings;
    // A connection is drained once it is so old, or up to a fifth older; 0: however old it is.
    std::chrono::milliseconds connection_time{0};
    h2::StreamPool streams;
    BodyBudget bodies;

  private:
    static constexpr std::size_t kKept = 256;

    Executor executor_;
    DeadlineWheel& deadlines_;
    BufferPool& buffers_;
    std::vector<std::unique_ptr<Http2Stream>> free_;
};

}  // namespace tidegate::client
