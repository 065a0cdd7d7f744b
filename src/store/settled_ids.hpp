// Which reservations that this process counts by itself have been settled, and with which cost, so
// that each is corrected once. Redis remembers those that it counts (store/settlement.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tidegate::store {

// Of the process: workers share it. Any thread.
class SettledIds {
  public:
    using Time = std::chrono::steady_clock::time_point;
    struct Claim {
        enum class State : std::uint8_t {
            first,     // the caller corrects the counts, then calls settled() or forget()
            settling,  // another caller is about to
            settled,
            full,  // kIdsMax are remembered
        };
        State state = State::first;
        std::int64_t cost = 0;  // settling, settled: that of the first
    };
    static constexpr std::size_t kIdsMax = 1'000'000;

    // Claims `id`, and remembers it until `until`.
    Claim claim(const std::string& id, std::int64_t cost, Time now, Time until);
    // The counts are right now.
    void settled(const std::string& id);
    // They could not be corrected: the next claim is the first again.
    void forget(const std::string& id);

  private:
    struct Entry {
        std::int64_t cost = 0;
        Time until;
        bool is_settled = false;
    };

    std::mutex mutex_;
    std::unordered_map<std::string, Entry> ids_;
    Time swept_{};
};

}  // namespace tidegate::store
