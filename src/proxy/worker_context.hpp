// What a request finds at the worker that serves it. One a thread, owned by app::Worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/asio.hpp"
#include "net/buffer.hpp"
#include "net/deadline.hpp"
#include "proxy/credential_queue.hpp"
#include "proxy/exchange_pool.hpp"
#include "proxy/generation.hpp"
#include "proxy/password_pool.hpp"
#include "proxy/request_id.hpp"
#include "store/limiter.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::proxy {

struct WorkerContext {
    Executor executor;
    GenerationPtr generation;  // what the next request begins with; replaced by a reload
    std::size_t thread;
    telemetry::MetricsShard& metrics;
    store::Limiter& limiter;
    PasswordPool& passwords;
    DeadlineWheel& deadlines;
    BufferPool& buffers;
    RequestIds request_ids;
    ExchangePool exchanges;
    CredentialQueue checks{};
    bool draining = false;  // answers say `Connection: close`
};

}  // namespace tidegate::proxy
