// What a worker lends to the requests it serves. One a thread, owned by app::Worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ask/engine.hpp"
#include "http/field.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "net/transfer.hpp"
#include "proxy/exchange.hpp"
#include "proxy/metrics.hpp"
#include "proxy/simulate_recording.hpp"
#include "telemetry/top_and_denials.hpp"

namespace tidegate::proxy {

// The tunnels of a worker that drains.
struct TunnelDrain {
    std::optional<SteadyTime> began;  // when the first tunnel noticed the drain
    std::uint32_t scheduled = 0;      // tunnels that know when they end
};

struct WorkerContext {
    Executor executor;
    GenerationPtr generation;  // what the next request begins with; replaced by a reload
    std::size_t thread;
    Metrics& metrics;
    ask::Engine engine;
    RequestIds request_ids;
    HeldBodies held_bodies{};  // bodies that are read before their requests are decided
    ExchangePool exchanges;    // which have shares of those
    http::DateField date;      // the worker sets it every tick
    TunnelDrain tunnel_drain{};
    telemetry::Activity activity{};
    std::unique_ptr<Recording> recording{};  // null: no client of the admin listener records
    std::string client_text{};               // where record() writes the client's address
    std::uint64_t held_bytes = 0;  // bytes for bodies that the proxy reads before it sends them
    SplicePipes pipes{};           // for long bodies
};

}  // namespace tidegate::proxy
