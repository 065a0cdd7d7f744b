// A time zone: by how much its clocks are ahead of UTC, and when each of its days begins.
//
// From a file of the system's time zone database (TZif, RFC 9636). The file has a list of changes
// up to some year, and a rule for the years after it (the POSIX TZ string at its end); the rule is
// worked out up to the year 2113, the last one that limits can be decided in.
//
// Immutable; any thread. Pure: the caller reads the file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace tidegate::limit {

// The largest file that is read; those of the database have at most some 4 KiB.
inline constexpr std::size_t kTimeZoneBytesMax = 65'536;
inline constexpr std::size_t kTimeZoneNameMax = 64;

// Whether it may name a zone, and so a file below the folder of the database: letters, digits, `_`,
// `-`, `+`, in parts between single `/`. So there is no `..`.
bool is_time_zone_name(std::string_view name);

class TimeZone {
  public:
    // Reads a TZif file of version 2 or later. Strict: every count, time, type and offset is
    // checked, and nothing may be left over. An error completes "the file ...".
    static Result<TimeZone, std::string> parse(std::string_view bytes);

    // Seconds by which the zone's clocks are ahead of UTC at `at`, in seconds since 1970.
    std::int32_t offset_at(std::int64_t at) const;

    // The first second, since 1970, at which the zone's clocks show that day or a later one. That
    // is midnight or, where the clocks skip it, the moment at which they do; where they show
    // midnight twice, the first. Two days begin at once where the clocks skip a whole one.
    std::int64_t begin_of(std::chrono::sys_days local_day) const;

  private:
    struct Change {
        std::int64_t at;  // seconds since 1970
        std::int32_t offset;
    };
    class Parser;

    explicit TimeZone(std::vector<Change> changes) : changes_(std::move(changes)) {}
    std::size_t index_at(std::int64_t at) const;

    std::vector<Change> changes_;  // in order of time; the first holds for all time before it, too
};

}  // namespace tidegate::limit
