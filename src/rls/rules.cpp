#include "rls/rules.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace tidegate::rls {

namespace {

using limit::Micros;
using std::chrono::hours;

constexpr std::array<Micros, kUnits> kDurations{
    Micros{0}, std::chrono::seconds{1}, std::chrono::minutes{1}, hours{1},
    hours{24}, hours{24 * 30},          hours{24 * 365},         hours{24 * 7},
};

}  // namespace

limit::Micros duration_of(Unit unit) {
    return kDurations[static_cast<std::size_t>(unit)];
}

Unit unit_of(limit::Micros duration) {
    const auto found = std::find(kDurations.begin() + 1, kDurations.end(), duration);
    if (found == kDurations.end()) return Unit::unknown;
    return static_cast<Unit>(found - kDurations.begin());
}

bool RuleLevel::add(Rule&& rule) {
    auto owned = std::make_unique<const Rule>(std::move(rule));
    if (!by_name_.emplace(Name{owned->key, owned->value}, owned.get()).second) return false;
    if (owned->is_wildcard()) wildcards_.push_back(owned.get());
    rules_.push_back(std::move(owned));
    return true;
}

RuleLevel::Met RuleLevel::find(const DescriptorEntry& entry) const {
    if (!entry.value.empty()) {
        const auto exact = by_name_.find(Name{entry.key, entry.value});
        if (exact != by_name_.end()) return {exact->second, false};
    }
    // White space around it makes no other value, so a client cannot choose its rule by that.
    const std::string_view value = without_outer_blanks(entry.value);
    if (!value.empty() && value.size() != entry.value.size()) {
        const auto bare = by_name_.find(Name{entry.key, value});
        if (bare != by_name_.end()) return {bare->second, false};
    }
    for (const Rule* const rule : wildcards_) {
        if (rule->key == entry.key &&
            (matches_wildcard(rule->value, entry.value) || matches_wildcard(rule->value, value))) {
            return {rule, true};
        }
    }
    const auto any = by_name_.find(Name{entry.key, {}});
    return {any == by_name_.end() ? nullptr : any->second, false};
}

RuleLevel* Domains::add(std::string name) {
    const auto [level, is_new] = levels_.try_emplace(std::move(name));
    return is_new ? &level->second : nullptr;
}

const RuleLevel* Domains::find(std::string_view name) const {
    const auto found = levels_.find(name);
    return found == levels_.end() ? nullptr : &found->second;
}

std::vector<std::string> Domains::names() const {
    std::vector<std::string> names;
    names.reserve(levels_.size());
    for (const auto& [name, level] : levels_) names.push_back(name);
    return names;
}

const Rule* find_rule(const RuleLevel& domain, std::span<const DescriptorEntry> entries,
                      std::vector<std::string_view>& values) {
    values.clear();
    const RuleLevel* level = &domain;
    const Rule* rule = nullptr;
    for (const DescriptorEntry& entry : entries) {
        if (level == nullptr) return nullptr;  // the descriptor is deeper than the rules
        const RuleLevel::Met met = level->find(entry);
        if (met.rule == nullptr) return nullptr;
        rule = met.rule;
        const bool is_shared = met.by_wildcard && rule->shares_threshold;
        values.push_back(is_shared ? std::string_view(rule->value) : entry.value);
        level = rule->below.get();
    }
    return rule;
}

}  // namespace tidegate::rls
