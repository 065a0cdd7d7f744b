// One request that the proxy serves, with the configuration that it began with. Its parts have an
// owner each: what the engine gets and decides (ask), what the codecs of both sides write with, and
// what is relayed and recorded.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"
#include "client/stream.hpp"
#include "net/deadline.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"
#include "proxy/answer_cost.hpp"
#include "proxy/held_bodies.hpp"
#include "proxy/identity_and_trailer_fields.hpp"
#include "proxy/metrics.hpp"
#include "proxy/request_trace.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/trace_queue.hpp"
#include "upstream/http1_stream.hpp"
#include "upstream/pool.hpp"
#include "upstream/server.hpp"
#include "upstream/stream.hpp"

namespace tidegate::proxy {

// One configuration as one worker serves it: the rules that the engine decides by, and what
// forwarding and the log need.
//
// A request holds the generation that it began with until it has ended; the worker holds the one
// that the next request begins with. One thread, so holding it costs no locked instruction.
// Immutable but for the pools and what the authenticator remembers.
struct Generation
    : ask::Ruleset,
      boost::intrusive_ref_counter<Generation, boost::sp_adl_block::thread_unsafe_counter> {
    explicit Generation(std::shared_ptr<const config::Config> of,
                        std::shared_ptr<identity::SharedCredentialCache> remembered = nullptr)
        : Ruleset(std::move(of), std::move(remembered)),
          identity_fields(*config),
          refused_trailers(*config) {}

    IdentityFields identity_fields;
    RefusedTrailers refused_trailers;
    std::shared_ptr<telemetry::AccessLog> access_log;        // null: off
    std::vector<std::shared_ptr<upstream::Pool>> upstreams;  // in the order of the configuration
    std::shared_ptr<telemetry::TraceQueue> traces;           // null: requests are not traced
};

using GenerationPtr = boost::intrusive_ptr<const Generation>;

// How far a request has come with its upstream. Never goes back, whatever is sent again.
enum class Reached : std::uint8_t {
    nothing,   // no byte has been sent
    upstream,  // some may have arrived: the upstream may act on them
    answer,    // the head of its final answer was read
    end,       // and all of that answer
};

// What passes through the proxy, for settling, metrics and the access log.
struct Relay {
    Reached reached = Reached::nothing;
    upstream::ServerPtr server;  // the server that was chosen last, or null
    std::uint32_t tries = 0;     // connections that were used, or could not be made
    int status = 0;              // the status of the answer to the client; 0: no answer was begun
    int upstream_status = 0;     // the status of the upstream's final answer; outlives the stream
    bool is_grpc = false;        // the client speaks gRPC, and gets answers in its form
    // The gRPC status of the answer to the client, for the log; or kNoGrpc.
    int grpc_status = limit::AnswerStatus::kNoGrpc;
    // The gRPC status of the upstream's answer, for limits that count it; or kNoGrpc, or
    // kGrpcUnknown.
    int upstream_grpc_status = limit::AnswerStatus::kNoGrpc;
    bool is_redirect = false;             // the answer sends the client to https
    bool is_upgrade = false;              // the request is forwarded as a WebSocket handshake
    std::optional<TunnelEnd> tunnel_end;  // how the tunnel ended; none: there was none
    std::string_view tunnel_fault;        // why it ended, for the log; empty: in order
    std::chrono::nanoseconds handshake_time{0};  // until the client of a tunnel had its 101
    std::uint64_t bytes_received = 0;
    std::uint64_t bytes_sent = 0;
    SteadyTime began;
    std::chrono::nanoseconds upstream_time{0};
    std::chrono::nanoseconds queue_time{0};  // waiting for one of max_connections
    std::string_view user_agent;             // the User-Agent of a tunnel, which keeps no fields

    void reset();
};

// What it takes to send a request on and to get its answer.
struct UpstreamSide {
    UpstreamSide(Executor executor, DeadlineWheel& wheel, BufferPool& buffers)
        : stream(buffers), upload_sleeper(executor, wheel) {}

    // Frees what was held of the body: the proxy sends it to no further server.
    void forget_held_body();

    upstream::Stream stream;
    std::string held_body;      // what was read of the body before a server was chosen
    bool is_inspected = false;  // the body, or its beginning, was read before the decision
    bool is_rewritten = false;  // and changed
    HeldBodies::Share inspected_share;
    std::string held_trailers;  // the bytes that the trailers of such a body view
    std::string hash_key;       // the text by which `balance: hash` chooses the server
    std::string websocket_key;  // the proxy's key of a handshake whose client speaks HTTP/2
    Sleeper upload_sleeper;     // where the coroutine sleeps that sends the rest of a body
};

// An exchange serves one request after the other, so that a request allocates nothing for which the
// one before it had room. One that became a tunnel serves no further request. A connection without
// a request has no exchange.
struct Exchange {
    Exchange(Executor executor, DeadlineWheel& wheel, BufferPool& buffers)
        : upstream(std::make_unique<UpstreamSide>(executor, wheel, buffers)) {}

    // Forgets the last request. Must not follow keep_for_record().
    void reset();
    // Prepares the exchange for a tunnel, which may last for days: copies what is recorded at its
    // end, so that the views into the head may become invalid, and frees the memory of the rest.
    // The exchange can serve no further request.
    void keep_for_record();

    const config::Config& config() const { return *generation->config; }

    // Serves the request to its end, whatever is reloaded meanwhile: routes, policies, limits and
    // the upstream are those of this generation.
    GenerationPtr generation;

    Face face = Face::proxy;  // how Tidegate was asked
    ask::Facts facts;
    ask::Decision decision;
    client::Stream* client = nullptr;                // lent by the connection
    std::unique_ptr<ask::InspectedBody> inspected;   // null: no request has needed it yet
    std::unique_ptr<AnswerCost> answer_cost;         // null: no policy settles by the answer
    std::unique_ptr<UpstreamSide> upstream;          // null after keep_for_record()
    std::unique_ptr<upstream::TunnelStream> tunnel;  // set by forward(): run_tunnel() serves it
    std::string kept_text;  // what the facts and the relay view after keep_for_record()
    Relay relay;
    RequestTrace* trace = nullptr;             // null: the request is not traced
    std::unique_ptr<RequestTrace> trace_room;  // owns it; null: no request was traced yet
};

// Exchanges that wait for the next request, so that idle connections hold none. One a worker, one
// thread.
class ExchangePool {
  public:
    ExchangePool(Executor executor, DeadlineWheel& wheel, BufferPool& buffers)
        : executor_(executor), wheel_(wheel), buffers_(buffers) {}

    std::unique_ptr<Exchange> take() {
        if (free_.empty()) return std::make_unique<Exchange>(executor_, wheel_, buffers_);
        auto exchange = std::move(free_.back());
        free_.pop_back();
        return exchange;
    }
    // Keeps it for another request, unless it was a tunnel or there are enough.
    void give(std::unique_ptr<Exchange> exchange) {
        const bool was_tunnel = exchange->upstream == nullptr;
        if (was_tunnel || free_.size() == kKept) return;
        exchange->reset();
        free_.push_back(std::move(exchange));
    }

  private:
    static constexpr std::size_t kKept = 256;

    Executor executor_;
    DeadlineWheel& wheel_;
    BufferPool& buffers_;
    std::vector<std::unique_ptr<Exchange>> free_;
};

}  // namespace tidegate::proxy
