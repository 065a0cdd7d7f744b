// Answers /api/live, /api/top and /api/denials: what the process does, and for whom.
//
// Runs on the main thread. It reads the counters of all workers once a second, and asks the workers
// for the names that they remember.
#pragma once

#include <chrono>
#include <string_view>

#include "admin/answer.hpp"
#include "app/reloader.hpp"
#include "app/shared_state.hpp"
#include "net/asio.hpp"
#include "telemetry/live.hpp"

namespace tidegate::app {

class DashboardService {
  public:
    // All outlive this.
    DashboardService(Executor executor, const SharedState& shared, Workers& workers,
                     const Reloader& reloader);

    // Takes a sample every second. Never ends; this outlives it.
    Task<> run();

    admin::AdminAnswer live(std::string_view target) const;
    // 503 if a worker does not answer in time.
    Task<admin::AdminAnswer> activity(admin::ActivityRequest request);

  private:
    struct Job;

    void sample();

    Executor executor_;
    const SharedState& shared_;
    Workers& workers_;
    const Reloader& reloader_;
    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    telemetry::LiveSeries series_;
};

}  // namespace tidegate::app
