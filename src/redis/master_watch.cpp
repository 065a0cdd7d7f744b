#include "redis/master_watch.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/quote.hpp"
#include "redis/client.hpp"
#include "telemetry/log.hpp"

namespace tidegate::redis {

namespace {

using telemetry::Level;
using telemetry::log;

// A sentinel that says nothing is asked whether it is there.
constexpr milliseconds kPingEvery{1'000};
// Between two rounds of trying all sentinels, and for one that lets us in only to throw us out.
constexpr milliseconds kRoundPause{1'000};
// Between two rounds of asking, growing while there is always somebody who asks: a hundred proxies
// without a master must not keep its sentinels from finding one.
constexpr milliseconds kAskPauseMin{25};
constexpr milliseconds kAskPauseMax{250};
constexpr milliseconds kAskedInARow{300};  // longer than the longest pause
constexpr milliseconds kComplainEvery{10'000};

SteadyTime now() {
    return std::chrono::steady_clock::now();
}

std::string resp(std::initializer_list<std::string_view> arguments) {
    std::string text;
    append_resp(arguments, text);
    return text;
}

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
Task<> keep_pinging(Executor executor, std::shared_ptr<SentinelConnection> connection) {
    Timer timer(executor);
    while (true) {
        timer.expires_after(kPingEvery);
        co_await timer.async_wait(as_values);
        if (co_await connection->send(ping())) break;
    }
}

}  // namespace

MasterWatch::MasterWatch(SentinelOptions options)
    : options_(std::move(options)),
      asked_(io_.get_executor()),
      order_(options_.nodes.size(), std::random_device{}()),
      random_(std::random_device{}()) {
    spawn_vital(io_.get_executor(), try_all());
    spawn_vital(io_.get_executor(), answer_asks());
    spawn_vital(io_.get_executor(), follow_switches());
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

// One is enough, and nobody would notice that the others are not there until it is gone. That none
// is of use, others say.
Task<> MasterWatch::try_all() {
    std::vector<std::string> faults;
    for (std::size_t node = 0; node < options_.nodes.size(); ++node) {
        const auto master = co_await ask_one(node);
        if (master) continue;
        faults.push_back(options_.nodes[node].address() +
                         " is of no use: " + master.error().message);
    }
    if (faults.size() == options_.nodes.size()) co_return;
    for (const std::string& fault : faults) log(Level::warn, "the sentinel {}", fault);
}

// Everybody who has asked by now gets the answer of one round.
Task<> MasterWatch::answer_asks() {
    Timer timer(io_);
    milliseconds pause{0};
    SteadyTime last;
    while (true) {
        while (!begin_round()) co_await asked_.wait();
        tell(co_await ask_around());
        const SteadyTime time = now();
        pause = time - last < kAskedInARow ? std::min(pause * 2, kAskPauseMax) : kAskPauseMin;
        last = time;
        timer.expires_after(jittered(pause));
        co_await timer.async_wait(as_values);
    }
}

// False when nobody wants to know.
bool MasterWatch::begin_round() {
    const std::lock_guard lock(mutex_);
    bool anybody = false;
    for (auto& [number, follower] : followers_) {
        follower.is_awaiting = std::exchange(follower.asked, false);
        anybody = anybody || follower.is_awaiting;
    }
    return anybody;
}

Task<MasterWatch::News> MasterWatch::ask_around() {
    News news;
    for (const std::size_t node : order_.next(now())) {
        const auto master = co_await ask_one(node);
        if (master) {
            order_.answered(node);
            co_return News{*master, false, false, {}};
        }
        order_.failed(node, now());
        news.denied = news.denied || master.error().denied;
        news.fault += (news.fault.empty() ? "" : "; ") + options_.nodes[node].address() + ": " +
                      master.error().message;
    }
    news.fault =
        "no sentinel tells where the master " + quote(options_.master) + " is: " + news.fault;
    co_return news;
}

Task<Result<MasterAddress, MasterWatch::Fault>> MasterWatch::ask_one(std::size_t node) {
    const auto connection = connection_to(node);
    auto answer = co_await SentinelConnection::open(connection);
    if (answer) {
        answer = co_await connection->ask(where_is(options_.master));
    }
    if (answer && answer->kind == SentinelReply::Kind::nil) {
        const auto masters = co_await connection->ask(which_masters());
        answer = Fault{true, unknown_master(options_.master, masters ? *masters : SentinelReply{})};
    }
    connection->close();
    if (!answer) co_return answer.error();
    const auto master = master_of(*answer);
    if (!master) co_return Fault{false, "what it says is no address"};
    co_return *master;
}

Task<> MasterWatch::follow_switches() {
    Timer timer(io_);
    while (true) {
        std::string faults;
        bool followed = false;
        SteadyTime begun;
        for (const std::size_t node : order_.next(now())) {
            begun = now();
            const std::string reason = co_await follow_one(node, followed);
            order_.failed(node, now());
            if (followed) {
                on_lost(node, reason);
                break;
            }
            faults += (faults.empty() ? "" : "; ") + options_.nodes[node].address() + ": " + reason;
        }
        if (followed && now() - begun >= kRoundPause) continue;
        if (!followed && !std::exchange(told_alone_, true)) {
            log(Level::error,
                "no sentinel can be followed, so nobody tells when the master {} moves: {}",
                quote(options_.master), faults);
        }
        timer.expires_after(jittered(kRoundPause));
        co_await timer.async_wait(as_values);
    }
}

// Returns why it is over. `followed`: it had begun.
Task<std::string> MasterWatch::follow_one(std::size_t node, bool& followed) {
    const auto connection = connection_to(node);
    auto answer = co_await SentinelConnection::open(connection);
    if (answer) answer = co_await connection->ask(subscribe());
    if (!answer) {
        connection->close();
        co_return answer.error().message;
    }
    // Of a switch before the subscription there is no message.
    connection->expect_within(kPingEvery + options_.patience);
    const auto master = co_await ask_one(node);
    if (!master) {
        connection->close();
        co_return master.error().message;
    }
    followed = true;
    on_followed(node, *master);
    std::string reason = co_await hear_switches(connection);
    connection->close();
    co_return reason;
}

Task<std::string> MasterWatch::hear_switches(std::shared_ptr<SentinelConnection> connection) {
    spawn_vital(io_.get_executor(), keep_pinging(io_.get_executor(), connection));
    while (true) {
        connection->expect_within(kPingEvery + options_.patience);
        const auto heard = co_await connection->next();
        if (!heard) co_return heard.error().message;
        if (const auto master = switch_of(*heard, options_.master)) announce(*master);
    }
}

void MasterWatch::on_followed(std::size_t node, const MasterAddress& master) {
    order_.answered(node);
    const bool was_told = std::exchange(told_lost_, false) || told_alone_;
    told_alone_ = false;
    if (was_told || announced_.host.empty()) {
        log(Level::info, "the sentinel {} tells where the master {} is: {}",
            options_.nodes[node].address(), quote(options_.master), master.to_string());
    }
    announce(master);
}

void MasterWatch::on_lost(std::size_t node, const std::string& reason) {
    const SteadyTime time = now();
    if (time < quiet_until_) return;
    quiet_until_ = time + kComplainEvery;
    told_lost_ = true;
    log(Level::warn, "the sentinel {} is lost: {}", options_.nodes[node].address(), reason);
}

void MasterWatch::announce(const MasterAddress& master) {
    if (!announced_.host.empty() && !(announced_ == master)) {
        log(Level::warn, "the master {} has moved from {} to {}", quote(options_.master),
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

std::shared_ptr<SentinelConnection> MasterWatch::connection_to(std::size_t node) {
    auto connection =
        std::make_shared<SentinelConnection>(io_.get_executor(), options_, options_.nodes[node]);
    connection->expect_within(options_.patience);
    return connection;
}

}  // namespace tidegate::redis
