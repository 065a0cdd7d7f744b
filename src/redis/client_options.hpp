// How a client connects to its Redis, and what keeps it from doing so.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "redis/script.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::redis {

class MasterWatch;

using std::chrono::milliseconds;

struct ClientOptions {
    std::string host;
    int port = 6379;
    std::string unix_path;  // set: host and port are not used
    // Set: none of these is used, it says where the master is.
    std::shared_ptr<MasterWatch> master_watch;
    std::shared_ptr<const TlsClient> tls;  // null: not encrypted; a Unix socket never is
    std::string username;
    std::string password;
    int database = 0;
    milliseconds timeout{100};
    std::size_t max_in_flight = 10'000;
    int breaker_failures = 5;
    // Commands in a row that went unanswered, of all clients made with copies of these options; see
    // Breaker.
    std::shared_ptr<std::atomic<int>> unanswered = std::make_shared<std::atomic<int>>(0);
    milliseconds probe_every{1'000};  // the longest pause between attempts
    // Loaded whenever a connection is made. Others are when they are first used, which costs that
    // command a second way.
    std::vector<const Script*> scripts;
    std::string rights;       // for messages: what its user must be allowed
    std::string absent_key;   // never written: for asking whether a server takes writes
    bool in_cluster = false;  // a node of one; see Cluster

    std::string address() const;  // for messages; holds no secret
    // What to do about `error`, for messages: something, if it says that a right is missing.
    std::string advice(std::string_view error) const;
};

// Why a connection cannot be used.
struct ConnectFault {
    bool refused = false;  // Redis was reached, and refuses us or our scripts
    std::string message;   // names the address
};

}  // namespace tidegate::redis
