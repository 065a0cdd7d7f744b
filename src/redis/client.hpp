// A command that a coroutine sends and awaits.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "redis/breaker_and_pipeline.hpp"
#include "redis/hiredis_connection.hpp"
#include "redis/resp.hpp"
#include "redis/sentinels.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::redis {

using std::chrono::milliseconds;

// Wakes `wakeup` when it is done.
class AwaitedCommand final : public Request {
  public:
    // `script`: the one that the command runs, if it runs one.
    AwaitedCommand(std::string command, Wakeup& wakeup, const Script* script = nullptr)
        : command_(std::move(command)), script_(script), wakeup_(wakeup) {}

    void append_command(std::string& out) override { out += command_; }
    const Script* script() const override { return script_; }
    void on_reply(const Reply& reply) override {
        text_ = reply.text;
        reply_ = {reply.kind, text_, reply.integer};
        finish();
    }
    void on_failure(Failure failure) override {
        failure_ = failure;
        finish();
    }

    bool done() const { return done_; }
    // Once it is done: the reply, or nothing and the failure.
    const std::optional<Reply>& reply() const { return reply_; }
    Failure failure() const { return failure_; }

  private:
    void finish() {
        done_ = true;
        wakeup_.wake_later();
    }

    std::string command_;
    const Script* script_;
    Wakeup& wakeup_;
    bool done_ = false;
    std::string text_;
    std::optional<Reply> reply_;
    Failure failure_ = Failure::disconnected;
};

// A Handshake says the first commands on a connection, and reads what the answers mean.
//
// In this order: AUTH, SELECT of a database other than 0, ROLE of a master that sentinels name,
// CLUSTER NODES in a cluster, SCRIPT LOAD of each script. If Redis is down, a PING that has to be
// answered as fast as a decision. After a server that took no writes, a PEXPIRE of a key that does
// not exist, which changes nothing and which a replica refuses like any other write. No I/O and no
// clock; one thread.

// How a client connects to its Redis, and what keeps it from doing so.
class MasterWatch;

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
    // Says what to do about `error`, for messages: something, if it says that a right or a command
    // is missing, or that the server is too old.
    std::string advice(std::string_view error) const;
};

// Why a connection cannot be used.
struct RedisConnectFault {
    bool refused = false;  // Redis was reached, and refuses us or our scripts
    std::string message;   // names the address
};

// A master answers ROLE with this word first.
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
    // Takes the answer to the last command. Returns why the connection cannot be used, or nothing.
    std::optional<RedisConnectFault> on_reply(const Reply& reply);
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

