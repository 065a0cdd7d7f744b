// The last requests that a thread has refused because of a limit, and why.
//
// A flood must not wash out the rest: of one identifier at most kOfOneASecond denials a second are
// kept, and of all at most kOfAllASecond. What is not kept is counted.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::telemetry {

// Texts are as clients and the configuration wrote them: any bytes.
struct Denial {
    std::uint64_t number = 0;  // of its thread, from 1
    std::chrono::system_clock::time_point time;
    std::string request_id;
    std::string identifier;  // that was over the limit
    std::string route;
    std::string policy;
    std::string limit;
    std::int64_t count = 0;  // units of the limit that were taken
    std::int64_t quota = 0;
    std::optional<std::int64_t> retry_after_seconds;  // unset: cannot be told
};

// The same, before it is kept.
struct DenialView {
    std::string_view request_id;
    std::string_view identifier;
    std::string_view route;
    std::string_view policy;
    std::string_view limit;
    std::int64_t count = 0;
    std::int64_t quota = 0;
    std::optional<std::int64_t> retry_after_seconds;
};

// One thread. Once full, a denial allocates only for texts longer than those it replaces.
class DenialLog {
  public:
    using Time = std::chrono::steady_clock::time_point;
    static constexpr std::size_t kKept = 256;
    static constexpr std::size_t kOfOneASecond = 4;
    static constexpr std::size_t kOfAllASecond = 64;
    static constexpr std::size_t kTextBytesMax = 128;  // the rest of each text is dropped

    // `secret` keys the hash of identifiers, which clients choose.
    explicit DenialLog(std::uint64_t secret) : secret_(secret | 1) {}

    // Whether the denial of `identifier` is kept; if so, the caller calls keep(). Counts what is
    // not. Requires that `now` never goes back.
    bool admits(std::string_view identifier, Time now);
    void keep(const DenialView& denial, std::chrono::system_clock::time_point time);

    // Those whose number is above `number`, oldest first: the first `count_max` of them.
    std::vector<Denial> after(std::uint64_t number, std::size_t count_max) const;
    std::uint64_t left_out() const { return left_out_; }

  private:
    struct Kept {
        std::uint64_t hash = 0;  // of the identifier
        std::size_t times = 0;
    };

    std::uint64_t secret_;
    // Of the current second.
    Time ends_{};
    std::array<Kept, kOfAllASecond> kept_{};
    std::size_t identifiers_ = 0;
    std::size_t kept_in_all_ = 0;

    std::uint64_t left_out_ = 0;
    std::uint64_t last_number_ = 0;
    std::vector<Denial> ring_;  // by number
};

}  // namespace tidegate::telemetry
