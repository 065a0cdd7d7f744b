// Made by `scripts/bench --costs docs/performance/sizing.json`, which has the rounds.
#include "cli/size.hpp"

namespace tidegate::cli {

const SizeCosts kSizeCosts{
    .proxied = 9.70,
    .asked = 4.36,
    .log_line = 0.79,
    .tls_request = 3.99,
    .body_kib = 0.24,
    .connection = 14.64,
    .handshake = 302.87,
    .resumption = 243.88,
    .in_process = {0.00, 0.44, 0.32},
    .asks = {1.58, 0.25, 0.04},
    .asks_alone = {3.15, 0.25, 0.04},
    .asks_cluster = {0.75, 0.25, 0.93},
    .wake = 50.33,
    .wake_redis = 92.95,
    .shared = {3.00, 0.99, 0.80},
    .alone = {17.56, 0.99, 0.80},
    .cluster = {7.55, 0.99, 1.68},
    .redis_wake = 44.65,
    .second_command = 2.47,
    .redis_bytes = {178.53, 49.97, 57.03},
    .process_bytes = 16904192,
    .thread_bytes = 625367,
    .connection_bytes = 989.18,
    .tls_connection_bytes = 15139,
    .http2_connection_bytes = 25838,
    .request_bytes = 8796,
    .redis_key_bytes = 150.08,
    .memory_state_bytes = 185.34,
};

}  // namespace tidegate::cli
