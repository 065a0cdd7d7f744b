// What a client says first on a connection, and what the answers mean.
//
// In this order: AUTH, SELECT of a database other than 0, ROLE of a master that sentinels name,
// CLUSTER NODES in a cluster, SCRIPT LOAD of each script. If Redis is down, a PING that has to be
// answered as fast as a decision. After a server that took no writes, a PEXPIRE of a key that does
// not exist, which changes nothing and which a replica refuses like any other write. No I/O and no
// clock; one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/request.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::redis {

// How a client connects to its Redis, and what keeps it from doing so.
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

// What a master answers ROLE with, first.
inline constexpr std::string_view kMasterRole = "master";
// For each command of the handshake, at least.
inline constexpr milliseconds kHandshakeTime{1'000};

class Handshake {
  public:
    struct Step {
        std::string command;  // in RESP
        milliseconds time;    // within which it has to be answered
    };

    // `options` has to live as long. `after_replica`: the last server took no writes.
    Handshake(const ClientOptions& options, bool after_replica);

    // The next command, once the last one was answered; nothing when the connection can be used.
    // `is_down`: Redis counts as down.
    std::optional<Step> next(bool is_down);
    // What the answer to the last command means: why the connection cannot be used, or nothing.
    std::optional<ConnectFault> on_reply(const Reply& reply);
    // The server has answered ROLE with `master`.
    bool is_master() const { return is_master_; }

  private:
    enum class Kind : std::uint8_t { setup, role, ping, write };
    struct Command {
        Kind kind;
        std::string what;  // for messages
        std::string resp;
    };

    void add(Kind kind, std::string what, std::string command);

    const ClientOptions& options_;
    std::vector<Command> commands_;
    std::size_t next_ = 0;
    bool is_pinged_ = false;
    bool checks_writes_;
    bool is_master_ = false;
};

}  // namespace tidegate::redis
