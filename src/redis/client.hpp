// A worker's Redis: one connection that is kept, commands with deadlines, failure known at once.
//
// While connected a command is sent with all others of its turn of the loop, or before with a
// flush(). A connection that was just lost is made again at once and commands wait for it, within
// their deadlines; so is the next, a few times a second. When that fails, or so many commands in a
// row go unanswered, Redis is down: commands are refused without waiting while the connection is
// tried again behind, with growing, jittered pauses. The handshake is the probe that ends it: it
// succeeds, and a last PING is answered as fast as a decision has to be.
//
// With sentinels, each attempt goes to where they say the master is, and counts only if the server
// itself says that it is one; so it is asked once a second while connected, too. Without, a server
// that says that it is a replica is left: the address may lead elsewhere by now. One thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "redis/link.hpp"
#include "redis/master_watch.hpp"
#include "redis/reconnects.hpp"
#include "redis/reply_queue.hpp"
#include "redis/script.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::redis {

using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

enum class Failure : std::uint8_t {
    timeout,       // no reply within the deadline; the command may have been carried out
    disconnected,  // the connection was lost before the reply; likewise
    unavailable,   // not sent: Redis is down
    overloaded,    // not sent: too many commands in flight
    refused,       // Redis answered with an error; not carried out
};

// Somebody who waits for a reply. Exactly one of on_reply and on_failure is called, from the event
// loop or, if a flush() finds the connection lost, from that; neither must resume a coroutine
// (Wakeup::wake_later does that).
class Request {
  public:
    // Appends the whole command in RESP. Called when it is about to leave, at the end of the turn
    // of the loop or in a flush(); a second time when Redis did not know `script()`.
    virtual void append_command(std::string& out) = 0;
    // The script the command runs, or null.
    virtual const Script* script() const = 0;
    virtual void on_reply(const Reply& reply) = 0;
    virtual void on_failure(Failure failure) = 0;

  protected:
    ~Request() = default;
};

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
    // Commands in a row that went unanswered, of all clients made with copies of these options: a
    // process with many threads and few requests notices a dead Redis as soon as one with one.
    std::shared_ptr<std::atomic<int>> unanswered = std::make_shared<std::atomic<int>>(0);
    milliseconds probe_every{1'000};  // the longest pause between attempts
    // Loaded whenever a connection is made. Others are when they are first used, which costs that
    // command a second way.
    std::vector<const Script*> scripts;
    std::string rights;       // for messages: what its user must be allowed
    std::string absent_key;   // never written: for asking whether a server takes writes
    bool in_cluster = false;  // a node of one; see Cluster

    std::string address() const;  // for messages; holds no secret
};

struct ConnectFault {
    bool refused = false;  // Redis was reached and does not want us, or our scripts
    std::string message;   // names the address
};

class Client final : public std::enable_shared_from_this<Client>, private Link::Listener {
  public:
    // Told of each change between up and down, with the reason; for up, which server it is. From
    // the event loop.
    using OnState = std::function<void(bool up, std::string_view reason)>;

    using Pending = redis::Pending;
    // Told of an error before who asked is: true if the command is another node's and on its way
    // there. From inside a reply: must not stop this client.
    using OnError = std::function<bool(const Pending& pending, std::string_view error)>;

    Client(Executor executor, ClientOptions options, OnState on_state, OnError on_error = {});
    ~Client();

    // Connects and stays connected until stop(). Spawn it once; it keeps `self` alive.
    static Task<> run(std::shared_ptr<Client> self);
    // Tells everybody who waits before it returns. Not from on_reply or on_failure.
    void stop();

    // Sends `request` or says why not. `request` must live until it has been told, which is within
    // the timeout from `asked` on.
    std::optional<Failure> send(Request& request,
                                SteadyTime asked = std::chrono::steady_clock::now());
    // Sends now what waits for the end of the turn. May tell who asked before it returns.
    void flush();
    // As send(), for what another node has not carried out, within the deadline it has.
    std::optional<Failure> forward(const Pending& pending);

