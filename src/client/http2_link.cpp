#include "client/http2_link.hpp"

#include <span>

#include "client/http2_stream.hpp"

namespace tidegate::client {

namespace {

// The steps that a Server asks for.
constexpr std::size_t kRoomMin = 2'048;

}  // namespace

void Http2Link::gather(std::size_t bytes) {
    write_later();
    if (!connection->writable()) return;
    const bool is_large = bytes > BufferPool::kSmall / 2;
    const std::span<char> room = output.space(is_large ? BufferPool::kLarge : BufferPool::kSmall);
    if (room.size() < kRoomMin) return;
    output.commit(server.gather(room, clock.now(), events));
    tell_streams();
}

const BodyBudget::AccountPtr& Http2Link::account() {
    if (!body_account) body_account = bodies.account_of(address);
    return body_account;
}

void Http2Link::tell_streams() {
    for (const h2::Event& event : events) {
        if (event.stream == nullptr || event.stream->owner == nullptr) continue;
        Http2Stream& stream = *static_cast<Http2Stream*>(event.stream->owner);
        if (event.kind == h2::Event::Kind::drained) {
            stream.on_drained();
        } else {
            stream.on_end();
        }
    }
    events.clear();
}

}  // namespace tidegate::client
