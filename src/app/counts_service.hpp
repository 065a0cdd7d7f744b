// Answers those who ask what is counted, and who want it forgotten.
//
// The main thread's. What is in process it looks at itself; for Redis it asks a worker, whose
// connection that is. It waits no longer than kAnswerPatience, whatever it is asked.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "admin/answer.hpp"
#include "app/process.hpp"
#include "app/reloader.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

// Less than `tidegate inspect` and `tidegate reset` wait for, so that they hear what is wrong.
inline constexpr std::chrono::seconds kAnswerPatience{20};

class CountsService {
  public:
    // All outlive this.
    CountsService(Executor executor, Process& process, Workers& workers, const Reloader& reloader);

    // Under the configuration in force. After a reset that is answered 200 no worker remembers a
    // denial, and what was counted here while Redis was away is forgotten, too. After a 503 some of
    // it may have been forgotten, and the same may be asked again.
    Task<admin::AdminAnswer> answer(admin::CountsRequest request);

  private:
    struct Job;
    using JobPtr = std::shared_ptr<Job>;
    using Config = std::shared_ptr<const config::Config>;
    using SteadyTime = std::chrono::steady_clock::time_point;

    JobPtr make_job(const Config& config, const std::string& identifier, SteadyTime until) const;
    // Whose connection to Redis is asked; null: all have left.
    Worker* asked() const;
    // Each says why there is no answer; empty: it is in the job.
    Task<std::string> count(JobPtr job);
    Task<std::string> forget(JobPtr job);
    static Task<std::string> await(JobPtr job);
    Task<std::string> forget_in_workers(JobPtr counted);

    Executor executor_;
    Process& process_;
    Workers& workers_;
    const Reloader& reloader_;
};

}  // namespace tidegate::app
