// Looks at one Redis that decides: everything that can be found out, without leaving a key behind.
// The keys that the doctor writes have names that no one else uses; they expire within seconds, and
// are removed before that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/redis_connection.hpp"
#include "doctor/trial.hpp"
#include "limit/limit.hpp"
#include "redis/cluster_map.hpp"

namespace tidegate::doctor {

// What a Redis says of itself (INFO, CONFIG GET), and what it means for counts. Pure.
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

BOOST_DEFINE_FIXED_ENUM_CLASS(RedisNodeKind, std::uint8_t, single, sentinel_master, cluster_node)

// A Redis, and how Tidegate uses it.
struct RedisNode {
    using Kind = RedisNodeKind;

    const config::Config& config;
    const config::RedisSettings& settings;
    RedisTarget target;
    TimeLimit time_limit;
    Kind kind = Kind::single;
    std::vector<redis::SlotRange> slots{};  // of a cluster node: what it serves

    // What its user needs besides store::access_rights(): empty, or with a space in front.
    std::string_view more_rights() const;
    // What gives that user all it needs.
    std::string rights_advice() const;
    // Whether it serves keys with this hash tag.
    bool serves(std::string_view tag) const;
};

// Blocks until it has looked at everything, or the time is over.
Findings check_node(const RedisNode& node);

}  // namespace tidegate::doctor
