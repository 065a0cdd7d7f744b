#include "app/access_logs.hpp"

#include <algorithm>

namespace tidegate::app {

std::shared_ptr<telemetry::AccessLog> AccessLogs::open(const config::Log& settings) {
    if (settings.access_path.empty()) return nullptr;
    const auto known = std::find_if(logs_.begin(), logs_.end(), [&](const Open& one) {
        return one.path == settings.access_path;
    });
    if (known != logs_.end()) return known->log;
    auto log = std::make_shared<telemetry::AccessLog>(
        telemetry::AccessLog::Options{.path = settings.access_path,
                                      .format = settings.access_format,
                                      .sample = settings.sample},
        threads_);
    logs_.push_back({settings.access_path, log});
    return log;
}

void AccessLogs::use(const std::shared_ptr<telemetry::AccessLog>& log,
                     const config::Log& settings) {
    if (log) log->change_lines(settings.access_format, settings.sample);
    in_force_ = log;
}

void AccessLogs::reopen() {
    for (const Open& one : logs_) one.log->reopen();
}

void AccessLogs::sweep() {
    std::erase_if(logs_, [this](const Open& one) {
        // Only open() hands it out again, on this thread.
        if (one.log.use_count() > 1) return false;
        dropped_before_ += one.log->dropped();
        return true;
    });
}

std::uint64_t AccessLogs::dropped() const {
    std::uint64_t sum = dropped_before_;
    for (const Open& one : logs_) sum += one.log->dropped();
    return sum;
}

}  // namespace tidegate::app