// A worker's connection to Redis: commands with deadlines, and a failure known at once.
//
// This is the shell that does the I/O. `pipeline` knows which command waits for which reply,
// `breaker` when Redis is down and when to try it again, `handshake` what is said first on a
// connection; HiredisConnection carries the bytes. While connected, all commands of a turn of the
// loop leave in one write, or before in a flush().
//
// With sentinels, each attempt to connect goes to the master they name, and counts only if the
// server says itself that it is one; the client asks it again every second. Without sentinels, a
// server that says that it is a replica is left: the address may lead elsewhere by now. One thread.
class Client final : public std::enable_shared_from_this<Client>,
                     private HiredisConnection::Listener {
  public:
    // Called at each change between up and down, with the reason; for up, which server it is. From
    // the event loop.
    using OnState = std::function<void(bool up, std::string_view reason)>;
    // Called with an error before the request is: true if the command is another node's and on its
    // way there. From inside a reply: must not stop this client.
    using OnError = std::function<bool(const QueuedCommand& command, std::string_view error)>;

    Client(Executor executor, ClientOptions options, OnState on_state, OnError on_error = {});
    ~Client();

    // Connects and stays connected until stop(). Spawn it once; it keeps `self` alive.
    static Task<> run(std::shared_ptr<Client> self);
    // Fails all requests that wait before it returns. Not from on_reply or on_failure.
    void stop();

    // Sends `request` or says why not. `request` must live until one of its functions was called,
    // which is within the timeout from `asked` on, or at `needed_by` if that is earlier. Only the
    // timeout says that Redis does not answer.
    std::optional<Failure> send(Request& request,
                                SteadyTime asked = std::chrono::steady_clock::now(),
                                SteadyTime needed_by = SteadyTime::max()) {
        const SteadyTime unanswered_at = asked + options_.timeout;
        return forward({&request, std::min(unanswered_at, needed_by), unanswered_at});
    }
    // Sends `request`, whose reply is not urgent, with the next command; if none comes, within 10
    // ms. So it costs no write of its own while there is traffic. With a short timeout, as send().
    std::optional<Failure> send_with_next(Request& request);
    // Sends now what waits for the end of the turn. May call requests before it returns.
    void flush();
    // As send(), for a command that another node has not carried out, within the deadline it has.
    std::optional<Failure> forward(const QueuedCommand& command);

    // Tries once to connect, authenticate and load the scripts; for start-up. Blocks for at most
    // `time`. Nothing when all went well.
    static std::optional<RedisConnectFault> try_once(const ClientOptions& options,
                                                     milliseconds time);

    bool is_up() const { return !breaker_.is_down(); }
    // Whether commands leave at once.
    bool is_connected() const { return breaker_.is_up(); }

  private:
    class RoleCheck;
    using Endpoint = asio::ip::tcp::endpoint;
    using Connected = Task<std::optional<RedisConnectFault>>;

    // Hands a command of the pipeline to the connection.
    auto to_connection() {
        return [this](std::string_view bytes, std::uint64_t ticket) {
            connection_->send(bytes, ticket);
        };
    }
    void on_script_error(const QueuedCommand& command, std::uint64_t ticket,
                         std::string_view error);
    std::optional<Failure> add(const QueuedCommand& command);

    void on_connected() override;
    void on_flush() override;
    void on_reply(std::uint64_t ticket, const Reply& reply) override;
    void on_closed(std::string_view reason) override;

    // Follows the master.
    Connected find_master();
    Task<> pause_after_failure();
    void check_master_later();
    void on_news(const MasterWatch::News& news);
    void on_replica_error(std::string_view error);
    void leave_replica(std::string_view reason);
    void leave_watch();
    // Which server this is about, for messages.
    std::string place() const;
    // Connects.
    Connected connect();
    Connected open_connection();
    bool begin_connection(const Endpoint& endpoint);
    Task<std::vector<Endpoint>> resolve(std::string& reason);
    Connected await_connection(bool begun);
    Connected shake_hands();
    Task<> pause(milliseconds time);

    // What was sent over it may have been carried out.
    void drop_connection();
    void leave_connection(std::string_view reason);
    static void fail(const std::deque<QueuedCommand>& commands, Failure failure);
    void become_up();
    void become_down(std::string_view reason);
    // Sweeps for late commands until there are none; `is_hurried`: often, as a caller's deadline is
    // earlier than the timeout.
    void watch_deadlines(bool is_hurried);
    void sweep_deadlines();

    Executor executor_;
    ClientOptions options_;
    OnState on_state_;
    OnError on_error_;
    bool stopped_ = false;

    Breaker breaker_;
    Pipeline pipeline_;
    std::shared_ptr<HiredisConnection> connection_;
    bool is_connected_ = false;
    std::string closed_because_;  // why the connection ended; empty: it has not
    // Errors of every request are logged now and then; the metrics have the number.
    SteadyTime next_log_of_loads_;
    SteadyTime next_log_of_scripts_;
    SteadyTime next_log_of_rights_;

    int follower_ = 0;                       // our number at the watch, if there is one
    NodeAddress master_;                     // where we are, or try to be
    std::optional<MasterWatch::News> news_;  // the answer to what we asked the watch
    std::optional<NodeAddress> moved_to_;    // the master is there, and we have to follow
    std::shared_ptr<RoleCheck> role_check_;
    Timer master_timer_;
    bool is_master_ = false;    // the server has said so
    bool was_replica_ = false;  // the server that was left last, without sentinels, said so

    Wakeup wakeup_;  // run() sleeps here
    Timer pause_timer_;
    Timer sweep_timer_;
    bool sweeping_ = false;
    bool sweeps_soon_ = false;    // as for a caller's deadline
    SteadyTime hurried_until_{};  // a caller's deadline comes by then: sweeps are frequent
    std::minstd_rand random_;
};

}  // namespace tidegate::redis
