// The doctor's connection to one Redis or one sentinel: a command at a time, each with a deadline.
// Blocks. One thread. And what a server answers, made fit to be shown.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/trial.hpp"
#include "net/asio.hpp"
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
    // What to do about a server that wants a client certificate.
    std::string certificate_advice() const;
};

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

    bool connect(const RedisTarget& target, const Endpoints& endpoints, Findings& findings);
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

// `text` with `***` for `secret`, wherever it occurs; nothing is hidden when that is empty.
std::string without_secret(std::string_view text, std::string_view secret);

// An error in quotes, without the password: old servers repeat the arguments of a command that they
// do not know, and others any words they like; one of AUTH's arguments is the password.
std::string shown_error(std::string_view error, std::string_view password);

}  // namespace tidegate::doctor
