#include "redis/client.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/utf8.hpp"
#include "net/name_lookup.hpp"
#include "redis/resp.hpp"
#include "redis/sentinels.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::redis {

namespace {

using telemetry::Level;
using telemetry::log;

constexpr milliseconds kSweepEvery{10};
// While a caller has a deadline of its own.
constexpr milliseconds kHurriedSweepEvery{1};
constexpr milliseconds kFailureLogEvery{10'000};

bool may_log(SteadyTime& next_log) {
    const SteadyTime time = steady_now();
    if (time < next_log) return false;
    next_log = time + kFailureLogEvery;
    return true;
}

// The interval between two looks whether a name was looked up.
constexpr milliseconds kConnectLookupPause{10};

// The client notices a master that became a replica within this time, also when no sentinel
// announces one.
constexpr milliseconds kRoleEvery{1'000};
// An attempt, or a pause before one, ends when the sentinels name another master.
constexpr milliseconds kAskEvery{500};
// Clients that waited for a master connect within this time of its news, not all at once.
constexpr milliseconds kSpread{100};

}  // namespace

std::string ClientOptions::address() const {
    if (master_watch) return "the master " + quote(master_watch->master_name());
    if (!unix_path.empty()) return "unix:" + unix_path;
    return NodeAddress{host, static_cast<std::uint16_t>(port)}.to_string();
}

std::string ClientOptions::advice(std::string_view error) const {
    if (lacks_command(error)) {
        return "; the server does not have that command: remove its `rename-command`, or use a "
               "server that has it (Redis 6.0 to 8, Valkey 8)";
    }
    if (is_too_old(error)) {
        return "; Redis before 5.0 cannot run the scripts of Tidegate: use Redis 6.0 or later";
    }
    if (rights.empty() || !is_denied(error)) return {};
    return "; give its Redis user these rights: " + rights;
}

Handshake::Handshake(const ClientOptions& options, bool after_replica)
    : options_(options), checks_writes_(after_replica) {
    if (!options.password.empty()) {
        add(Kind::setup, "the password", auth_command(options.username, options.password));
    }
    if (options.database != 0) {
        const std::string database = std::to_string(options.database);
        add(Kind::setup, "database " + database, resp({"SELECT", database}));
    }
    if (options.master_watch) add(Kind::role, "ROLE", resp({"ROLE"}));
    if (options.in_cluster) add(Kind::setup, "CLUSTER NODES", resp({"CLUSTER", "NODES"}));
    for (const Script* script : options.scripts) {
        add(Kind::setup, "the script " + std::string(script->name),
            resp({"SCRIPT", "LOAD", script->text}));
    }
}

void Handshake::add(Kind kind, std::string what, std::string command) {
    commands_.push_back({kind, std::move(what), std::move(command)});
}

std::optional<Handshake::Step> Handshake::next(bool is_down) {
    if (next_ == commands_.size() && is_down && !std::exchange(is_pinged_, true)) {
        add(Kind::ping, "PING", resp({"PING"}));
    }
    if (next_ == commands_.size() && std::exchange(checks_writes_, false)) {
        add(Kind::write, "PEXPIRE", resp({"PEXPIRE", options_.absent_key, "1"}));
    }
    if (next_ == commands_.size()) return std::nullopt;
    Command& command = commands_[next_++];
    const bool as_a_decision = command.kind == Kind::ping || command.kind == Kind::write;
    return Step{std::move(command.resp),
                as_a_decision ? options_.timeout : std::max(options_.timeout, kHandshakeTime)};
}

std::optional<RedisConnectFault> Handshake::on_reply(const Reply& reply) {
    const Command& command = commands_[next_ - 1];
    const bool is_error = reply.kind == Reply::Kind::error;
    const std::string_view error = is_error ? reply.text : std::string_view();
    const std::string shown(shown_error(error));
    // A user that may not PING has an answer, too; so has one that may not PEXPIRE.
    if (command.kind == Kind::ping && !is_temporary(error)) return std::nullopt;
    if (command.kind == Kind::write && !is_replica_error(error)) return std::nullopt;
    if (command.kind == Kind::ping || command.kind == Kind::write) {
        return RedisConnectFault{false, shown};
    }
    if (wants_password(error)) {
        return RedisConnectFault{true, "it wants a password, and none is configured: " + shown};
    }
    if (is_error) {
        return RedisConnectFault{!is_temporary(error),
                                 command.what + " was refused: " + shown + options_.advice(error)};
    }
    if (command.kind != Kind::role) return std::nullopt;
    const std::string_view role = reply.kind == Reply::Kind::array ? reply.text : "";
    is_master_ = role == kMasterRole;
    if (is_master_) return std::nullopt;
    return RedisConnectFault{false, "it is not a master, its role is " + quote(role)};
}

Client::Client(Executor executor, ClientOptions options, OnState on_state, OnError on_error)
    : executor_(executor),
      options_(std::move(options)),
      on_state_(std::move(on_state)),
      on_error_(std::move(on_error)),
      breaker_(
          {options_.breaker_failures, options_.timeout, options_.probe_every, options_.unanswered}),
      pipeline_(options_.max_in_flight),
      master_timer_(executor),
      wakeup_(executor),
      pause_timer_(executor),
      sweep_timer_(executor),
      random_(std::random_device{}()) {}

Client::~Client() {
    leave_watch();
}

Task<> Client::run(std::shared_ptr<Client> self) {
    Client& client = *self;
    while (!client.stopped_) {
        const auto fault = co_await client.connect();
        if (client.stopped_) break;
        // The master is elsewhere by now: that was no failure of the present one.
        if (fault && client.moved_to_) continue;
        if (fault) {
            client.drop_connection();
            client.become_down(fault->message);
            co_await client.pause_after_failure();
            continue;
        }
        client.become_up();
        while (client.is_connected_ && !client.stopped_) co_await client.wakeup_.wait();
        if (client.moved_to_ || client.stopped_) continue;
        const milliseconds time = client.breaker_.pause_after_loss(steady_now(), client.random_);
        if (client.breaker_.outlasts_commands(time)) {
            client.become_down("Redis at " + client.place() + ": " + client.closed_because_);
        }
        if (time.count() != 0) co_await client.pause(time);
    }
    client.drop_connection();
}

void Client::stop() {
    // The commands that the last requests sent at their ends still have to leave.
    flush();
    stopped_ = true;
    leave_watch();
    pause_timer_.cancel();
    drop_connection();
    fail(pipeline_.take_waiting(), Failure::unavailable);
    wakeup_.wake_later();
}

std::optional<RedisConnectFault> Client::try_once(const ClientOptions& options, milliseconds time) {
    asio::io_context context(1);
    auto client = std::make_shared<Client>(context.get_executor(), options, OnState{});
    std::optional<RedisConnectFault> fault =
        RedisConnectFault{false, "Redis at " + options.address() + ": no answer"};
    spawn(context.get_executor(), client->connect(),
          [&](const std::exception_ptr& failed, std::optional<RedisConnectFault> outcome) {
              if (!failed) fault = std::move(outcome);
              client->drop_connection();
              client->stop();
              context.stop();
          });
    context.run_for(time);
    client->leave_watch();
    return fault;
}

std::optional<Failure> Client::forward(const QueuedCommand& command) {
    const auto failure = add(command);
    if (!failure && breaker_.is_up()) connection_->flush_soon();
    return failure;
}

// The sweep, which each command starts, sends what no other command has taken along.
std::optional<Failure> Client::send_with_next(Request& request) {
    constexpr auto kTimeoutMin = 4 * kSweepEvery;
    if (options_.timeout < kTimeoutMin) return send(request);
    // Its time begins when it leaves.
    const SteadyTime unanswered_at = steady_now() + kSweepEvery + options_.timeout;
    return add({&request, unanswered_at, unanswered_at});
}

std::optional<Failure> Client::add(const QueuedCommand& command) {
    if (breaker_.is_down() || stopped_) return Failure::unavailable;
    if (!pipeline_.add(command)) return Failure::overloaded;
    const bool is_hurried = command.deadline < command.unanswered_at;
    if (is_hurried) hurried_until_ = std::max(hurried_until_, command.deadline);
    watch_deadlines(is_hurried);
    return std::nullopt;
}

void Client::flush() {
    const auto connection = connection_;  // which may be lost over this
    if (!breaker_.is_up() || connection == nullptr) return;
    on_flush();
    connection->flush();
}

// As late as possible: until then a request may still grow.
void Client::on_flush() {
    if (breaker_.is_up()) pipeline_.send_waiting(to_connection());
}

void Client::on_connected() {
    is_connected_ = true;
    wakeup_.wake_later();
}

void Client::on_reply(std::uint64_t ticket, const Reply& reply) {
    if (reply.kind == Reply::Kind::error) pipeline_.note_error(ticket, reply.text);
    const std::optional<QueuedCommand> command = pipeline_.take_answered(ticket);
    // A reply that is too late does not show that Redis is well.
    if (!command) return;
    breaker_.on_answer();
    if (reply.kind == Reply::Kind::error) {
        if (on_error_ && on_error_(*command, reply.text)) return;
        if (is_replica_error(reply.text)) on_replica_error(reply.text);
        if (command->request->script() != nullptr) {
            on_script_error(*command, ticket, reply.text);
            return;
        }
        // A request that is no script can do without its answer: the log shows what is missing.
        if (breaker_.is_up() && is_denied(reply.text) && may_log(next_log_of_rights_)) {
            log(Level::error, "Redis at {} refused a command: {}{}", place(),
                shown_error(reply.text), options_.advice(reply.text));
        }
    }
    command->request->on_reply(reply);
}

void Client::on_script_error(const QueuedCommand& command, std::uint64_t ticket,
                             std::string_view error) {
    const Script& script = *command.request->script();
    const bool is_unknown = error.starts_with("NOSCRIPT");
    const std::string_view refused = pipeline_.why_not_loaded(script);
    // Redis has lost the script once more. It carried nothing out, so the command may be sent again
    // as long as it has time. sweep_deadlines() sends it if no other command comes.
    if (is_unknown && breaker_.is_up() && command.sent_again && refused.empty()) {
        return pipeline_.load_and_resend_later(command);
    }
    if (is_unknown && breaker_.is_up() && !command.sent_again) {
        if (pipeline_.load_and_resend(command, ticket, to_connection()) &&
            may_log(next_log_of_loads_)) {
            log(Level::warn, "Redis at {} does not know the script {}: loading it again", place(),
                script.name);
        }
        return;
    }
    if (is_unknown && !refused.empty()) error = refused;
    if (may_log(next_log_of_scripts_)) {
        log(Level::error, "Redis at {} refused the script {}: {}{}", place(), script.name,
            shown_error(error), options_.advice(error));
    }
    command.request->on_failure(is_not_ready(error) ? Failure::not_ready : Failure::refused);
}

void Client::on_closed(std::string_view reason) {
    closed_because_ = reason;
    is_connected_ = false;
    breaker_.on_connection_lost();
    fail(pipeline_.take_sent(), Failure::disconnected);
    wakeup_.wake_later();
}

void Client::drop_connection() {
    if (connection_) connection_->close();
    connection_.reset();
    is_connected_ = false;
    fail(pipeline_.take_sent(), Failure::disconnected);
}

// Commands under way may have been carried out; those that wait go on waiting.
void Client::leave_connection(std::string_view reason) {
    breaker_.on_connection_lost();
    drop_connection();
    closed_because_ = reason;
    wakeup_.wake_later();
}

void Client::fail(const std::deque<QueuedCommand>& commands, Failure failure) {
    for (const QueuedCommand& command : commands) {
        if (command.request != nullptr) command.request->on_failure(failure);
    }
}

void Client::become_up() {
    const bool was_down = breaker_.on_connected(steady_now());
    on_flush();
    if (was_down && on_state_) on_state_(true, place());
}

void Client::become_down(std::string_view reason) {
    if (!breaker_.open()) return;
    fail(pipeline_.take_waiting(), Failure::unavailable);
    if (on_state_) on_state_(false, reason);
}

void Client::watch_deadlines(bool is_hurried) {
    const milliseconds pause = is_hurried ? kHurriedSweepEvery : kSweepEvery;
    if (sweeping_ && (sweeps_soon_ || !is_hurried)) return;
    sweeping_ = true;
    sweeps_soon_ = is_hurried;
    sweep_timer_.expires_after(pause);
    sweep_timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
        if (ec) return;  // an earlier sweep takes its place
        if (const auto self = weak.lock()) self->sweep_deadlines();
    });
}

