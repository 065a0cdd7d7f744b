// Redis as a store: which servers count, under which keys, and by whose clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "limit/charge.hpp"
#include "redis/cluster.hpp"

namespace tidegate::store {

// The hash slot of an item's keys in Redis Cluster: its identifier is their hash tag.
std::uint16_t slot_of(const limit::ChargeItem& item);

// A copy is of the same servers.
struct RedisStore {
    redis::RedisServers servers{};  // none: nothing is counted in Redis
    std::string key_prefix{};
    bool local_clock = false;  // this machine's clock counts; else Redis's, by TIME

    // The time that a script counts at; none for Redis's own.
    std::optional<limit::Micros> clock() const;
    // Whether the keys of these items are in several slots of a cluster: not for one command.
    bool crosses_slots(std::span<const limit::ChargeItem> items) const;
    // Where a command about `items`, which are in one slot, goes. Without a cluster always 0.
    std::uint16_t slot_of(std::span<const limit::ChargeItem> items) const;
    // Sends a command once and ignores the reply. What Redis does not get is lost: units stay
    // counted until they expire, slots of concurrency until their hold ends. False: it cannot be
    // sent. Else calls `on_end`, if there is one, on this thread when the reply has come, or none
    // comes any more.
    bool send_and_forget(std::string command, const redis::Script* script, std::uint16_t slot,
                         std::function<void()> on_end = nullptr) const;
};

// Returns the rights that Tidegate's user needs in Redis, as ACL SETUSER takes them, without a name
// and a password: every command that is sent or called by a script, on keys with this prefix, and
// nothing else.
std::string access_rights(std::string_view key_prefix);

}  // namespace tidegate::store
