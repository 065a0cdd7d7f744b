#include "redis/client.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <boost/asio/ip/tcp.hpp>

#include "telemetry/log.hpp"

namespace tidegate::redis {

namespace {

using telemetry::Level;
using telemetry::log;

constexpr milliseconds kSweepEvery{10};
constexpr milliseconds kHandshakePatience{1'000};  // for each of its commands, at least
constexpr milliseconds kFirstPause{50};

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

// Answers that will be different in a moment: the server is there and not ready.
bool is_passing(std::string_view error) {
    return error.starts_with("LOADING") || error.starts_with("BUSY") ||
           error.starts_with("MASTERDOWN") || error.starts_with("ERR max number of clients");
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

  private:
    std::string command_;
    Wakeup& wakeup_;
    bool done_ = false;
    bool answered_ = false;
    std::string error_;
};

Client::Client(Executor executor, ClientOptions options, OnState on_state)
    : executor_(executor),
      options_(std::move(options)),
      on_state_(std::move(on_state)),
      wakeup_(executor),
      pause_timer_(executor),
      sweep_timer_(executor),
      random_(std::random_device{}()) {}

Client::~Client() = default;

Task<> Client::run(std::shared_ptr<Client> self) {
    Client& client = *self;
    while (!client.stopped_) {
        const auto fault = co_await client.connect();
        if (client.stopped_) break;
        if (fault) {
            client.drop_link(Failure::unavailable);
            client.enter(State::down, fault->message);
            co_await client.pause(client.next_pause());
            continue;
        }
        const SteadyTime since = now();
        client.enter(State::ready, "connected");
        while (client.link_connected_ && !client.stopped_) co_await client.wakeup_.wait();
        // A server that lets us in and throws us out again is not hammered either.
        if (now() - since < kHandshakePatience && !client.stopped_) {
            co_await client.pause(client.next_pause());
        } else {
            client.last_pause_ = milliseconds{0};
        }
    }
    client.drop_link(Failure::unavailable);
}

void Client::stop() {
    stopped_ = true;
    pause_timer_.cancel();
    fail_all(Failure::unavailable);
    wakeup_.wake_later();
}

std::optional<ConnectFault> Client::try_once(const ClientOptions& options, milliseconds patience) {
    asio::io_context context(1);
    auto client = std::make_shared<Client>(context.get_executor(), options, OnState{});
    std::optional<ConnectFault> fault =
        ConnectFault{false, "Redis at " + options.address() + ": no answer"};
    asio::co_spawn(context, client->connect(),
                   [&](const std::exception_ptr& failed, std::optional<ConnectFault> outcome) {
                       if (!failed) fault = std::move(outcome);
                       client->drop_link(Failure::unavailable);
                       client->stop();
                       context.stop();
                   });
    context.run_for(patience);
    return fault;
}

std::optional<Failure> Client::send(Request& request) {
    if (state_ == State::down || stopped_) return Failure::unavailable;
    if (pending_.size() + waiting_.size() >= options_.max_in_flight) return Failure::overloaded;
    const Pending pending{&request, now() + options_.timeout};
    if (state_ == State::ready) {
        transmit(pending);
    } else {
        waiting_.push_back(pending);
    }
    watch_deadlines();
    return std::nullopt;
}

void Client::transmit(const Pending& pending) {
    scratch_.clear();
    pending.request->append_command(scratch_);
    link_->send(scratch_, first_ticket_ + pending_.size());
    pending_.push_back(pending);
}

// Not known means not carried out: the one case in which a command is sent again.
void Client::reload_and_resend(const Pending& pending) {
    const Script& script = *pending.request->script();
    scratch_.clear();
    append_resp({"SCRIPT", "LOAD", script.text}, scratch_);
    link_->send(scratch_, first_ticket_ + pending_.size());
    pending_.push_back({nullptr, pending.deadline});
    transmit(pending);
}

void Client::on_connected() {
    link_connected_ = true;
    wakeup_.wake_later();
}

void Client::on_reply(std::uint64_t ticket, const Reply& reply) {
    // Replies come in the order of the commands.
    if (pending_.empty() || ticket != first_ticket_) return;
    const Pending pending = pending_.front();
    pending_.pop_front();
    ++first_ticket_;
    failures_in_a_row_ = 0;
    if (pending.request == nullptr) return;
    if (reply.kind == Reply::Kind::error && pending.request->script() != nullptr) {
        if (reply.text.starts_with("NOSCRIPT") && state_ == State::ready) {
            log(Level::warn, "Redis at {} does not know the script {}: loading it again",
                options_.address(), pending.request->script()->name);
            reload_and_resend(pending);
            return;
        }
        log(Level::error, "Redis at {} refused the script {}: {}", options_.address(),
            pending.request->script()->name, reply.text);
        pending.request->on_failure(Failure::refused);
        return;
    }
    pending.request->on_reply(reply);
}

void Client::on_closed(std::string_view reason) {
    link_reason_ = reason;
    link_connected_ = false;
    if (state_ == State::ready) enter(State::connecting, reason);
    const auto lost = std::exchange(pending_, {});
    first_ticket_ += lost.size();
    for (const Pending& pending : lost) {
        if (pending.request != nullptr) pending.request->on_failure(Failure::disconnected);
    }
    wakeup_.wake_later();
}

Task<std::optional<ConnectFault>> Client::connect() {
    auto fault = co_await open_link();
    if (!fault) fault = co_await handshake();
    if (fault) fault->message = "Redis at " + options_.address() + ": " + fault->message;
    co_return fault;
}

Task<std::optional<ConnectFault>> Client::open_link() {
    drop_link(Failure::disconnected);
    link_reason_.clear();
    Link::Listener& listener = *this;
    link_ = std::make_shared<Link>(executor_, listener);
    std::string reason;
    if (!options_.unix_path.empty()) {
        if (!link_->connect_unix(options_.unix_path, reason)) co_return ConnectFault{false, reason};
    } else {
        asio::ip::basic_resolver<asio::ip::tcp, Executor> resolver(executor_);
        const auto [ec, results] = co_await resolver.async_resolve(
            options_.host, std::to_string(options_.port), as_values);
        if (ec || results.empty()) {
            co_return ConnectFault{false, "cannot resolve the name: " + ec.message()};
        }
        const auto endpoint = results.begin()->endpoint();
        if (stopped_ ||
            !link_->connect_tcp(endpoint.address().to_string(), endpoint.port(), reason)) {
            co_return ConnectFault{false, reason};
        }
    }
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
    co_return ConnectFault{false, link_reason_.empty() ? "no answer" : link_reason_};
}

Task<std::optional<ConnectFault>> Client::handshake() {
    struct Step {
        std::string what;
        std::string command;
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
    for (const Script* script : options_.scripts) {
        steps.push_back(
            {"the script " + std::string(script->name), resp({"SCRIPT", "LOAD", script->text})});
    }
    for (Step& step : steps) {
        bool answered = false;
        const std::string error = co_await command(std::move(step.command), answered);
        if (answered && !error.empty()) {
            co_return ConnectFault{!is_passing(error), step.what + " was refused: " + error};
        }
        if (!answered) co_return ConnectFault{false, error};
    }
    co_return std::nullopt;
}

// Returns the error, or nothing.
Task<std::string> Client::command(std::string resp, bool& answered) {
    Call call(std::move(resp), wakeup_);
    if (!link_connected_) co_return link_reason_.empty() ? "connection closed" : link_reason_;
    transmit({&call, now() + std::max(options_.timeout, kHandshakePatience)});
    watch_deadlines();
    while (!call.done()) co_await wakeup_.wait();
    answered = call.answered();
    co_return call.take_error();
}

Task<> Client::pause(milliseconds time) {
    pause_timer_.expires_after(time);
    co_await pause_timer_.async_wait(as_values);
}

// Twice the last, and of that a random half to whole: a hundred proxies do not come back at once.
milliseconds Client::next_pause() {
    last_pause_ = std::clamp(last_pause_ * 2, kFirstPause, options_.probe_every);
    std::uniform_int_distribution<milliseconds::rep> share(last_pause_.count() / 2,
                                                           last_pause_.count());
    return milliseconds{share(random_)};
}

void Client::drop_link(Failure failure) {
    if (link_) link_->close();
    link_.reset();
    link_connected_ = false;
    const auto lost = std::exchange(pending_, {});
    first_ticket_ += lost.size();
    for (const Pending& pending : lost) {
        if (pending.request != nullptr) pending.request->on_failure(failure);
    }
}

void Client::fail_all(Failure failure) {
    for (auto* queue : {&pending_, &waiting_}) {
        for (Pending& pending : *queue) {
            if (Request* request = std::exchange(pending.request, nullptr)) {
                request->on_failure(failure);
            }
        }
    }
    waiting_.clear();
}

void Client::enter(State state, std::string_view reason) {
    state_ = state;
    if (state == State::ready) {
        failures_in_a_row_ = 0;
        for (const Pending& pending : std::exchange(waiting_, {})) {
            if (pending.request != nullptr) transmit(pending);
        }
    } else if (state == State::down) {
        fail_all(Failure::unavailable);
    }
    // A connection that comes back at once is not worth a word.
    const bool down = state == State::down;
    if (state == State::connecting || down == told_down_) return;
    told_down_ = down;
    if (on_state_) on_state_(!down, reason);
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
    for (auto* queue : {&pending_, &waiting_}) {
        for (Pending& pending : *queue) {
            if (pending.request == nullptr || pending.deadline > time) continue;
            ++failures_in_a_row_;
            std::exchange(pending.request, nullptr)->on_failure(Failure::timeout);
        }
    }
    std::erase_if(waiting_, [](const Pending& one) { return one.request == nullptr; });
    if (state_ == State::ready && failures_in_a_row_ >= options_.breaker_failures) {
        drop_link(Failure::disconnected);
        enter(State::down, "Redis at " + options_.address() + " does not answer: " +
                               std::to_string(failures_in_a_row_) + " commands in a row");
        wakeup_.wake_later();
    }
    if (!pending_.empty() || !waiting_.empty()) watch_deadlines();
}

}  // namespace tidegate::redis
