#include "admin/activity_answer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/query.hpp"
#include "base/json_text.hpp"
#include "base/quote.hpp"

namespace tidegate::admin {

namespace {

using ActivityJson = nlohmann::ordered_json;

constexpr std::size_t kListedMax = 100;

AdminAnswer activity_answer(const ActivityJson& json) {
    AdminAnswer answer;
    answer.content_type = "application/json";
    answer.body = json_text(json, {.ascii = true}) + "\n";
    return answer;
}

std::int64_t unix_ms_of(const telemetry::Denial& denial) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(denial.time.time_since_epoch())
        .count();
}

ActivityJson denial_json(std::size_t thread, const telemetry::Denial& denial) {
    const auto& retry_after = denial.retry_after_seconds;
    return {{"id", fmt::format("{}-{}", thread, denial.number)},
            {"time_ms", unix_ms_of(denial)},
            {"request_id", denial.request_id},
            {"identifier", denial.identifier},
            {"route", denial.route},
            {"policy", denial.policy},
            {"limit", denial.limit},
            {"count", denial.count},
            {"quota", denial.quota},
            {"retry_after_seconds", retry_after ? ActivityJson(*retry_after) : nullptr}};
}

}  // namespace

Result<ActivityRequest, AdminAnswer> top_asked_for(std::string_view target) {
    auto by = asked_in_query(target, "by");
    if (!by) return std::move(by.error());
    if (!*by || **by == "requests") return ActivityRequest{ActivityRequest::Kind::top_requests};
    if (**by == "denials") return ActivityRequest{ActivityRequest::Kind::top_denials};
    return problem(400, "`by` is " + quote(**by) + ": write `by=requests` or `by=denials`.");
}

AdminAnswer answer_to_top(ActivityRequest::Kind kind, const std::vector<ThreadActivity>& threads,
                          std::size_t names_max, std::chrono::seconds reach) {
    std::vector<telemetry::CountedNames> parts;
    for (const ThreadActivity& one : threads) {
        const auto& generations = one.copy.names.generations;
        parts.insert(parts.end(), generations.begin(), generations.end());
    }
    const telemetry::TopList list = telemetry::merge(parts, kListedMax);
    ActivityJson identifiers = ActivityJson::array();
    for (const telemetry::FrequentName& one : list.names) {
        identifiers.push_back(
            {{"identifier", one.name}, {"count", one.at_least}, {"error", one.error}});
    }
    return activity_answer(
        {{"by", kind == ActivityRequest::Kind::top_denials ? "denials" : "requests"},
         {"enabled", names_max != 0},
         {"names", names_max},
         {"seconds", reach.count()},
         {"total", list.total},
         {"error_max", list.error_max},
         {"identifiers", std::move(identifiers)}});
}

AdminAnswer answer_to_denials(const std::vector<ThreadActivity>& threads, std::size_t names_max) {
    std::uint64_t left_out = 0;
    std::vector<std::pair<std::size_t, const telemetry::Denial*>> all;
    for (const ThreadActivity& one : threads) {
        left_out += one.copy.denials_left_out;
        const auto& denials = one.copy.denials;
        for (auto denial = denials.rbegin(); denial != denials.rend(); ++denial) {
            all.emplace_back(one.thread, &*denial);
        }
    }
    // Those of one thread stay in their order, also if the clock was set.
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second->time > b.second->time; });
    ActivityJson denials = ActivityJson::array();
    for (const auto& [thread, denial] : all) denials.push_back(denial_json(thread, *denial));
    return activity_answer(
        {{"enabled", names_max != 0}, {"left_out", left_out}, {"denials", std::move(denials)}});
}

}  // namespace tidegate::admin
