#include "h2/stream.hpp"

#include <utility>

#include "h2/outgoing_fields.hpp"

namespace tidegate::h2 {

void Stream::forget() {
    owner = nullptr;
    id_ = 0;
    head_.fields.clear();
    head_fault_ = http::HeadFault::none;
    protocol_ = {};
    head_block_.clear();
    trailer_block_.clear();
    trailers_.clear();
    announced_.reset();
    body_bytes_ = 0;
    unconsumed_ = 0;
    body_ = {};
    updates_ = {};
    reset_due_ = Time::max();
    is_in_trailers_ = has_body_ = has_ended_ = is_in_service_ = false;
    is_answered_ = is_reset_ = is_closed_ = is_released_ = false;
}

StreamPool::StreamPool() : outgoing_fields_(std::make_unique<OutgoingFields>()) {}

StreamPool::~StreamPool() = default;

std::unique_ptr<Stream> StreamPool::take() {
    if (free_.empty()) return std::make_unique<Stream>();
    auto stream = std::move(free_.back());
    free_.pop_back();
    return stream;
}

void StreamPool::give_back(std::unique_ptr<Stream> stream) {
    stream->forget();
    if (free_.size() < kKept) free_.push_back(std::move(stream));
}

}  // namespace tidegate::h2
