// Every name that was ever counted by, and which figures are its own. For metrics.cpp.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "telemetry/metrics.hpp"

namespace tidegate::telemetry {

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

struct NameRegistry {
    // Adds what is new and tells where all of it is counted.
    MetricSlots admit(const MetricNames& wanted);
    std::size_t size() const { return routes.size() + upstreams.size() + decisions.size(); }

    NameList<std::string> routes;
    NameList<std::string> upstreams;
    NameList<DecisionName> decisions;
};

}  // namespace tidegate::telemetry
