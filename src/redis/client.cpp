#include "redis/client.hpp"

#include <utility>

#include "redis/error_reply.hpp"
#include "telemetry/log.hpp"

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

}  // namespace

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
            client.drop_connection(Failure::unavailable);
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
    client.drop_connection(Failure::unavailable);
}

void Client::stop() {
    // The commands that the last requests sent at their ends still have to leave.
    flush();
    stopped_ = true;
    leave_watch();
    pause_timer_.cancel();
    drop_connection(Failure::unavailable);
    fail(pipeline_.take_waiting(), Failure::unavailable);
    wakeup_.wake_later();
}

std::optional<ConnectFault> Client::try_once(const ClientOptions& options, milliseconds time) {
    asio::io_context context(1);
    auto client = std::make_shared<Client>(context.get_executor(), options, OnState{});
    std::optional<ConnectFault> fault =
        ConnectFault{false, "Redis at " + options.address() + ": no answer"};
    spawn(context.get_executor(), client->connect(),
          [&](const std::exception_ptr& failed, std::optional<ConnectFault> outcome) {
              if (!failed) fault = std::move(outcome);
              client->drop_connection(Failure::unavailable);
              client->stop();
              context.stop();
          });
    context.run_for(time);
    client->leave_watch();
    return fault;
}

std::optional<Failure> Client::forward(const Command& command) {
    if (breaker_.is_down() || stopped_) return Failure::unavailable;
    if (!pipeline_.add(command)) return Failure::overloaded;
    if (breaker_.is_up()) connection_->flush_soon();
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
    const std::optional<Command> command = pipeline_.take_answered(ticket);
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

void Client::on_script_error(const Command& command, std::uint64_t ticket, std::string_view error) {
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
    command.request->on_failure(Failure::refused);
}

void Client::on_closed(std::string_view reason) {
    closed_because_ = reason;
    is_connected_ = false;
    breaker_.on_connection_lost();
    fail(pipeline_.take_sent(), Failure::disconnected);
    wakeup_.wake_later();
}

void Client::drop_connection(Failure failure) {
    if (connection_) connection_->close();
    connection_.reset();
    is_connected_ = false;
    fail(pipeline_.take_sent(), failure);
}

// Commands under way may have been carried out; those that wait go on waiting.
void Client::leave_connection(std::string_view reason) {
    breaker_.on_connection_lost();
    drop_connection(Failure::disconnected);
    closed_because_ = reason;
    wakeup_.wake_later();
}

void Client::fail(const std::deque<Command>& commands, Failure failure) {
    for (const Command& command : commands) {
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

}  // namespace tidegate::redis
