#include "proxy/exchange.hpp"

#include <utility>
#include <vector>

#include "http/field.hpp"

namespace tidegate::proxy {

void Relay::reset() {
    reached = Reached::nothing;
    server.reset();
    tries = 0;
    status = upstream_status = 0;
    is_redirect = is_upgrade = is_grpc = false;
    grpc_status = upstream_grpc_status = limit::AnswerStatus::kNoGrpc;
    tunnel_end.reset();
    tunnel_fault = {};
    handshake_time = {};
    bytes_received = bytes_sent = 0;
    upstream_time = queue_time = {};
    user_agent = {};
}

void UpstreamSide::forget_held_body() {
    constexpr std::size_t kCapacityKept = 16'384;
    inspected_share.give_back();
    held_trailers.clear();
    held_body.clear();
    if (held_body.capacity() > kCapacityKept) held_body.shrink_to_fit();
}

void Exchange::keep_for_record() {
    http::RequestHead& head = facts.head;
    http::RequestHead kept;
    kept.minor_version = head.minor_version;
    const std::string_view user_agent = http::single_value(head.fields, "user-agent");
    kept_text.reserve(head.method.size() + head.path.size() + facts.host.size() +
                      user_agent.size());
    const auto keep = [&](std::string_view view) {
        const std::size_t begin = kept_text.size();
        kept_text += view;
        return std::string_view(kept_text).substr(begin);
    };
    kept.method = keep(head.method);
    kept.path = keep(head.path);
    facts.host = keep(facts.host);
    relay.user_agent = keep(user_agent);
    head = std::move(kept);
    // These view the head, or what identified the client.
    decision.user.reset();
    decision.tier = {};
    decision.authentication = nullptr;
    decision.fault_detail = {};
    decision.ratelimit = std::vector<http::RateLimitItem>();
    facts.protocol = {};
    upstream = nullptr;
}

void Exchange::reset() {
    UpstreamSide& side = *upstream;
    if (!side.held_body.empty() || !side.held_trailers.empty()) side.forget_held_body();
    side.is_inspected = side.is_rewritten = false;
    if (face == Face::proxy) side.stream.reset();  // no other face has one
    side.websocket_key.clear();
    face = Face::proxy;
    facts.reset();
    decision.reset();
    client = nullptr;
    answer_cost.reset();
    relay.reset();
    if (trace != nullptr) {
        trace->tries.clear();
        trace = nullptr;
    }
    generation.reset();  // after all that points into it
}

}  // namespace tidegate::proxy
