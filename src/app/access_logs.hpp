// The access logs of the process: the one in force, and those that requests of former
// configurations may still write to.
//
// The main thread's. Others hold what open() returned, and never as its last owner: the end of a
// log waits for its writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "telemetry/access_log.hpp"

namespace tidegate::app {

class AccessLogs {
  public:
    // `threads` write.
    explicit AccessLogs(std::size_t threads) : threads_(threads) {}

    // The log of that path, opened if it is not; null: off. Throws std::system_error naming the
    // path. Format and sample are those of use().
    std::shared_ptr<telemetry::AccessLog> open(const config::Log& settings);
    // `log`, which open() gave, is the one in force from now on. One that goes on under its path
    // takes on the new format and sample.
    void use(const std::shared_ptr<telemetry::AccessLog>& log, const config::Log& settings);

    // Opens all paths anew (USR1).
    void reopen();
    // Ends the logs that no request can write to any more.
    void sweep();

    // Lines that were not written since the start.
    std::uint64_t dropped() const;

  private:
    struct Open {
        std::string path;
        std::shared_ptr<telemetry::AccessLog> log;
    };

    std::size_t threads_;
    std::vector<Open> logs_;
    std::shared_ptr<telemetry::AccessLog> in_force_;
    std::uint64_t dropped_before_ = 0;  // by logs that have ended
};

}  // namespace tidegate::app
