// One request that the proxy serves, with the configuration that it began with. Its parts have an
// owner each: what the engine gets and decides (ask), what the codecs of both sides write with, and
// what is relayed and recorded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"
#include "base/ip.hpp"
#include "client/connection_limit.hpp"
#include "client/stream.hpp"
#include "net/deadline.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"
#include "proxy/answer_cost.hpp"
#include "proxy/identity_and_trailer_fields.hpp"
#include "proxy/metrics.hpp"
#include "proxy/request_trace.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/trace_export.hpp"
#include "upstream/http1_stream.hpp"
#include "upstream/pool.hpp"
#include "upstream/server.hpp"
#include "upstream/stream.hpp"

namespace tidegate::proxy {

// Room for bodies that are read before their requests are decided, shared among addresses.
//
// One a thread. An address may hold as much as it likes while less than half of the room is taken;
// beyond that, a sixteenth, so that one client cannot keep the bodies of others out.
class HeldBodies {
  public:
    // What one request holds; gives it back when it is destroyed.
    class Share {
      public:
        Share() = default;
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() { give_back(); }

        // Takes `bytes` more of the room of `bodies`, which outlives this, for `client`, always the
        // same. False: there is no room, and nothing is taken.
        bool take(HeldBodies& bodies, const IpAddress& client, std::uint64_t bytes) {
            // Nothing is held for a client that has sent nothing, and so nothing has to be given
            // back.
            if (bytes == 0) return true;
            if (!bodies.take(client, bytes)) return false;
            bodies_ = &bodies;
            client_ = client;
            bytes_ += bytes;
            return true;
        }
        // Whether bodies of other clients may find no room because of this one: more than half of
        // the room is taken, or the client holds more than a sixteenth.
        bool keeps_others_out() const {
            return bodies_ != nullptr && bodies_->keeps_others_out(client_);
        }
        void give_back() {
            if (bodies_ != nullptr) {
                std::exchange(bodies_, nullptr)->give(client_, std::exchange(bytes_, 0));
            }
        }

      private:
        HeldBodies* bodies_ = nullptr;
        IpAddress client_;
        std::uint64_t bytes_ = 0;
    };

    // In bytes; what is held already stays.
    void set_room(std::uint64_t bytes) { room_ = bytes; }
    std::uint64_t held() const { return held_; }
    std::size_t clients() const { return by_client_.size(); }

  private:
    static constexpr std::uint64_t kShares = 16;

    bool take(const IpAddress& client, std::uint64_t bytes) {
        if (held_ + bytes > room_) return false;
        std::uint64_t& own = held_by(client);
        if (held_ + bytes > room_ / 2 && own + bytes > room_ / kShares) {
            if (own == 0) forget(by_client_.find(client));
            return false;
        }
        own += bytes;
        held_ += bytes;
        return true;
    }
    bool keeps_others_out(const IpAddress& client) const {
        return held_ > room_ / 2 || by_client_.find(client)->second > room_ / kShares;
    }
    void give(const IpAddress& client, std::uint64_t bytes) {
        held_ -= bytes;
        const auto own = by_client_.find(client);
        own->second -= bytes;
        if (own->second == 0) forget(own);
    }

    using Clients = std::unordered_map<IpAddress, std::uint64_t, client::AddressHash>;

    std::uint64_t& held_by(const IpAddress& client) {
        if (spare_.empty()) return by_client_[client];
        spare_.key() = client;
        spare_.mapped() = 0;
        auto placed = by_client_.insert(std::move(spare_));
        spare_ = std::move(placed.node);
        return placed.position->second;
    }
    // Most clients hold one body at a time, so each of these would be allocated and freed.
    void forget(Clients::iterator client) { spare_ = by_client_.extract(client); }

    std::uint64_t room_ = 0;
    std::uint64_t held_ = 0;
    Clients by_client_{0, client::AddressHash::with_secret()};
    Clients::node_type spare_;  // may be empty
};

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
    std::string held_body;                 // what was read of the body before a server was chosen
    upstream::TransferRate body_transfer;  // the waits for the body until the decision
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

// Makes ids for requests that have no X-Request-Id of a trusted peer. One thread.
class RequestIds {
  public:
    RequestIds();

    // Writes a new one over `out`: 32 hexadecimal digits, half random for this worker, half a
    // scrambled count.
    void next(std::string& out);

  private:
    std::string prefix_;
    std::uint64_t state_;
};

// Sets facts.request_id to the X-Request-Id of a trusted peer's request, if that is one token.
void adopt_request_id(ask::Facts& facts);

}  // namespace tidegate::proxy
