// The doctor's connection to one Redis or one sentinel, and what the doctor looks at in one that
// decides. No key is left behind: those that the doctor writes have names that no one else uses;
// they expire within seconds, and are removed before that.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "config/config.hpp"
#include "doctor/doctor.hpp"
#include "doctor/trial.hpp"
#include "limit/limit.hpp"
#include "net/asio.hpp"
#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"
#include "redis/server_connection.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

using redis::RespValue;

// Which server to connect to, and as which user.
struct RedisTarget {
    config::Address address;
    std::string username;
    std::string password;
    std::shared_ptr<const TlsClient> tls;  // null: not encrypted
    // For advice: where its address is configured (`store.redis.url`), and what kind of server it
    // should be.
    std::string_view section;
    std::string_view kind;  // `redis`, `sentinel`

    std::string name() const;  // `redis 10.0.0.1:6379`
    // Says what to do about a server that wants a client certificate.
    std::string certificate_advice() const;
};

// One command at a time, each with a deadline. Blocks. One thread.
class RedisConnection {
  public:
    explicit RedisConnection(const TimeLimit& time_limit) : time_limit_(time_limit) {}

    // Looks the name up, connects to each of its addresses, encrypts and says the password. Adds
    // what it found to `findings`; true when commands may be sent. It tries every address, so that
    // one which is dead is found while another still answers.
    bool open(const RedisTarget& target, Findings& findings);

    // One command and its reply. Where there is none, because the server is silent or gone, the
    // reply is an error that says so in parentheses; from then on nothing is sent any more.
    RespValue ask(std::initializer_list<std::string_view> words);
    RespValue ask_resp(std::string command);
    bool is_lost() const { return !why_lost_.empty(); }
    // A clause.
    const std::string& why_lost() const { return why_lost_; }

    const TimeLimit& time_limit() const { return time_limit_; }

  private:
    using ConnectionPtr = std::shared_ptr<redis::ServerConnection>;
    using Fault = redis::ServerConnection::Fault;

    // Returns the endpoints that it reaches, and stays connected to the first of them.
    Endpoints connect(const RedisTarget& target, const Endpoints& endpoints, Findings& findings);
    // The fault is none if the message is empty.
    Fault connect_to(const StreamProtocol::endpoint& endpoint, redis::ServerConnection& connection);
    bool authenticate(const RedisTarget& target, Findings& findings);
    bool ping(const RedisTarget& target, Findings& findings);

    TimeLimit time_limit_;
    asio::io_context io_{1};
    ConnectionPtr connection_;
    std::string why_lost_;
    bool wants_certificate_ = false;  // the server ended the connection for want of one
};

// True: `reply` is such an error (the server is loading, busy, full and the like), and now a
// finding.
bool report_server_error(const redis::RespValue& reply, Findings& findings);

// Says what to do about a command that the server does not have.
inline constexpr std::string_view kCommandAdvice =
    "remove the `rename-command` of it from the server's configuration, or use a server that has "
    "it: Redis 6.0 to 8, Valkey 8";

// `text` with `***` for `secret`, wherever it occurs; nothing is hidden when that is empty.
std::string without_secret(std::string_view text, std::string_view secret);

// An error in quotes, without the password: old servers repeat the arguments of a command that they
// do not know, and others any words they like; one of AUTH's arguments is the password.
std::string shown_error(std::string_view error, std::string_view password);

// Reads what a Redis says of itself (INFO, CONFIG GET), and what that means for counts. Pure.
class RedisInfo {
  public:
    // The answer to INFO; lines that are none of its own are passed over.
    explicit RedisInfo(std::string_view text);

    // Empty if it is not there.
    std::string_view text(std::string_view name) const;
    std::optional<std::uint64_t> number(std::string_view name) const;

  private:
    std::map<std::string, std::string, std::less<>> fields_;
};

// Checks whether Redis may throw counts away, or refuse them, for want of memory.
void check_memory(const RedisInfo& info, Findings& findings);

// Checks which counts a restart forgets. `save`: that of CONFIG GET; unset: not to be seen.
// `longest`: the longest window of all limits; 0: there are none.
void check_persistence(const RedisInfo& info, const std::optional<std::string>& save,
                       limit::Micros longest, Findings& findings);

void check_connections(const RedisInfo& info, Findings& findings);

BOOST_DEFINE_FIXED_ENUM_CLASS(RedisNodeKind, std::uint8_t, single, sentinel_master, cluster_node)

// A Redis, and how Tidegate uses it.
struct RedisNode {
    using Kind = RedisNodeKind;

    const config::Config& config;
    const config::RedisSettings& settings;
    RedisTarget target;
    TimeLimit time_limit;
    Kind kind = Kind::single;
    std::vector<redis::SlotRange> slots{};  // of a cluster node: what it serves

    // Returns the rights that its user needs besides store::access_rights(): empty, or with a space
    // in front.
    std::string_view more_rights() const;
    // Returns the ACL SETUSER command that gives that user all it needs.
    std::string rights_advice() const;
    // Says whether it serves keys with this hash tag.
    bool serves(std::string_view tag) const;
};

// Blocks until it has looked at everything, or the time is over.
Findings check_node(const RedisNode& node);

}  // namespace tidegate::doctor
