// What a request finds at the worker that serves it. One a thread, owned by app::Worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/asio.hpp"
#include "base/buffer.hpp"
#include "base/deadline.hpp"
#include "config/config.hpp"
#include "proxy/exchange_pool.hpp"
#include "proxy/policy_texts.hpp"
#include "proxy/request_id.hpp"
#include "proxy/upstream_pool.hpp"
#include "store/limiter.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::proxy {

struct WorkerContext {
    Executor executor;
    std::shared_ptr<const config::Config> config;
    std::size_t thread;
    telemetry::MetricsShard& metrics;
    telemetry::AccessLog* access_log;  // null: off
    store::Limiter& limiter;
    DeadlineWheel& deadlines;
    BufferPool& buffers;
    std::vector<std::unique_ptr<UpstreamPool>> upstreams;  // in the order of the configuration
    RequestIds request_ids;
    PolicyTexts policy_texts;
    ExchangePool exchanges;
    bool draining = false;  // answers say `Connection: close`
};

}  // namespace tidegate::proxy
