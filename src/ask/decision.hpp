// What the engine finds out about a request: its route, its client and user, what it is charged
// with, the verdict, and why it goes no further if it does not.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ask/fault.hpp"
#include "ask/metrics.hpp"
#include "base/ip.hpp"
#include "config/config.hpp"
#include "http/ratelimit_fields.hpp"
#include "identity/authenticator.hpp"
#include "store/limiter.hpp"

namespace tidegate::ask {

// An identifier, as a part of Decision::identifiers: a string that grows moves its bytes.
struct IdentifierSpan {
    std::size_t begin = 0;
    std::size_t size = 0;
};

// Reused from request to request, so that the engine allocates nothing that an earlier request had
// room for. Views go into the facts and the configuration.
struct Decision {
    Fault fault = Fault::none;      // why the request goes no further
    std::string_view fault_detail;  // says more than the fault's own text, or empty

    std::size_t route_index = telemetry::kNoRoute;
    const config::Route* route = nullptr;  // null: none yet
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
