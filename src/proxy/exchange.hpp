// One request on its way down the street, and what is known of it so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.hpp"
#include "config/config.hpp"
#include "http/body.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "http/ratelimit_fields.hpp"
#include "identity/authenticator.hpp"
#include "net/buffer.hpp"
#include "net/deadline.hpp"
#include "net/outbox.hpp"
#include "net/sleeper.hpp"
#include "proxy/fault.hpp"
#include "proxy/generation.hpp"
#include "store/decision.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::proxy {

// An identifier among the bytes of Exchange::identifiers, which may still move.
struct IdentifierSpan {
    std::size_t begin = 0;
    std::size_t size = 0;
};

// How far a request has come with its upstream. Never goes back, whatever is sent again.
enum class Reached : std::uint8_t {
    nothing,   // no byte has been sent
    upstream,  // some may have arrived: for all we know, the upstream acts on them
    answer,    // the head of its final answer was read: answer.status
    end,       // and all of that answer
};

// Reused from request to request, so that a request allocates nothing that the one before it had
// room for. A connection without a request has none.
struct Exchange {
    Exchange(Executor executor, DeadlineWheel& wheel, BufferPool& buffers)
        : answer_buffer(buffers), upload_sleeper(executor, wheel) {}

    // Forgets the last request.
    void reset();

    const config::Config& config() const { return *generation->config; }

    // What it is served by to its end, whatever is reloaded meanwhile: routes, policies, limits and
    // the upstream are this one's.
    GenerationPtr generation;

    // What was asked. Views go into the client's buffer until the request has ended.
    http::RequestHead request;
    http::Framing framing;
    http::BodyReader body;
    std::string_view host;  // the authority of the target, else the Host field
    std::string request_id;

    // What the street found out.
    std::size_t route_index = telemetry::kNoRoute;
    const config::Route* route = nullptr;
    std::optional<IpAddress> client;
    identity::ChainFault chain_fault = identity::ChainFault::none;  // why it is not known better
    identity::Finding who;                                          // what the credentials came to
    std::optional<std::string_view> user;                           // whose request it is
    std::string_view tier;                                          // of the user; empty: none
    bool peer_trusted = false;                                      // may say what a client may not
    std::string identifiers;                     // the bytes behind the decision's items
    std::vector<IdentifierSpan> spans;           // where they stand, item by item
    std::vector<http::RateLimitItem> ratelimit;  // what the client is told
    store::Decision decision;
    Fault fault = Fault::none;
    std::string_view fault_detail;  // what is better than the fault's own words, or empty

    // The upstream's answer.
    http::ResponseHead answer;
    http::Framing answer_framing;
    http::BodyReader answer_body;
    std::string answer_options;  // what its Connection names, while its trailers are to come
    Buffer answer_buffer;
    std::string_view upstream_address;

    Reached reached = Reached::nothing;

    // What is told when it ends.
    int status = 0;           // 0: no answer was begun
    bool keep_alive = false;  // the client's connection goes on
    std::uint64_t bytes_received = 0;
    std::uint64_t bytes_sent = 0;
    std::chrono::system_clock::time_point began_at;
    SteadyTime began;
    std::chrono::nanoseconds decision_time{0};
    std::chrono::nanoseconds upstream_time{0};
    std::string client_text;  // the client's address in the access log

    // Scratch: a head that is being written to the client, and what follows a piece of body.
    std::string head;
    std::string tail;
    Outbox outbox;

    // The same towards the upstream: the answer may come while the request is still being sent, by
    // a coroutine of its own.
    Sleeper upload_sleeper;
    std::string upload_head;
    std::string upload_tail;
    Outbox upload_outbox;
};

}  // namespace tidegate::proxy
