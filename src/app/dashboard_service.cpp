#include "app/dashboard_service.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "admin/activity_answer.hpp"
#include "admin/live_answer.hpp"
#include "proxy/metrics.hpp"
#include "telemetry/activity.hpp"

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
                                          .store = shared_.redis ? "redis" : "memory",
                                          .threads = shared_.workers});
}

Task<admin::AdminAnswer> DashboardService::activity(admin::ActivityRequest request) {
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
    if (request.kind == Kind::denials) co_return admin::answer_to_denials(job->threads, names_max);
    co_return admin::answer_to_top(
        request.kind, job->threads, names_max,
        telemetry::TopNames::reach(std::chrono::steady_clock::now(), began_));
}

}  // namespace tidegate::app
