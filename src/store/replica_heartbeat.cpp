#include "store/replica_heartbeat.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "redis/client.hpp"
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

namespace {

// The number that the reply is, or that is the first of it.
std::optional<std::int64_t> number_of(const std::optional<redis::Reply>& reply) {
    if (!reply) return std::nullopt;
    if (reply->kind == redis::Reply::Kind::integer) return reply->integer;
    if (reply->kind != redis::Reply::Kind::array) return std::nullopt;
    return parse_number<std::int64_t>(reply->text);
}

// All keys are in the slot of kHeartbeatTag.
void send(redis::AwaitedCommand& command, const redis::RedisServers& servers) {
    const auto failure = servers.send(command, redis::slot_of_tag(kHeartbeatTag));
    if (failure) command.on_failure(*failure);
}

}  // namespace

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
    using redis::resp;
    const std::string good_for = std::to_string(kHeartbeatGoodFor.count());
    redis::AwaitedCommand add(resp({"ZADD", key, last_seen, options_.name}), wakeup_);
    redis::AwaitedCommand remove(resp({"ZREMRANGEBYSCORE", key, "-inf", silent_since}), wakeup_);
    redis::AwaitedCommand expire(resp({"EXPIRE", key, good_for}), wakeup_);
    redis::AwaitedCommand count(resp({"ZCARD", key}), wakeup_);
    for (auto* const command : {&add, &remove, &expire, &count}) send(*command, redis_.servers);
    while (!(add.done() && remove.done() && expire.done() && count.done())) {
        co_await wakeup_.wait();
    }
    // Without ZADD the count lacks this proxy.
    const auto seen = number_of(count.reply());
    if (!number_of(add.reply()) || !seen) co_return;
    count_.update(*seen, std::chrono::steady_clock::now());
    publish();
}

Task<std::int64_t> Heartbeat::time() {
    if (const auto clock = redis_.clock()) {
        co_return std::chrono::duration_cast<std::chrono::seconds>(*clock).count();
    }
    redis::AwaitedCommand command(redis::resp({"TIME"}), wakeup_);
    send(command, redis_.servers);
    while (!command.done()) co_await wakeup_.wait();
    co_return number_of(command.reply()).value_or(0);
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
