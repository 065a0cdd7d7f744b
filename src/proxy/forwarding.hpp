// One request on its way to its upstream: what forward.cpp (attempts to send it),
// forward_server.cpp (choosing a server, waiting for a connection to it) and forward_answer.cpp
// (relaying the answer) share.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ask/charge_list.hpp"
#include "ask/fault.hpp"
#include "balance/choice.hpp"
#include "balance/retry_budget.hpp"
#include "http/head.hpp"
#include "proxy/exchange.hpp"
#include "proxy/upload.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

using ask::Fault;

// One request and one upstream; lives in the frame of forward().
class Forwarding {
  public:
    Forwarding(WorkerContext& worker, Exchange& exchange)
        : worker_(worker),
          x_(exchange),
          client_(*exchange.client),
          sleeper_(client_.sleeper()),
          pool_(*exchange.generation->upstreams[exchange.decision.route->upstream]),
          stream_(exchange.upstream->stream),
          active_(exchange.decision.client, exchange.config().client_ip.prefixes,
                  &Forwarding::on_evicted, this, &Forwarding::answer_bytes),
          upload_(worker, exchange, active_.body),
          retries_left_(pool_.settings().retries),
          connect_left_(pool_.settings().connect_timeout) {}
    Forwarding(const Forwarding&) = delete;
    Forwarding& operator=(const Forwarding&) = delete;
    ~Forwarding() {
        end_attempt();
        worker_.held_bytes -= held_bytes_;
    }

    Task<Fault> run();
    // After an exception: nothing is running when it returns.
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
    enum class Again : std::uint8_t {
        no,
        stale,        // its connection was a kept one, which the server may just have closed
        unprocessed,  // the server says that it has not looked at it: GOAWAY, or it was never sent
        refused,      // the same, by REFUSED_STREAM: the server has too much to do
    };
    Again why_again(Fault fault) const;
    // `repeatable`: the request does no harm twice, and is whole at hand.
    bool may_go_again(Again why, bool repeatable);

    Fault choose();
    // A call of gRPC needs HTTP/2 up to its server.
    bool needs_http2() const { return x_.relay.is_grpc; }
    // The status of gRPC in the answer is logged, or counts for a limit.
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
    void note_outcome(Fault fault);
    Task<Fault> converse();
    Task<Fault> relay_interim();
    Task<Fault> accept_switch();
    void note_answered();
    bool may_end_with_grpc_status() const;
    void note_grpc_status();
    Task<Fault> relay_answer();
    Task<Fault> splice_answer();
    // Into `pipe` if there is one, else into the stream's buffer.
    Task<Fault> more_of_answer(SplicePipe* pipe = nullptr);
    // Of `batch`, where it is part of the answer.
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
    std::optional<std::uint64_t> key_;    // that the server is chosen by
    upstream::Server* server_ = nullptr;  // the one whose turn it is; the relay holds it
    bool is_in_flight_ = false;           // there, and counted
    upstream::Seat seat_;                 // of a connection that is to be made anew
    std::optional<balance::RetryBudget::Retry> retry_;
    balance::Tried unreachable_;              // servers that could not be reached
    int retries_left_;                        // turns to other servers after those
    std::chrono::milliseconds connect_left_;  // for failed attempts to connect, all together
    int unprocessed_ = 0;                     // how often Again::unprocessed was the reason
    bool was_stale_ = false;
    bool was_refused_ = false;
    bool needs_fresh_ = false;  // a connection on which nothing was answered yet
    SteadyTime sent_{};
    int interim_answers_ = 0;
    // Of an answer whose connection was given back before the client has the answer.
    std::uint64_t held_bytes_ = 0;  // of those that the thread may hold
    struct KeptTrailers {
        std::string text;
        http::Fields fields;  // they look at `text`
    };
    std::unique_ptr<KeptTrailers> kept_trailers_;
};

}  // namespace tidegate::proxy
