#include "admin/inspect_reset_answer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "admin/api_paths.hpp"
#include "ask/ruleset.hpp"
#include "base/doc.hpp"
#include "base/timestamp.hpp"
#include "base/units.hpp"

namespace tidegate::admin {

namespace {

using Json = Doc::Json;
using store::LimitCount;

// Beyond it a moment has no four-digit year.
constexpr limit::Micros kLastMoment{253'402'300'799'999'999};

constexpr std::array<Doc::Column, 8> kLimitColumns{{{"POLICY"},
                                                    {"LIMIT"},
                                                    {"COUNTED"},
                                                    {"QUOTA"},
                                                    {"LEFT"},
                                                    {"NEXT UNIT"},
                                                    {"ALL FREE"},
                                                    {"NOW"}}};
constexpr std::size_t kQuotaColumn = 3;
constexpr std::size_t kLeftColumn = 4;
constexpr std::string_view kOneRowHolds =
    "  A request meets one row of each policy: that of its tier. `tidegate explain` shows the tier "
    "of a request.";

// Rounded up, so that clients do not come back too early.
std::string rough(limit::Micros time) {
    const auto up = [](std::int64_t number, std::int64_t unit) {
        return number / unit + (number % unit > 0 ? 1 : 0);
    };
    const std::int64_t us = time.count();
    const std::int64_t ms = up(us, 1'000);
    if (ms < 1'000) return fmt::format("{}ms", ms);
    const std::int64_t tenths = up(us, 100'000);
    if (tenths < 600) return fmt::format("{}.{}s", tenths / 10, tenths % 10);
    const std::int64_t seconds = up(us, 1'000'000);
    if (seconds < 3'600) return fmt::format("{}min {}s", seconds / 60, seconds % 60);
    const std::int64_t minutes = up(seconds, 60);
    if (minutes < 1'440) return fmt::format("{}h {}min", minutes / 60, minutes % 60);
    const std::int64_t hours = up(minutes, 60);
    return fmt::format("{}d {}h", hours / 24, hours % 24);
}

bool is_known(const std::optional<limit::Micros>& time) {
    return time && *time != limit::kNever;
}

std::string rough_or_dash(const std::optional<limit::Micros>& time) {
    return is_known(time) ? rough(*time) : "-";
}

Json optional_us(const std::optional<limit::Micros>& time) {
    return is_known(time) ? Json(time->count()) : Json(nullptr);
}

Json moments_json(const LimitCount& count) {
    Json moments = Json::array();
    for (const limit::Micros moment : count.moments) {
        if (moment <= kLastMoment) moments.push_back(format_timestamp(moment));
    }
    return moments;
}

Json counted_limit_json(const limit::Limit& limit, std::string_view name, const LimitCount& count) {
    Json json = limit_json(limit, name);
    json["counted"] = amount_json({count.counted, limit.in_money});
    if (!count.counted_all) json["counted_all"] = false;
    json["remaining"] = amount_json({count.remaining, limit.in_money});
    json["next_unit_us"] = optional_us(count.next_unit);
    json["all_free_us"] = optional_us(count.all_free);
    json["denied"] = count.denied;
    json["denied_for_us"] = optional_us(count.denied_for);
    if (count.denied_for == limit::kNever) json["never_passes"] = true;
    if (limit.traits().has_moments) json["moments"] = moments_json(count);
    return json;
}

// A soft limit admits what is over it.
std::string state_of(const LimitCount& count, bool is_soft) {
    if (!count.denied) return "admits";
    const std::string state = is_soft ? "over" : "denies";
    if (count.denied_for == limit::kNever) return "always " + state;
    return is_known(count.denied_for) ? state + " for " + rough(*count.denied_for) : state;
}

Doc::Row limit_row(const std::string& policy, const limit::Limit& limit, std::string_view name,
                   const LimitCount& count, bool is_soft) {
    return {policy,
            escaped_text(name),
            shown_amount({count.counted, limit.in_money}) + (count.counted_all ? "" : " or more"),
            shown_amount({limit.quota, limit.in_money}),
            shown_amount({count.remaining, limit.in_money}),
            rough_or_dash(count.next_unit),
            rough_or_dash(count.all_free),
            state_of(count, is_soft)};
}

std::vector<std::string> moment_lines(std::string_view name, const LimitCount& count,
                                      const Json& moments) {
    if (moments.empty()) return {};
    std::vector<std::string> lines{fmt::format("  booked in {}:", escaped_text(name))};
    for (const Json& moment : moments) {
        lines.push_back(fmt::format("    {}", moment.get_ref<const std::string&>()));
    }
    const auto listed = static_cast<std::int64_t>(moments.size());
    if (count.counted > listed) {
        lines.push_back(fmt::format("    and {} more", count.counted - listed));
    }
    return lines;
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

// Of limits that calls bring with them: each says its quota.
bool is_of_calls(const limit::Policy& policy) {
    return policy.name.starts_with(config::kRlsOverridePolicy);
}

// No call has brought a limit for it lately: the others that were meant say all there is.
bool is_idle_override(const Inspected& inspected) {
    return !inspected.items.empty() && is_of_calls(*inspected.items.front().policy) &&
           std::none_of(inspected.counts.items.begin(), inspected.counts.items.end(),
                        counts_something);
}

// Limits of tiers that may not be this user's are listed where they count something. So are a
// policy's own limits where a tier's limits are known to hold.
bool is_shown(const Inspected& inspected, std::size_t item) {
    const limit::ChargeItem& one = inspected.items[item];
    if (is_of_calls(*one.policy)) return counts_something(inspected.counts.items[item]);
    return counts_something(inspected.counts.items[item]) ||
           one.tier == tier_called(*one.policy, inspected.known_tier);
}

// Records in the state of that policy which none of its limits knows, of no tier either.
std::vector<store::OtherCount> unknown_records(const Inspected& inspected,
                                               const limit::Policy& policy) {
    std::vector<store::OtherCount> unknown;
    const auto is_known_record = [&](std::uint32_t id) {
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
            if (!is_known_record(other.id)) unknown.push_back(other);
        }
    }
    return unknown;
}

std::string identifier_heading(std::string_view identifier, std::string_view store) {
    return fmt::format("{}, counted {}", escaped_text(identifier),
                       store == "redis" ? "in Redis" : "in process");
}

// The policy of an item, as the table names it.
std::string row_name(const limit::ChargeItem& item) {
    std::string text = escaped_text(item.policy->name);
    if (item.tier != nullptr) {
        text += fmt::format(" ({})", escaped_text(item.tier->name));
    } else if (!item.policy->tiers.empty()) {
        text += " (no tier)";
    }
    return item.policy->is_enforced() ? text : text + ", " + std::string(item.policy->mode());
}

// What is counted for one identifier: its JSON, a table with a row for each limit, and what does
// not fit into rows.
class InspectedIdentifier {
  public:
    InspectedIdentifier(const Inspected& inspected, const ask::PolicyTexts& texts)
        : inspected_(inspected), texts_(texts) {
        for (std::size_t i = 0; i < inspected.items.size(); ++i) add_item(i);
    }

    void add_to(Doc& doc, std::string_view store) {
        std::string heading = identifier_heading(inspected_.identifier, store);
        if (!inspected_.known_tier.empty()) {
            heading += ", of tier " + escaped_text(inspected_.known_tier);
        }
        doc.line(heading);
        if (!rows_.empty()) doc.table(kLimitColumns, rows_, "  ");
        if (rows_.empty() && below_.empty()) {
            doc.line(inspected_.note.empty()
                         ? "  no policy counts it"
                         : "  nothing is counted: " + std::string(inspected_.note));
        }
        for (const std::string& line : below_) doc.line(line);
        if (has_tiers_) doc.line(kOneRowHolds);
        doc.json["identifiers"].push_back({{"identifier", inspected_.identifier},
                                           {"known_tier", optional_text(inspected_.known_tier)},
                                           {"policies", std::move(policies_)}});
    }

  private:
    void add_item(std::size_t i) {
        const limit::ChargeItem& item = inspected_.items[i];
        std::vector<store::OtherCount> unknown;
        if (item.tier == nullptr) unknown = unknown_records(inspected_, *item.policy);
        const bool shown = is_shown(inspected_, i);
        if (!shown && unknown.empty()) return;
        const std::string name = row_name(item);
        Json limits = Json::array();
        for (std::size_t k = 0; shown && k < item.limits().size(); ++k) {
            limits.push_back(add_limit(name, item, k, inspected_.counts.items[i].limits[k]));
        }
        Json records = Json::array();
        for (const store::OtherCount& other : unknown) {
            const std::string record = fmt::format("{:08x}", other.id);
            records.push_back({{"record", record}, {"all_free_us", other.all_free.count()}});
            below_.push_back(
                fmt::format("  {}: still holds {}, of a limit that was removed, for {}", name,
                            record, rough(other.all_free)));
        }
        has_tiers_ = has_tiers_ || !item.policy->tiers.empty();
        policies_.push_back(
            {{"policy", item.policy->name},
             {"tier", optional_text(item.tier != nullptr ? std::string_view(item.tier->name)
                                                         : std::string_view())},
             {"has_tiers", !item.policy->tiers.empty()},
             {"mode", item.policy->mode()},
             {"limits", std::move(limits)},
             {"unknown", std::move(records)}});
        if (item.policy->lease_slack == 0) return;
        const std::int64_t held = i < inspected_.leased.size() ? inspected_.leased[i] : 0;
        policies_.back()["leased"] = held;
        below_.push_back(fmt::format(
            "  {}: threads of this proxy hold {} of the counted units in leases, and all "
            "proxies at most {:.6g}% of each quota",
            name, held, static_cast<double>(item.policy->lease_slack) / 10'000));
    }

    Json add_limit(const std::string& policy, const limit::ChargeItem& item, std::size_t position,
                   const LimitCount& count) {
        const limit::Limit& limit = item.limits()[position];
        const std::string_view name = texts_.of(item, position).name;
        Json json = counted_limit_json(limit, name, count);
        rows_.push_back(limit_row(policy, limit, name, count, item.policy->soft));
        if (is_of_calls(*item.policy)) {
            for (const char* const unknown : {"quota", "remaining", "denied", "denied_for_us"}) {
                json[unknown] = nullptr;
            }
            json.erase("never_passes");
            rows_.back()[kQuotaColumn] = "of the call";
            rows_.back()[kLeftColumn] = rows_.back().back() = "-";
        }
        if (json.contains("moments")) {
            for (std::string& line : moment_lines(name, count, json["moments"])) {
                below_.push_back(std::move(line));
            }
        }
        return json;
    }

    const Inspected& inspected_;
    const ask::PolicyTexts& texts_;
    Json policies_ = Json::array();
    std::vector<Doc::Row> rows_;
    std::vector<std::string> below_;
    bool has_tiers_ = false;
};

// The beginning of an answer about counts.
Doc counts_doc(std::string_view store) {
    Doc doc({.indent = 2, .ascii = true});
    doc.json = {{"store", store}, {"counted", false}, {"identifiers", Json::array()}};
    return doc;
}

AdminAnswer counts_answer(Doc& doc, bool counted) {
    doc.json["counted"] = counted;
    doc.exit_code = counted ? 0 : 1;
    return answer_of(doc);
}

}  // namespace

Doc::Json limit_json(const limit::Limit& limit, std::string_view name) {
    Json json = {{"name", name},
                 {"algorithm", limit.traits().name},
                 {"quota", amount_json({limit.quota, limit.in_money})}};
    if (limit.in_money) json["unit"] = "usd";
    if (limit::has_period(limit.anchor)) json["anchor"] = to_string(limit.anchor);
    if (!limit.time_zone.empty()) json["time_zone"] = limit.time_zone;
    if (limit.has_one_duration()) json["duration_us"] = limit.duration.count();
    if (limit.burst != 0) json["burst"] = amount_json({limit.burst, limit.in_money});
    return json;
}

AdminAnswer answer_to_inspect(const std::vector<Inspected>& all, const config::Config& config,
                              std::string_view store) {
    const ask::PolicyTexts texts(config);
    Doc doc = counts_doc(store);
    bool counted = false;
    for (const Inspected& inspected : all) {
        if (all.size() > 1 && is_idle_override(inspected)) continue;
        InspectedIdentifier(inspected, texts).add_to(doc, store);
        for (const store::ItemCounts& counts : inspected.counts.items) {
            counted = counted || counts_something(counts) || !counts.others.empty();
        }
    }
    return counts_answer(doc, counted);
}

AdminAnswer answer_to_reset(const std::vector<Forgotten>& all, std::string_view store) {
    Doc doc = counts_doc(store);
    bool counted = false;
    for (const Forgotten& forgotten : all) {
        const bool is_of_call = !forgotten.items.empty() && is_of_calls(*forgotten.items[0].policy);
        const bool is_idle =
            std::find(forgotten.any.begin(), forgotten.any.end(), true) == forgotten.any.end();
        if (all.size() > 1 && is_of_call && is_idle) continue;
        doc.line(identifier_heading(forgotten.identifier, store));
        Json policies = Json::array();
        for (std::size_t i = 0; i < forgotten.items.size(); ++i) {
            const std::string& name = forgotten.items[i].policy->name;
            // Items of one policy stand side by side.
            if (!forgotten.any[i] || (!policies.empty() && policies.back() == name)) continue;
            policies.push_back(name);
            doc.line(fmt::format("  {}: forgotten", escaped_text(name)));
        }
        if (policies.empty()) {
            doc.line("  nothing was counted" +
                     (forgotten.note.empty() ? "" : ": " + std::string(forgotten.note)));
        }
        counted = counted || !policies.empty();
        doc.json["identifiers"].push_back(
            {{"identifier", forgotten.identifier}, {"forgotten", std::move(policies)}});
    }
    return counts_answer(doc, counted);
}

}  // namespace tidegate::admin
