#include "proxy/upgrade.hpp"

#include "http/websocket.hpp"
#include "proxy/heads.hpp"
#include "proxy/websocket_accept.hpp"
#include "proxy/websocket_key.hpp"

namespace tidegate::proxy {

namespace {

// HTTP/2 has no `Upgrade`: a request for a WebSocket is an extended CONNECT there (RFC 8441).
http::WebSocketRequest wanted(const Exchange& x) {
    if (!x.facts.protocol.empty()) return http::websocket_connect(x.facts.head, x.facts.protocol);
    if (x.facts.is_http2) return http::WebSocketRequest::none;
    return http::websocket_request(x.facts.head, x.client->framing());
}

}  // namespace

ask::Fault check_upgrade(Exchange& x) {
    const bool is_connect = !x.facts.protocol.empty();
    if (!x.decision.route->takes_websockets) {
        if (!is_connect) return ask::Fault::none;
        x.decision.fault_detail = "This route takes no WebSockets.";
        return ask::Fault::unsupported_method;
    }
    switch (wanted(x)) {
        case http::WebSocketRequest::none:
            // A CONNECT is no request of another kind.
            return is_connect ? ask::Fault::unsupported_method : ask::Fault::none;
        case http::WebSocketRequest::handshake:
            x.relay.is_upgrade = true;
            if (is_connect) x.upstream->websocket_key = random_websocket_key();
            break;
        case http::WebSocketRequest::malformed:
            return ask::Fault::bad_upgrade;
        case http::WebSocketRequest::other_version:
            return ask::Fault::upgrade_version;
    }
    return ask::Fault::none;
}

bool is_upgrade_accepted(const Exchange& x) {
    const std::string_view key =
        x.facts.protocol.empty() ? http::websocket_key(x.facts.head) : x.upstream->websocket_key;
    return http::accepts_websocket(x.upstream->stream.head(), websocket_accept(key));
}

Task<IoStatus> pass_on_switch(WorkerContext& worker, Exchange& x) {
    client::Stream& client = *x.client;
    const http::ResponseHead& head = x.upstream->stream.head();
    write_switch_head(x, head);
    IoStatus status = client.send_switch();
    if (status == IoStatus::would_block) {
        status = co_await client.send_rest(x.config().timeouts.client_write);
    }
    if (status != IoStatus::ok) co_return status;
    x.relay.status = head.status;
    x.relay.handshake_time = steady_now() - x.relay.began;
    worker.engine.note_status(x.decision, head.status);
    co_return status;
}

bool passes_for_tunnel(const Exchange& x, int status) {
    constexpr int kSuccess = 2;
    return !x.facts.protocol.empty() && status / 100 == kSuccess;
}

}  // namespace tidegate::proxy
