#include "store/heartbeat.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/wakeup.hpp"
#include "store/lua_scripts.hpp"

namespace tidegate::store {

namespace {

constexpr std::chrono::milliseconds kEvery{2'000};
constexpr std::chrono::milliseconds kUntilCounted{100};  // nothing can be shared out before that
// A proxy that has not been heard of for this long is gone; a larger number only makes the
// shares smaller, which is the safe side.
constexpr std::string_view kGoodForMs = "10000";

}  // namespace

class Heartbeat::Beat final : public redis::Request {
  public:
    Beat(Executor executor, std::shared_ptr<redis::Client> client, const std::string& key_prefix,
         const std::string& name, int configured, Replicas& replicas)
        : wakeup(executor),
          client_(std::move(client)),
          configured_(configured),
          replicas_(replicas) {
        redis::append_resp(
            {"EVALSHA", kheartbeatScript.sha1, "1", key_prefix + "{replicas}", name, kGoodForMs},
            command_);
    }

    Task<> send() {
        done_ = client_->send(*this).has_value();
        while (!done_) co_await wakeup.wait();
    }

    bool counted() const { return replicas_ > 0; }

    void append_command(std::string& out) override { out += command_; }
    const redis::Script* script() const override { return &kheartbeatScript; }
    void on_reply(const redis::Reply& reply) override {
        if (reply.kind == redis::Reply::Kind::integer) {
            const auto seen = static_cast<int>(std::clamp<std::int64_t>(reply.integer, 1, 1 << 20));
            replicas_ = std::max(configured_, seen);
        }
        done_ = true;
        wakeup.wake_later();
    }
    void on_failure(redis::Failure) override {
        done_ = true;
        wakeup.wake_later();
    }

    Wakeup wakeup;

  private:
    std::shared_ptr<redis::Client> client_;
    int configured_;
    Replicas& replicas_;
    std::string command_;
    bool done_ = false;
};

Heartbeat::Heartbeat(Executor executor, std::shared_ptr<redis::Client> client,
                     std::string key_prefix, std::string name, int configured, Replicas& replicas)
    : beat_(std::make_unique<Beat>(executor, std::move(client), key_prefix, name, configured,
                                   replicas)),
      timer_(executor) {
    replicas = configured;
}

Heartbeat::~Heartbeat() = default;

Task<> Heartbeat::run(std::shared_ptr<Heartbeat> self) {
    while (!self->stopped_) {
        co_await self->beat_->send();
        if (self->stopped_) break;
        self->timer_.expires_after(self->beat_->counted() ? kEvery : kUntilCounted);
        co_await self->timer_.async_wait(as_values);
    }
}

void Heartbeat::stop() {
    stopped_ = true;
    timer_.cancel();
}

}  // namespace tidegate::store
