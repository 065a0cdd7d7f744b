// What a Redis says of itself (INFO, CONFIG GET), and what it means for counts. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "doctor/finding.hpp"
#include "limit/limit.hpp"

namespace tidegate::doctor {

class RedisInfo {
  public:
    // The answer to INFO; lines that are none of its own are passed over.
    explicit RedisInfo(std::string_view text);

    // Empty if it is not there.
    std::string_view text(std::string_view name) const;
    std::optional<std::uint64_t> number(std::string_view name) const;

  private:
    std::map<std::string, std::string, std::less<>> fields_;
};

// Whether counts may be thrown away, or refused, for want of memory.
void check_memory(const RedisInfo& info, Findings& findings);

// What a restart forgets. `save`: that of CONFIG GET; unset: not to be seen. `longest`: the longest
// window of all limits; 0: there are none.
void check_persistence(const RedisInfo& info, const std::optional<std::string>& save,
                       limit::Micros longest, Findings& findings);

void check_connections(const RedisInfo& info, Findings& findings);

}  // namespace tidegate::doctor
