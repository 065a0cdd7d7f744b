#include "upstream/http2_connection.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "net/transfer.hpp"
#include "upstream/http2_stream.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

namespace {

using std::chrono::milliseconds;

// What is here already is read without waiting; after so many reads, other connections go first.
constexpr unsigned kReadsInARow = 8;
// A connection that is idle for a moment only keeps the memory that it is about to need.
constexpr std::chrono::seconds kRestAfter{1};

h2::ClientSettings settings_for(const Server& server, const Http2Context& context) {
    h2::ClientSettings settings = context.settings;
    const std::uint32_t streams = server.streams_said();
    if (streams > 0) settings.streams = std::min(streams, settings.streams_max);
    settings.list_bytes = server.list_bytes_said();
    return settings;
}

}  // namespace

Http2Connection::Http2Connection(Http2Context& context, Server& server, ConnectionPtr connection)
    : context_(&context),
      server_(&server),
      connection_(std::move(connection)),
      output_(context.buffers),
      sleeper_(context.executor, context.deadlines),
      idle_since_(context.deadlines.now()) {
    client_.emplace(settings_for(server, context), context.streams, idle_since_);
    connection_->forget_sleepers();
}

Http2Connection::~Http2Connection() {
    if (!is_over_) end();
}

Task<> Http2Connection::run(Http2ConnectionPtr self) {
    std::exception_ptr failure;
    try {
        co_await self->go_on();
    } catch (...) {
        failure = std::current_exception();
    }
    self->close();
    if (failure) std::rethrow_exception(failure);
}

Task<> Http2Connection::go_on() {
    for (unsigned steps = 1;; ++steps) {
        const Next next = step();
        if (next == Next::close) co_return;
        if (next == Next::step) {
            if (steps % kReadsInARow == 0) co_await sleeper_.yield();
            continue;
        }
        sleeper_.allow(time_left());
        connection_->watch_read(&sleeper_.wakeup());
        connection_->watch_write(connection_->writable() ? nullptr : &sleeper_.wakeup());
        co_await sleeper_.sleep();
    }
}

Http2Connection::Next Http2Connection::step() {
    if (is_over_) return Next::close;
    bool is_open = true;
    // Also while the server takes nothing: it may first want to send its own bytes.
    if (connection_->readable()) is_open = read();
    const SteadyTime now = context_->deadlines.now();
    if (now >= client_->deadline()) {
        client_->tick(now, told_);
        look_at(told_);
    }
    if (!write() || !is_open) return Next::close;
    if (client_->has_failed() || (client_->is_done() && output_.empty())) return Next::close;
    return connection_->readable() ? Next::step : Next::sleep;
}

// False: the server has closed, or reset.
bool Http2Connection::read() {
    return read_block(*connection_, context_->buffers, [this](std::string_view bytes) {
        ++reads_;
        is_resting_ = false;
        client_->receive(bytes, context_->deadlines.now(), input_);
        look_at(input_);
    });
}

// No stream's coroutine runs meanwhile: they are woken at the end of the turn.
void Http2Connection::look_at(h2::ClientEventList& events) {
    for (const h2::ClientEvent& event : events) {
        if (event.kind == h2::ClientEvent::Kind::head) has_answered_ = true;
        if (event.stream->owner == nullptr) continue;
        Http2Stream& stream = *static_cast<Http2Stream*>(event.stream->owner);
        switch (event.kind) {
            case h2::ClientEvent::Kind::body:
                stream.add_bytes(event.bytes);
                break;
            case h2::ClientEvent::Kind::drained:
                stream.on_drained();
                break;
            case h2::ClientEvent::Kind::head:
            case h2::ClientEvent::Kind::end:
                stream.on_input();
                break;
            default:  // a reset
                stream.on_end();
        }
    }
    constexpr std::size_t kEventsKept = 64;
    clear_for_reuse(events, kEventsKept);
}

