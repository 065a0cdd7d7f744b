// Asking the scripts in a real Redis in ways that no proxy does, and looking at what they leave.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/charge.hpp"
#include "redis/resp.hpp"
#include "store/stores.hpp"

namespace tidegate::test {

// The server's time now.
Micros server_time(RedisSubject& redis);

// What is left of a key's life; -1 if it has no end, -2 if there is no such key.
std::int64_t ttl_ms(RedisSubject& redis, const std::string& key);

// A verdict as one line: two are the same if their lines are.
std::string written(const limit::Verdict& verdict);

// Charges in one command, under a prefix of keys. With `script` that one decides, whatever the
// charges would choose. Throws if the answer is no verdict.
std::vector<limit::Verdict> charge_together(RedisSubject& redis,
                                            std::span<const limit::Charge> charges,
                                            std::string_view prefix, std::optional<Micros> now,
                                            const redis::Script* script = nullptr);
limit::Verdict charge_as(RedisSubject& redis, const limit::Charge& charge, std::string_view prefix,
                         Micros now, const redis::Script* script = nullptr);

// Charges of different items in one command. Nothing of those that the script leaves to be asked
// alone.
std::vector<std::optional<limit::Verdict>> charge_mixed(RedisSubject& redis,
                                                        std::span<const limit::Charge> charges,
                                                        std::string_view prefix, Micros now);

void give_back_as(RedisSubject& redis, const limit::Refund& refund, std::string_view prefix,
                  Micros now);
// Renews the slots of a charge at `now`.
void renew(RedisSubject& redis, const limit::Charge& charge, std::optional<Micros> now);

// A state taken apart (lua/state.lua): what still counts, whatever older marks are kept.
struct StateRecord {
    std::uint32_t id = 0;
    std::uint32_t units = 0;
    double ends = 0;
    double oldest = 0;
    std::uint32_t base = 0;
    std::vector<std::pair<std::uint32_t, double>> marks{};  // total and label

    bool operator==(const StateRecord&) const = default;
};
struct State {
    std::uint32_t layout = 0;
    std::uint32_t generation = 0;
    double expiry = 0;
    std::vector<StateRecord> records{};

    bool operator==(const State&) const = default;
};
// Throws if the value is no state.
State taken_apart(std::string_view value);
std::string written(const State& state);

}  // namespace tidegate::test
