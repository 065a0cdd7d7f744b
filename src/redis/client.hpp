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
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "redis/breaker.hpp"
#include "redis/handshake.hpp"
#include "redis/hiredis_connection.hpp"
#include "redis/master_watch.hpp"
#include "redis/pipeline.hpp"

namespace tidegate::redis {

class Client final : public std::enable_shared_from_this<Client>,
                     private HiredisConnection::Listener {
  public:
    // Called at each change between up and down, with the reason; for up, which server it is. From
    // the event loop.
    using OnState = std::function<void(bool up, std::string_view reason)>;
    // Called with an error before the request is: true if the command is another node's and on its
    // way there. From inside a reply: must not stop this client.
    using OnError = std::function<bool(const Command& command, std::string_view error)>;

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
    // Sends now what waits for the end of the turn. May call requests before it returns.
    void flush();
    // As send(), for a command that another node has not carried out, within the deadline it has.
    std::optional<Failure> forward(const Command& command);

    // Tries once to connect, authenticate and load the scripts; for start-up. Blocks for at most
    // `time`. Nothing when all went well.
    static std::optional<ConnectFault> try_once(const ClientOptions& options, milliseconds time);

    bool is_up() const { return !breaker_.is_down(); }
    // Whether commands leave at once.
    bool is_connected() const { return breaker_.is_up(); }

  private:
    class RoleCheck;
    using Endpoint = asio::ip::tcp::endpoint;
    using Connected = Task<std::optional<ConnectFault>>;

    // Hands a command of the pipeline to the connection.
    auto to_connection() {
        return [this](std::string_view bytes, std::uint64_t ticket) {
            connection_->send(bytes, ticket);
        };
    }
    void on_script_error(const Command& command, std::uint64_t ticket, std::string_view error);

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

    void drop_connection(Failure failure);
    void leave_connection(std::string_view reason);
    static void fail(const std::deque<Command>& commands, Failure failure);
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
