#include "app/inspect_service.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include "admin/identifier_query.hpp"
#include "admin/inspect_answer.hpp"
#include "base/result.hpp"
#include "store/counts_script.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

// Beyond what Redis may take: a worker that is not stuck answers within a turn of its loop.
constexpr std::chrono::milliseconds kWorkerPatience{1'000};

constexpr const char* kStopped = "The proxy is stopping and does not ask Redis any more.";

}  // namespace

// A question on its way to workers and back. Each side holds it, so either may give up
// first.
struct InspectService::Job {
    Job(Executor executor, SteadyTime deadline)
        : until(deadline), answered(executor, Timer::time_point::max()) {}

    const SteadyTime until;  // the longest wait
    Config config;           // the values that the items point into
    std::string identifier;
    std::vector<limit::ChargeItem> items;

    // Written by the worker that answers, read once `done` is set, on the main thread.
    store::Counts counts;
    std::vector<bool> forgotten;
    std::string fault;

    Timer answered;        // cancelled when it is
    std::size_t left = 1;  // that have to answer
    bool done = false;

    // Any thread. Each worker that answers calls it once.
    static void finish(const JobPtr& job) {
        asio::post(job->answered.get_executor(), [job] {
            if (--job->left > 0) return;
            job->done = true;
            job->answered.cancel();
        });
    }

    // On the main thread; until it is done, or no longer than `patience`.
    static Task<> wait(JobPtr job, std::chrono::milliseconds patience) {
        const auto end = std::min(job->until, std::chrono::steady_clock::now() + patience);
        job->answered.expires_at(end);
        while (!job->done && std::chrono::steady_clock::now() < end) {
            co_await job->answered.async_wait(as_values);
        }
    }

    template <class Answer>
    static auto into(const JobPtr& job, Answer Job::*place) {
        return [job, place](Result<Answer, std::string> answer) {
            if (answer) {
                (*job).*place = std::move(*answer);
            } else {
                job->fault = answer.error();
            }
            finish(job);
        };
    }
};

InspectService::InspectService(Executor executor, SharedState& shared, Workers& workers,
                               const Reloader& reloader)
    : executor_(executor), shared_(shared), workers_(workers), reloader_(reloader) {}

Task<admin::AdminAnswer> InspectService::answer(admin::CountsRequest request) {
    const Config config = reloader_.snapshot().config;
    const auto meant = admin::identifiers_meant(request.identifier, *config);
    if (!meant) co_return admin::problem(400, meant.error());
    const std::string_view store = shared_.redis ? "redis" : "memory";
    const SteadyTime until = std::chrono::steady_clock::now() + kAnswerPatience;
    std::vector<JobPtr> jobs;
    std::vector<admin::Inspected> inspected;
    std::vector<admin::Forgotten> forgotten;
    for (const std::string& identifier : *meant) {
        const JobPtr& job = jobs.emplace_back(make_job(config, identifier, until));
        // Not in one expression: GCC 12 frees what a conditional operator awaits twice.
        std::string fault;
        if (request.reset) {
            fault = co_await forget(job);
        } else {
            fault = co_await count(job);
        }
        if (!fault.empty()) co_return admin::problem(503, fault);
        if (request.reset) {
            forgotten.push_back({job->identifier, job->items, job->forgotten});
            telemetry::log(telemetry::Level::info, "admin: reset {}", job->identifier);
        } else {
            inspected.push_back({job->identifier, admin::known_tier(job->identifier, *config),
                                 job->items, job->counts});
        }
    }
    co_return request.reset ? admin::answer_to_reset(forgotten, store)
                            : admin::answer_to_inspect(inspected, *config, store);
}

InspectService::JobPtr InspectService::make_job(const Config& config, const std::string& identifier,
                                                SteadyTime until) const {
    auto job = std::make_shared<Job>(executor_, until);
    job->config = config;
    job->identifier = identifier;
    job->items = admin::items_of(job->identifier, *config);
    return job;
}

Worker* InspectService::asked() const {
    const auto found = std::find_if(workers_.begin(), workers_.end(),
                                    [](const auto& worker) { return !worker->has_left(); });
    return found == workers_.end() ? nullptr : found->get();
}

Task<std::string> InspectService::count(JobPtr job) {
    if (!shared_.redis || job->items.empty()) {
        job->counts = shared_.memory_store.count(job->items, store::process_now());
        co_return std::string();
    }
    Worker* const worker = asked();
    if (worker == nullptr) co_return kStopped;
    worker->inspect([job](const store::Inspector& inspector) {
        inspector.count(job->items, Job::into(job, &Job::counts));
    });
    co_return co_await await(job);
}

// Redis first: where it does not answer, nothing is changed here, and the same may be asked again.
Task<std::string> InspectService::forget(JobPtr job) {
    job->forgotten.assign(job->items.size(), false);
    if (shared_.redis && !job->items.empty()) {
        Worker* const worker = asked();
        if (worker == nullptr) co_return kStopped;
        worker->inspect([job](const store::Inspector& inspector) {
            inspector.forget(job->items, Job::into(job, &Job::forgotten));
        });
        std::string fault = co_await await(job);
        if (!fault.empty()) co_return fault;
    }
    const std::vector<bool> here = shared_.memory_store.forget(job->items);
    for (std::size_t i = 0; i < here.size(); ++i) {
        if (here[i]) job->forgotten[i] = true;
    }
    if (!shared_.redis) co_return std::string();
    co_return co_await forget_in_workers(job);
}

Task<std::string> InspectService::await(JobPtr job) {
    const auto& settings = std::get<config::RedisSettings>(job->config->store);
    // Portions go one after the other, each within its time.
    const auto portions = static_cast<int>(1 + job->items.size() / store::kItemsCountedMax);
    co_await Job::wait(job, kWorkerPatience + portions * settings.timeout);
    // An item that is not done may yet be written to by the worker.
    co_return job->done ? job->fault : "The worker that asks Redis did not answer in time.";
}

// Workers forget remembered denials. Workers that have left refuse no request.
Task<std::string> InspectService::forget_in_workers(JobPtr counted) {
    const JobPtr job = std::make_shared<Job>(executor_, counted->until);
    const std::shared_ptr<const std::vector<limit::ChargeItem>> items(counted, &counted->items);
    job->left = workers_.size();
    for (const auto& worker : workers_) {
        if (worker->has_left()) {
            Job::finish(job);
        } else {
            worker->forget(items, [job] { Job::finish(job); });
        }
    }
    co_await Job::wait(job, kWorkerPatience);
    if (job->done) co_return std::string();
    telemetry::log(
        telemetry::Level::warn,
        "admin: Redis has reset {}; {} threads have not yet cleared the denials that they remember",
        counted->identifier, job->left);
    co_return "Redis has reset the identifier, but some threads have not yet cleared the denials "
              "that they remember: try again.";
}

}  // namespace tidegate::app
