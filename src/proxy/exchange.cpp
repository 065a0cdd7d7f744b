#include "proxy/exchange.hpp"

namespace tidegate::proxy {

void Relay::reset() {
    reached = Reached::nothing;
    server.reset();
    tries = 0;
    status = 0;
    bytes_received = bytes_sent = 0;
    upstream_time = queue_time = {};
}

void Exchange::forget_held_body() {
    constexpr std::size_t kCapacityKept = 16'384;
    held_trailers.clear();
    held_body.clear();
    if (held_body.capacity() > kCapacityKept) held_body.shrink_to_fit();
}

void Exchange::reset() {
    if (!held_body.empty() || !held_trailers.empty()) forget_held_body();
    face = Face::proxy;
    facts.reset();
    decision.reset();
    client = nullptr;
    upstream.reset();
    relay.reset();
    generation.reset();  // after all that points into it
}

}  // namespace tidegate::proxy
