// Asks workers and stores for what the admin listener shows. Main thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "admin/answer.hpp"
#include "admin/inspect_reset_answer.hpp"
#include "app/reloader.hpp"
#include "app/shared_state.hpp"
#include "base/timestamp.hpp"
#include "net/asio.hpp"
#include "telemetry/live.hpp"

namespace tidegate::app {

// Answers /api/live, /api/top and /api/denials: what the process does, and for whom.
//
// Runs on the main thread. It reads the counters of all workers once a second, and asks the workers
// for the names that they remember.
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

// Answers /api/inspect and /api/reset: what is counted for an identifier, and clearing it.
//
// Runs on the main thread. It reads the in-process store itself and asks a worker for what Redis
// has. It waits no longer than kAnswerPatience.

// Less than `tidegate inspect` and `tidegate reset` wait for, so that they hear what is wrong.
inline constexpr std::chrono::seconds kAnswerPatience{20};

class InspectService {
  public:
    // All outlive this.
    InspectService(Executor executor, SharedState& shared, Workers& workers,
                   const Reloader& reloader);

    // Under the configuration in force. After a reset that is answered 200 no worker remembers a
    // denial, and what was counted here while Redis was away is forgotten, too. After a 503 some of
    // it may have been forgotten, and the same may be asked again.
    Task<admin::AdminAnswer> answer(admin::CountsRequest request);

  private:
    struct Job;
    using JobPtr = std::shared_ptr<Job>;
    using Config = std::shared_ptr<const config::Config>;

    JobPtr make_job(const Config& config, const admin::Meant& meant, SteadyTime until) const;
    // Returns the worker whose connection to Redis answers; null: all workers have left.
    Worker* any_worker() const;
    // Each says why there is no answer; empty: it is in the job.
    Task<std::string> count(JobPtr job);
    Task<std::string> forget(JobPtr job);
    static Task<std::string> await(JobPtr job);
    Task<> add_leased(JobPtr counted);
    Task<std::string> forget_in_workers(JobPtr counted);

    Executor executor_;
    SharedState& shared_;
    Workers& workers_;
    const Reloader& reloader_;
};

// Answers /api/record: has all workers record requests, and hands out their lines.
//
// Runs on the main thread. There is one recording at a time. Its client asks for the lines that
// have come; after kPatience without that the workers forget the recording.
class RecordService {
  public:
    static constexpr std::chrono::seconds kPatience{10};

    // Both outlive this.
    RecordService(Executor executor, Workers& workers)
        : executor_(std::move(executor)), workers_(workers) {}

    // 409 if there is another recording, 404 if there is none of that id, 503 if a worker does not
    // answer in time.
    Task<admin::AdminAnswer> answer(admin::RecordRequest request);

  private:
    struct Job;

    admin::AdminAnswer begin(std::int64_t share);
    Task<admin::AdminAnswer> go_on(admin::RecordRequest request);

    Executor executor_;
    Workers& workers_;
    std::string id_;  // empty: there is none
    std::chrono::steady_clock::time_point ends_{};
};

}  // namespace tidegate::app
