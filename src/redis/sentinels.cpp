#include "redis/sentinels.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "net/deadline.hpp"
#include "redis/resp.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::redis {

namespace {

using std::chrono::milliseconds;
using telemetry::Level;
using telemetry::log;

constexpr std::size_t kHostBytesMax = 253;
constexpr std::size_t kNamesShown = 5;
// A sentinel that failed is tried after all others for so long.
constexpr std::chrono::seconds kBadFor{10};

std::optional<NodeAddress> address_of(std::string_view host, std::string_view port) {
    const bool is_plain =
        !host.empty() && host.size() <= kHostBytesMax &&
        std::all_of(host.begin(), host.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
    const auto number = parse_number<std::uint16_t>(port);
    if (!is_plain || number.value_or(0) == 0) return std::nullopt;
    return NodeAddress{std::string(host), *number};
}

// The watch pings the sentinel that it is subscribed to so often.
constexpr milliseconds kPingEvery{1'000};
// Between two rounds of trying all sentinels, and for one that accepts a connection only to close
// it.
constexpr milliseconds kRoundPause{1'000};
// The interval between two rounds of asking; it grows while a client always asks: a hundred proxies
// without a master must not keep its sentinels from finding one.
constexpr milliseconds kAskPauseMin{25};
constexpr milliseconds kAskPauseMax{250};
constexpr milliseconds kAskedInARow{300};  // longer than the longest pause
constexpr milliseconds kLossLogEvery{10'000};

// Made outside of coroutines: GCC 12 cannot keep an initializer list in their frames.
std::string ping() {
    return resp({"PING"});
}
std::string subscribe() {
    return resp({"SUBSCRIBE", "+switch-master"});
}
std::string where_is(std::string_view master) {
    return resp({"SENTINEL", "get-master-addr-by-name", master});
}
std::string which_masters() {
    return resp({"SENTINEL", "MASTERS"});
}

// Ends with the connection, a turn later at most.
Task<> keep_pinging(Executor executor, std::shared_ptr<ServerConnection> connection) {
    Timer timer(executor);
    while (true) {
        timer.expires_after(kPingEvery);
        co_await timer.async_wait(as_values);
        if (co_await connection->send(ping())) break;
    }
}

// An error of a sentinel is a fault.
ServerConnection::Reply without_error(ServerConnection::Reply reply) {
    if (!reply || !reply->is_error()) return reply;
    return ServerConnection::Fault{is_access_error(reply->text), false,
                                   quote(without_arguments(reply->text))};
}

}  // namespace

std::optional<NodeAddress> master_of(const RespValue& reply) {
    if (!reply.is_list() || reply.items.size() != 2) return std::nullopt;
    return address_of(reply.items[0].text, reply.items[1].text);
}

// `message`, the channel, `<master> <old ip> <old port> <new ip> <new port>`.
std::optional<NodeAddress> switch_of(const RespValue& reply, std::string_view master) {
    if (reply.items.size() != 3 || reply.items[0].text != "message" ||
        reply.items[1].text != "+switch-master") {
        return std::nullopt;
    }
    std::array<std::string_view, 5> words;
    std::string_view rest = reply.items[2].text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::size_t space = rest.find(' ');
        const bool is_last = i + 1 == words.size();
        if (rest.empty() || (space == std::string_view::npos) != is_last) return std::nullopt;
        words[i] = rest.substr(0, space);
        rest.remove_prefix(is_last ? rest.size() : space + 1);
    }
    if (words[0] != master) return std::nullopt;
    return address_of(words[3], words[4]);
}

std::string unknown_master(std::string_view master, const RespValue& masters) {
    std::string text = "it knows no master " + quote(master);
    std::string names;
    std::size_t count = 0;
    for (const RespValue& one : masters.items) {
        const std::string_view name = one.value_of("name");
        if (name.empty() || ++count > kNamesShown) continue;
        names += (names.empty() ? "" : ", ") + quote(name);
    }
    if (!masters.is_list()) return text;
    if (names.empty()) return text + ": it watches none";
    return text + ": it watches " + names + (count > kNamesShown ? " and others" : "");
}

SentinelOrder::SentinelOrder(std::size_t nodes, std::size_t first)
    : failed_at_(nodes), first_(first % nodes) {}

std::vector<std::size_t> SentinelOrder::next(Time now) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < failed_at_.size(); ++i) {
        order.push_back((first_ + i) % failed_at_.size());
    }
    std::stable_partition(order.begin(), order.end(), [&](std::size_t node) {
        return !failed_at_[node] || now - *failed_at_[node] >= kBadFor;
    });
    first_ = (order.front() + 1) % failed_at_.size();
    return order;
}

MasterWatch::MasterWatch(SentinelOptions options)
    : options_(std::move(options)),
      asked_(io_.get_executor()),
      order_(options_.nodes.size(), std::random_device{}()),
      random_(std::random_device{}()) {
    spawn_vital(io_.get_executor(), try_all());
    spawn_vital(io_.get_executor(), answer_followers());
    spawn_vital(io_.get_executor(), subscribe_forever());
    thread_ = std::thread([this] { io_.run(); });
}

MasterWatch::~MasterWatch() {
    io_.stop();
    thread_.join();
}

int MasterWatch::follow(Executor executor, OnNews on_news) {
    const std::lock_guard lock(mutex_);
    followers_.emplace(++last_follower_, Follower{executor, std::move(on_news)});
    return last_follower_;
}

void MasterWatch::leave(int follower) {
    const std::lock_guard lock(mutex_);
    followers_.erase(follower);
}

void MasterWatch::ask(int follower) {
    const std::lock_guard lock(mutex_);
    const auto found = followers_.find(follower);
    if (found == followers_.end()) return;
    found->second.asked = true;
    asio::post(io_, [this] { asked_.wake_later(); });
}

// One working sentinel is enough, so faults of the others would not show until it is gone. If none
// works, clients report it.
Task<> MasterWatch::try_all() {
    std::vector<std::string> faults;
    for (std::size_t node = 0; node < options_.nodes.size(); ++node) {
        const auto master = co_await ask_one(node);
        if (master) continue;
        faults.push_back(options_.nodes[node].to_string() +
                         " cannot be used: " + master.error().message);
    }
    if (faults.size() == options_.nodes.size()) co_return;
    for (const std::string& fault : faults) log(Level::warn, "the sentinel {}", fault);
}

// All followers that have asked by now get the answer of one round.
Task<> MasterWatch::answer_followers() {
    Timer timer(io_);
    milliseconds pause{0};
    SteadyTime last;
    while (true) {
        while (!begin_round()) co_await asked_.wait();
        tell(co_await ask_all());
        const SteadyTime time = steady_now();
        pause = time - last < kAskedInARow ? std::min(pause * 2, kAskPauseMax) : kAskPauseMin;
        last = time;
        timer.expires_after(jittered(pause));
        co_await timer.async_wait(as_values);
    }
}

// False when no follower has asked.
bool MasterWatch::begin_round() {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (auto& [number, follower] : followers_) {
        follower.is_awaiting = std::exchange(follower.asked, false);
        any = any || follower.is_awaiting;
    }
    return any;
}

Task<MasterWatch::News> MasterWatch::ask_all() {
    News news;
    for (const std::size_t node : order_.next(steady_now())) {
        const auto master = co_await ask_one(node);
        if (master) {
            order_.answered(node);
            co_return News{*master, false, false, {}};
        }
        order_.failed(node, steady_now());
        news.denied = news.denied || master.error().refused;
        news.fault += (news.fault.empty() ? "" : "; ") + options_.nodes[node].to_string() + ": " +
                      master.error().message;
    }
    news.fault =
        "no sentinel knows where the master " + quote(options_.master) + " is: " + news.fault;
    co_return news;
}

Task<Result<NodeAddress, MasterWatch::Fault>> MasterWatch::ask_one(std::size_t node) {
    const auto connection = co_await connect(node);
    if (!connection) co_return connection.error();
    const Reply reply = without_error(co_await (*connection)->ask(where_is(options_.master)));
    if (reply && reply->kind == RespValue::Kind::nil) {
        const Reply masters = co_await (*connection)->ask(which_masters());
        co_return Fault{true, false,
                        unknown_master(options_.master, masters ? *masters : RespValue{})};
    }
    if (!reply) co_return reply.error();
    const auto master = master_of(*reply);
    if (!master) co_return Fault{false, false, "its answer is not an address"};
    co_return *master;
}

Task<> MasterWatch::subscribe_forever() {
    Timer timer(io_);
    while (true) {
        std::string faults;
        bool subscribed = false;
        SteadyTime begun;
        for (const std::size_t node : order_.next(steady_now())) {
            begun = steady_now();
            const std::string reason = co_await subscribe_to(node, subscribed);
            order_.failed(node, steady_now());
            if (subscribed) {
                on_lost(node, reason);
                break;
            }
            faults +=
                (faults.empty() ? "" : "; ") + options_.nodes[node].to_string() + ": " + reason;
        }
        if (subscribed && steady_now() - begun >= kRoundPause) continue;
        if (!subscribed && !std::exchange(has_logged_none_, true)) {
            log(Level::error,
                "no sentinel can be watched, so Tidegate notices a failover of the master {} late: "
                "{}",
                quote(options_.master), faults);
        }
        timer.expires_after(jittered(kRoundPause));
        co_await timer.async_wait(as_values);
    }
}

// Returns why it is over. `subscribed`: it had begun.
Task<std::string> MasterWatch::subscribe_to(std::size_t node, bool& subscribed) {
    const auto opened = co_await connect(node);
    if (!opened) co_return opened.error().message;
    const ConnectionPtr& connection = *opened;
    const Reply reply = without_error(co_await connection->ask(subscribe()));
    if (!reply) co_return reply.error().message;
    // Of a switch before the subscription there is no message.
    connection->expect_within(kPingEvery + options_.timeout);
    const auto master = co_await ask_one(node);
    if (!master) co_return master.error().message;
    subscribed = true;
    on_subscribed(node, *master);
    std::string reason = co_await hear_switches(connection);
    connection->close();  // which ends the pings
    co_return reason;
}

Task<std::string> MasterWatch::hear_switches(ConnectionPtr connection) {
    spawn_vital(io_.get_executor(), keep_pinging(io_.get_executor(), connection));
    while (true) {
        connection->expect_within(kPingEvery + options_.timeout);
        const Reply heard = co_await connection->next();
        if (!heard) co_return heard.error().message;
        if (const auto master = switch_of(*heard, options_.master)) announce(*master);
    }
}

void MasterWatch::on_subscribed(std::size_t node, const NodeAddress& master) {
    order_.answered(node);
    const bool has_logged = std::exchange(has_logged_loss_, false) || has_logged_none_;
    has_logged_none_ = false;
    if (has_logged || announced_.host.empty()) {
        log(Level::info, "the sentinel {} reports the master {} at {}",
            options_.nodes[node].to_string(), quote(options_.master), master.to_string());
    }
    announce(master);
}

void MasterWatch::on_lost(std::size_t node, const std::string& reason) {
    const SteadyTime time = steady_now();
    if (time < next_log_of_loss_) return;
    next_log_of_loss_ = time + kLossLogEvery;
    has_logged_loss_ = true;
    log(Level::warn, "the connection to the sentinel {} is lost: {}",
        options_.nodes[node].to_string(), reason);
}

void MasterWatch::announce(const NodeAddress& master) {
    if (!announced_.host.empty() && !(announced_ == master)) {
        log(Level::warn, "failover: the master {} moved from {} to {}", quote(options_.master),
            announced_.to_string(), master.to_string());
    }
    announced_ = master;
    tell({master, true, false, {}});
}

void MasterWatch::tell(const News& news) {
    const std::lock_guard lock(mutex_);
    for (auto& [number, follower] : followers_) {
        if (!news.is_switch && !std::exchange(follower.is_awaiting, false)) continue;
        asio::post(follower.executor, [on_news = follower.on_news, news] { on_news(news); });
    }
}

milliseconds MasterWatch::jittered(milliseconds time) {
    std::uniform_int_distribution<milliseconds::rep> share(time.count() / 2, time.count());
    return milliseconds{share(random_)};
}

// Connects to a sentinel and gives the password.
Task<Result<MasterWatch::ConnectionPtr, MasterWatch::Fault>> MasterWatch::connect(
    std::size_t node) {
    const NodeAddress& address = options_.nodes[node];
    auto connection =
        std::make_shared<ServerConnection>(io_.get_executor(), options_.tls, address.host);
    connection->expect_within(options_.timeout);
    Fault failed = co_await connection->open(address.port);
    if (failed.message.empty() && !options_.password.empty()) {
        const Reply reply = without_error(
            co_await connection->ask(auth_command(options_.username, options_.password)));
        if (!reply)
            failed = {reply.error().refused, false, "the password: " + reply.error().message};
    }
    if (!failed.message.empty()) co_return failed;
    co_return connection;
}

}  // namespace tidegate::redis
