// What the in-process store counts for one identifier under one policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "limit/limit.hpp"
#include "store/memory_store_record.hpp"

namespace tidegate::store {

// Not thread-safe: the caller holds the mutex of the shard.
struct State {
    std::string name;        // policy, a zero byte, identifier
    std::uint64_t hash = 0;  // of the name
    // No record holds anything from then on, but slots; as the clocks differed when units were
    // taken.
    std::int64_t expires_us = 0;
    std::uint64_t generation = 0;  // another each time a state of this name is made; never 0
    std::vector<Record> records;   // by limit id, in any order

    std::unique_ptr<State> next;  // in its bucket of the table
    State* older = nullptr;       // by age, among the names of its policy in this shard
    State* newer = nullptr;
    std::uint32_t policy = 0;  // whose name it is: a position among the policies of the shard
    bool settled = false;      // of the oldest three quarters of the names of its policy
    bool pinned = false;       // part of the charge being decided: must not go

    // The record that counts `limit`, looked for at `hint` first; records.size() if there is none.
    std::size_t find(const limit::Limit& limit, std::size_t hint) const;
    // Whether it may be forgotten though it has not expired. A slot is a request that an upstream
    // may still be at work on: if it were forgotten, another request would take its place.
    bool may_go() const;
    // A wall clock that was set back makes periods and moments last longer than expires_us says.
    bool has_expired(const limit::Now& now) const;
    // How much is lost if it is forgotten: the heaviest of its records.
    double weight(const limit::Now& now) const;
};

// Names a state: hash of policy and identifier under the store's secret, that of the policy alone,
// and the two.
struct StateName {
    std::uint64_t hash;
    std::uint64_t policy_hash;
    std::string_view policy;
    std::string_view identifier;
    bool shadow = false;  // the policy is in shadow
};

bool is_called(const State& state, const StateName& name);

}  // namespace tidegate::store
