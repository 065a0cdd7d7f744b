#include "store/redis_store.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "redis/cluster_map.hpp"

namespace tidegate::store {

namespace {

// Deletes itself once Redis has answered.
class UnansweredCommand final : public redis::Request {
  public:
    UnansweredCommand(std::string command, const redis::Script* script,
                      std::function<void()> on_end)
        : command_(std::move(command)), script_(script), on_end_(std::move(on_end)) {}

    void append_command(std::string& out) override { out += command_; }
    const redis::Script* script() const override { return script_; }
    void on_reply(const redis::Reply&) override { end(); }
    void on_failure(redis::Failure) override { end(); }

  private:
    void end() {
        if (on_end_) on_end_();
        delete this;
    }

    std::string command_;
    const redis::Script* script_;
    std::function<void()> on_end_;
};

// By who needs them; `tests/integration/redis_access_test.cpp` runs with these and no more.
constexpr std::string_view kCommands[] = {
    // to connect, and to see whether the server is well
    "+script|load +select +ping",
    // the scripts, and what they call
    "+evalsha +time +mget +set +setrange +pttl +pexpire",
    "+zadd +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore",
    // the heartbeat
    "+zcard +expire",
};

// Redis's patterns for keys have characters of their own.
std::string as_pattern(std::string_view key_prefix) {
    std::string pattern;
    for (const char c : key_prefix) {
        if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
        pattern += c;
    }
    return pattern + "*";
}

}  // namespace

std::uint16_t slot_of(const limit::ChargeItem& item) {
    return redis::slot_of_tag(item.identifier);
}

std::optional<limit::Micros> RedisStore::clock() const {
    if (!local_clock) return std::nullopt;
    return std::chrono::duration_cast<limit::Micros>(
        std::chrono::system_clock::now().time_since_epoch());
}

bool RedisStore::crosses_slots(std::span<const limit::ChargeItem> items) const {
    return servers.is_cluster() &&
           std::any_of(items.begin(), items.end(), [&](const limit::ChargeItem& item) {
               return item.identifier != items.front().identifier &&
                      store::slot_of(item) != store::slot_of(items.front());
           });
}

std::uint16_t RedisStore::slot_of(std::span<const limit::ChargeItem> items) const {
    return servers.is_cluster() && !items.empty() ? store::slot_of(items.front())
                                                  : std::uint16_t{0};
}

bool RedisStore::send_and_forget(std::string command, const redis::Script* script,
                                 std::uint16_t slot, std::function<void()> on_end) const {
    auto request =
        std::make_unique<UnansweredCommand>(std::move(command), script, std::move(on_end));
    if (servers.send(*request, slot)) return false;
    static_cast<void>(request.release());
    return true;
}

std::string access_rights(std::string_view key_prefix) {
    std::string rights = "resetkeys ~" + as_pattern(key_prefix) + " resetchannels -@all";
    for (const std::string_view commands : kCommands) {
        rights += ' ';
        rights += commands;
    }
    return rights;
}

}  // namespace tidegate::store
