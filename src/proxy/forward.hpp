// A request's way to its upstream and the answer's way back.
//
// upload.cpp sends the request, forward.cpp chooses a server, connects and tries again, and
// forward_answer.cpp relays the answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ask/charge_list.hpp"
#include "ask/fault.hpp"
#include "balance/choice.hpp"
#include "balance/retry_budget.hpp"
#include "http/head.hpp"
#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"
#include "upstream/pool.hpp"

namespace tidegate::proxy {

using ask::Fault;

// A stream that never has to wait lets others have their turn after so many portions.
inline constexpr unsigned kPortionsATurn = 16;
// The same in bytes, for portions of a pipe: each is what has just come.
inline constexpr std::size_t kBytesATurn = 1'048'576;

// How many bytes of bodies each thread holds at a time. The proxy sends other bodies as they come.
inline constexpr std::uint64_t kHeldBytesMax = std::uint64_t{128} * 1024 * 1024;

// Says how long a request may wait for more of its body: `request_body`, `body_rate` and
// `request_body_total`. The rule is the same for a body that is sent on as it comes and for one
// that is read before the decision. The latter has `request_body` in all while it may keep bodies
// of other clients out of the room for held bodies.
class BodyWait {
  public:
    // `rate` records the waits. Both outlive this.
    BodyWait(const Exchange& exchange, upstream::TransferRate& rate) : x_(exchange), rate_(rate) {}

    // Call when nothing more has come: sets when `sleeper` wakes. False: the time is over.
    bool go_on(Sleeper& sleeper);
    // More has come, or the request waits for the client no longer.
    void end();

  private:
    bool holds_too_long() const;
    bool wait_for_room(Sleeper& sleeper);
    bool wait_for_client(Sleeper& sleeper);

    const Exchange& x_;
    upstream::TransferRate& rate_;
};

// Sends a request to the upstream: its head and what has come of its body in one write, the rest
// beside the answer, in a coroutine of its own. A held body goes with the head, whole.
//
// Part of a Forwarder, which waits until no upload is running. One thread.
class Upload {
  public:
    // `rate` waits while the upstream waits for the client, which may have no room to send.
    Upload(WorkerContext& worker, Exchange& exchange, upstream::TransferRate& rate);

    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    ~Upload() { give_back_held_bytes(); }

    // Whether hold() has to be called before a server is chosen. `may_repeat`: if all of it is
    // held, the request may have to be sent again.
    bool needs_hold(bool may_repeat) const {
        return client_.framing().body != http::BodyKind::none && has_to_hold(may_repeat);
    }
    // Reads the body into memory, up to the upstream's `request_buffer` or the route's `buffer`, so
    // that a client that is slow to send it keeps no connection to a server meanwhile. The rest of
    // a longer body is sent as it comes.
    Task<ask::Fault> hold();
    // The proxy has all of the body, so begin() can send it again.
    bool is_repeatable() const { return client_.is_body_done() && !has_passed_on_; }

    // Sends what there is to the exchange's upstream stream, which stays open until nothing is
    // running. The caller may call it again, with another connection, while is_repeatable(). If
    // everything is sent when it returns, the time for the head of the answer has begun. Without
    // `may_follow`, the caller will not call it again: a held body is freed once it is sent.
    ask::Fault begin(bool may_follow);
    // The request is not sent again: a held body is freed, now or once it is sent.
    void end_attempts();

    // Goes on with the body: the client got the upstream's 100 Continue.
    void go_on();

    bool is_running() const { return state_ == State::running; }
    // The upload waits for the client, and notices by itself if the client leaves. An upload that
    // is running and not reading waits for the upstream.
    bool is_reading() const { return is_reading_; }
    // True once after the coroutine has ended, which wakes the answer's sleeper: from now on the
    // head of the answer may take its time.
    bool take_end() { return std::exchange(has_ended_, false); }
    // The upload has sent everything.
    bool is_complete() const { return state_ == State::idle && client_.is_body_done(); }
    // Why the upload ended early. With upstream_broken, the upstream may have answered anyway.
    ask::Fault fault() const { return fault_; }

