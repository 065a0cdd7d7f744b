// A visit to one Redis that decides: everything that can be found out of it, without leaving a key
// behind. What is written is under names nobody else has, expires within seconds, and is removed
// before that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/patience.hpp"
#include "doctor/redis_info.hpp"
#include "doctor/redis_talk.hpp"
#include "redis/cluster_map.hpp"

namespace tidegate::doctor {

// What may differ from server to server, and what all have in common.
struct NodeVisit {
    enum class As : std::uint8_t { single, named_by_sentinels, in_cluster };

    const config::Config& config;
    const config::RedisSettings& settings;
    Station station;
    Patience patience;
    As as = As::single;
    std::vector<redis::SlotRange> slots{};  // in a cluster: what it serves

    // What its user needs besides store::access_rights(): empty, or with a space in front.
    std::string_view more_rights() const;
    // What gives that user all it needs.
    std::string rights_advice() const;
    // Whether keys with this hash tag are its own.
    bool serves(std::string_view tag) const;
};

// Blocks until all is looked at, or the patience ends.
Findings visit_node(const NodeVisit& visit);

// The parts of it that have files of their own. Each asks nothing when the talk is lost.

// The name of what is written: `doctor:` and hexadecimal digits, which `visit.station` serves.
std::string throw_away_name(const NodeVisit& visit);

// Tries each command that Tidegate sends or calls by a script. False when decisions cannot work.
bool check_rights(RedisTalk& talk, const NodeVisit& visit, Findings& findings);

// Loads the scripts, charges every algorithm, and times decisions.
void check_scripts(RedisTalk& talk, const NodeVisit& visit, Findings& findings);

}  // namespace tidegate::doctor
