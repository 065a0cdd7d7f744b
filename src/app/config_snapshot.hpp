// A configuration and what of it is made once for all workers. Each makes its generation of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "app/listener_tls.hpp"
#include "config/config.hpp"
#include "identity/credential_cache.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/metric_names.hpp"
#include "telemetry/trace_queue.hpp"
#include "tls/tls_client.hpp"
#include "upstream/group.hpp"

namespace tidegate::app {

// Immutable, but for what locks for itself; any thread.
struct ConfigSnapshot {
    std::uint64_t number = 1;  // 1 at the start, and one more each time one is put in force
    std::shared_ptr<const config::Config> config;
    // What the workers learn of credentials. Methods are other ones under another configuration.
    std::shared_ptr<identity::SharedCredentialCache> remembered =
        std::make_shared<identity::SharedCredentialCache>();
    telemetry::MetricSlots slots;
    std::shared_ptr<telemetry::AccessLog> access_log;  // null: off
    std::vector<upstream::GroupPtr> upstreams;         // in the order of the configuration
    std::vector<ListenerTls> tls;                      // of the listeners that speak it
    std::shared_ptr<const TlsClient> redis_tls;        // null: as it was
    std::shared_ptr<const TlsClient> sentinel_tls;     // likewise
    std::shared_ptr<telemetry::TraceQueue> traces;     // null: requests are not traced
};

// What the labels of metrics are under `config`.
telemetry::MetricNames metric_names(const config::Config& config);

}  // namespace tidegate::app