    // How long the upstream may take from the whole request to the head of its answer: the route's
    // time, or less if a call of gRPC has less.
    std::chrono::milliseconds response_timeout() const { return response_timeout_; }
    // A call of gRPC has less time than the route gives.
    bool has_callers_deadline() const;

    // Throws what the coroutine has thrown, if it has.
    void rethrow() const;

    // Ends the upload when the answer has come, or will never come. Closes the connection; nothing
    // is running when it returns.
    Task<> end();

  private:
    enum class State : std::uint8_t { idle, running, failed };

    void forget_body();
    void give_back_held_bytes() { worker_.held_bytes -= std::exchange(held_bytes_, 0); }
    bool waits_for_continue() const;
    bool has_to_hold(bool may_repeat) const;
    std::uint64_t hold_bytes_max() const;
    http::BodyBatch take_body(ask::Fault& fault);
    static Task<> run(Upload& self);
    Task<ask::Fault> send_body();
    Task<ask::Fault> splice_body();
    Task<IoStatus> send_rest();
    // Into `pipe` if there is one, else into the stream's buffer.
    Task<ask::Fault> more_of_body(Sleeper& sleeper, SplicePipe* pipe = nullptr);
    ask::Fault why_unsent();

    WorkerContext& worker_;
    Exchange& x_;
    client::Stream& client_;
    Sleeper& answer_sleeper_;  // the coroutine that holds the body and waits for the answer
    const std::chrono::milliseconds response_timeout_;
    upstream::TransferRate& rate_;
    BodyWait wait_;
    std::unique_ptr<http::BodyBatch> batch_;  // what begin() could not send whole
    State state_ = State::idle;
    ask::Fault fault_ = ask::Fault::none;
    bool is_held_ = false;          // the exchange holds the body, or its beginning
    bool may_follow_ = false;       // another attempt may need the body
    std::uint64_t held_bytes_ = 0;  // that the held body may take
    bool cancelled_ = false;
    bool is_reading_ = false;
    bool has_ended_ = false;
    bool may_send_ = false;       // the client does not wait for 100 Continue
    bool has_passed_on_ = false;  // some of the body was sent that is not held, or not any more
    std::exception_ptr failure_;
};

// Forwards one request to one upstream; lives in the frame of forward().
class Forwarder {
  public:
    Forwarder(WorkerContext& worker, Exchange& exchange)
        : worker_(worker),
          x_(exchange),
          client_(*exchange.client),
          sleeper_(client_.sleeper()),
          pool_(*exchange.generation->upstreams[exchange.decision.route->upstream]),
          stream_(exchange.upstream->stream),
          active_(exchange.decision.client, exchange.config().client_ip.prefixes,
                  &Forwarder::on_evicted, this, &Forwarder::answer_bytes),
          upload_(worker, exchange, active_.body),
          retries_left_(pool_.settings().retries),
          connect_left_(pool_.settings().connect_timeout) {
        // The time before the decision counts for the rest of the body, so that one bound holds.
        active_.body = exchange.upstream->body_transfer;
    }
    Forwarder(const Forwarder&) = delete;
    Forwarder& operator=(const Forwarder&) = delete;
    ~Forwarder() {
        end_attempt();
        worker_.held_bytes -= held_bytes_;
    }

    Task<Fault> run();
    // Breaks off after an exception: nothing is running when it returns.
    Task<> break_off();

  private:
    const config::Timeouts& timeouts() const { return x_.config().timeouts; }
    const config::Route& route() const { return *x_.decision.route; }
    http::TrailerBounds trailer_bounds() const {
        const auto& bounds = x_.config().limits_on_requests;
        return {bounds.header_bytes, bounds.headers};
    }
    http::HeadBounds answer_bounds() const;

    // Why a request that got no answer may be sent again.
    enum class RetryReason : std::uint8_t {
        none,
        stale,        // its connection had been idle, and the server may just have closed it
        unprocessed,  // the server has not looked at it: GOAWAY, or it was never sent
        refused,      // the server has too much to do: REFUSED_STREAM
    };
    RetryReason retry_reason(Fault fault) const;
    bool may_send_again(RetryReason reason);
    bool may_need_body_again() const;

