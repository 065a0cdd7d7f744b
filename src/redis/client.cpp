#include "redis/client.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/quote.hpp"
#include "net/name_lookup.hpp"
#include "telemetry/log.hpp"

namespace tidegate::redis {

namespace {

using telemetry::Level;
using telemetry::log;

constexpr milliseconds kSweepEvery{10};
constexpr milliseconds kHandshakePatience{1'000};  // for each of its commands, at least
constexpr milliseconds kFirstPause{50};
// How often a look-up that is under way is asked whether it is done.
constexpr milliseconds kLookupPause{10};
constexpr milliseconds kComplainEvery{10'000};
constexpr std::size_t kShownMax = 200;

SteadyTime now() {
    return std::chrono::steady_clock::now();
}

void append_number(std::size_t number, std::string& out) {
    char text[20];
    out.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}

std::string resp(std::initializer_list<std::string_view> arguments) {
    std::string text;
    append_resp(arguments, text);
    return text;
}

// To a long command the server does not say NOAUTH: it cuts it off with a riddle.
bool wants_password(std::string_view error) {
    return error.starts_with("NOAUTH") || error.find("unauthenticated") != std::string_view::npos;
}

// Answers that will be different in a moment: the server is there and not ready.
bool is_passing(std::string_view error) {
    return error.starts_with("LOADING") || error.starts_with("BUSY") ||
           error.starts_with("MASTERDOWN") || error.starts_with("ERR max number of clients");
}

// What of an error may be told: old servers repeat the words of a command they do not know, and
// one of AUTH's is the password.
std::string_view shown(std::string_view error) {
    return error.substr(0, std::min(error.find(", with args"), kShownMax));
}

// That the user lacks a right; of a command that a script calls Redis 7.0 says so in other words.
bool is_denied(std::string_view error) {
    return error.starts_with("NOPERM") || error.find("executing the script can't") != error.npos ||
           error.find("ACL failure in script") != error.npos;
}

// What goes wrong for every request is told once in a while; the metrics have the number.
bool may_complain(SteadyTime& quiet_until) {
    const SteadyTime time = now();
    if (time < quiet_until) return false;
    quiet_until = time + kComplainEvery;
    return true;
}

}  // namespace

void append_resp(std::initializer_list<std::string_view> arguments, std::string& out) {
    out += '*';
    append_number(arguments.size(), out);
    for (const std::string_view argument : arguments) {
        out += "\r\n$";
        append_number(argument.size(), out);
        out += "\r\n";
        out += argument;
    }
    out += "\r\n";
}

std::string ClientOptions::address() const {
    if (master_watch) return "the master " + quote(master_watch->master_name());
    if (!unix_path.empty()) return "unix:" + unix_path;
    const bool v6 = host.find(':') != std::string::npos;
    return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

// One command of the handshake, awaited by run().
class Client::Call final : public Request {
  public:
    Call(std::string command, Wakeup& wakeup) : command_(std::move(command)), wakeup_(wakeup) {}

    void append_command(std::string& out) override { out += command_; }
    const Script* script() const override { return nullptr; }
    void on_reply(const Reply& reply) override {
        done_ = answered_ = true;
        if (reply.kind == Reply::Kind::error) error_ = reply.text;
        if (reply.kind == Reply::Kind::array) first_ = reply.text;
        wakeup_.wake_later();
    }
    void on_failure(Failure failure) override {
        done_ = true;
        error_ = failure == Failure::timeout ? "no answer" : "connection closed";
        wakeup_.wake_later();
    }

    bool done() const { return done_; }
    bool answered() const { return answered_; }
    std::string take_error() { return std::move(error_); }
    std::string take_first() { return std::move(first_); }

  private:
    std::string command_;
    Wakeup& wakeup_;
    bool done_ = false;
    bool answered_ = false;
    std::string error_;
    std::string first_;  // of an array
};

Client::Client(Executor executor, ClientOptions options, OnState on_state, OnError on_error)
    : executor_(executor),
      options_(std::move(options)),
      on_state_(std::move(on_state)),
      on_error_(std::move(on_error)),
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
        // The master is elsewhere by now: that was no failure of the one that is.
        if (fault && client.moved_to_) continue;
        if (fault) {
            client.drop_link(Failure::unavailable);
            client.enter(State::down, fault->message);
            co_await client.pause_until_moved();
            continue;
        }
        const SteadyTime since = now();
        client.was_answered_ = false;
        client.enter(State::ready, client.place());
        while (client.link_connected_ && !client.stopped_) co_await client.wakeup_.wait();
        if (client.moved_to_) continue;
        const bool was_short = now() - since < kHandshakePatience;
        const bool was_cut = client.state_ != State::down;  // and not given up for its silence
        if (!was_short || (was_cut && client.was_answered_)) client.last_pause_ = milliseconds{0};
        if (!was_short || client.stopped_) continue;
        // A server that lets us in and throws us out again is not hammered either.
        if (!was_cut || !client.reconnects_.take(now())) {
            const milliseconds time = client.next_pause();
            // Longer than anybody can wait for the next connection.
            if (time >= client.options_.timeout) {
                client.enter(State::down,
                             "Redis at " + client.place() + ": " + client.link_reason_);
            }
            co_await client.pause(time);
        }
    }
    client.drop_link(Failure::unavailable);
}

void Client::stop() {
    // What the last requests gave back, or gave up, is still to leave.
    if (state_ == State::ready && link_) {
        transmit_waiting();
        link_->flush();
    }
    stopped_ = true;
    leave_watch();
    pause_timer_.cancel();
    drop_link(Failure::unavailable);
    fail_waiting(Failure::unavailable);
    wakeup_.wake_later();
}

std::optional<ConnectFault> Client::try_once(const ClientOptions& options, milliseconds patience) {
    asio::io_context context(1);
    auto client = std::make_shared<Client>(context.get_executor(), options, OnState{});
    std::optional<ConnectFault> fault =
        ConnectFault{false, "Redis at " + options.address() + ": no answer"};
    spawn(context.get_executor(), client->connect(),
          [&](const std::exception_ptr& failed, std::optional<ConnectFault> outcome) {
              if (!failed) fault = std::move(outcome);
              client->drop_link(Failure::unavailable);
              client->stop();
              context.stop();
          });
    context.run_for(patience);
    client->leave_watch();
    return fault;
}

std::optional<Failure> Client::send(Request& request, SteadyTime asked) {
    return forward({&request, asked + options_.timeout});
}

std::optional<Failure> Client::forward(const Pending& pending) {
    if (state_ == State::down || stopped_) return Failure::unavailable;
    if (pending_.size() + waiting_.size() >= options_.max_in_flight) return Failure::overloaded;
    waiting_.push(pending);
    if (state_ == State::ready) link_->flush_soon();
    watch_deadlines();
    return std::nullopt;
}

void Client::flush() {
    const std::shared_ptr<Link> link = link_;  // which may be lost over this
    if (state_ != State::ready || link == nullptr) return;
    transmit_waiting();
    link->flush();
}

// Asked for as late as can be: until then a request may still grow.
void Client::on_flush() {
    if (state_ == State::ready) transmit_waiting();
}

void Client::transmit_waiting() {
    while (!waiting_.empty()) {
        const Pending first = waiting_.pop();
        if (first.request != nullptr) transmit(first);
    }
}

void Client::transmit(const Pending& pending) {
    if (pending.asking) {
        link_->send("*1\r\n$6\r\nASKING\r\n", pending_.next_ticket());
        pending_.push({nullptr, pending.deadline});
    }
    scratch_.clear();
    pending.request->append_command(scratch_);
    link_->send(scratch_, pending_.next_ticket());
    pending_.push(pending);
}

// Not known means not carried out: the one case in which a command is sent again, once. Of all the
// commands that were under way when the script was forgotten, only the first to say so loads it.
void Client::load_and_resend(Pending pending, std::uint64_t ticket) {
    const Script& script = *pending.request->script();
    const bool was_loaded = loads_.contains(&script) ||
                            std::find(options_.scripts.begin(), options_.scripts.end(), &script) !=
                                options_.scripts.end();
    if (std::uint64_t& loaded = loads_[&script]; loaded < ticket) {
        if (was_loaded && may_complain(quiet_about_loads_until_)) {
            log(Level::warn, "Redis at {} does not know the script {}: loading it again", place(),
                script.name);
        }
        loaded = pending_.next_ticket();
        scratch_.clear();
        append_resp({"SCRIPT", "LOAD", script.text}, scratch_);
        link_->send(scratch_, loaded);
        pending_.push({nullptr, pending.deadline});
    }
    pending.again = true;
    transmit(pending);
}

void Client::on_connected() {
    link_connected_ = true;
    wakeup_.wake_later();
}

void Client::on_reply(std::uint64_t ticket, const Reply& reply) {
    // Replies come in the order of the commands.
    if (pending_.empty() || ticket != pending_.first_ticket()) return;
    const Pending pending = pending_.pop();
    // What comes too late does not show that Redis is well.
    if (pending.request == nullptr) return;
    was_answered_ = true;
    forget_unanswered();
    if (reply.kind == Reply::Kind::error) {
        if (on_error_ && on_error_(pending, reply.text)) return;
        if (is_replica_error(reply.text)) on_replica_error(reply.text);
        if (pending.request->script() != nullptr) {
            on_script_error(pending, ticket, reply.text);
            return;
        }
        // Who asks for more than a script may live without an answer: the lack would not be seen.
        if (state_ == State::ready && is_denied(reply.text) &&
            may_complain(quiet_about_rights_until_)) {
            log(Level::error, "Redis at {} refused a command: {}{}", place(), shown(reply.text),
                advice(reply.text));
        }
    }
    pending.request->on_reply(reply);
}

void Client::on_script_error(const Pending& pending, std::uint64_t ticket, std::string_view error) {
    if (error.starts_with("NOSCRIPT") && state_ == State::ready && !pending.again) {
        load_and_resend(pending, ticket);
        return;
    }
    if (may_complain(quiet_about_errors_until_)) {
        log(Level::error, "Redis at {} refused the script {}: {}{}", place(),
            pending.request->script()->name, shown(error), advice(error));
    }
    pending.request->on_failure(Failure::refused);
}

std::string Client::advice(std::string_view error) const {
    if (options_.rights.empty() || !is_denied(error)) return {};
    return "; what its user must be allowed: " + options_.rights;
}

void Client::on_closed(std::string_view reason) {
    link_reason_ = reason;
    link_connected_ = false;
    if (state_ == State::ready) enter(State::connecting, reason);
    fail_pending(Failure::disconnected);
    wakeup_.wake_later();
}

Task<std::optional<ConnectFault>> Client::connect() {
    auto fault = co_await find_master();
    if (fault) co_return fault;
    fault = co_await open_link();
    if (!fault) fault = co_await handshake();
    if (!fault && state_ == State::down) fault = co_await probe();
    if (!fault && was_replica_) fault = co_await probe_writes();
    // The last answer and the end may come together.
    if (!fault && !link_connected_) fault = ConnectFault{false, link_reason_};
    if (fault && link_ && link_->tls_was_refused()) fault->refused = true;
    if (fault) fault->message = "Redis at " + place() + ": " + fault->message;
    co_return fault;
}

Task<std::optional<ConnectFault>> Client::open_link() {
    if (!options_.unix_path.empty() && !options_.master_watch) {
        renew_link();
        co_return co_await await_link(link_->connect_unix(options_.unix_path, link_reason_));
    }
    ConnectFault fault;
    // A name may have addresses where nobody listens: `localhost` is ::1 before 127.0.0.1.
    for (const Endpoint& endpoint : co_await resolve(fault.message)) {
        if (stopped_ || moved_to_) break;
        renew_link();
        auto failed = co_await await_link(begin_link(endpoint));
        if (!failed) co_return std::nullopt;
        fault = std::move(*failed);
    }
    co_return fault;
}

bool Client::begin_link(const Endpoint& endpoint) {
    const std::string address = endpoint.address().to_string();
    if (!options_.tls) return link_->connect_tcp(address, endpoint.port(), link_reason_);
    TlsPtr tls = options_.tls->connection_to(options_.master_watch ? master_.host : options_.host);
    if (tls != nullptr) {
        return link_->connect_tls(address, endpoint.port(), std::move(tls), link_reason_);
    }
    link_reason_ = "its name cannot be asked for in TLS";
    return false;
}

// The addresses of the host; none, with `reason`, when it has none. The look-up may take as long as
// the system's resolver likes: a stop does not wait for it.
Task<std::vector<Client::Endpoint>> Client::resolve(std::string& reason) {
    const std::string& host = options_.master_watch ? master_.host : options_.host;
    const auto port =
        static_cast<std::uint16_t>(options_.master_watch ? master_.port : options_.port);
    std::vector<Endpoint> endpoints;
    error_code not_numeric;
    const auto address = asio::ip::make_address(host, not_numeric);
    if (!not_numeric) {
        endpoints.emplace_back(address, port);
        co_return endpoints;
    }
    const NameLookup lookup(host, port);
    while (!lookup.done() && !stopped_) co_await pause(kLookupPause);
    if (stopped_) co_return endpoints;
    for (const auto& found : lookup.endpoints()) {
        Endpoint& endpoint = endpoints.emplace_back();
        endpoint.resize(found.size());
        std::memcpy(endpoint.data(), found.data(), found.size());
    }
    if (endpoints.empty()) reason = "cannot resolve the name: " + lookup.error();
    co_return endpoints;
}

// Until the link, when it could be begun at all, is connected.
Task<std::optional<ConnectFault>> Client::await_link(bool begun) {
    if (!begun) co_return ConnectFault{false, link_reason_};
    const SteadyTime deadline = now() + std::max(options_.timeout, kHandshakePatience);
    pause_timer_.expires_at(deadline);
    pause_timer_.async_wait([weak = weak_from_this()](const error_code&) {
        if (const auto self = weak.lock()) self->wakeup_.wake_later();
    });
    while (!link_connected_ && link_reason_.empty() && !stopped_ && now() < deadline) {
        co_await wakeup_.wait();
    }
    pause_timer_.cancel();
    if (link_connected_) co_return std::nullopt;
    if (!link_reason_.empty()) co_return ConnectFault{false, link_reason_};
    co_return ConnectFault{false, link_ && link_->awaits_tls()
                                      ? "no answer in TLS: does it speak TLS on this port?"
                                      : "no answer"};
}

Task<std::optional<ConnectFault>> Client::handshake() {
    struct Step {
        std::string what;
        std::string command;
        bool tells_role = false;
    };
    std::vector<Step> steps;
    if (!options_.password.empty()) {
        steps.push_back(
            {"the password", options_.username.empty()
                                 ? resp({"AUTH", options_.password})
                                 : resp({"AUTH", options_.username, options_.password})});
    }
    if (options_.database != 0) {
        const std::string database = std::to_string(options_.database);
        steps.push_back({"database " + database, resp({"SELECT", database})});
    }
    if (options_.master_watch) steps.push_back({"ROLE", resp({"ROLE"}), true});
    if (options_.in_cluster) {
        steps.push_back({"CLUSTER NODES", resp({"CLUSTER", "NODES"})});
    }
    for (const Script* script : options_.scripts) {
        steps.push_back(
            {"the script " + std::string(script->name), resp({"SCRIPT", "LOAD", script->text})});
    }
    const milliseconds patience = std::max(options_.timeout, kHandshakePatience);
    for (Step& step : steps) {
        bool answered = false;
        std::string first;
        const std::string error =
            co_await command(std::move(step.command), patience, answered, &first);
        if (answered && wants_password(error)) {
            co_return ConnectFault{
                true, "a password is wanted, and none is configured: " + std::string(shown(error))};
        }
        if (answered && !error.empty()) {
            co_return ConnectFault{
                !is_passing(error),
                step.what + " was refused: " + std::string(shown(error)) + advice(error)};
        }
        if (!answered) co_return ConnectFault{false, error};
        if (step.tells_role && first != kMasterRole) {
            co_return ConnectFault{false, "it is no master, its role is " + quote(first)};
        }
        is_master_ = is_master_ || step.tells_role;
    }
    co_return std::nullopt;
}

// A Redis that was given up and takes longer than a decision may is not back: it would only be
// given up again. Whoever may not PING has been answered, too.
Task<std::optional<ConnectFault>> Client::probe() {
    bool answered = false;
    std::string ping = resp({"PING"});
    const std::string error = co_await command(std::move(ping), options_.timeout, answered);
    if (answered && !is_passing(error)) co_return std::nullopt;
    co_return ConnectFault{false, error};
}

// Returns the error, or nothing.
Task<std::string> Client::command(std::string resp, milliseconds patience, bool& answered,
                                  std::string* first) {
    Call call(std::move(resp), wakeup_);
    if (!link_connected_) co_return link_reason_;
    transmit({&call, now() + patience});
    watch_deadlines();
    while (!call.done()) co_await wakeup_.wait();
    answered = call.answered();
    // Why the connection is lost says more than that it is.
    if (!answered && !link_reason_.empty()) co_return link_reason_;
    if (first != nullptr) *first = call.take_first();
    co_return call.take_error();
}

Task<> Client::pause(milliseconds time) {
    pause_timer_.expires_after(time);
    co_await pause_timer_.async_wait(as_values);
}

// Twice the last, and of that a random half to whole: a hundred proxies do not come back at once.
milliseconds Client::next_pause() {
    last_pause_ = std::min(std::max(last_pause_ * 2, kFirstPause), options_.probe_every);
    std::uniform_int_distribution<milliseconds::rep> share(last_pause_.count() / 2,
                                                           last_pause_.count());
    return milliseconds{share(random_)};
}

void Client::renew_link() {
    drop_link(Failure::disconnected);
    link_reason_.clear();
    loads_.clear();  // it may be another Redis
    Link::Listener& listener = *this;
    link_ = std::make_shared<Link>(executor_, listener);
}

void Client::drop_link(Failure failure) {
    if (link_) link_->close();
    link_.reset();
    link_connected_ = false;
    fail_pending(failure);
}

void Client::fail_pending(Failure failure) {
    for (const Pending& pending : pending_.take_all()) {
        if (pending.request != nullptr) pending.request->on_failure(failure);
    }
}

void Client::fail_waiting(Failure failure) {
    for (const Pending& pending : waiting_.take_all()) {
        if (pending.request != nullptr) pending.request->on_failure(failure);
    }
}

void Client::enter(State state, std::string_view reason) {
    state_ = state;
    if (state == State::ready) {
        forget_unanswered();
        transmit_waiting();
    } else if (state == State::down) {
        fail_waiting(Failure::unavailable);
    }
    // A connection that comes back at once is not worth a word.
    const bool down = state == State::down;
    if (state == State::connecting || down == told_down_) return;
    told_down_ = down;
    if (on_state_) on_state_(!down, reason);
}

void Client::count_unanswered() {
    ++failures_in_a_row_;
    options_.unanswered->fetch_add(1);
}

void Client::forget_unanswered() {
    failures_in_a_row_ = 0;
    // Looked at first: all threads share it, and a store on every reply would be passed around.
    if (options_.unanswered->load(std::memory_order_relaxed) != 0) *options_.unanswered = 0;
}

void Client::watch_deadlines() {
    if (sweeping_) return;
    sweeping_ = true;
    sweep_timer_.expires_after(kSweepEvery);
    sweep_timer_.async_wait([weak = weak_from_this()](const error_code&) {
        if (const auto self = weak.lock()) self->sweep_deadlines();
    });
}

void Client::sweep_deadlines() {
    sweeping_ = false;
    const SteadyTime time = now();
    std::vector<Request*> late;
    pending_.take_late(time, late);
    waiting_.take_late(time, late);
    while (!waiting_.empty() && waiting_.front().request == nullptr) waiting_.pop();
    for (std::size_t i = 0; i < late.size(); ++i) count_unanswered();
    // Only now: who is told may have something else to send.
    for (Request* request : late) request->on_failure(Failure::timeout);
    const int in_a_row = std::max(failures_in_a_row_, options_.unanswered->load());
    if (state_ != State::down && in_a_row >= options_.breaker_failures && failures_in_a_row_ > 0) {
        // An attempt to connect that is under way goes on.
        if (state_ == State::ready) {
            enter(State::connecting, {});  // who is told may send something else
            drop_link(Failure::disconnected);
        }
        enter(State::down, "Redis at " + place() + " does not answer: " + std::to_string(in_a_row) +
                               " commands in a row");
        wakeup_.wake_later();
    }
    if (!pending_.empty() || !waiting_.empty()) watch_deadlines();
}

}  // namespace tidegate::redis
