// Breaker says when a Redis counts as down, when the client tries it again, and when it is back.
//
//     connecting --connected--> up --connection lost--> connecting
//     connecting, up --open()--> down --connected--> up
//
// While connecting, commands wait, within their deadlines: a connection that was just lost is made
// again at once, a few times a second. The breaker opens when an attempt to connect fails, when the
// pause before the next one is longer than a command may wait, or when so many commands in a row
// were not answered in time; commands are then refused, and the client tries to connect with
// growing, jittered pauses. No I/O and no clock; one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/deadline.hpp"
#include "redis/resp.hpp"

namespace tidegate::redis {

using std::chrono::milliseconds;

class Breaker {
  public:
    struct Options {
        int failures = 5;                 // unanswered commands in a row that open it
        milliseconds timeout{100};        // of a command
        milliseconds probe_every{1'000};  // the longest pause between attempts to connect
        // Unanswered commands in a row, of all breakers made with copies of these options: a
        // process with many threads and few requests notices a dead Redis as soon as one with one.
        std::shared_ptr<std::atomic<int>> unanswered = std::make_shared<std::atomic<int>>(0);
    };
    // So many connections in a row, and so many a second, are made again at once.
    static constexpr int kReconnects = 5;

    explicit Breaker(Options options) : options_(std::move(options)) {}

    bool is_up() const { return state_ == State::up; }
    bool is_down() const { return state_ == State::down; }

    // The handshake succeeded. True: Redis was down and is back.
    bool on_connected(SteadyTime now);
    // The connection is lost, or is given up for another.
    void on_connection_lost();
    // A reply arrived within its deadline.
    void on_answer() {
        was_answered_ = true;
        unanswered_ = 0;
        // Read first: all threads share it, and a write on every reply would be passed around.
        if (options_.unanswered->load(std::memory_order_relaxed) != 0) *options_.unanswered = 0;
    }
    // `count` commands were not answered in time.
    void on_timeouts(int count);

    // Whether so many commands in a row went unanswered that the caller has to open it.
    bool must_open() const;
    int unanswered_in_a_row() const { return std::max(unanswered_, options_.unanswered->load()); }
    // True: it was not open.
    bool open() { return std::exchange(state_, State::down) != State::down; }

    // How long to wait after an attempt to connect has failed.
    milliseconds pause_after_failure(std::minstd_rand& random);
    // How long to wait after a connection has ended that was up.
    milliseconds pause_after_loss(SteadyTime now, std::minstd_rand& random);
    // Whether no command can wait for what comes after `pause`: the caller has to open it.
    bool outlasts_commands(milliseconds pause) const { return pause >= options_.timeout; }
    // The next pauses are short again.
    void reset_pauses() { last_pause_ = milliseconds{0}; }

  private:
    enum class State : std::uint8_t { connecting, up, down };

    bool may_reconnect(SteadyTime now);

    Options options_;
    State state_ = State::connecting;
    int unanswered_ = 0;  // in a row, of this breaker
    SteadyTime connected_at_;
    bool was_answered_ = false;  // since then
    milliseconds last_pause_{0};
    SteadyTime reconnects_spent_until_;
};

// The commands of one connection to Redis, and which of them waits for which reply.
//
// A command waits to be sent, then for its reply; replies arrive in the order of sending. A sent
// command has a number, its ticket. One whose deadline passes is abandoned: its request is not
// called any more, and the command keeps its place, so that its late reply is taken for no other's.
// The deadline may be earlier than the time that the server has: then a command that is abandoned
// says nothing of the server yet.
// A command is sent once; again only when the server did not know its script, and so carried
// nothing out: at once the first time, and then with the next commands until its deadline. No I/O
// and no clock; one thread.

struct QueuedCommand {
    Request* request;  // null: abandoned; its reply still has a place in the order
    SteadyTime deadline;
    // Without a reply by then, it counts as unanswered; if that is not later than its deadline,
    // then.
    SteadyTime unanswered_at{};
    bool sent_again = false;        // the server did not know its script; loads it
    std::uint8_t redirections = 0;  // how often nodes of a cluster have named another node
    bool asking = false;            // its slot is moving to that node: ASKING goes before it
};

// Commands in order, and which of them are out of time.
//
// Commands of one client mostly have one timeout and come in the order in which requests arrived,
// so the first that is in time ends a search for those that are not: a search costs what it finds,
// however many commands there are. The few that come later than their deadline would have them
// (sent a second time, or redirected by another node) are in a heap besides.
class CommandQueue {
  public:
    bool empty() const { return commands_.empty(); }
    std::size_t size() const { return commands_.size(); }

    // The ticket of the next command; tickets go up by one.
    std::uint64_t next_ticket() const { return first_ticket_ + commands_.size(); }
    // Returns the ticket of the first command, if there is one.
    std::uint64_t first_ticket() const { return first_ticket_; }
    void push(const QueuedCommand& command);
    // Both require a command.
    const QueuedCommand& front() const { return commands_.front(); }
    QueuedCommand pop();
    // All there is; their tickets are used up.
    std::deque<QueuedCommand> take_all();

    // Appends to `late` the requests whose deadline has come, and abandons their commands. Returns
    // how many commands it looked at.
    std::size_t take_late(SteadyTime now, std::vector<Request*>& late);
    // How many commands count as unanswered since the last call. After take_late().
    int take_unanswered(SteadyTime now);

