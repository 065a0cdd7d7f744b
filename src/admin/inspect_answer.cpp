#include "admin/inspect_answer.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/query.hpp"
#include "ask/policy_texts.hpp"
#include "base/json_text.hpp"
#include "base/timestamp.hpp"

namespace tidegate::admin {

namespace {

using Json = nlohmann::ordered_json;
using store::LimitCount;

// Beyond it a moment has no four-digit year.
constexpr limit::Micros kLastMoment{253'402'300'799'999'999};

Json optional_text(std::string_view text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

Json optional_us(const std::optional<limit::Micros>& time) {
    return time && *time != limit::kNever ? Json(time->count()) : Json(nullptr);
}

Json moments_json(const LimitCount& count) {
    Json moments = Json::array();
    for (const limit::Micros moment : count.moments) {
        if (moment <= kLastMoment) moments.push_back(format_timestamp(moment));
    }
    return moments;
}

Json limit_json(const limit::Limit& limit, std::string_view name, const LimitCount& count) {
    Json json = {{"name", name}, {"algorithm", limit.traits().name}, {"quota", limit.quota}};
    if (limit::has_period(limit.anchor)) json["anchor"] = limit::name_of(limit.anchor);
    if (!limit.time_zone.empty()) json["time_zone"] = limit.time_zone;
    if (limit.has_one_duration()) json["duration_us"] = limit.duration.count();
    if (limit.burst != 0) json["burst"] = limit.burst;
    json["counted"] = count.counted;
    if (!count.counted_all) json["counted_all"] = false;
    json["remaining"] = count.remaining;
    json["next_unit_us"] = optional_us(count.next_unit);
    json["all_free_us"] = optional_us(count.all_free);
    json["denied"] = count.denied;
    json["denied_for_us"] = optional_us(count.denied_for);
    if (count.denied_for == limit::kNever) json["never_passes"] = true;
    if (limit.is_schedule()) json["moments"] = moments_json(count);
    return json;
}

bool counts_something(const store::ItemCounts& counts) {
    return std::any_of(counts.limits.begin(), counts.limits.end(),
                       [](const LimitCount& count) { return count.counted > 0; });
}

const limit::Tier* tier_called(const limit::Policy& policy, std::string_view name) {
    const auto found = std::find_if(policy.tiers.begin(), policy.tiers.end(),
                                    [&](const limit::Tier& tier) { return tier.name == name; });
    return name.empty() || found == policy.tiers.end() ? nullptr : &*found;
}

// Limits of tiers that may not be this user's are listed where they count something. So are a
// policy's own limits where a tier's limits are known to hold.
bool is_shown(const Inspected& inspected, std::size_t item) {
    const limit::ChargeItem& one = inspected.items[item];
    return counts_something(inspected.counts.items[item]) ||
           one.tier == tier_called(*one.policy, inspected.known_tier);
}

// Records in the state of that policy which none of its limits knows, of no tier either.
Json unknown_json(const Inspected& inspected, const limit::Policy& policy) {
    Json unknown = Json::array();
    const auto is_known = [&](std::uint32_t id) {
        return std::any_of(inspected.items.begin(), inspected.items.end(), [&](const auto& item) {
            const auto limits = item.limits();
            return item.policy == &policy &&
                   std::any_of(limits.begin(), limits.end(),
                               [&](const limit::Limit& limit) { return limit.id == id; });
        });
    };
    for (std::size_t i = 0; i < inspected.items.size(); ++i) {
        const limit::ChargeItem& item = inspected.items[i];
        // The state is the same with every tier: that of the policy's own limits has all.
        if (item.policy != &policy || item.tier != nullptr) continue;
        for (const store::OtherCount& other : inspected.counts.items[i].others) {
            if (is_known(other.id)) continue;
            unknown.push_back({{"record", fmt::format("{:08x}", other.id)},
                               {"all_free_us", other.all_free.count()}});
        }
    }
    return unknown;
}

Json policies_json(const Inspected& inspected, const ask::PolicyTexts& texts) {
    Json policies = Json::array();
    for (std::size_t i = 0; i < inspected.items.size(); ++i) {
        const limit::ChargeItem& item = inspected.items[i];
        Json unknown = item.tier == nullptr ? unknown_json(inspected, *item.policy) : Json::array();
        if (!is_shown(inspected, i) && unknown.empty()) continue;
        Json limits = Json::array();
        for (std::size_t k = 0; is_shown(inspected, i) && k < item.limits().size(); ++k) {
            limits.push_back(limit_json(item.limits()[k], texts.of(item, k).name,
                                        inspected.counts.items[i].limits[k]));
        }
        policies.push_back(
            {{"policy", item.policy->name},
             {"tier", optional_text(item.tier != nullptr ? std::string_view(item.tier->name)
                                                         : std::string_view())},
             {"has_tiers", !item.policy->tiers.empty()},
             {"mode", item.policy->shadow ? "shadow" : "enforce"},
             {"limits", std::move(limits)},
             {"unknown", std::move(unknown)}});
    }
    return policies;
}

AdminAnswer json_answer(const Json& json) {
    AdminAnswer answer;
    answer.content_type = "application/json";
    answer.body = json_text(json, {.indent = 2, .ascii = true}) + "\n";
    return answer;
}

}  // namespace

Result<std::string, AdminAnswer> identifier_asked_for(std::string_view target) {
    auto stated = asked_in_query(target, "identifier");
    if (!stated) return std::move(stated.error());
    if (!*stated) return problem(400, "The query lacks `identifier`.");
    return std::move(**stated);
}

AdminAnswer answer_to_inspect(const std::vector<Inspected>& all, const config::Config& config,
                              std::string_view store) {
    const ask::PolicyTexts texts(config);
    Json json = {{"store", store}, {"counted", false}, {"identifiers", Json::array()}};
    for (const Inspected& inspected : all) {
        Json policies = policies_json(inspected, texts);
        for (const store::ItemCounts& counts : inspected.counts.items) {
            if (counts_something(counts) || !counts.others.empty()) json["counted"] = true;
        }
        json["identifiers"].push_back({{"identifier", inspected.identifier},
                                       {"known_tier", optional_text(inspected.known_tier)},
                                       {"policies", std::move(policies)}});
    }
    return json_answer(json);
}

AdminAnswer answer_to_reset(const std::vector<Forgotten>& all, std::string_view store) {
    Json json = {{"store", store}, {"counted", false}, {"identifiers", Json::array()}};
    for (const Forgotten& forgotten : all) {
        Json policies = Json::array();
        for (std::size_t i = 0; i < forgotten.items.size(); ++i) {
            const Json name = forgotten.items[i].policy->name;
            // Items of one policy stand side by side.
            if (!forgotten.any[i] || (!policies.empty() && policies.back() == name)) continue;
            policies.push_back(name);
            json["counted"] = true;
        }
        json["identifiers"].push_back(
            {{"identifier", forgotten.identifier}, {"forgotten", std::move(policies)}});
    }
    return json_answer(json);
}

}  // namespace tidegate::admin
