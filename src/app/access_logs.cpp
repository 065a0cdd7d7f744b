#include "app/access_logs.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tidegate::app {

std::shared_ptr<telemetry::AccessLog> AccessLogs::find(const config::Log& settings) const {
    const auto known = std::find_if(logs_.begin(), logs_.end(), [&](const Open& one) {
        return one.path == settings.access_path;
    });
    return known == logs_.end() ? nullptr : known->log;
}

std::shared_ptr<telemetry::AccessLog> AccessLogs::make(const config::Log& settings,
                                                       std::size_t threads) {
    return std::make_shared<telemetry::AccessLog>(
        telemetry::AccessLog::Options{.path = settings.access_path,
                                      .format = settings.access_format,
                                      .sample = settings.sample},
        threads);
}

void AccessLogs::add(const config::Log& settings, std::shared_ptr<telemetry::AccessLog> log) {
    logs_.push_back({settings.access_path, std::move(log)});
}

std::shared_ptr<telemetry::AccessLog> AccessLogs::open(const config::Log& settings) {
    if (settings.access_path.empty()) return nullptr;
    auto log = find(settings);
    if (!log) {
        log = make(settings, threads_);
        add(settings, log);
    }
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
    std::erase_if(ending_, [](const std::future<void>& end) {
        return end.wait_for(std::chrono::seconds{0}) != std::future_status::timeout;
    });
    std::erase_if(logs_, [this](Open& one) {
        // Only find() hands it out again, on this thread.
        if (one.log.use_count() > 1) return false;
        dropped_before_ += one.log->dropped();
        // On a thread of its own, or with the future where the system has none.
        ending_.push_back(std::async([log = std::move(one.log)]() mutable { log.reset(); }));
        return true;
    });
}

std::uint64_t AccessLogs::dropped() const {
    std::uint64_t sum = dropped_before_;
    for (const Open& one : logs_) sum += one.log->dropped();
    return sum;
}

}  // namespace tidegate::app