  private:
    // A command that was abandoned at its caller's deadline, before the server's time was over.
    struct Hurried {
        SteadyTime unanswered_at;
        std::uint64_t ticket;
    };
    struct Early {
        SteadyTime deadline;
        std::uint64_t ticket;
        // For a heap with the earliest at its front.
        bool operator<(const Early& other) const { return deadline > other.deadline; }
    };

    void abandon(std::uint64_t ticket, SteadyTime now, std::vector<Request*>& late);

    std::deque<QueuedCommand> commands_;
    std::uint64_t first_ticket_ = 1;
    std::uint64_t searched_ = 1;  // no command with a lower ticket will be late but those in early_
    SteadyTime latest_;           // the latest deadline of all commands
    // A heap of commands whose deadline is before that of a command in front of them. Their replies
    // may have come.
    std::vector<Early> early_;
    std::deque<Hurried> hurried_;
    int unanswered_ = 0;
};

// `send(bytes, ticket)` hands one whole command in RESP to the connection.
class Pipeline {
  public:
    // `commands_max`: how many may wait, to be sent or for their replies.
    explicit Pipeline(std::size_t commands_max) : commands_max_(commands_max) {}

    bool empty() const { return sent_.empty() && waiting_.empty(); }

    // Adds a command that waits to be sent. False: there are as many as there may be.
    bool add(const QueuedCommand& command) {
        if (sent_.size() + waiting_.size() >= commands_max_) return false;
        waiting_.push(command);
        return true;
    }
    bool has_waiting() const { return !waiting_.empty(); }
    template <class Send>
    void send_waiting(const Send& send) {
        const std::uint64_t first = sent_.next_ticket();
        while (!waiting_.empty()) {
            const QueuedCommand command = waiting_.pop();
            if (command.request == nullptr) continue;
            if (command.sent_again) load(command, first, send);
            send_now(command, send);
        }
    }
    // Sends `command`, which has a request, ahead of those that wait.
    template <class Send>
    void send_now(const QueuedCommand& command, const Send& send) {
        if (command.asking) send_unawaited({"ASKING"}, command.deadline, send);
        bytes_.clear();
        command.request->append_command(bytes_);
        send(bytes_, sent_.next_ticket());
        sent_.push(command);
    }

    // The command whose reply has arrived; none when it was abandoned.
    std::optional<QueuedCommand> take_answered(std::uint64_t ticket);

    // The server answered that it does not know the script of `command`, which had `ticket`: loads
    // it and sends the command again. Of all the commands that were under way when the server
    // forgot the script, only the first to be answered so loads it. Returns whether this is a
    // script that the server had, and loaded now. Requires a command that was not sent again yet.
    template <class Send>
    bool load_and_resend(QueuedCommand command, std::uint64_t ticket, const Send& send) {
        const bool is_first = !loads_.contains(command.request->script());
        const bool loads = load(command, ticket, send);
        command.sent_again = true;
        send_now(command, send);
        return loads && !is_first;
    }
    // The same for one that was sent again already: the server has forgotten the script once more.
    // It waits to be sent with other commands, so that a server which never knows a script is not
    // asked without a pause.
    void load_and_resend_later(const QueuedCommand& command) { waiting_.push(command); }
    // The server answered `error` to what has `ticket`, which may be a SCRIPT LOAD.
    void note_error(std::uint64_t ticket, std::string_view error);
    // Why the last SCRIPT LOAD of `script` failed; empty: it did not, or was not answered yet.
    std::string_view why_not_loaded(const Script& script) const;
    // There is a new connection, over which `scripts` are loaded.
    void begin_connection(const std::vector<const Script*>& scripts);

    // Appends the requests that are out of time; their commands are abandoned. Returns how many
    // commands count as unanswered since the last call.
    int take_late(SteadyTime now, std::vector<Request*>& late);
    // The commands whose replies will not come, as the connection is gone.
    std::deque<QueuedCommand> take_sent() { return sent_.take_all(); }
    std::deque<QueuedCommand> take_waiting() { return waiting_.take_all(); }

  private:
    struct Load {
        std::uint64_t ticket = 0;    // of the last SCRIPT LOAD; 0: of the handshake
        std::string refused_with{};  // its answer, if that was an error
    };

    // Sends SCRIPT LOAD for `command`, unless a command from ticket `since` on has done so.
    template <class Send>
    bool load(const QueuedCommand& command, std::uint64_t since, const Send& send) {
        const Script& script = *command.request->script();
        Load& last = loads_[&script];
        if (last.ticket >= since) return false;
        last = {sent_.next_ticket(), {}};
        send_unawaited({"SCRIPT", "LOAD", script.text}, command.deadline, send);
        return true;
    }

    // A command whose reply goes to no request.
    template <class Send>
    void send_unawaited(std::initializer_list<std::string_view> words, SteadyTime deadline,
                        const Send& send) {
        bytes_.clear();
        append_resp(words, bytes_);
        send(bytes_, sent_.next_ticket());
        sent_.push({nullptr, deadline, deadline});
    }

    std::size_t commands_max_;
    CommandQueue sent_;
    CommandQueue waiting_;
    std::map<const Script*, Load> loads_;  // scripts the server had over this connection
    std::string bytes_;
};

}  // namespace tidegate::redis
