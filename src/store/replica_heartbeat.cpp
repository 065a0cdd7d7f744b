#include "store/replica_heartbeat.hpp"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "redis/cluster_map.hpp"

namespace tidegate::store {

namespace {

constexpr std::chrono::milliseconds kEvery{2'000};
constexpr std::chrono::milliseconds kUntilCounted{100};  // while the share is a guess

}  // namespace

std::string heartbeat_key(std::string_view key_prefix) {
    return std::string(key_prefix) + "{" + std::string(kHeartbeatTag) + "}";
}

int ReplicaCount::update(std::int64_t seen, SteadyTime now) {
    const auto alive = static_cast<int>(std::clamp<std::int64_t>(seen, 1, kReplicasSeenMax));
    // The count of a process before this one is as good as one of now.
    if (!std::exchange(is_counted_, true)) counted_since_ = now;
    if (alive >= counted_ || now - counted_since_ >= kHeartbeatGoodFor) {
        counted_ = alive;
        counted_since_ = now;
    }
    return number();
}

void ReplicaCount::configure(const ReplicaSettings& settings) {
    if (settings.configured == 0 && counted_ == 0) counted_ = settings_.configured;
    settings_ = settings;
}

int ReplicaCount::number() const {
    return is_known() ? std::max(settings_.configured, counted_) : std::max(settings_.assumed, 1);
}

// One command and its reply.
class Heartbeat::Call final : public redis::Request {
  public:
    Call(Wakeup& wakeup, std::initializer_list<std::string_view> arguments) : wakeup_(wakeup) {
        redis::append_resp(arguments, command_);
    }

    // All keys are in the slot of kHeartbeatTag.
    void send(const redis::RedisServers& servers) {
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
    std::optional<std::int64_t> number_;  // the reply, or the first element of an array
};

Heartbeat::Heartbeat(Executor executor, RedisStore redis, Options options, ReplicaFigures& figures)
    : redis_(std::move(redis)),
      options_(std::move(options)),
      count_(options_.replicas, options_.last_seen),
      figures_(figures),
      wakeup_(executor),
      timer_(executor) {
    publish();
}

Heartbeat::~Heartbeat() = default;

Task<> Heartbeat::run(std::shared_ptr<Heartbeat> self) {
    while (!self->stopped_) {
        co_await self->beat();
        if (self->stopped_) break;
        self->timer_.expires_after(self->count_.is_known() ? kEvery : kUntilCounted);
        co_await self->timer_.async_wait(as_values);
    }
}

Task<> Heartbeat::beat() {
    const std::int64_t now = co_await time();
    if (now == 0 || stopped_) co_return;
    const std::string key = heartbeat_key(redis_.key_prefix);
    const std::string last_seen = std::to_string(now);
    const std::string silent_since = "(" + std::to_string(now - kHeartbeatGoodFor.count());
    // They leave together, and Redis answers in order.
    Call add(wakeup_, {"ZADD", key, last_seen, options_.name});
    Call remove(wakeup_, {"ZREMRANGEBYSCORE", key, "-inf", silent_since});
    Call expire(wakeup_, {"EXPIRE", key, std::to_string(kHeartbeatGoodFor.count())});
    Call count(wakeup_, {"ZCARD", key});
    for (Call* call : {&add, &remove, &expire, &count}) call->send(redis_.servers);
    while (!(add.done() && remove.done() && expire.done() && count.done())) {
        co_await wakeup_.wait();
    }
    // Without ZADD the count lacks this proxy.
    if (!add.number() || !count.number()) co_return;
    count_.update(*count.number(), std::chrono::steady_clock::now());
    publish();
}

Task<std::int64_t> Heartbeat::time() {
    if (const auto clock = redis_.clock()) {
        co_return std::chrono::duration_cast<std::chrono::seconds>(*clock).count();
    }
    Call call(wakeup_, {"TIME"});
    call.send(redis_.servers);
    while (!call.done()) co_await wakeup_.wait();
    co_return call.number().value_or(0);
}

void Heartbeat::configure(const ReplicaSettings& replicas) {
    count_.configure(replicas);
    publish();
}

void Heartbeat::publish() {
    figures_.number = count_.number();
    figures_.known = count_.is_known() ? count_.number() : 0;
    figures_.seen = count_.seen();
}

void Heartbeat::stop() {
    stopped_ = true;
    timer_.cancel();
}

}  // namespace tidegate::store
