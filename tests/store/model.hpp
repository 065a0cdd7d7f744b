// What limits.md says, as plainly as it can be written: a list of all that was admitted, and sums
// over it. Slow, and sharing nothing with the limiters it judges.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "limit/charge.hpp"

namespace tidegate::test {

class Model {
  public:
    limit::Verdict charge(const limit::Charge& charge, limit::Micros now);

  private:
    struct Admitted {
        std::int64_t at;  // microseconds, as the counter saw them
        std::int64_t units;
    };
    // One limit counting one identifier; for first_request, `at` is when the window opened.
    using Counter = std::vector<Admitted>;

    // When the units taken at `at` stop counting.
    static std::int64_t freed(const limit::Limit& limit, std::int64_t at);
    static std::int64_t units_at(const Counter& counter, const limit::Limit& limit,
                                 std::int64_t moment);
    static std::int64_t time_of(const Counter& counter, std::int64_t now);

    std::map<std::tuple<std::string, std::string, std::uint32_t>, Counter> counters_;
};

}  // namespace tidegate::test
