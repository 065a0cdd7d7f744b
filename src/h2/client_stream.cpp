#include "h2/client_stream.hpp"

#include <utility>

#include "h2/outgoing_fields.hpp"

namespace tidegate::h2 {

http::ResponseHead* ClientStream::next_head() {
    if (!interim_.empty()) return &interim_.front()->head;
    return has_head_ ? &head_ : nullptr;
}

void ClientStream::forget() {
    owner = nullptr;
    id_ = 0;
    body_ = {};
    head_block_.clear();
    trailer_block_.clear();
    head_.fields.clear();
    framing_ = {};
    trailers_.clear();
    interim_.clear();
    interim_count_ = 0;
    body_bytes_ = 0;
    unconsumed_ = 0;
    malformed_ = Malformed::none;
    is_to_head_ = has_head_ = has_answered_ = has_ended_ = is_in_trailers_ = is_sent_ = false;
    is_unprocessed_ = is_refused_ = is_behind_others_ = false;
    is_too_large_ = is_reset_ = is_closed_ = is_released_ = false;
}

ClientStreamPool::ClientStreamPool() : outgoing_fields_(std::make_unique<OutgoingFields>()) {}

ClientStreamPool::~ClientStreamPool() = default;

std::unique_ptr<ClientStream> ClientStreamPool::take() {
    if (free_.empty()) return std::make_unique<ClientStream>();
    auto stream = std::move(free_.back());
    free_.pop_back();
    return stream;
}

void ClientStreamPool::give_back(std::unique_ptr<ClientStream> stream) {
    stream->forget();
    if (free_.size() < kKept) free_.push_back(std::move(stream));
}

}  // namespace tidegate::h2
