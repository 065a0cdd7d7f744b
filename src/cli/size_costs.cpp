// Made by `scripts/bench --costs docs/performance/sizing.json`, which has the rounds.
#include "cli/size.hpp"

namespace tidegate::cli {

const SizeCosts kSizeCosts{
    .proxied = 9.70,
    .asked = 4.52,
    .log_line = 0.79,
    .tls_request = 3.99,
    .body_kib = 0.24,
    .connection = 14.92,
    .handshake = 302.59,
    .resumption = 243.59,
    .in_process = {0.83, 0.13, 0.09},
    .asks = {0.84, 0.48, 0.36},
    .asks_alone = {2.21, 0.48, 0.36},
    .asks_cluster = {1.19, 0.48, 0.46},
    .wake = 50.33,
    .wake_redis = 92.95,
    .shared = {2.24, 0.96, 0.98},
    .alone = {15.71, 0.96, 0.98},
    .cluster = {8.37, 0.96, 1.00},
    .redis_wake = 44.65,
    .second_command = 2.00,
    .redis_bytes = {196.39, 55.59, 62.62},
    .process_bytes = 16844800,
    .thread_bytes = 625367,
    .connection_bytes = 990.72,
    .tls_connection_bytes = 15139,
    .http2_connection_bytes = 25838,
    .request_bytes = 8766,
    .redis_key_bytes = 150.08,
    .memory_state_bytes = 185.34,
};

}  // namespace tidegate::cli
