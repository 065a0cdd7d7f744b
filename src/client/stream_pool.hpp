// Streams that wait for the next request, so that idle connections hold none. One a worker, one
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "client/http1_stream.hpp"

namespace tidegate::client {

class Http1StreamPool {
  public:
    std::unique_ptr<Http1Stream> take(Http1Link& link) {
        std::unique_ptr<Http1Stream> stream;
        if (free_.empty()) {
            stream = std::make_unique<Http1Stream>();
        } else {
            stream = std::move(free_.back());
            free_.pop_back();
        }
        stream->begin(link);
        return stream;
    }
    void give_back(std::unique_ptr<Http1Stream> stream) {
        stream->end();
        if (free_.size() < kKept) free_.push_back(std::move(stream));
    }

  private:
    static constexpr std::size_t kKept = 256;

    std::vector<std::unique_ptr<Http1Stream>> free_;
};

}  // namespace tidegate::client
