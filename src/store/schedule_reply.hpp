// The moments of a schedule as scripts tell them (lua/schedule.lua). Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "limit/limit.hpp"
#include "store/reply_reader.hpp"

namespace tidegate::store {

struct ScheduleReply {
    limit::Micros asked_for{0};           // those that cannot matter from then on are left out
    std::vector<std::int64_t> moments{};  // in order, several may be equal
    bool are_all = true;                  // else there are later ones
};

// False if this is no list of moments; `reply` is then unspecified.
bool read_moments(ReplyReader& reader, ScheduleReply& reply);

}  // namespace tidegate::store
