#include "app/upstream_groups.hpp"

#include <algorithm>
#include <utility>

#include "net/deadline.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

constexpr std::chrono::milliseconds kReadyPoll{2};

}  // namespace

std::vector<upstream::UpstreamStatus> status_of(const Groups& groups) {
    std::vector<upstream::UpstreamStatus> all;
    for (const auto& group : groups) all.push_back(group->status());
    return all;
}

Groups UpstreamGroups::make(const config::Config& config) {
    Groups groups;
    for (const config::Upstream& settings : config.upstreams) {
        const auto same_name = std::find_if(in_use_.begin(), in_use_.end(), [&](const auto& group) {
            return group->settings().name == settings.name;
        });
        const upstream::Group* const former =
            same_name == in_use_.end() ? nullptr : same_name->get();
        if (former != nullptr && former->settings() == settings) {
            groups.push_back(*same_name);
            continue;
        }
        groups.push_back(std::make_shared<upstream::Group>(settings, workers_, former));
        watches_.push_back(std::make_unique<upstream::Watch>(executor_, groups.back()));
    }
    return groups;
}

Groups UpstreamGroups::new_of(Groups groups) const {
    std::erase_if(groups, [&](const auto& group) {
        return std::find(in_use_.begin(), in_use_.end(), group) != in_use_.end();
    });
    return groups;
}

bool UpstreamGroups::are_names_tried() const {
    return std::all_of(in_use_.begin(), in_use_.end(),
                       [](const auto& group) { return group->are_names_tried(); });
}

// A reload may put others in use meanwhile.
Task<> UpstreamGroups::names_tried(std::chrono::milliseconds patience) {
    const SteadyTime until = steady_now() + patience;
    Timer pause(executor_);
    while (!are_names_tried() && steady_now() < until) {
        pause.expires_after(kReadyPoll);
        co_await pause.async_wait(as_values);
    }
}

Task<> UpstreamGroups::ready(Groups groups, std::chrono::milliseconds patience) {
    const SteadyTime until = steady_now() + patience;
    const auto is_done = [&] {
        return std::all_of(groups.begin(), groups.end(), [](const auto& group) {
            return group->is_resolved() && group->is_checked();
        });
    };
    Timer pause(executor_);
    while (!is_done() && steady_now() < until) {
        pause.expires_after(kReadyPoll);
        co_await pause.async_wait(as_values);
    }
}

void UpstreamGroups::use(Groups groups) {
    in_use_ = std::move(groups);
    std::erase_if(watches_, [&](const auto& watch) {
        return std::find(in_use_.begin(), in_use_.end(), watch->group()) == in_use_.end();
    });
}

void UpstreamGroups::fill_in(Gauges& gauges) const {
    gauges.upstreams = status_of(in_use_);
}

}  // namespace tidegate::app