void Http2Connection::gather(std::size_t bytes) {
    write_later();
    if (is_over_ || !connection_->writable()) return;
    const bool is_large = bytes > BufferPool::kSmall / 2;
    const std::span<char> room = output_.space(is_large ? BufferPool::kLarge : BufferPool::kSmall);
    if (room.size() < h2::kGatherRoomMin) return;
    gather_into(room);
}

// False: there was nothing.
bool Http2Connection::gather_into(std::span<char> room) {
    const std::size_t bytes = client_->gather(room, context_->deadlines.now(), told_);
    output_.commit(bytes);
    look_at(told_);
    return bytes > 0;
}

// False: nothing more reaches the server.
bool Http2Connection::write() {
    const IoResult written = write_buffer(*connection_, output_, [this] {
        return client_->wants_write() && gather_into(output_.space(BufferPool::kLarge));
    });
    return written.status == IoStatus::ok || written.status == IoStatus::would_block;
}

milliseconds Http2Connection::time_left() const {
    constexpr std::chrono::hours kLong{1};
    const SteadyTime now = context_->deadlines.now();
    const SteadyTime next = std::min(client_->deadline(), now + kLong);
    return std::max(std::chrono::ceil<milliseconds>(next - now), milliseconds{1});
}

bool Http2Connection::has_room() const {
    return !is_leaving() && client_->has_room() && handles_ < client_->requests_max();
}

std::uint32_t Http2Connection::streams_said() const {
    return client_ && client_->has_settings() ? std::max(client_->streams_max(), 1U) : 0;
}

std::uint32_t Http2Connection::list_bytes_said() const {
    return client_ && client_->has_settings() ? client_->list_bytes_max() : UINT32_MAX;
}

bool Http2Connection::attach(Http2Stream& stream) {
    streams_.push_back(stream);
    ++handles_;
    return has_answered_;
}

void Http2Connection::detach(Http2Stream& stream) {
    streams_.erase(streams_.iterator_to(stream));
    --handles_;
    if (is_over_) {
        if (handles_ == 0) client_.reset();
        return;
    }
    if (handles_ == 0) idle_since_ = context_->deadlines.now();
    write_later();
}

void Http2Connection::catch_up() {
    bool has_read = false;
    for (unsigned reads = 0; reads < kReadsInARow; ++reads) {
        if (is_over_ || handles_ > 0 || !connection_->has_spoken()) break;
        has_read = true;
        if (!read() || client_->has_failed() || client_->is_done()) return close();
    }
    if (has_read) write_later();
}

void Http2Connection::rest(SteadyTime now) {
    if (is_over_ || is_resting_ || !client_->is_idle() || now - idle_since_ < kRestAfter) return;
    client_->drop_memory();
    is_resting_ = true;
}

void Http2Connection::close() {
    if (is_over_) return;
    const Http2ConnectionPtr self(this);  // the server's list may hold it last
    end();
}

void Http2Connection::end() {
    is_over_ = true;
    // The GOAWAY says why, if there is room.
    if (connection_->is_open() && !connection_->is_broken()) {
        if (client_->is_idle() && output_.empty()) client_->finish();
        if (output_.empty()) {
            output_.commit(client_->gather(output_.space(), context_->deadlines.now(), told_));
            told_.clear();
        }
        const std::string_view bytes = output_.data();
        const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
        if (!bytes.empty()) connection_->write_some({&part, 1});
        if (connection_->tls() != nullptr) connection_->shutdown_send();
    }
    is_foreign_ = !client_->has_settings() && reads_ > 0 &&
                  (client_->error() != NGHTTP2_NO_ERROR || client_->has_failed());
    connection_->close();
    output_.release();
    context_->metrics.connections.closed.add();
    context_ = nullptr;
    std::exchange(server_, nullptr)->forget(*this);
    for (Http2Stream& stream : streams_) stream.on_end();
    if (handles_ == 0) client_.reset();
    sleeper_.allow_forever();
    sleeper_.wakeup().wake_later();
}

}  // namespace tidegate::upstream
