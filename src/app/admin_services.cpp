#include "app/admin_services.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "admin/inspect_reset_answer.hpp"
#include "admin/top_denials_upstreams.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "identity/digest.hpp"
#include "proxy/metrics.hpp"
#include "proxy/simulate_recording.hpp"
#include "store/inspector.hpp"
#include "store/process_clock.hpp"
#include "telemetry/error_log.hpp"
#include "telemetry/top_and_denials.hpp"

namespace tidegate::app {

namespace {

using Kind = admin::ActivityRequest::Kind;

constexpr std::chrono::seconds kSampleEvery{1};
// A worker that is not stuck answers within the turns of its loop that the pieces of its copy take:
// some 130 with the most names, of a few milliseconds under full load.
constexpr std::chrono::milliseconds kActivityPatience{3'000};

}  // namespace

// A question to the workers. Other threads only hold it; the main thread alone touches it.
struct DashboardService::Job {
    explicit Job(const Executor& executor) : answered(executor, Timer::time_point::max()) {}

    std::vector<admin::ThreadActivity> threads;  // that have answered
    std::size_t asked = 0;
    Timer answered;  // cancelled when all have

    bool is_done() const { return threads.size() == asked; }
};

DashboardService::DashboardService(Executor executor, const SharedState& shared, Workers& workers,
                                   const Reloader& reloader)
    : executor_(std::move(executor)),
      shared_(shared),
      workers_(workers),
      reloader_(reloader),
      series_(proxy::Metrics::decision_cuts(), proxy::Metrics::request_cuts(), began_) {}

Task<> DashboardService::run() {
    Timer pause(executor_);
    auto due = std::chrono::steady_clock::now();
    while (true) {
        // Without drift; after a delay it does not catch up.
        due = std::max(due + kSampleEvery, std::chrono::steady_clock::now());
        pause.expires_at(due);
        co_await pause.async_wait(as_values);
        try {
            sample();
        } catch (const std::bad_alloc&) {
            // The next sample is about both seconds.
        }
    }
}

void DashboardService::sample() {
    telemetry::LiveGauges gauges;
    gauges.connections = shared_.metrics.client_connections();
    gauges.upstream_connections = shared_.metrics.upstream_connections();
    gauges.store_is_up = shared_.metrics.store_is_up();
    gauges.leased_units = shared_.metrics.leased_units();
    gauges.generation = reloader_.snapshot().number;
    for (const auto& group : reloader_.upstreams()) {
        const auto servers = group->count_servers();
        gauges.upstreams.push_back({servers.all, servers.up});
    }
    series_.add(shared_.metrics.live_totals(), std::move(gauges), std::chrono::system_clock::now(),
                std::chrono::steady_clock::now());
}

admin::AdminAnswer DashboardService::live(std::string_view target) const {
    const auto upstreams = status_of(reloader_.upstreams());
    return admin::answer_to_live(target, {.series = series_,
                                          .upstreams = upstreams,
                                          .now = std::chrono::system_clock::now(),
                                          .started = shared_.metrics.started(),
                                          .version = shared_.metrics.version(),
                                          .generation = reloader_.snapshot().number,
                                          .config_hash = reloader_.config().shown.hash,
                                          .is_rolled_back = reloader_.in_force().is_rolled_back,
                                          .store = shared_.redis ? "redis" : "memory",
                                          .threads = shared_.workers});
}

Task<admin::AdminAnswer> DashboardService::activity(admin::ActivityRequest request) {
    const bool lists_denials = admin::lists_denials(request.kind);
    admin::WantedDenials wanted;
    if (lists_denials) {
        auto read =
            admin::wanted_denials(request, reloader_.config(), std::chrono::system_clock::now());
        if (!read) co_return admin::problem(400, read.error());
        wanted = std::move(*read);
    }
    const auto job = std::make_shared<Job>(executor_);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
        if (workers_[i]->has_left()) continue;
        ++job->asked;
        const auto copy = std::make_shared<telemetry::ActivityCopy>();
        workers_[i]->show_activity([job, i, copy, kind = request.kind](auto& activity) {
            const auto now = std::chrono::steady_clock::now();
            if (!copy->add_piece(activity, kind, now)) return false;
            asio::post(job->answered.get_executor(), [job, i, copy] {
                job->threads.push_back({i, std::move(*copy)});
                if (job->is_done()) job->answered.cancel();
            });
            return true;
        });
    }
    const auto end = std::chrono::steady_clock::now() + kActivityPatience;
    job->answered.expires_at(end);
    while (!job->is_done() && std::chrono::steady_clock::now() < end) {
        co_await job->answered.async_wait(as_values);
    }
    if (!job->is_done()) co_return admin::problem(503, "A thread did not answer in time.");
    const std::size_t names_max = reloader_.config().telemetry.top;
    if (lists_denials) co_return admin::answer_to_denials(job->threads, names_max, wanted);
    co_return admin::answer_to_top(
        request.kind, job->threads, names_max,
        telemetry::TopNames::reach(std::chrono::steady_clock::now(), began_));
}

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
    admin::Meant meant;
    std::vector<limit::ChargeItem> items;

