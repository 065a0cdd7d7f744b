#include "proxy/exchange.hpp"

namespace tidegate::proxy {

namespace {

// Strings keep their capacity; a head of unusual size does not keep its memory for ever.
void clear(std::string& text) {
    constexpr std::size_t kCapacityKept = 65'536;
    text.clear();
    if (text.capacity() > kCapacityKept) text.shrink_to_fit();
}

}  // namespace

void ClientCodec::reset() {
    clear(head);
    clear(tail);
    outbox.clear();
    framing = {};
    body.start(framing);
    keep_alive = false;
}

void Relay::reset() {
    reached = Reached::nothing;
    upstream_address = {};
    status = 0;
    bytes_received = bytes_sent = 0;
    upstream_time = {};
}

void Exchange::reset() {
    facts.reset();
    decision.reset();
    client.reset();
    upstream.reset();
    relay.reset();
    generation.reset();  // after all that points into it
}

}  // namespace tidegate::proxy
