// The rules of Envoy's rate limit service: a tree of descriptors a domain, as the files of
// envoyproxy/ratelimit write them, and which rule a descriptor of a request meets. Pure.
//
// Immutable once made; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/limit.hpp"

namespace tidegate::rls {

// Numbers are those of envoy.type.v3.RateLimitUnit and of the answers.
enum class Unit : std::uint8_t {
    unknown = 0,
    second = 1,
    minute = 2,
    hour = 3,
    day = 4,
    month = 5,  // 30 days
    year = 6,   // 365 days
    week = 7,
};

inline constexpr std::size_t kUnits = 8;

// Zero for `unknown`.
limit::Micros duration_of(Unit unit);
// `unknown` for any other duration.
Unit unit_of(limit::Micros duration);

// One pair of a descriptor in a request.
struct DescriptorEntry {
    std::string_view key;
    std::string_view value;
};

class RuleLevel;

// Holds what a file says of one key, or of one key with a value.
struct Rule {
    std::string key;
    std::string value;  // empty: any. Each `*` stands for any text

    // At most one of the three: no limit of its own at all, `unlimited`, or limits.
    const limit::Policy* policy = nullptr;
    bool is_unlimited = false;
    std::string name;                   // of its limit, for `replaces` of others and for answers
    std::vector<std::string> replaces;  // names of limits that do not count beside this one
    bool is_quota = false;              // `quota_mode`
    bool shares_threshold = false;      // all values that a value with `*` matches count as one

    std::unique_ptr<RuleLevel> below;  // null: none

    bool is_wildcard() const { return value.find('*') != std::string::npos; }
};

// Rules side by side: the next pair of a descriptor meets at most one of them.
class RuleLevel {
  public:
    // False: there is one with the same key and value already.
    bool add(Rule&& rule);

    struct Met {
        const Rule* rule = nullptr;  // null: none
        bool by_wildcard = false;
    };
    // The rule with this key and value; else the one with this value without white space around
    // it; else the first one with `*` that matches either; else the one with the key alone.
    Met find(const DescriptorEntry& entry) const;

    std::span<const std::unique_ptr<const Rule>> rules() const { return rules_; }

  private:
    using Name = std::pair<std::string_view, std::string_view>;

    std::vector<std::unique_ptr<const Rule>> rules_;  // in the order of the file
    std::map<Name, const Rule*> by_name_;             // views into rules_
    std::vector<const Rule*> wildcards_;              // in the order of the file
};

class Domains {
  public:
    // Null: there is a domain of that name already.
    RuleLevel* add(std::string name);
    const RuleLevel* find(std::string_view name) const;
    std::vector<std::string> names() const;  // sorted
    bool empty() const { return levels_.empty(); }

  private:
    std::map<std::string, RuleLevel, std::less<>> levels_;
};

// The rule that a descriptor meets: the one at the depth of its last pair. Null: none. `values`
// gets what is counted of each pair: its value, or the pattern that shares its threshold.
const Rule* find_rule(const RuleLevel& domain, std::span<const DescriptorEntry> entries,
                      std::vector<std::string_view>& values);

}  // namespace tidegate::rls
