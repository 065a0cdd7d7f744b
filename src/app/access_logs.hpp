// The access logs of the process: the one in force, and those that requests of former
// configurations may still write to.
//
// The main thread's. Others hold what it has given them, and never as the last owner: the end of a
// log waits for its writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
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

    // The log of that path, if it is open; null: it is not, or the access log is off.
    std::shared_ptr<telemetry::AccessLog> find(const config::Log& settings) const;
    // Opens the log of that path, which find() has not found, for add(). Any thread: it may wait.
    // Throws std::runtime_error naming the path.
    static std::shared_ptr<telemetry::AccessLog> make(const config::Log& settings,
                                                      std::size_t threads);
    void add(const config::Log& settings, std::shared_ptr<telemetry::AccessLog> log);
    // find(), and make() and add() where it finds none; null: off. Waits, so only for the start.
    // use() sets format and sample.
    std::shared_ptr<telemetry::AccessLog> open(const config::Log& settings);
    // `log`, which open() gave, is the one in force from now on. One that goes on under its path
    // takes on the new format and sample.
    void use(const std::shared_ptr<telemetry::AccessLog>& log, const config::Log& settings);

    // Opens all paths anew (USR1).
    void reopen();
    // Ends the logs that no request can write to any more, without waiting for them.
    void sweep();

    // Lines that were not written since the start.
    std::uint64_t dropped() const;

  private:
    struct Open {
        std::string path;
        std::shared_ptr<telemetry::AccessLog> log;
    };

    std::size_t threads_;
    std::vector<std::future<void>> ending_;  // each waits for a writer
    std::vector<Open> logs_;
    std::shared_ptr<telemetry::AccessLog> in_force_;
    std::uint64_t dropped_before_ = 0;  // by logs that have ended
};

}  // namespace tidegate::app
