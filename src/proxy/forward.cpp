#include "proxy/forward.hpp"

#include <algorithm>
#include <utility>

#include "proxy/heads.hpp"

namespace tidegate::proxy {

namespace {

using http::BodyBatch;
using http::BodyKind;

// A stream that never has to wait lets others have their turn after so many portions.
constexpr unsigned kPortionsATurn = 16;
// Interim answers to one request; each begins the time for the answer anew, which has to end.
constexpr int kInterimMax = 100;

SteadyTime now() {
    return std::chrono::steady_clock::now();
}

// RFC 9110 section 9.2.2.
bool is_idempotent(std::string_view method) {
    return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
           method == "OPTIONS" || method == "TRACE";
}

// One request and one upstream; lives in the frame of forward().
class Forwarding {
  public:
    Forwarding(WorkerContext& worker, Http1Client& client, Sleeper& sleeper, Exchange& exchange)
        : worker_(worker),
          client_(client),
          sleeper_(sleeper),
          x_(exchange),
          pool_(*worker.upstreams[exchange.route->upstream]) {}

    Task<Fault> run();

  private:
    // The upload runs beside the answer, in a coroutine of its own.
    enum class Upload : std::uint8_t { none, running, done, failed };

    const config::Timeouts& timeouts() const { return worker_.config->timeouts; }
    http::TrailerBounds trailer_bounds() const {
        const auto& bounds = worker_.config->limits_on_requests;
        return {bounds.header_bytes, bounds.headers};
    }
    http::HeadBounds answer_bounds() const;

    Task<Fault> connect(UpstreamServer& server);
    Fault begin_request();
    void fill_upload_outbox(const BodyBatch& batch);
    Task<Fault> converse();
    Task<Fault> relay_interim(std::size_t head_bytes);
    Task<Fault> relay_answer(std::size_t head_bytes);
    IoStatus send_answer(BodyKind outgoing, const BodyBatch& batch);
    Task<Fault> more_of_answer();
    void finish();

    enum class Read : std::uint8_t { got, nothing, end, broken };
    Read read_answer();
    bool client_has_left();
    bool body_is_sent() const {
        return (upload_ == Upload::none || upload_ == Upload::done) && x_.body.done();
    }
    BodyBatch take_body(Fault& fault);

    static Task<> upload(Forwarding& self);
    Task<Fault> upload_body();
    Task<Fault> more_of_body();
    Task<> end_upload();