void Client::sweep_deadlines() {
    sweeping_ = false;
    std::vector<Request*> late;
    const SteadyTime time = steady_now();
    breaker_.on_timeouts(pipeline_.take_late(time, late));
    // Only now: a request that fails may send another command.
    for (Request* request : late) request->on_failure(Failure::timeout);
    if (breaker_.must_open()) {
        const int in_a_row = breaker_.unanswered_in_a_row();
        // An attempt to connect that is under way goes on.
        if (breaker_.is_up()) leave_connection({});
        become_down("Redis at " + place() + " does not answer: " + std::to_string(in_a_row) +
                    " commands in a row");
        wakeup_.wake_later();
    }
    if (pipeline_.has_waiting()) flush();
    if (!pipeline_.empty()) watch_deadlines(time < hurried_until_);
}

Client::Connected Client::connect() {
    auto fault = co_await find_master();
    if (fault) co_return fault;
    fault = co_await open_connection();
    if (!fault) fault = co_await shake_hands();
    // The last answer and the end may arrive together.
    if (!fault && !is_connected_) fault = RedisConnectFault{false, closed_because_};
    if (fault && connection_ && connection_->tls_was_refused()) fault->refused = true;
    if (fault) fault->message = "Redis at " + place() + ": " + fault->message;
    co_return fault;
}

