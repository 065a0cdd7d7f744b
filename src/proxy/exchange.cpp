#include "proxy/exchange.hpp"

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "http/field.hpp"
#include "http/head.hpp"

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
    side.body_transfer = {};
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

RequestIds::RequestIds() {
    std::random_device random;
    const auto draw = [&random] { return (std::uint64_t{random()} << 32) | random(); };
    append_hex64(draw(), prefix_);
    state_ = draw();
}

void RequestIds::next(std::string& out) {
    // SplitMix64: a permutation of the counter, so no two are the same.
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    out.assign(prefix_);
    append_hex64(mixed ^ (mixed >> 31), out);
}

void adopt_request_id(ask::Facts& facts) {
    constexpr std::size_t kBytesMax = 128;
    if (!facts.peer.trusted) return;
    const std::string_view id =
        http::single_value(facts.head.fields, http::FieldName::x_request_id);
    if (id.size() <= kBytesMax && http::is_token(id)) facts.request_id = id;
}

}  // namespace tidegate::proxy
