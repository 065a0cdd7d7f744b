#include "client/http2_connection.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <random>
#include <utility>

#include "base/text.hpp"
#include "client/connection.hpp"
#include "net/transfer.hpp"

namespace tidegate::client {

namespace {

using std::chrono::milliseconds;

// What is here already is served without waiting; after so many reads, other connections go first.
constexpr unsigned kStepsInARow = 8;
// A client that asks again and again must not cost the giving back of memory, which it then takes
// again, each time.
constexpr std::chrono::seconds kRestAfter{1};
// Room for so many events stays: a read of nothing but small frames makes thousands of them, and a
// connection without requests must not hold more than one that serves many.
constexpr std::size_t kEventsKept = 64;

// Up to a fifth more, so that connections that were opened together do not end together.
milliseconds spread(milliseconds time) {
    thread_local std::minstd_rand random{std::random_device{}()};
    return time +
           milliseconds{std::uniform_int_distribution<std::int64_t>(0, time.count() / 5)(random)};
}

std::optional<IpAddress> counted(const std::optional<IpAddress>& address,
                                 const config::Config& config) {
    if (!address) return std::nullopt;
    return config.client_ip.prefixes.widest(*address);
}

}  // namespace

Http2Connection::Http2Connection(ConnectionContext& context, ConnectionPtr connection,
                                 const Arrival& arrival, std::string_view begun)
    : context_(context),
      link_{.clock = context.deadlines,
            .server = {context.http2.settings,
                       {.is_https = arrival.is_https, .any_scheme = arrival.peer.trusted},
                       context.http2.streams,
                       context.deadlines.now()},
            .connection = std::move(connection),
            .output = Buffer(context.buffers),
            .events = {},
            .bodies = context.http2.bodies,
            .address = counted(arrival.peer.address, *context.config),
            .sleeper = {context.executor, context.deadlines},
            .arrival = arrival,
            .is_draining = context.is_draining},
      now_(context.deadlines.now()),
      idle_since_(now_) {
    link_.connection->forget_sleepers();
    context_.connections.push_back(*this);
    context_.metrics.connections.opened.add();
    if (link_.is_draining) link_.server.drain(now_);
    if (context_.http2.connection_time.count() > 0) {
        drained_at_ = now_ + spread(context_.http2.connection_time);
    }
    receive(begun);
}

Http2Connection::~Http2Connection() {
    link_.connection->close();
    context_.metrics.connections.closed.add();
}

Task<> Http2Connection::run(std::unique_ptr<Http2Connection> self) {
    Next next = Next::reset;
    std::exception_ptr failure;
    try {
        next = co_await self->go_on();
    } catch (...) {
        failure = std::current_exception();
    }
    self->count_end();
    Connection& connection = *self->link_.connection;
    if (next == Next::reset) connection.reset();
    co_await self->end_streams();
    if (failure) std::rethrow_exception(failure);
    if (next == Next::reset) co_return;
    co_await linger(connection, self->link_.sleeper, self->context_.buffers,
                    self->context_.config->timeouts.client_write, self->link_.is_cut_off);
}

// Until the connection is to be closed, or reset.
Task<Http2Connection::Next> Http2Connection::go_on() {
    Connection& connection = *link_.connection;
    Sleeper& sleeper = link_.sleeper;
    for (unsigned steps = 1;; ++steps) {
        const Next next = step();
        if (next == Next::step) {
            if (steps % kStepsInARow == 0) co_await sleeper.yield();
        } else if (next == Next::sleep) {
            sleeper.allow(time_left());
            connection.watch_read(&sleeper.wakeup());
            connection.watch_write(connection.writable() ? nullptr : &sleeper.wakeup());
            co_await sleeper.sleep();
        } else {
            co_return next;
        }
    }
}

void Http2Connection::on_drain() {
    link_.server.drain(link_.clock.now());
    link_.write_later();
    // Each tunnel sees that the worker drains.
    for (Http2Stream& stream : streams_) {
        if (stream.is_tunnel()) stream.on_end();
    }
}

void Http2Connection::cut_off() {
    link_.is_cut_off = true;
    link_.connection->reset();
    link_.write_later();
    for (Http2Stream& stream : streams_) stream.on_end();
}

bool Http2Connection::cut_requests() {
    const bool has_tunnel = std::any_of(streams_.begin(), streams_.end(),
                                        [](const Http2Stream& one) { return one.is_tunnel(); });
    if (!has_tunnel) {
        cut_off();
        return true;
    }
    link_.server.finish();
    return cut(false);
}

bool Http2Connection::cut_tunnels() {
    return cut(true);
}

// One kind of streams: those of the other end by themselves, and so the connection.
bool Http2Connection::cut(bool tunnels) {
    bool has_any = false;
    for (Http2Stream& stream : streams_) {
        if (stream.is_tunnel() != tunnels) continue;
        stream.cut_off();
        has_any = true;
    }
    link_.write_later();
    return has_any;
}

bool Http2Connection::is_evictable() const {
    const bool has_sent_all = link_.output.empty() && !link_.server.wants_write();
    return streams_.empty() && has_sent_all && !link_.is_cut_off;
}

Http2Connection::Next Http2Connection::step() {
    now_ = link_.clock.now();
    if (link_.is_cut_off) return Next::reset;
    Connection& connection = *link_.connection;
    bool is_open = true;
    if (connection.readable() && link_.output.empty()) is_open = read();
    begin_requests();
    look_at_times();
    if (!write()) return Next::reset;
    if (link_.is_cut_off) return Next::reset;
    if (!is_open || is_over()) return Next::close;
    const bool may_read = connection.readable() && link_.output.empty();
    return may_read ? Next::step : Next::sleep;
}

// Neither side has anything to send any more. Bytes that have been gathered and not written may be
// the end of an answer.
bool Http2Connection::is_over() const {
    return link_.server.has_failed() || (link_.server.is_done() && link_.output.empty());
}

// False: the client has closed, or reset.
bool Http2Connection::read() {
    return read_block(*link_.connection, context_.buffers,
                      [this](std::string_view bytes) { receive(bytes); });
}

// No stream's coroutine runs meanwhile: what it gathers would end what the events look at. So a
// request gets with its head the part of its body that has come.
void Http2Connection::receive(std::string_view bytes) {
    if (bytes.empty()) return;
    is_resting_ = false;
    link_.server.receive(bytes, now_, input_);
    for (const h2::ServerEvent& event : input_) look_at(event);
    clear_for_reuse(input_, kEventsKept);
}

void Http2Connection::look_at(const h2::ServerEvent& event) {
    using Kind = h2::ServerEvent::Kind;
    if (event.kind == Kind::refused) return context_.metrics.http2_streams_refused.add();
    if (event.kind == Kind::head || event.kind == Kind::malformed) {
        begun_.push_back(context_.http2.take(link_, event.stream));
        return;
    }
    if (event.stream->owner == nullptr) return;
    Http2Stream& stream = *static_cast<Http2Stream*>(event.stream->owner);
    switch (event.kind) {
        case Kind::body:
            if (stream.add_bytes(event.bytes)) break;
            link_.server.reset(*event.stream, NGHTTP2_ENHANCE_YOUR_CALM);
            stream.on_end();
            break;
        case Kind::end:
            stream.on_input();
            break;
        case Kind::drained:
            stream.on_drained();
            break;
        default:
            if (event.malformed != h2::Malformed::none) stream.note_malformed();
            stream.on_end();
    }
}

void Http2Connection::begin_requests() {
    // A request may end, and another one's answer be gathered, before the next one begins.
    for (std::unique_ptr<Http2Stream>& stream : begun_) {
        streams_.push_back(*stream);
        const auto& tell_failure = context_.tell_failure;
        spawn(context_.executor, serve(std::move(stream)),
              [&tell_failure](const std::exception_ptr& failure) {
                  if (failure) tell_failure(failure);
              });
    }
    clear_for_reuse(begun_, kEventsKept);
}

Task<> Http2Connection::serve(std::unique_ptr<Http2Stream> stream) {
    std::exception_ptr failure;
    try {
        Stream request(*stream);
        co_await context_.serve(context_.server, request);
    } catch (...) {
        failure = std::current_exception();
    }
    stream->finish(failure != nullptr);
    streams_.erase(streams_.iterator_to(*stream));
    context_.http2.give_back(std::move(stream));
    if (streams_.empty()) idle_since_ = link_.clock.now();
    if (failure) std::rethrow_exception(failure);
}

// False: nothing more reaches the client.
bool Http2Connection::write() {
    const IoResult written = write_buffer(*link_.connection, link_.output, [this] {
        return link_.server.wants_write() &&
               link_.gather_into(link_.output.space(BufferPool::kLarge), now_);
    });
    written_ += written.bytes;
    if (written.status != IoStatus::ok && written.status != IoStatus::would_block) return false;
    note_blocked(!link_.output.empty());
    return true;
}

void Http2Connection::note_blocked(bool is_blocked) {
    if (std::exchange(is_blocked_, is_blocked) == is_blocked) return;
    if (!is_blocked) {
        pace_.end_wait(now_);
        if (!link_.server.wants_write()) pace_.restart();
        return;
    }
    const std::int64_t before = taken();
    pace_.begin_wait(now_, before);
    pace_due_ = now_ + pace_.time_left(context_.config->timeouts.client_write, now_, before);
}

std::int64_t Http2Connection::taken() const {
    return static_cast<std::int64_t>(written_) -
           static_cast<std::int64_t>(link_.connection->queued_bytes());
}

void Http2Connection::look_at_times() {
    const config::Timeouts& timeouts = context_.config->timeouts;
    if (now_ >= link_.server.deadline()) {
        link_.server.tick(now_, link_.events);
        link_.tell_streams();
    }
    if (is_blocked_ && now_ >= pace_due_) {
        const milliseconds left = pace_.time_left(timeouts.client_write, now_, taken());
        pace_due_ = now_ + left;
        if (left.count() <= 0) {
            context_.metrics.http2_ended[Http2End::not_reading].add();
            cut_off();
        }
    }
    if (streams_.empty() && !link_.server.is_draining() &&
        now_ - idle_since_ >= timeouts.client_idle) {
        context_.metrics.idle_closed.add();
        link_.server.finish();
    }
    if (now_ >= drained_at_) {
        drained_at_ = SteadyTime::max();
        link_.server.drain(now_);
    }
    if (!is_resting_ && streams_.empty() && link_.server.is_idle() &&
        now_ - idle_since_ >= kRestAfter) {
        link_.server.drop_memory();
        is_resting_ = true;
    }
    if (is_left_open() && now_ - idle_since_ >= timeouts.client_idle + timeouts.client_write) {
        context_.metrics.http2_ended[Http2End::not_reading].add();
        cut_off();
    }
}

// All requests have been served, and no more will be; but the client has no window open for the end
// of an answer.
bool Http2Connection::is_left_open() const {
    return streams_.empty() && link_.server.is_draining() && link_.output.empty();
}

milliseconds Http2Connection::time_left() const {
    const config::Timeouts& timeouts = context_.config->timeouts;
    SteadyTime next = link_.server.deadline();
    if (is_blocked_) next = std::min(next, pace_due_);
    if (streams_.empty() && !link_.server.is_draining()) {
        next = std::min(next, idle_since_ + timeouts.client_idle);
    }
    if (streams_.empty() && !is_resting_ && link_.server.is_idle()) {
        next = std::min(next, idle_since_ + kRestAfter);
    }
    if (is_left_open()) {
        next = std::min(next, idle_since_ + timeouts.client_idle + timeouts.client_write);
    }
    next = std::min(next, drained_at_);
    constexpr std::chrono::hours kLong{1};
    next = std::min(next, now_ + kLong);
    return std::max(std::chrono::ceil<milliseconds>(next - link_.clock.now()), milliseconds{1});
}

// Where the client is at fault.
void Http2Connection::count_end() {
    const h2::ServerSession& server = link_.server;
    if (server.error() == NGHTTP2_NO_ERROR) return;
    Http2End why = Http2End::protocol_error;
    if (server.is_abused()) why = Http2End::abuse;
    if (server.is_head_late()) why = Http2End::head_timeout;
    if (server.error() == NGHTTP2_SETTINGS_TIMEOUT) why = Http2End::settings_timeout;
    context_.metrics.http2_ended[why].add();
}

// Their client is gone.
Task<> Http2Connection::end_streams() {
    link_.is_over = true;
    // An exception has left them without a coroutine.
    for (const std::unique_ptr<Http2Stream>& stream : begun_) {
        if (stream) stream->finish(true);
    }
    begun_.clear();
    for (Http2Stream& stream : streams_) stream.on_end();
    link_.sleeper.allow_forever();
    while (!streams_.empty()) co_await link_.sleeper.sleep();
}

}  // namespace tidegate::client
