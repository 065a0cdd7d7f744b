#include "store/heartbeat.hpp"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/numbers.hpp"
#include "redis/slot.hpp"

namespace tidegate::store {

namespace {

constexpr std::chrono::milliseconds kEvery{2'000};
constexpr std::chrono::milliseconds kUntilCounted{100};  // nothing can be shared out before that

std::int64_t wall_clock() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

std::string heartbeat_key(std::string_view key_prefix) {
    return std::string(key_prefix) + "{" + std::string(kHeartbeatTag) + "}";
}

int ReplicaCount::hear(std::int64_t seen, redis::SteadyTime now) {
    const auto alive = static_cast<int>(std::clamp<std::int64_t>(seen, 1, 1 << 20));
    if (alive >= believed_ || now - believed_since_ >= kHeartbeatGoodFor) {
        believed_ = alive;
        believed_since_ = now;
    }
    return std::max(configured_, believed_);
}

int ReplicaCount::configure(int configured) {
    configured_ = configured;
    return std::max(configured_, believed_);
}

// One command and what came of it.
class Heartbeat::Call final : public redis::Request {
  public:
    Call(Wakeup& wakeup, std::initializer_list<std::string_view> arguments) : wakeup_(wakeup) {
        redis::append_resp(arguments, command_);
    }

    // All keys are in the slot of kHeartbeatTag.
    void send(const redis::Servers& servers) {
        done_ = servers.send(*this, redis::slot_of_tag(kHeartbeatTag)).has_value();
    }
    bool done() const { return done_; }
    std::optional<std::int64_t> number() const { return number_; }

    void append_command(std::string& out) override { out += command_; }
    const redis::Script* script() const override { return nullptr; }
    void on_reply(const redis::Reply& reply) override {
        if (reply.kind == redis::Reply::Kind::integer) {
            number_ = reply.integer;
        } else if (reply.kind == redis::Reply::Kind::array) {
            number_ = parse_number<std::int64_t>(reply.text);
        }
        done_ = true;
        wakeup_.wake_later();
    }
    void on_failure(redis::Failure) override {
        done_ = true;
        wakeup_.wake_later();
    }

  private:
    Wakeup& wakeup_;
    std::string command_;
    bool done_ = false;
    std::optional<std::int64_t> number_;  // what an integer says, or an array's first element
};

Heartbeat::Heartbeat(Executor executor, redis::Servers servers, Options options, Replicas& replicas)
    : servers_(std::move(servers)),
      options_(std::move(options)),
      count_(options_.configured),
      replicas_(replicas),
      wakeup_(executor),
      timer_(executor) {
    replicas = options_.configured;
}

Heartbeat::~Heartbeat() = default;

Task<> Heartbeat::run(std::shared_ptr<Heartbeat> self) {
    while (!self->stopped_) {
        co_await self->beat();
        if (self->stopped_) break;
        self->timer_.expires_after(self->replicas_ > 0 ? kEvery : kUntilCounted);
        co_await self->timer_.async_wait(as_values);
    }
}

Task<> Heartbeat::beat() {
    const std::int64_t now = options_.local_clock ? wall_clock() : co_await server_time();
    if (now == 0 || stopped_) co_return;
    const std::string key = heartbeat_key(options_.key_prefix);
    const std::string spoken = std::to_string(now);
    const std::string silent = "(" + std::to_string(now - kHeartbeatGoodFor.count());
    // They leave together and are answered in order.
    Call speak(wakeup_, {"ZADD", key, spoken, options_.name});
    Call forget(wakeup_, {"ZREMRANGEBYSCORE", key, "-inf", silent});
    Call expire(wakeup_, {"EXPIRE", key, std::to_string(kHeartbeatGoodFor.count())});
    Call count(wakeup_, {"ZCARD", key});
    for (Call* call : {&speak, &forget, &expire, &count}) call->send(servers_);
    while (!(speak.done() && forget.done() && expire.done() && count.done())) {
        co_await wakeup_.wait();
    }
    // Who could not say that it is there is not among those counted.
    if (!speak.number() || !count.number()) co_return;
    replicas_ = count_.hear(*count.number(), std::chrono::steady_clock::now());
}

Task<std::int64_t> Heartbeat::server_time() {
    Call time(wakeup_, {"TIME"});
    time.send(servers_);
    while (!time.done()) co_await wakeup_.wait();
    co_return time.number().value_or(0);
}

void Heartbeat::configure(int replicas) {
    const int count = count_.configure(replicas);
    if (count > 0) replicas_ = count;  // what was known goes on being known
}

void Heartbeat::stop() {
    stopped_ = true;
    timer_.cancel();
}

}  // namespace tidegate::store