    Fault choose();
    // A call of gRPC needs HTTP/2 up to its server.
    bool needs_http2() const { return x_.relay.is_grpc; }
    // Whether the gRPC status of the answer is logged, or counts for a limit.
    bool needs_grpc_status() const {
        return x_.relay.is_grpc || (x_.decision.charge.needs_settling &&
                                    ask::counts_grpc_status(x_.config(), x_.decision));
    }
    void turn_to(upstream::Server& server);
    void turn_elsewhere();
    bool turn_to_untried();
    std::chrono::milliseconds connect_patience() const;
    Fault name_broken();
    void begin_attempt(SteadyTime now);
    void end_attempt();
    bool may_retry();
    Task<Fault> connect();
    Task<Fault> wait_for_seat(upstream::Seat& seat);
    upstream::Pool::Reuse reuse() const;
    void note_outcome(Fault fault);
    Task<Fault> converse();
    void read_what_came_ahead();
    bool may_read_on(Fault fault) const;
    Task<> read_on();
    Task<bool> read_head_on(SteadyTime last);
    Task<bool> sleep_on(SteadyTime last);
    Task<Fault> relay_interim();
    Task<Fault> accept_switch();
    void note_answered();
    bool may_end_with_grpc_status() const;
    void note_grpc_status();
    Task<Fault> relay_answer();
    bool may_splice();
    Task<Fault> splice_answer();
    // Into `pipe` if there is one, else into the stream's buffer.
    Task<Fault> more_of_answer(SplicePipe* pipe = nullptr);
    // Sends what the client has not taken yet; `batch`, where that is part of the answer.
    Task<Fault> send_rest(const http::BodyBatch* batch = nullptr);
    void give_back_early(const http::BodyBatch& batch);
    void finish();
    static void on_evicted(void* self);
    static std::uint64_t answer_bytes(const void* self);

    bool client_has_left();
    bool client_has_left_unsent();
    Fault unsent(IoStatus status) const;

    WorkerContext& worker_;
    Exchange& x_;
    client::Stream& client_;
    Sleeper& sleeper_;
    upstream::Pool& pool_;
    upstream::Stream& stream_;
    upstream::ActiveRequest active_;
    Upload upload_;
    std::optional<std::uint64_t> key_;    // the hash by which a server is chosen
    upstream::Server* server_ = nullptr;  // where the request goes; the relay holds a reference
    bool is_in_flight_ = false;           // the server counts the request
    upstream::Seat seat_;                 // for a new connection after one that failed
    std::optional<balance::RetryBudget::Retry> retry_;
    balance::Tried unreachable_;              // servers that could not be reached
    int retries_left_;                        // how many other servers may follow those
    std::chrono::milliseconds connect_left_;  // for all failed attempts to connect together
    int unprocessed_ = 0;                     // how often RetryReason::unprocessed was the reason
    bool is_repeatable_ = false;  // the request does no harm twice, and the proxy has all of it
    bool was_stale_ = false;
    bool was_refused_ = false;
    bool needs_fresh_ = false;  // a connection on which nothing was answered yet
    SteadyTime sent_{};
    int interim_answers_ = 0;
    // For an answer whose connection went back to the pool before the client has all of it.
    std::uint64_t held_bytes_ = 0;  // of kHeldBytesMax
    struct KeptTrailers {
        std::string text;
        http::Fields fields;  // they view `text`
    };
    std::unique_ptr<KeptTrailers> kept_trailers_;
};

// Sends the request on and relays the answer, both bodies at once. If the answer accepts a
// WebSocket, sets exchange.tunnel, which run_tunnel() then serves. Sets exchange.decision.fault if
// forwarding failed: with exchange.relay.status still 0, the client has seen nothing and can be
// answered; else it has part of an answer, and the connection must be broken off.
Task<> forward(WorkerContext& worker, Exchange& exchange);

}  // namespace tidegate::proxy
