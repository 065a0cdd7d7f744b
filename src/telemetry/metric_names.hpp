// The names in labels of metrics (routes, upstreams, limits), and where each is counted.
//
// No name is ever taken away: a counter that vanished and came back would look like a restart to
// Prometheus.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tidegate::telemetry {

// What the labels are, as one configuration has them.
struct MetricNames {
    // A list of limits. Lists that name the same policy and limit share one figure.
    struct PolicyNames {
        std::string policy;
        std::vector<std::string> limits;
        bool shadow = false;  // counted apart: its refusals let requests pass
    };
    std::vector<std::string> routes;
    std::vector<PolicyNames> policies;
    std::vector<std::string> upstreams;
};

inline constexpr std::size_t kNoSlot = static_cast<std::size_t>(-1);
inline constexpr std::size_t kNoRoute = kNoSlot;  // label route="-"

// Where the names of one configuration are counted: the slots that callers give to the rooms'
// metrics, by the positions in its MetricNames. The same name has the same slot in every
// configuration. Immutable.
class MetricSlots {
  public:
    // kNoRoute stays so.
    std::size_t route(std::size_t position) const {
        return position < routes_.size() ? routes_[position] : kNoRoute;
    }
    std::size_t upstream(std::size_t position) const {
        return position < upstreams_.size() ? upstreams_[position] : kNoSlot;
    }
    std::size_t decision(std::size_t policy, std::size_t limit) const {
        if (decisions_begin_.empty() || policy >= decisions_begin_.size() - 1) return kNoSlot;
        const std::size_t begin = decisions_begin_[policy];
        return limit < decisions_begin_[policy + 1] - begin ? decisions_[begin + limit] : kNoSlot;
    }

  private:
    friend struct NameRegistry;

    std::vector<std::size_t> routes_;
    std::vector<std::size_t> upstreams_;
    std::vector<std::size_t> decisions_begin_;  // by policy, and one past the end
    std::vector<std::size_t> decisions_;        // the limits of all policies in a row
};

// Names of one kind in the order they were met; a name's position never changes.
template <class Name>
class NameList {
  public:
    std::size_t admit(const Name& name) {
        const auto [known, is_new] = slots_.try_emplace(name, names_.size());
        if (is_new) names_.push_back(name);
        return known->second;
    }
    std::size_t size() const { return names_.size(); }
    const Name& operator[](std::size_t slot) const { return names_[slot]; }

  private:
    std::map<Name, std::size_t> slots_;
    std::vector<Name> names_;
};

// A limit as tidegate_decisions_total tells it.
struct DecisionName {
    std::string policy;
    std::string limit;
    bool shadow = false;

    // NOLINTNEXTLINE(modernize-use-nullptr): what the compiler makes of it, not what is written
    auto operator<=>(const DecisionName&) const = default;
};

// Every name that was ever counted by.
struct NameRegistry {
    // Adds what is new and returns where all of it is counted.
    MetricSlots admit(const MetricNames& wanted);
    std::size_t size() const { return routes.size() + upstreams.size() + decisions.size(); }

    NameList<std::string> routes;
    NameList<std::string> upstreams;
    NameList<DecisionName> decisions;
};

}  // namespace tidegate::telemetry