    WorkerContext& worker_;
    Http1Client& client_;
    Sleeper& sleeper_;
    Exchange& x_;
    UpstreamPool& pool_;
    UpstreamLease lease_;
    http::HeadScanner scanner_;
    SteadyTime sent_{};
    Upload upload_ = Upload::none;
    BodyBatch upload_batch_;  // what begin_request() could not send whole
    Fault upload_fault_ = Fault::none;
    bool upload_cancelled_ = false;
    int interim_answers_ = 0;
    bool answer_began_ = false;   // a byte of it has come
    bool may_hold_more_ = false;  // the last read took all there was room for
};

http::HeadBounds Forwarding::answer_bounds() const {
    const auto& bounds = worker_.config->limits_on_requests;
    return {bounds.header_bytes, bounds.headers, bounds.header_bytes};
}

Task<Fault> Forwarding::run() {
    // A connection that was idle may have been closed under us just now. What was never answered
    // and does no harm twice is sent again, once, on a fresh connection.
    const bool repeatable = x_.framing.body == BodyKind::none && is_idempotent(x_.request.method);
    UpstreamServer* server = &pool_.next_server();
    lease_ = pool_.take_idle(*server);
    for (bool first = true;; first = false) {
        Fault fault = Fault::none;
        if (!lease_) fault = co_await connect(*server);
        if (fault != Fault::none) co_return fault;
        const bool reused = lease_.reused;
        server = lease_.server;
        x_.upstream_address = server->address();
        fault = begin_request();
        if (fault == Fault::none) fault = co_await converse();
        if (upload_ == Upload::running) co_await end_upload();
        if (fault == Fault::none) {
            finish();
            co_return fault;
        }
        pool_.throw_away(lease_);
        const bool stale = reused && fault == Fault::upstream_broken && !answer_began_;
        if (!stale || !repeatable || !first) {
            if (traits(fault).outcome == telemetry::Outcome::failed) {
                worker_.metrics.count_upstream_failure(pool_.index());
            }
            co_return fault;
        }
        x_.answer_buffer.release();
        scanner_.reset();
    }
}

// Nothing has been sent to a server that was never reached: any request may try the next.
Task<Fault> Forwarding::connect(UpstreamServer& server) {
    UpstreamServer* tried = &server;
    for (int retries = pool_.settings().retries;; --retries) {
        x_.upstream_address = tried->address();
        switch (co_await pool_.connect(*tried, sleeper_, lease_)) {
            case UpstreamPool::ConnectFault::none:
                co_return Fault::none;
            case UpstreamPool::ConnectFault::exhausted:
                co_return Fault::upstream_exhausted;
            case UpstreamPool::ConnectFault::unreachable:
                break;
        }
        if (retries <= 0 || !pool_.has_another_way(*tried)) co_return Fault::upstream_unreachable;
        tried = &pool_.next_server(tried);
    }
}

// What of the body is there, held to its bound.
BodyBatch Forwarding::take_body(Fault& fault) {
    BodyBatch batch = client_.take_body(x_, trailer_bounds());
    x_.bytes_received += batch.content_bytes;
    // What is announced counts, so that it need not arrive first.
    const std::uint64_t bound = worker_.config->limits_on_requests.body_bytes;
    if (x_.bytes_received > bound || x_.body.announced() > bound - x_.bytes_received) {
        fault = Fault::body_too_large;
    } else if (batch.bad) {
        fault = Fault::bad_body;
    }
    if (batch.done) filter_request_trailers(worker_, x_.body.trailers());
    return batch;
}

// Head and what is there of the body leave in one write; the rest follows beside the answer.
Fault Forwarding::begin_request() {
    Fault fault = Fault::none;
    BodyBatch batch;
    if (x_.framing.body != BodyKind::none) batch = take_body(fault);
    if (fault != Fault::none) return fault;
    x_.upload_head.clear();
    append_request_head(worker_, client_, x_, lease_.server->authority(), x_.upload_head);
    x_.upload_outbox.clear();
    fill_upload_outbox(batch);
    sent_ = now();
    const IoStatus status = x_.upload_outbox.flush(*lease_.connection);
    if (status != IoStatus::would_block) {
        // Sent or lost: the client's next request begins behind it.
        client_.drop_body(batch);
        batch = {};
        if (status != IoStatus::ok) return Fault::upstream_broken;
        if (x_.body.done()) {
            sleeper_.allow(pool_.settings().response_timeout);
            return Fault::none;
        }
    }
    // The upload ends what this write began, then goes on.
    upload_batch_ = batch;
    sleeper_.allow_forever();
    upload_ = Upload::running;
    asio::co_spawn(worker_.executor, upload(*this), asio::detached);
    return Fault::none;
}

// `upload_head` goes before the batch: the request's head, or nothing.
void Forwarding::fill_upload_outbox(const BodyBatch& batch) {
    x_.upload_tail.clear();
    http::append_batch_prefix(x_.framing.body, batch, x_.upload_head);
    http::append_batch_suffix(x_.framing.body, batch, x_.body.trailers(), x_.upload_tail);
    x_.upload_outbox.add(x_.upload_head);
    for (const std::string_view piece : batch.view()) x_.upload_outbox.add(piece);
    x_.upload_outbox.add(x_.upload_tail);
}

Task<Fault> Forwarding::converse() {
    for (;;) {
        const std::size_t head_bytes = scanner_.scan(x_.answer_buffer.data(), answer_bounds());
        if (scanner_.fault() != http::HeadFault::none) co_return Fault::upstream_broken;
        if (head_bytes != 0) {
            if (http::parse_response_head(x_.answer_buffer.data().substr(0, head_bytes),
                                          answer_bounds(), x_.answer) != http::HeadFault::none ||
                http::response_framing(x_.answer, x_.request.method == "HEAD", x_.answer_framing) !=
                    http::FramingFault::none ||
                x_.answer.status == 101) {
                co_return Fault::upstream_broken;  // no upgrade was asked for
            }
            if (x_.answer.status >= 200) co_return co_await relay_answer(head_bytes);
            const Fault fault = co_await relay_interim(head_bytes);
            if (fault != Fault::none) co_return fault;
            continue;
        }
        switch (read_answer()) {
            case Read::got:
                continue;
            case Read::end:
            case Read::broken:
                co_return Fault::upstream_broken;
            case Read::nothing:
                break;
        }
        if (upload_ == Upload::failed && upload_fault_ != Fault::upstream_broken) {
            co_return upload_fault_;
        }
        if (client_has_left()) co_return Fault::client_left;
        if (sleeper_.expired()) co_return Fault::upstream_timeout;
        co_await sleeper_.sleep();
    }
}

Forwarding::Read Forwarding::read_answer() {
    Connection& connection = *lease_.connection;
    if (!connection.readable()) {
        connection.watch_read(&sleeper_.wakeup());
        return Read::nothing;
    }
    if (x_.answer_buffer.space().empty()) {
        x_.answer_buffer.make_room(x_.answer_buffer.size() < x_.answer_buffer.capacity()
                                       ? x_.answer_buffer.capacity()
                                       : x_.answer_buffer.capacity() * 2);
    }
    const std::span<char> space = x_.answer_buffer.space();
    const IoResult read = connection.read_some(space);
    switch (read.status) {
        case IoStatus::ok:
            x_.answer_buffer.commit(read.bytes);
            answer_began_ = true;
            may_hold_more_ = read.bytes == space.size();
            return Read::got;
        case IoStatus::would_block:
            connection.watch_read(&sleeper_.wakeup());
            return Read::nothing;
        case IoStatus::end:
            return Read::end;
        case IoStatus::failed:
            break;
    }
    return Read::broken;
}

// Reads only while nothing else does: the upload finds out by itself.
bool Forwarding::client_has_left() {
    if (!client_.connection().is_open()) return true;  // the session was cut off
    if (upload_ == Upload::running) return false;
    client_.connection().watch_read(&sleeper_.wakeup());
    if (!client_.connection().readable()) return false;
    // What came belongs to the next request, which will look for it.
    const IoStatus status = client_.read_ahead();
    return status == IoStatus::end || status == IoStatus::failed;
}

// RFC 9110 section 15.2: passed on, but never to a client of HTTP/1.0.
Task<Fault> Forwarding::relay_interim(std::size_t head_bytes) {
    Fault fault = Fault::none;
    if (++interim_answers_ > kInterimMax) co_return Fault::upstream_broken;
    if (x_.request.minor_version == 1) {
        x_.head.clear();
        append_interim_head(x_.answer, x_.head);
        x_.outbox.clear();
        x_.outbox.add(x_.head);
        if (co_await x_.outbox.flush_all(client_.connection(), sleeper_, timeouts().client_write) !=
            IoStatus::ok) {
            fault = Fault::client_left;
        }
        if (upload_ != Upload::running) sleeper_.allow(pool_.settings().response_timeout);
    }
    x_.answer_buffer.consume(head_bytes);
    scanner_.reset();
    co_return fault;
}

Task<Fault> Forwarding::relay_answer(std::size_t head_bytes) {
    x_.upstream_time = now() - sent_;
    worker_.metrics.count_upstream(pool_.index(), x_.upstream_time);
    x_.answer_body.start(x_.answer_framing);
    const BodyKind outgoing = Http1Client::outgoing(x_, x_.answer_framing.body);
    // A body that is still coming in could not be told from the next request.
    x_.keep_alive =
        x_.keep_alive && outgoing != BodyKind::until_close && !worker_.draining && body_is_sent();
    x_.head.clear();
    append_answer_head(worker_, x_, outgoing, x_.head);
    std::size_t consumed = head_bytes;
    for (unsigned portions = 1;; ++portions) {
        const BodyBatch batch =
            x_.answer_body.take(x_.answer_buffer.data().substr(consumed), trailer_bounds());
        if (batch.bad && x_.status == 0) co_return Fault::upstream_broken;
        x_.status = x_.answer.status;  // from here on the client has seen something
        IoStatus status = send_answer(outgoing, batch);
        if (status == IoStatus::would_block) {
            status = co_await x_.outbox.flush_all(client_.connection(), sleeper_,
                                                  timeouts().client_write);
        }
        if (status != IoStatus::ok) co_return Fault::client_left;
        x_.head.clear();
        x_.bytes_sent += batch.content_bytes;
        x_.answer_buffer.consume(consumed + batch.consumed);
        consumed = 0;
        if (batch.bad) co_return Fault::answer_cut_off;
        if (batch.done) co_return Fault::none;
        if (portions % kPortionsATurn == 0) co_await sleeper_.step_aside();
        if (batch.count == BodyBatch::kPiecesMax) continue;  // there may be more in the buffer
        const Fault fault = co_await more_of_answer();
        if (fault != Fault::none) co_return fault;
    }
}

// One write for whatever there is: head, pieces and what frames them.
IoStatus Forwarding::send_answer(BodyKind outgoing, const BodyBatch& batch) {
    x_.tail.clear();
    http::append_batch_prefix(outgoing, batch, x_.head);
    http::append_batch_suffix(outgoing, batch, x_.answer_body.trailers(), x_.tail);
    x_.outbox.clear();
    x_.outbox.add(x_.head);
    for (const std::string_view piece : batch.view()) x_.outbox.add(piece);
    x_.outbox.add(x_.tail);
    return x_.outbox.flush(client_.connection());
}

Task<Fault> Forwarding::more_of_answer() {
    // A body that goes on is read in large portions; the head's views are not needed any more.
    if (x_.answer_buffer.empty() && x_.answer_body.left() > BufferPool::kSmall) {
        if (x_.answer_buffer.capacity() < BufferPool::kLarge) x_.answer_buffer.release();
        x_.answer_buffer.space(BufferPool::kLarge);
    }
    sleeper_.allow(pool_.settings().response_timeout);
    for (;;) {
        switch (read_answer()) {
            case Read::got:
                co_return Fault::none;
            case Read::end:
                co_return x_.answer_body.end_of_input() ? Fault::none : Fault::answer_cut_off;
            case Read::broken:  // a reset ends no body, not even one that only the end delimits
                co_return Fault::answer_cut_off;
            case Read::nothing:
                break;
        }
        if (client_has_left()) co_return Fault::client_left;
        if (sleeper_.expired()) co_return Fault::answer_cut_off;
        co_await sleeper_.sleep();
    }
}

Task<> Forwarding::upload(Forwarding& self) {
    self.upload_fault_ = co_await self.upload_body();
    self.upload_ = self.upload_fault_ == Fault::none ? Upload::done : Upload::failed;
    // The exchange may be gone before the client's connection is.
    self.client_.connection().watch_read(nullptr);
    self.sleeper_.allow(self.pool_.settings().response_timeout);
    self.sleeper_.wakeup().wake_later();
}

Task<Fault> Forwarding::upload_body() {
    BodyBatch batch = upload_batch_;
    for (unsigned portions = 1;; ++portions) {
        const IoStatus status = co_await x_.upload_outbox.flush_all(
            *lease_.connection, x_.upload_sleeper, pool_.settings().response_timeout);
        // Sent or lost: the client's next request begins behind it.
        client_.drop_body(batch);
        // It may have answered all the same, and then it is the answer that counts.
        if (status != IoStatus::ok) co_return Fault::upstream_broken;
        if (x_.body.done()) co_return Fault::none;
        if (portions % kPortionsATurn == 0) co_await x_.upload_sleeper.step_aside();
        for (;;) {
            Fault fault = Fault::none;
            batch = take_body(fault);
            if (fault != Fault::none) co_return fault;
            if (batch.count > 0 || batch.done) break;
            client_.drop_body(batch);
            fault = co_await more_of_body();
            if (fault != Fault::none) co_return fault;
        }
        x_.upload_head.clear();
        fill_upload_outbox(batch);
    }
}

Task<Fault> Forwarding::more_of_body() {
    Connection& connection = client_.connection();
    x_.upload_sleeper.allow(timeouts().request_body);
    for (;;) {
        if (upload_cancelled_) co_return Fault::client_left;
        if (connection.readable()) {
            const IoStatus status = client_.read_body(x_);
            if (status == IoStatus::ok) co_return Fault::none;
            if (status == IoStatus::failed && client_.body_is_stuck()) co_return Fault::bad_body;
            if (status != IoStatus::would_block) co_return Fault::client_left;
        }
        connection.watch_read(&x_.upload_sleeper.wakeup());
        if (x_.upload_sleeper.expired()) co_return Fault::body_timeout;
        co_await x_.upload_sleeper.sleep();
    }
}

// The answer is there, or never will be: nobody needs the rest of the body.
Task<> Forwarding::end_upload() {
    upload_cancelled_ = true;
    lease_.connection->close();
    x_.upload_sleeper.wakeup().wake_later();
    while (upload_ == Upload::running) co_await sleeper_.sleep();
}

void Forwarding::finish() {
    // Bytes behind the answer were not asked for, and a body cut short leaves the connection
    // somewhere inside it.
    const bool clean = x_.answer_framing.keep_alive && x_.answer_buffer.empty() &&
                       !may_hold_more_ && body_is_sent();
    if (clean) {
        pool_.give_back(lease_);
    } else {
        pool_.throw_away(lease_);
    }
}

}  // namespace

Task<> forward(WorkerContext& worker, Http1Client& client, Sleeper& sleeper, Exchange& exchange) {
    Forwarding forwarding(worker, client, sleeper, exchange);
    exchange.fault = co_await forwarding.run();
}

}  // namespace tidegate::proxy
