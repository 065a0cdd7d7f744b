#include "proxy/exchange.hpp"

namespace tidegate::proxy {

void Exchange::reset() {
    // Strings and vectors keep their room; a head of unusual size does not stay for ever.
    constexpr std::size_t kRoomKept = 65'536;
    for (std::string* text :
         {&head, &tail, &upload_head, &upload_tail, &identifiers, &answer_options, &client_text}) {
        text->clear();
        if (text->capacity() > kRoomKept) text->shrink_to_fit();
    }
    request.fields.clear();
    answer.fields.clear();
    answer_buffer.release();
    ratelimit.clear();
    decision.items.clear();
    decision.result = store::Decision::Result::pending;
    decision.store_failed = decision.remembered = decision.needs_settling = false;
    decision.moment = {};
    spans.clear();
    outbox.clear();
    upload_outbox.clear();
    framing = {};
    body.start(framing);
    answer_framing = {};
    answer_body.start(answer_framing);
    route_index = telemetry::kNoRoute;
    route = nullptr;
    client.reset();
    chain_fault = identity::ChainFault::none;
    who.reset();
    user.reset();
    tier = {};
    peer_trusted = false;
    fault = Fault::none;
    reached = Reached::nothing;
    request.method = request.target = request.path = request.query = request.authority = {};
    fault_detail = upstream_address = host = {};
    status = 0;
    keep_alive = false;
    bytes_received = bytes_sent = 0;
    decision_time = upstream_time = {};
    generation.reset();  // after all that points into it
}

}  // namespace tidegate::proxy