Client::Connected Client::open_connection() {
    if (!options_.unix_path.empty() && !options_.master_watch) {
        co_return co_await await_connection(begin_connection({}));
    }
    RedisConnectFault fault;
    // A name may have addresses where nothing listens: `localhost` is ::1 before 127.0.0.1.
    for (const Endpoint& endpoint : co_await resolve(fault.message)) {
        if (stopped_ || moved_to_) break;
        auto failed = co_await await_connection(begin_connection(endpoint));
        if (!failed) co_return std::nullopt;
        fault = std::move(*failed);
    }
    co_return fault;
}

bool Client::begin_connection(const Endpoint& endpoint) {
    drop_connection();
    closed_because_.clear();
    pipeline_.begin_connection(options_.scripts);
    HiredisConnection::Listener& listener = *this;
    connection_ = std::make_shared<HiredisConnection>(executor_, listener);
    if (!options_.unix_path.empty() && !options_.master_watch) {
        return connection_->connect_unix(options_.unix_path, closed_because_);
    }
    const std::string address = endpoint.address().to_string();
    if (!options_.tls) return connection_->connect_tcp(address, endpoint.port(), closed_because_);
    TlsPtr tls = options_.tls->connection_to(options_.master_watch ? master_.host : options_.host);
    if (tls != nullptr) {
        return connection_->connect_tls(address, endpoint.port(), std::move(tls), closed_because_);
    }
    closed_because_ = "its host name is not valid in TLS";
    return false;
}

