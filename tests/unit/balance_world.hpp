// Servers of an upstream and what happens to them, for the tests of balance.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "balance/choice.hpp"
#include "balance/health.hpp"

namespace tidegate::balance {

using namespace std::chrono_literals;

const SteadyTime kBegin = SteadyTime{} + 1h;

struct World {
    static HealthSettings settings_of(EjectSettings eject) {
        HealthSettings settings;
        settings.eject = eject;
        return settings;
    }

    explicit World(const std::vector<int>& weights, EjectSettings eject = {})
        : World(weights, settings_of(eject)) {}
    World(const std::vector<int>& weights, const HealthSettings& settings) : health(settings) {
        for (const int weight : weights) {
            const std::uint64_t id = servers.size() * 7'919;
            servers.push_back(std::make_shared<ServerState>(id, weight));
            list.push_back(servers.back().get());
        }
        use();
    }

    ServerState& at(std::size_t i) { return *servers[i]; }
    std::vector<ServerState*> use(SteadyTime now = kBegin) { return health.use(servers, now); }
    void check(std::size_t i, bool good, int times = 1, SteadyTime now = kBegin) {
        for (int n = 0; n < times; ++n) health.note_check(at(i), good, now);
    }
    // The change by the last of them.
    HealthChange fail(std::size_t i, SteadyTime now, int times = 5,
                      ServerFailure failure = ServerFailure::timeout) {
        HealthChange change;
        for (int n = 0; n < times; ++n) change = health.note_failure(at(i), failure, now);
        return change;
    }
    void begin_requests(std::size_t i, int count) {
        for (int n = 0; n < count; ++n) at(i).begin_request();
    }

    Health health;
    Health::Servers servers;
    std::vector<ServerState*> list;
};

// How often `choose` falls on each of `servers`.
template <class Choose>
std::vector<int> count_choices(std::size_t servers, int choices, Choose choose) {
    std::vector<int> counts(servers);
    for (int i = 0; i < choices; ++i) {
        const Chosen chosen = choose();
        if (chosen) ++counts[*chosen];
    }
    return counts;
}

// Whether each count is its weight's part of them all, to one percent of it.
inline bool are_as(const std::vector<int>& counts, const std::vector<double>& weights) {
    double all = 0;
    double sum = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        all += counts[i];
        sum += weights[i];
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const double due = all * weights[i] / sum;
        if (counts[i] < 0.99 * due || counts[i] > 1.01 * due) return false;
    }
    return all > 0;
}

}  // namespace tidegate::balance