    // Written by the worker that answers, read once `done` is set, on the main thread.
    store::Counts counts;
    std::vector<bool> forgotten;
    std::vector<std::int64_t> leased;  // units of each item; on the main thread
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

    // On the main thread. Calls `ask` with each worker that has not left, which has the worker call
    // finish() once.
    template <class Ask>
    static void ask_each(const JobPtr& job, const Workers& workers, Ask ask) {
        job->left = workers.size();
        for (const auto& worker : workers) {
            if (worker->has_left()) {
                finish(job);
            } else {
                ask(*worker);
            }
        }
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
    const auto meant = admin::all_meant(request.identifier, *config);
    if (!meant) co_return admin::problem(400, meant.error());
    const std::string_view store = shared_.redis ? "redis" : "memory";
    const SteadyTime until = std::chrono::steady_clock::now() + kAnswerPatience;
    std::vector<JobPtr> jobs;
    std::vector<admin::Inspected> inspected;
    std::vector<admin::Forgotten> forgotten;
    for (const admin::Meant& one : *meant) {
        const JobPtr& job = jobs.emplace_back(make_job(config, one, until));
        // Not in one expression: GCC 12 frees what a conditional operator awaits twice.
        std::string fault;
        if (request.reset) {
            fault = co_await forget(job);
        } else {
            fault = co_await count(job);
            if (fault.empty() && shared_.redis) co_await add_leased(job);
        }
        if (!fault.empty()) co_return admin::problem(503, fault);
        if (request.reset) {
            forgotten.push_back({job->meant.identifier, job->items, job->forgotten, one.note});
            telemetry::log(telemetry::Level::info, "admin: reset {}", job->meant.identifier);
        } else {
            inspected.push_back({job->meant.identifier,
                                 admin::known_tier(job->meant.identifier, *config), job->items,
                                 job->counts, job->leased, one.note});
        }
    }
    co_return request.reset ? admin::answer_to_reset(forgotten, store)
                            : admin::answer_to_inspect(inspected, *config, store);
}

InspectService::JobPtr InspectService::make_job(const Config& config, const admin::Meant& meant,
                                                SteadyTime until) const {
    auto job = std::make_shared<Job>(executor_, until);
    job->config = config;
    job->meant = meant;
    job->items = admin::items_of(job->meant, *config);
    return job;
}

Worker* InspectService::any_worker() const {
    const auto found = std::find_if(workers_.begin(), workers_.end(),
                                    [](const auto& worker) { return !worker->has_left(); });
    return found == workers_.end() ? nullptr : found->get();
}

Task<std::string> InspectService::count(JobPtr job) {
    if (!shared_.redis || job->items.empty()) {
        job->counts = shared_.memory_store.count(job->items, store::process_now());
        co_return std::string();
    }
    Worker* const worker = any_worker();
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
        Worker* const worker = any_worker();
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

// Threads that do not answer in time hold what they hold.
Task<> InspectService::add_leased(JobPtr counted) {
    const auto has_lease = [](const limit::ChargeItem& item) {
        return item.policy->lease_slack > 0;
    };
    counted->leased.assign(counted->items.size(), 0);
    if (std::none_of(counted->items.begin(), counted->items.end(), has_lease)) co_return;
    const JobPtr job = std::make_shared<Job>(executor_, counted->until);
    const std::shared_ptr<const std::vector<limit::ChargeItem>> items(counted, &counted->items);
    Job::ask_each(job, workers_, [&](Worker& worker) {
        worker.count_leased(items, [job, counted](const std::vector<std::int64_t>& units) {
            asio::post(job->answered.get_executor(), [counted, units] {
                for (std::size_t i = 0; i < units.size(); ++i) counted->leased[i] += units[i];
            });
            Job::finish(job);
        });
    });
    co_await Job::wait(job, kWorkerPatience);
}

// Workers forget remembered denials. Workers that have left refuse no request.
Task<std::string> InspectService::forget_in_workers(JobPtr counted) {
    const JobPtr job = std::make_shared<Job>(executor_, counted->until);
    const std::shared_ptr<const std::vector<limit::ChargeItem>> items(counted, &counted->items);
    Job::ask_each(job, workers_,
                  [&](Worker& worker) { worker.forget(items, [job] { Job::finish(job); }); });
    co_await Job::wait(job, kWorkerPatience);
    if (job->done) co_return std::string();
    telemetry::log(
        telemetry::Level::warn,
        "admin: Redis has reset {}; {} threads have not yet cleared the denials that they remember",
        counted->meant.identifier, job->left);
    co_return "Redis has reset the identifier, but some threads have not yet cleared the denials "
              "that they remember: try again.";
}

// Lines on their way from the workers. Other threads only hold it; the main thread alone touches
// it.
struct RecordService::Job {
    explicit Job(const Executor& executor) : answered(executor, Timer::time_point::max()) {}

    std::string lines;
    std::uint64_t left_out = 0;
    bool is_lost = false;  // a worker has forgotten the recording
    std::size_t left = 0;  // workers that have to answer
    Timer answered;        // cancelled when all have
};

Task<admin::AdminAnswer> RecordService::answer(admin::RecordRequest request) {
    if (request.id.empty()) co_return begin(request.share);
    co_return co_await go_on(std::move(request));
}

admin::AdminAnswer RecordService::begin(std::int64_t share) {
    // What an answer may have at most, with room for the rest of it (cli/admin_commands.cpp).
    constexpr std::size_t kAnswerBytes = std::size_t{12} << 20;
    const auto now = std::chrono::steady_clock::now();
    if (!id_.empty() && now < ends_) {
        return admin::problem(409, "Another client of the admin listener is recording.");
    }
    const auto plan = std::make_shared<proxy::RecordingPlan>();
    plan->share = share;
    plan->bytes_max = kAnswerBytes / std::max<std::size_t>(1, workers_.size());
    plan->patience = kPatience;
    id_.clear();
    append_hex(std::span<const unsigned char>(identity::KeyedDigest().of({"id"})), id_);
    ends_ = now + kPatience;
    for (const auto& worker : workers_) {
        if (worker->has_left()) continue;
        worker->use_recording([plan, now](auto& recording) {
            recording = std::make_unique<proxy::Recording>(plan, now);
        });
    }
    admin::AdminAnswer answer;
    answer.content_type = "application/json";
    answer.body = "{\"id\":\"" + id_ + "\"}\n";
    return answer;
}

Task<admin::AdminAnswer> RecordService::go_on(admin::RecordRequest request) {
    const auto now = std::chrono::steady_clock::now();
    if (request.id != id_ || now >= ends_) {
        co_return admin::problem(404, "There is no such recording, or it has ended.");
    }
    ends_ = now + kPatience;
    const auto job = std::make_shared<Job>(executor_);
    for (const auto& worker : workers_) {
        if (worker->has_left()) continue;
        ++job->left;
        worker->use_recording([job, now, stops = request.stop](auto& recording) {
            auto portion = std::make_shared<proxy::Recording::Portion>();
            const bool is_lost = recording == nullptr;
            if (!is_lost) *portion = recording->take(now);
            if (stops) recording.reset();
            asio::post(job->answered.get_executor(), [job, portion, is_lost] {
                job->lines += portion->lines;
                job->left_out += portion->left_out;
                job->is_lost = job->is_lost || is_lost;
                if (--job->left == 0) job->answered.cancel();
            });
        });
    }
    if (request.stop) id_.clear();
    job->answered.expires_at(now + kActivityPatience);
    while (job->left > 0 && std::chrono::steady_clock::now() < now + kActivityPatience) {
        co_await job->answered.async_wait(as_values);
    }
    if (job->left > 0) co_return admin::problem(503, "A thread did not answer in time.");
    if (job->is_lost) co_return admin::problem(404, "The recording has ended.");
    admin::AdminAnswer answer;
    answer.content_type = "application/x-ndjson";
    answer.body = std::move(job->lines);
    answer.body += "{\"left_out\":" + std::to_string(job->left_out) + "}\n";
    co_return answer;
}

}  // namespace tidegate::app