// The addresses of the host; none, with `reason`, when it has none. The look-up may take as long as
// the system's resolver likes: a stop does not wait for it.
Task<std::vector<Client::Endpoint>> Client::resolve(std::string& reason) {
    const std::string& host = options_.master_watch ? master_.host : options_.host;
    const auto port =
        options_.master_watch ? master_.port : static_cast<std::uint16_t>(options_.port);
    std::vector<Endpoint> endpoints;
    error_code not_numeric;
    const auto address = asio::ip::make_address(host, not_numeric);
    if (!not_numeric) {
        endpoints.emplace_back(address, port);
        co_return endpoints;
    }
    const NameLookup lookup(host, port);
    while (!lookup.done() && !stopped_) co_await pause(kConnectLookupPause);
    if (stopped_) co_return endpoints;
    for (const auto& found : lookup.endpoints()) {
        Endpoint& endpoint = endpoints.emplace_back();
        endpoint.resize(found.size());
        std::memcpy(endpoint.data(), found.data(), found.size());
    }
    if (endpoints.empty()) reason = "cannot resolve the name: " + lookup.error();
    co_return endpoints;
}

// Until the connection, when it could be begun at all, is made.
Client::Connected Client::await_connection(bool begun) {
    if (!begun) co_return RedisConnectFault{false, closed_because_};
    const SteadyTime deadline = steady_now() + std::max(options_.timeout, kHandshakeTime);
    pause_timer_.expires_at(deadline);
    pause_timer_.async_wait([weak = weak_from_this()](const error_code&) {
        if (const auto self = weak.lock()) self->wakeup_.wake_later();
    });
    while (!is_connected_ && closed_because_.empty() && !stopped_ && steady_now() < deadline) {
        co_await wakeup_.wait();
    }
    pause_timer_.cancel();
    if (is_connected_) co_return std::nullopt;
    if (!closed_because_.empty()) co_return RedisConnectFault{false, closed_because_};
    co_return RedisConnectFault{false, connection_ && connection_->awaits_tls()
                                           ? "no answer in TLS: does it speak TLS on this port?"
                                           : "no answer"};
}

