// A request as the engine sees it: the facts it gets, and the decision it makes of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ask/fault.hpp"
#include "ask/metrics.hpp"
#include "base/ip.hpp"
#include "base/shared_enums.hpp"
#include "config/config.hpp"
#include "http/head.hpp"
#include "http/ratelimit_fields.hpp"
#include "identity/authenticator.hpp"
#include "identity/client_ip.hpp"
#include "store/limiter.hpp"
#include "tls/client_auth.hpp"
#include "usage/request.hpp"

namespace tidegate::ask {

// A body that the proxy has read before its request is decided, where the route needs that.
struct InspectedBody {
    bool is_whole = false;     // else it is longer than the route's `inspect_body`
    std::uint64_t bytes = 0;   // of a whole one
    bool is_form = false;      // its type is application/x-www-form-urlencoded
    std::string_view text;     // of a whole one; without a coding
    usage::RequestFacts json;  // of a whole one

    // Forgets the body. Strings and vectors keep their capacity.
    void reset() {
        is_whole = is_form = false;
        bytes = 0;
        text = {};
        json.reset();
    }
};

// What the engine gets of a request: its head and its peer. A plain value; the head's
// views go into the bytes of the caller, which stay until the request has ended.
struct Facts {
    http::RequestHead head;
    std::string_view host;             // the authority of the target, else the Host field
    std::uint64_t body_bytes = 0;      // that the head announces; 0 also for a chunked body
    bool has_body = false;             // of known length or not, as far as the caller knows
    std::string request_id;            // the caller's name for the request
    identity::Peer peer;               // the other end of the connection
    std::uint16_t local_port = 0;      // that the client connected to
    bool port_is_published = false;    // a PROXY header says so: at the balancer in front
    std::string_view scheme = "http";  // that the client spoke
    bool is_http2 = false;             // the head is as HTTP/1.1 would have it all the same
    // A gateway or program passes the request on, and no answer of ours takes a field off it.
    bool keeps_fields = false;
    std::string_view protocol;  // of an extended CONNECT (RFC 8441), whose head says GET
    // The certificate that the client has shown over TLS; null: none. The connection owns it.
    const ClientCertificate* certificate = nullptr;
    std::chrono::system_clock::time_point began_at;
    const InspectedBody* body = nullptr;  // null: not read, or not yet
    bool is_logged = false;               // a log tells of the request, without its body
    // Where there is no route: what a path would have captured, in the order of its route's names.
    std::vector<std::string> captures;

    // Forgets the request. Strings and vectors keep their capacity.
    void reset() {
        head.clear();
        host = protocol = {};
        has_body = is_http2 = keeps_fields = false;
        body = nullptr;
    }

    HttpVersion version() const {
        if (is_http2) return HttpVersion::http_2;
        return head.minor_version == 0 ? HttpVersion::http_1_0 : HttpVersion::http_1_1;
    }
};

// An identifier, as a part of Decision::identifiers: a string that grows moves its bytes.
struct IdentifierSpan {
    std::size_t begin = 0;
    std::size_t size = 0;
};

// What the engine finds out about a request: its route, its client and user, what it is charged
// with, the verdict, and why it goes no further if it does not.
//
// Reused from request to request, so that the engine allocates nothing that an earlier request had
// room for. Views go into the facts and the configuration.
struct Decision {
    Fault fault = Fault::none;      // why the request goes no further
    std::string_view fault_detail;  // says more than the fault's own text, or empty
    // Of a value that a limit counts by and that is missing or unclear: the part of the key, if it
    // reads the body. Null: another part, or another fault.
    const limit::KeyPart* fault_part = nullptr;

    std::size_t route_index = telemetry::kNoRoute;
    const config::Route* route = nullptr;  // null: none yet
    // The engine waits for Facts::body: the caller reads it, and calls Engine::go_on().
    bool awaits_body = false;
    std::string model;  // of a request whose policies count tokens or money; empty: it names none
    std::optional<std::size_t> price_row;  // its row in the price list, once a policy has needed it
    bool is_preflight = false;             // its route has cors: no policy counts it

    std::optional<IpAddress>
        client;  // its address; before identify(), the caller may name the peer
    identity::ChainFault chain_fault = identity::ChainFault::none;  // why `client` is only a proxy
    // What the credentials prove. Null once the caller has given it back: the decision is never
    // reset then, nor the engine asked with it.
    std::unique_ptr<identity::Authentication> authentication =
        std::make_unique<identity::Authentication>();
    std::optional<std::string_view> user;
    std::string_view tier;  // of the user; empty: none

    std::string identifiers;                           // the text of the identifiers of `charge`
    std::vector<IdentifierSpan> spans;                 // one for each item of `charge`
    store::LimitDecision charge;                       // without items: no limit applies
    std::optional<CostFault> cost_ignored;             // why the route's cost holds
    std::chrono::steady_clock::time_point charged_at;  // when the store was asked
    std::chrono::nanoseconds charge_time{0};           // what the store took
    std::vector<http::RateLimitItem> ratelimit;        // for the RateLimit fields of the answer

    bool goes_on() const { return fault == Fault::none; }
    void refuse(Fault why, std::string_view detail = {}) {
        fault = why;
        fault_detail = detail;
    }

    // Forgets the request. Strings and vectors keep their capacity, within reason.
    void reset();
};

}  // namespace tidegate::ask
