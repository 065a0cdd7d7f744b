// The error log: what an operator should know, on standard error.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tidegate::telemetry {

enum class Level : std::uint8_t { debug, info, warn, error };

void set_log_level(Level level);
bool log_enabled(Level level);
// Never blocks the caller for long: lines go to a bounded queue and a writer thread. Any thread.
void log_line(Level level, std::string_view message);
// Writes what is queued; at exit.
void flush_log();

template <class... Args>
void log(Level level, fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tidegate::telemetry