Client::Connected Client::shake_hands() {
    Handshake handshake(options_, was_replica_);
    while (auto step = handshake.next(breaker_.is_down())) {
        if (!is_connected_) co_return RedisConnectFault{false, closed_because_};
        AwaitedCommand command(std::move(step->command), wakeup_);
        pipeline_.send_now({&command, steady_now() + step->time}, to_connection());
        watch_deadlines(false);
        while (!command.done()) co_await wakeup_.wait();
        // The reason for the loss says more than the loss itself.
        if (!command.reply() && !closed_because_.empty()) {
            co_return RedisConnectFault{false, closed_because_};
        }
        if (!command.reply()) {
            co_return RedisConnectFault{
                false, command.failure() == Failure::timeout ? "no answer" : "connection closed"};
        }
        if (auto fault = handshake.on_reply(*command.reply())) co_return fault;
        is_master_ = handshake.is_master();
    }
    was_replica_ = false;
    co_return std::nullopt;
}

Task<> Client::pause(milliseconds time) {
    pause_timer_.expires_after(time);
    co_await pause_timer_.async_wait(as_values);
}

// One ROLE while connected.
class Client::RoleCheck final : public Request {
  public:
    explicit RoleCheck(Client& client) : client_(client) {}

    void append_command(std::string& out) override { append_resp({"ROLE"}, out); }
    const Script* script() const override { return nullptr; }
    void on_reply(const Reply& reply) override {
        is_under_way_ = false;
        if (reply.kind == Reply::Kind::array && reply.text != kMasterRole) {
            client_.leave_replica("its role is " + quote(reply.text) + " now");
        }
    }
    void on_failure(Failure) override { is_under_way_ = false; }

