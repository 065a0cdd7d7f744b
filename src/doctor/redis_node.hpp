// Looks at one Redis that decides: everything that can be found out, without leaving a key behind.
// The keys that the doctor writes have names that no one else uses; they expire within seconds, and
// are removed before that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/redis_connection.hpp"
#include "doctor/redis_info.hpp"
#include "doctor/time_limit.hpp"
#include "redis/cluster_map.hpp"

namespace tidegate::doctor {

// A Redis, and how Tidegate uses it.
struct RedisNode {
    enum class Kind : std::uint8_t { single, sentinel_master, cluster_node };

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

// Parts of it that have files of their own. They send nothing once the connection is lost.

// A name for keys to write: `doctor:` and hexadecimal digits, which the node serves.
std::string throw_away_name(const RedisNode& node);

// Tries each command that Tidegate sends or calls by a script. False when decisions cannot work.
bool check_rights(RedisConnection& connection, const RedisNode& node, Findings& findings);

// Loads the scripts, charges every algorithm, and times decisions.
void check_scripts(RedisConnection& connection, const RedisNode& node, Findings& findings);

}  // namespace tidegate::doctor
