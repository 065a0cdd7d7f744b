// Weeks and months of UTC: the windows of `anchor: utc_week` and `anchor: utc_month`.
// lua/window.lua computes the same periods from the clock of Redis. Pure: no clock, no time zone
// database.
#pragma once

#include "limit/limit.hpp"

namespace tidegate::limit {

// Half-open, in microseconds since 1970.
struct Period {
    Micros begins;
    Micros ends;

    bool operator==(const Period&) const = default;
};

// The period that holds `at`. A week begins on Monday. Leap years count as in the Gregorian
// calendar; leap seconds do not exist in Unix time. Requires an anchor of utc_week or utc_month.
Period period_at(Anchor anchor, Micros at);

}  // namespace tidegate::limit