    // Tries once to connect, authenticate and load the scripts; for start-up. Blocks for at most
    // `patience`. Nothing when all went well.
    static std::optional<ConnectFault> try_once(const ClientOptions& options,
                                                milliseconds patience);

    bool is_up() const { return state_ != State::down; }

  private:
    enum class State : std::uint8_t {
        connecting,  // commands wait
        ready,
        down,  // commands are refused
    };
    class Call;
    class RoleCheck;
    using Endpoint = asio::ip::tcp::endpoint;

    void transmit(const Pending& pending);
    void transmit_waiting();
    void load_and_resend(Pending pending, std::uint64_t ticket);
    void on_script_error(const Pending& pending, std::uint64_t ticket, std::string_view error);

    void on_connected() override;
    void on_flush() override;
    void on_reply(std::uint64_t ticket, const Reply& reply) override;
    void on_closed(std::string_view reason) override;

    // All that is about being at a master: client_master.cpp.
    Task<std::optional<ConnectFault>> find_master();
    Task<> pause_until_moved();
    void look_again_later();
    void on_news(const MasterWatch::News& news);
    void on_replica_error(std::string_view error);
    Task<std::optional<ConnectFault>> probe_writes();
    void leave_replica(std::string_view reason);
    void leave_link(std::string_view reason);
    void leave_watch();
    // What to do about `error`, for messages: something, if it says that a right is missing.
    std::string advice(std::string_view error) const;
    // Which server this is about, for messages.
    std::string place() const;

    Task<std::optional<ConnectFault>> connect();
    Task<std::optional<ConnectFault>> open_link();
    bool begin_link(const Endpoint& endpoint);
    Task<std::vector<Endpoint>> resolve(std::string& reason);
    Task<std::optional<ConnectFault>> await_link(bool begun);
    Task<std::optional<ConnectFault>> handshake();
    Task<std::optional<ConnectFault>> probe();
    Task<std::string> command(std::string resp, milliseconds patience, bool& answered,
                              std::string* first = nullptr);
    Task<> pause(milliseconds time);
    milliseconds next_pause();

    void renew_link();
    void drop_link(Failure failure);
    void fail_pending(Failure failure);
    void count_unanswered();
    void forget_unanswered();
    void fail_waiting(Failure failure);
    void enter(State state, std::string_view reason);
    void watch_deadlines();
    void sweep_deadlines();

    Executor executor_;
    ClientOptions options_;
    OnState on_state_;
    OnError on_error_;
    State state_ = State::connecting;
    bool told_down_ = false;
    bool stopped_ = false;

    std::shared_ptr<Link> link_;
    bool link_connected_ = false;
    std::string link_reason_;  // why the link closed
    ReplyQueue pending_;       // in the order of sending
    ReplyQueue waiting_;       // for the end of the turn, or for the connection
    int failures_in_a_row_ = 0;
    milliseconds last_pause_{0};
    Reconnects reconnects_;
    bool was_answered_ = false;                     // a command, since the handshake went well
    std::map<const Script*, std::uint64_t> loads_;  // over this link: the ticket of the last one
    SteadyTime quiet_about_loads_until_;
    SteadyTime quiet_about_errors_until_;
    SteadyTime quiet_about_rights_until_;

    int follower_ = 0;                       // our number at the watch, if there is one
    MasterAddress master_;                   // where we are, or try to be
    std::optional<MasterWatch::News> news_;  // the answer to what we asked the watch
    std::optional<MasterAddress> moved_to_;  // a switch that is still to be followed
    std::shared_ptr<RoleCheck> role_check_;
    Timer master_timer_;
    bool is_master_ = false;    // the server has said so
    bool was_replica_ = false;  // the last server that was left without sentinels, by what it said

    Wakeup wakeup_;  // run() sleeps here
    Timer pause_timer_;
    Timer sweep_timer_;
    bool sweeping_ = false;
    std::string scratch_;
    std::minstd_rand random_;
};

// Appends one command in RESP.
void append_resp(std::initializer_list<std::string_view> arguments, std::string& out);

}  // namespace tidegate::redis
