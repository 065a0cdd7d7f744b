// Server: the bytes for the client.
#include <nghttp2/nghttp2.h>

#include "h2/server.hpp"

namespace tidegate::h2 {

std::size_t Server::gather(std::span<char> into, Time now, EventList& events) {
    enter(now, events);
    if (has_failed_) return 0;
    const std::ptrdiff_t bytes = output_.gather(session_, into);
    if (bytes < 0) fail();
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool Server::wants_write() const {
    return !has_failed_ && (!output_.is_empty() || nghttp2_session_want_write(session_) != 0);
}

// The size of the next DATA frame, of at most `max` bytes.
long Server::take(Stream& stream, std::size_t max, std::uint32_t& flags) {
    bool is_drained = false;
    const auto bytes = output_.take(session_, stream.id_, stream.body_, max, flags, is_drained);
    if (is_drained) tell({.kind = Event::Kind::drained, .stream = &stream});
    return bytes;
}

void Server::write_data(Stream& stream, std::string_view frame_head, std::size_t bytes) {
    bool is_drained = false;
    output_.write(stream.body_, frame_head, bytes, is_drained);
    if (is_drained) tell({.kind = Event::Kind::drained, .stream = &stream});
}

void Server::data_was_sent(Stream& stream, std::uint32_t bytes) {
    may_ping_ = true;
    stream.updates_.data_was_sent(bytes, stream.body_.is_cut_small());
    updates_.data_was_sent(bytes, stream.body_.is_cut_small());
}

void Server::end_answer(Stream& stream) {
    stream.is_answered_ = true;
    budget_.give_one();
    if (stream.is_released_ && !stream.has_ended_) wait_for_end(stream);
}

// nghttp2 resets by itself a stream whose client sends more than its window. All other resets for a
// fault of the client have been charged when they were decided upon.
void Server::reset_was_sent(std::uint32_t error) {
    has_reset_ = true;
    if (error == NGHTTP2_FLOW_CONTROL_ERROR) charge();
}

}  // namespace tidegate::h2
