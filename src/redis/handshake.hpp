// What a client says first on a connection, and what the answers mean.
//
// In this order: AUTH, SELECT of a database other than 0, ROLE of a master that sentinels name,
// CLUSTER NODES in a cluster, SCRIPT LOAD of each script. If Redis is down, a PING that has to be
// answered as fast as a decision. After a server that took no writes, a PEXPIRE of a key that does
// not exist, which changes nothing and which a replica refuses like any other write. No I/O and no
// clock; one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "redis/client_options.hpp"
#include "redis/request.hpp"

namespace tidegate::redis {

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
