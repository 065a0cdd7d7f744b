// A policy: limits that share a key. Immutable; owned by the configuration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "limit/limit.hpp"

namespace tidegate::limit {

// What a policy counts by. Each key that is there makes one identifier, counted for itself.
enum class Key : std::uint8_t { ip, user };

// What decides when the store does not answer.
enum class OnStoreFailure : std::uint8_t { local, allow, deny };

inline constexpr std::size_t kLimitsMax = 32;  // of one policy

struct Policy {
    std::string name;           // unique; `<route>/<index>` for one written in a route
    std::vector<Key> key;       // not empty, no key twice
    std::vector<Limit> limits;  // one to kLimitsMax; ids differ
    OnStoreFailure on_store_failure = OnStoreFailure::local;
    std::uint32_t index = 0;  // position in Config::policies
};

}  // namespace tidegate::limit
