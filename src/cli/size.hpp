// Computes what a configuration needs at a rate of requests: cores, memory, open files, Redis,
// network. The figures of a request were measured (scripts/bench --size); what they make together
// is arithmetic. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"

namespace tidegate {
class Doc;
}  // namespace tidegate

namespace tidegate::cli {

// Cores and Redis are planned for this part of what they can do, so that peaks, retries and the
// loss of an instance have room.
inline constexpr double kPlannedShare = 0.6;

// CPU is in microseconds, memory in bytes. docs/performance/sizing.json has the rounds that they
// are made of; `scripts/bench --size --costs` prints them.
struct RedisCosts {
    double command = 0;  // of one decision, besides its states and limits
    double state = 0;    // of each identifier under each policy
    double limit = 0;    // of each limit of each state
};

struct SizeCosts {
    // Tidegate, a request.
    double proxied = 0;      // HTTP/1.1 on a connection that stays, 100 bytes, without limits
    double asked = 0;        // a question of a gateway
    double log_line = 0;     // of the access log
    double tls_request = 0;  // more than in the clear
    double body_kib = 0;
    double connection = 0;      // a new one, with its end
    double handshake = 0;       // of TLS, full, besides the connection
    double resumption = 0;      // of a TLS session
    RedisCosts in_process{};    // Tidegate's part of a decision in process
    RedisCosts asks{};          // and of one in Redis, whose command it shares
    RedisCosts asks_alone{};    // with a command of its own
    RedisCosts asks_cluster{};  // of each node that it asks
    // A thread that sleeps between events pays this for being woken; at full load it never sleeps.
    double wake = 0;        // of a request that asks no Redis
    double wake_redis = 0;  // of one that does

    // Redis, a decision.
    RedisCosts shared{};   // that shares a command with some fifteen others
    RedisCosts alone{};    // with a command of its own
    RedisCosts cluster{};  // of each node that it asks
    double redis_wake = 0;
    double second_command = 0;  // with which the end of a request gives something back

    RedisCosts redis_bytes{};  // from and to Redis

    double process_bytes = 0;
    double thread_bytes = 0;
    double connection_bytes = 0;  // of one that is idle
    double tls_connection_bytes = 0;
    double http2_connection_bytes = 0;
    double request_bytes = 0;       // of one in flight, besides its connection
    double redis_key_bytes = 0;     // of a state in Redis besides its value
    double memory_state_bytes = 0;  // of a state in process besides its limits
};

extern const SizeCosts kSizeCosts;

struct SizeQuestion {
    double requests = 0;           // a second; above 0
    std::string route{};           // empty: the route that costs most
    double identifiers = 100'000;  // distinct ones of each key in its longest window
    double connections = 0;        // open ones of clients; 0: one for each request a second
    double requests_a_connection = 100;
    double resumed = 0.5;       // the share of TLS handshakes that resume a session
    std::optional<bool> tls{};  // unset: as the listeners of the configuration
    double body_bytes = 4'096;  // of a request and its answer together
    std::chrono::microseconds response{50'000};  // until the upstream has answered
    unsigned threads = 8;                        // of one instance, at most
};

struct PolicySize {
    std::string name;
    std::size_t identifiers = 0;  // of one request
    std::size_t limits = 0;       // of each of them; of the tier with most
    std::string algorithms{};     // `sliding_window`, or several with commas
    bool is_shadow = false;
    std::size_t keys_of_all = 0;  // of its identifiers, those that all requests share
    double proxy_us = 0;
    double redis_us = 0;     // of all servers together
    double state_bytes = 0;  // of one identifier, where the states are
};

// A fact about the estimate that a reader must know. A fault means that there is no answer.
struct SizeNote {
    bool is_fault = false;
    std::string what;   // about what: `redis`, `connections`
    std::string where;  // of the configuration: `routes: api`
    std::string text;   // what is wrong, and what to do instead
};

enum class SizeStore : std::uint8_t { memory, redis, cluster };

struct RedisSize {
    double us = 0;              // of one server, or of all primaries, a request
    double load = 0;            // cores that this takes at full commands
    double shown = 0;           // what the servers use, at the planned number of them
    double one_serves = 0;      // requests a second within kPlannedShare of one Redis
    std::size_t primaries = 0;  // of a cluster; 0: one Redis is enough
    double cluster_us = 0;
    double hot_requests_max = 0;  // a second; 0: no key is shared by all requests
    double memory_bytes = 0;      // of all primaries together
    std::string alone{};          // why decisions have commands of their own; empty: they share
};

struct Estimate {
    std::string route{};  // empty: the configuration has none
    std::size_t routes = 0;
    Face face = Face::proxy;
    bool is_tls = false;
    bool is_http2 = false;
    std::vector<PolicySize> policies{};
    std::size_t states = 0;
    std::size_t limits = 0;

    // Tidegate, microseconds a request.
    double transport_us = 0;   // forwarding or answering, and its bodies
    double connection_us = 0;  // its share of a new connection
    double tls_us = 0;
    double decision_us = 0;
    double log_us = 0;
    double proxy_us() const { return transport_us + connection_us + tls_us + decision_us + log_us; }
    double cores = 0;  // planned
    double shown = 0;  // what the threads of all instances use
    std::size_t instances = 0;
    std::size_t threads = 0;  // of each

    double connections = 0;  // of clients
    double in_flight = 0;
    // Of one instance.
    double memory_bytes = 0;
    double open_files = 0;

    SizeStore store = SizeStore::memory;
    std::optional<RedisSize> redis{};  // unset: the store is the process, or nothing is limited
    double memory_store_bytes = 0;     // of one instance

    // Bytes a second, both directions together.
    double client_bytes = 0;
    double upstream_bytes = 0;
    double redis_bytes = 0;

    std::vector<SizeNote> notes{};
    bool has_answer() const;
};

// The error says what is wrong with the question: a route that is not there, a configuration
// without routes.
Result<Estimate, std::string> estimate_size(const config::Config& config,
                                            const SizeQuestion& question,
                                            const SizeCosts& costs = kSizeCosts);

// Returns what `size` prints. Its exit code is 1 where there is no answer.
Doc doc_of(const Estimate& estimate, const SizeQuestion& question);

// `200k`, `1.5M`, `3000`: a number of things from 1 to `max`. An error is a sentence.
Result<double, std::string> parse_count(std::string_view text, double max);

// The table of docs/sizing.md, in Markdown.
std::string size_table();

}  // namespace tidegate::cli
