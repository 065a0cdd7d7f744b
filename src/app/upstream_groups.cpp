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

upstream::GroupPtr UpstreamGroups::former_of(const config::Upstream& settings) const {
    const auto found = std::find_if(in_use_.begin(), in_use_.end(), [&](const auto& group) {
        return group->settings().name == settings.name;
    });
    return found == in_use_.end() ? nullptr : *found;
}

std::vector<std::size_t> UpstreamGroups::new_positions(const config::Config& config) const {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < config.upstreams.size(); ++i) {
        const upstream::GroupPtr former = former_of(config.upstreams[i]);
        if (!former || former->settings() != config.upstreams[i]) positions.push_back(i);
    }
    return positions;
}

UpstreamGroups::Tls UpstreamGroups::make_tls(const config::Config& config,
                                             const std::vector<std::size_t>& positions) {
    Tls tls(config.upstreams.size());
    for (const std::size_t i : positions) tls[i] = upstream::Group::make_tls(config.upstreams[i]);
    return tls;
}

Groups UpstreamGroups::make(const config::Config& config, const Tls& tls) {
    Groups groups;
    for (std::size_t i = 0; i < config.upstreams.size(); ++i) {
        const config::Upstream& settings = config.upstreams[i];
        const upstream::GroupPtr former = former_of(settings);
        if (former && former->settings() == settings) {
            groups.push_back(former);
            continue;
        }
        groups.push_back(
            std::make_shared<upstream::Group>(settings, workers_, former.get(), tls[i]));
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