    void begin() { is_under_way_ = is_under_way_ || !client_.send(*this); }

  private:
    Client& client_;
    bool is_under_way_ = false;
};

std::string Client::place() const {
    if (!options_.master_watch || master_.host.empty()) return options_.address();
    return master_.to_string() + " (" + options_.address() + ")";
}

// Nothing when `master_` is where to go, or there are no sentinels.
Client::Connected Client::find_master() {
    if (!options_.master_watch) co_return std::nullopt;
    MasterWatch& watch = *options_.master_watch;
    if (follower_ == 0) {
        follower_ =
            watch.follow(executor_, [weak = weak_from_this()](const MasterWatch::News& news) {
                if (const auto self = weak.lock()) self->on_news(news);
            });
        check_master_later();
    }
    news_.reset();
    is_master_ = false;
    if (!moved_to_) watch.ask(follower_);
    while (!news_ && !moved_to_ && !stopped_) co_await wakeup_.wait();
    if (moved_to_) {
        master_ = *std::exchange(moved_to_, std::nullopt);
    } else if (stopped_) {
        co_return RedisConnectFault{false, "stopped"};
    } else if (news_->master) {
        master_ = *news_->master;
    } else {
        co_return RedisConnectFault{news_->denied, news_->fault};
    }
    co_return std::nullopt;
}

// News of the master end the pause.
Task<> Client::pause_after_failure() {
    co_await pause(breaker_.pause_after_failure(random_));
    if (!moved_to_ || stopped_) co_return;
    breaker_.reset_pauses();
    std::uniform_int_distribution<milliseconds::rep> spread(0, kSpread.count());
    co_await pause(milliseconds{spread(random_)});
}

void Client::check_master_later() {
    master_timer_.expires_after(breaker_.is_up() ? kRoleEvery : kAskEvery);
    master_timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
        const auto self = weak.lock();
        if (!self || ec || self->follower_ == 0) return;
        if (self->breaker_.is_up()) {
            if (!self->role_check_) self->role_check_ = std::make_shared<RoleCheck>(*self);
            self->role_check_->begin();
        } else {
            self->options_.master_watch->ask(self->follower_);
        }
        self->check_master_later();
    });
}

void Client::on_news(const MasterWatch::News& news) {
    if (stopped_) return;
    const bool is_elsewhere = news.master && *news.master != master_;
    // Not every sentinel knows of a switch at once: the client leaves a server that says that it is
    // the master only after a switch.
    if (!is_elsewhere || (!news.is_switch && is_master_)) {
        // A switch is announced at any time, and may be older than the reason for which the client
        // asks.
        if (!news.is_switch) news_ = news;
        // Perhaps it was not the master yet when the client was last there.
        if (news.is_switch && !connection_) pause_timer_.cancel();
        wakeup_.wake_later();
        return;
    }
    moved_to_ = news.master;
    if (connection_) {
        leave_connection("the sentinels report the master at " + news.master->to_string());
    } else {
        pause_timer_.cancel();
        wakeup_.wake_later();
    }
}

// Nodes of a cluster are not left: the list of the nodes says which one serves a slot.
void Client::on_replica_error(std::string_view error) {
    if (options_.in_cluster) return;
    was_replica_ = !options_.master_watch;
    leave_replica(error);
}

// Called from inside hiredis: the loop leaves the connection. Until then nothing more is sent.
void Client::leave_replica(std::string_view reason) {
    if (!breaker_.is_up()) return;
    breaker_.on_connection_lost();
    asio::post(executor_,
               [weak = weak_from_this(), connection = connection_, text = quote(reason)] {
                   const auto self = weak.lock();
                   if (self && self->connection_ == connection) self->leave_connection(text);
               });
}

void Client::leave_watch() {
    master_timer_.cancel();
    if (follower_ != 0) options_.master_watch->leave(std::exchange(follower_, 0));
}

}  // namespace tidegate::redis
